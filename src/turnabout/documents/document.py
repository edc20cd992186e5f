"""Document: a dataclass written as plain values by the types of its fields; Versioned: one that is also read back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import fields
from enum import Enum
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd

from turnabout.documents.cells import plain
from turnabout.documents.frames import frame_from_json, frame_to_json
from turnabout.documents.text import DAMAGE, check_finite, read_json, reason_of, shown, write_json
from turnabout.errors import AuditError, TurnaboutError
from turnabout.typing import Json

KINDS: dict[type, dict[str, Any]] = {}  # of the classes that were asked about


class Document:
    """A frozen dataclass that can be written as JSON.

    Numbers, texts, booleans and None are written as they are, an enumeration as its value; documents, mappings, columns
    and named tuples as mappings; other sequences and arrays as lists. What is declared `Hashable` is the label of a
    group and is written as its text. Tables are left out, unless `keys` names them: then they are lists of lines.
    """

    keys: ClassVar[str] = ""
    """What is written, in order: "n share", fields, properties and constants. By default all fields but tables."""

    def to_dict(self) -> Json:
        """Plain values for JSON."""
        return {name: self._write(getattr(self, name), kind, name) for name, kind in _kinds(type(self)).items()}

    def to_json(self, indent: int | None = None) -> str:
        """The document as a text of JSON."""
        return write_json(self.to_dict(), indent)

    @classmethod
    def _write(cls, value: Any, kind: Any, name: str) -> Any:
        """What stands under a key."""
        return write(value, kind)

    @classmethod
    def _read(cls, document: Json) -> Self:
        """The inverse of to_dict, for documents that hold all of their fields."""
        own = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        kinds = {name: kind for name, kind in _kinds(cls).items() if name in own}
        return cls(**{name: read(document[name], kind, name) for name, kind in kinds.items()})


class Versioned(Document):
    """A document that says what it is and is read back. Tables are written whole, with the types of their columns."""

    mark: ClassVar[str]
    """The key that tells one kind of document from another; its value is the version."""
    version: ClassVar[int] = 1
    error: ClassVar[type[TurnaboutError]] = TurnaboutError
    title: ClassVar[str] = ""
    """What errors call it: "an answer"; by default "a" and the name of the class."""
    later: ClassVar[str] = ""
    """Fields that older documents lack: they have their defaults there."""

    def to_dict(self) -> Json:
        """Plain values for JSON."""
        return {self.mark: self.version} | super().to_dict()

    @classmethod
    def _write(cls, value: Any, kind: Any, name: str) -> Any:
        if isinstance(value, (pd.DataFrame, pd.Series)):
            return frame_to_json(value if isinstance(value, pd.DataFrame) else value.to_frame(name))
        return super()._write(value, kind, name)

    @classmethod
    def from_dict(cls, document: Json) -> Self:
        """The inverse of to_dict; a damaged document is refused, with where it is damaged."""
        name = cls.__name__
        title = cls.title or f"a {name}"
        noun = title.split()[1]
        if not isinstance(document, dict) or document.get(cls.mark) != cls.version:
            raise cls.error(
                f"this is not {title} of turnabout, or one of another version.",
                hint=f"this release reads {cls.mark} version {cls.version}, as written by {name}.to_json.",
            )
        try:
            cls._check(document)
            defaults = {f.name: f.default for f in fields(cls) if f.name in cls.later.split()}  # type: ignore[arg-type]
            return cls._read(defaults | document)
        except TurnaboutError:
            raise
        except DAMAGE as damage:
            raise cls.error(f"this {noun} cannot be read: {reason_of(damage)}.", hint=_hint(cls)) from damage

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of to_json."""
        return cls.from_dict(read_json(text, "this is not", cls.error, _hint(cls)))

    @classmethod
    def _check(cls, document: Json) -> None:
        """Refuse a document before it is read."""
        check_finite(document)


def _hint(cls: type) -> str:
    return f"pass what {cls.__name__}.to_json wrote, as it was written."


def _kinds(cls: Any) -> dict[str, Any]:
    """The type of each key of a document; of properties and constants it is told by the value."""
    if cls not in KINDS:
        hints = get_type_hints(cls)
        names = cls.keys.split() or [
            field.name for field in fields(cls) if issubclass(cls, Versioned) or hints[field.name] is not pd.DataFrame
        ]
        KINDS[cls] = {name: hints.get(name) for name in names}
    return KINDS[cls]


# -- writing ----------------------------------------------------------------------------------------------------------


def write(value: Any, kind: Any = None) -> Any:
    """A value as plain data; its type hint tells what is a label, and what the parts of named tuples are called."""
    members = _members(kind)
    if value is None and (len(members) > 1 or kind is not Hashable):
        return None
    if len(known := [member for member in members if member is not NoneType]) == 1:
        kind = known[0]
    if kind is Hashable:
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        key, part = get_args(kind) or (None, None)
        texts = texts_of(value) if key is Hashable else map(str, value)
        return {text: write(inside, part) for text, inside in zip(texts, value.values(), strict=True)}
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        return {name: write(part, hints[name]) for name, part in zip(kind._fields, value, strict=True)}
    if isinstance(value, (tuple, list)):
        return [write(part, hint) for part, hint in zip(value, _hints(kind, len(value)), strict=True)]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, pd.Series):
        return {str(label): plain(part) for label, part in value.items()}
    if isinstance(value, pd.DataFrame):
        return plain_records(value)
    if hasattr(value, "to_dict"):  # rules and costs, which have a language of their own
        return value.to_dict()
    return value.item() if isinstance(value, np.generic) else value


def texts_of(groups: Iterable[Hashable]) -> list[str]:
    """The text of each label, for JSON; refused where two labels have the same."""
    labels = list(groups)
    texts = [str(label) for label in labels]
    if len(set(texts)) < len(texts):
        raise AuditError(
            f"of the groups {labels} two have the same text, and could not be told apart.",
            hint="give the groups names that differ as text, or use to_frame().",
        )
    return texts


def plain_records(frame: pd.DataFrame) -> list[Json]:
    """Lines of a table as plain values for JSON; what is missing becomes None, a list stays one."""
    lines = frame.to_dict("records")
    return [{str(k): list(v) if isinstance(v, list) else plain(v) for k, v in line.items()} for line in lines]


# -- reading ----------------------------------------------------------------------------------------------------------


def read(value: Any, kind: Any, name: str) -> Any:
    """The inverse of `write`, by the hint; raises what says that the value is none of this type."""
    members = _members(kind)
    if value is None and NoneType in members:
        return None
    if isinstance(value, dict) and len(documents := [m for m in members if _is_document(m)]) > 1:
        members = tuple(member for member in documents if member.__name__ == value["kind"])
    for member in members:
        if _is_document(member):
            return member.from_dict(value) if issubclass(member, Versioned) else member._read(value)
        if member is pd.DataFrame or member is pd.Series:
            frame = frame_from_json(value, f"'{name}'")
            if not frame.columns.is_unique:
                raise ValueError(f"'{name}' have two columns of the same name")
            return frame[name] if member is pd.Series else frame
        if member is np.ndarray:
            return np.array(value)
        if hasattr(member, "_fields"):
            return member(**{part: read(value[part], hint, part) for part, hint in get_type_hints(member).items()})
        if get_origin(member) is tuple and isinstance(value, list):
            hints = _hints(member, len(value))
            return tuple(read(part, hint, name) for part, hint in zip(value, hints, strict=True))
    if not any(_is_of(value, member) for member in members):
        raise ValueError(f"'{name}' is {shown(value)}")
    return value


def _is_document(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Document)


def _is_of(value: object, kind: Any) -> bool:
    """Whether a value of JSON is of a type: a number, a text, one of some words, or None."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(kind, type) and isinstance(value, kind) and isinstance(value, bool) == (kind is bool)


def _members(kind: Any) -> tuple[Any, ...]:
    """The types of a union; else the type itself."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _hints(kind: Any, count: int) -> tuple[Any, ...]:
    """The hints of so many members of a tuple or list."""
    parts = get_args(kind)
    if (len(parts) == 2 and parts[1] is Ellipsis) or len(parts) == 1:
        return (parts[0],) * count
    return parts or (None,) * count
