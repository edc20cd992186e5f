"""Texts of JSON and YAML become plain values, or an error that says what to do: whatever the text, never a crash."""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from turnabout.errors import TurnaboutError

if TYPE_CHECKING:
    import yaml

MOST_VALUES = 1_000_000  # of a YAML document with its aliases written out: some lines can stand for billions
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError)
"""What reading a document with a part of the wrong shape raises, if nothing better was said before."""
DEEP = "it is nested too deeply"

P = ParamSpec("P")
T = TypeVar("T")


def read_json(text: object, start: str, error: type[TurnaboutError] = TurnaboutError, hint: str = "") -> Any:
    """The value of a text of JSON; errors start with `start`: "the schema is not valid" JSON: ..."""
    try:
        return json.loads(_text(text))
    except RecursionError:
        raise error(f"{start} JSON: {DEEP}.", hint=hint) from None
    except (ValueError, TypeError) as reason:
        raise error(f"{start} JSON: {reason}", hint=hint) from None


def read_yaml(text: object, start: str, error: type[TurnaboutError] = TurnaboutError, hint: str = "") -> Any:
    """The same for YAML. Aliases are read, as long as they do not stand for more than a document may hold."""
    import yaml

    try:
        loader = yaml.SafeLoader(_text(text))
        try:
            root = loader.get_single_node()
            if root is None:
                return None
            _check_nodes(root)
            return loader.construct_document(root)
        finally:
            loader.dispose()
    except RecursionError:
        raise error(f"{start} YAML: {DEEP}.", hint=hint) from None
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as reason:  # the last three: dates and numbers
        raise error(f"{start} YAML: {reason}", hint=hint) from None


def read_file(
    path: str | Path,
    place: str,
    start: str,
    error: type[TurnaboutError],
    hint: str,
    give: str = "give a YAML or JSON file.",
) -> Any:
    """The value of a file of YAML, or of JSON if its name ends in .json.

    place : what errors call a file that cannot be opened, as "the cost in {}".  give : what to do then.
    start, hint : as for read_json.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as reason:
        raise error(f"{place.format(repr(str(path)))} cannot be read: {reason}", hint=give) from None
    return (read_json if path.suffix == ".json" else read_yaml)(text, start, error, hint)


def write_json(document: Any, indent: int | None = None) -> str:
    """A text of JSON that any stream of UTF-8 takes: half a character, which some texts hold, is written as \\ud800."""
    text = json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(document, indent=indent, allow_nan=False)
    return text


def write_yaml(document: Any) -> str:
    """A text of YAML, in the order of the document; in ASCII, where it holds letters at which YAML breaks lines."""
    import yaml

    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
    if any(mark in text for mark in "\x85\u2028\u2029\ufeff"):
        return yaml.safe_dump(document, sort_keys=False, width=110)
    return text


def reads(what: str, error: type[TurnaboutError], hint: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """For functions that read documents: a part of the wrong shape is told as an error of `what`."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def read(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(*args, **kwargs)
            except TurnaboutError:
                raise
            except DAMAGE as damage:
                raise error(f"{what} cannot be read: {reason_of(damage)}.", hint=hint) from damage

        return read

    return decorate


def reason_of(damage: BaseException) -> str:
    """One line for what is wrong with a document."""
    if isinstance(damage, RecursionError):
        return DEEP
    if isinstance(damage, KeyError):
        return f"it has no {damage}"
    return (str(damage).split("\n")[0] or type(damage).__name__).rstrip(".")[:200]


def check_finite(document: object) -> None:
    """Refuse NaN and infinities, which no document of turnabout holds as numbers."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is no number of a document")
        left += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def shown(value: object, most: int = 120) -> str:
    """A value as an error quotes it: not longer than a line, however large or deep it is."""
    try:
        text = repr(value)
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deeply"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _text(text: object) -> str:
    if isinstance(text, (bytes, bytearray)):
        text = bytes(text).decode("utf-8")
    if not isinstance(text, str):
        raise TypeError(f"{type(text).__name__} is not a text.")
    return text.removeprefix("\ufeff")


def _check_nodes(root: yaml.Node) -> None:
    """Refuse too many values, counted with aliases written out, and mappings that name a key twice."""
    import yaml

    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()
    stack: list[tuple[yaml.Node, bool]] = [(root, False)]
    while stack:
        node, is_done = stack.pop()
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        if isinstance(node, yaml.MappingNode):
            keys = Counter((key.tag, key.value) for key, _ in parts if isinstance(key, yaml.ScalarNode))
            if twice := [key for key, count in keys.items() if count > 1]:
                raise ValueError(f"{twice[0][1]!r} stands twice in the mapping of line {node.start_mark.line + 1}")
            parts = [part for pair in parts for part in pair]
        if is_done:
            open_nodes.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(part)] for part in parts)
            if sizes[id(node)] > MOST_VALUES:
                raise ValueError(f"with its aliases written out it holds more than {MOST_VALUES} values")
        elif id(node) in open_nodes:
            raise ValueError("an alias stands for a part that holds it")
        elif id(node) not in sizes:
            open_nodes.add(id(node))
            stack.append((node, True))
            stack += [(part, False) for part in parts if id(part) not in sizes or id(part) in open_nodes]
