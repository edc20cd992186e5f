"""Documents of every kind: whatever is damaged in them, reading gives a sound object or an error with a hint."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

import turnabout as ta
from turnabout import costs, rules
from turnabout.core.attribution import Attribution, ConceptSpans, Pixels
from turnabout.documents import MOST_VALUES, read_json, read_yaml, shown, write_json
from turnabout.errors import TurnaboutError
from turnabout.rules import from_dict as read_rule
from turnabout.rules.equations import Equation, StructuralEquations
from turnabout.train import Certificate
from turnabout.train.certificate import Shortfall
from turnabout.train.seen import Overlap, Seen
from turnabout.train.shift import ShiftReport, compare
from yaml_bomb import BOMB

TRIED: tuple[Any, ...] = (None, [], {}, -1, 2.5, "x", True, math.nan, [[]], {"type": "Decimal", "value": "x"})
MANY = 150  # damages of a document that are tried in every run
SOME = 3  # entries of a long list that are damaged


class Kind(NamedTuple):
    """A kind of document: one as it should be, and how it is read."""

    name: str
    document: Any
    from_dict: Callable[[Any], Any]
    from_json: Callable[[str], Any] | None = None
    from_yaml: Callable[[str], Any] | None = None


def answers() -> Iterator[Kind]:
    schema = ta.Schema((ta.Number("a", 0, 9, step=1), ta.Category("c", ("x", "y"), missing=True)))
    train = pd.DataFrame({"a": np.arange(10), "c": ["x", "y"] * 5})
    model = ta.models.wrap(lambda table: np.where(table.a.to_numpy(dtype=float) > 4, 0.9, 0.1), schema)
    people = train.head(6).assign(
        day=pd.date_range("2020-01-01", periods=6, tz="Europe/Berlin"),
        band=pd.cut(pd.Series(range(6)), [-np.inf, 2, np.inf]),
        odd=[None, b"x", (1, "a"), pd.Timedelta(1), 1.5, "text"],
    )
    actions = ta.ActionSet.draft(schema)
    problem = ta.Problem(schema, model, actions=actions)
    answer = ta.methods.ActionSequences(max_steps=1).fit(problem).find(people)
    assert answer.counts()["FOUND"] and len(answer.steps)
    yield Kind("answer", answer.to_dict(), ta.Recourse.from_dict, ta.Recourse.from_json)
    nobody = ta.methods.LocalSearch().fit(problem).find(people.head(0))
    yield Kind("answer of nobody", nobody.to_dict(), ta.Recourse.from_dict, ta.Recourse.from_json)
    yield Kind("actions", actions.to_dict(), ta.ActionSet.from_dict, ta.ActionSet.from_json, ta.ActionSet.from_yaml)
    yield Kind("schema", schema.to_dict(), ta.Schema.from_dict, ta.Schema.from_json, ta.Schema.from_yaml)


def attributions() -> Iterator[Kind]:
    values = pd.DataFrame({"a": [1.0, 2.0], "b": [0.5, np.nan]}, index=["ann", "bob"])
    for name, layout in (
        ("pixels", Pixels(np.array([[0, 1]]))),
        ("words", ConceptSpans("a b", ((0, 1, 0), (2, 3, 1)))),
    ):
        told = Attribution(
            values, values.abs(), values.a.rename("base"), values.a.rename("output"), "contribution", "concept",
            "margin", "Hand()", False, 3, 0, ("by hand.",), layout,
        )  # fmt: skip
        yield Kind(f"attribution of {name}", told.to_dict(), Attribution.from_dict, Attribution.from_json)


def promises() -> Iterator[Kind]:
    part = Certificate(10, 1, 0.5, 0.1, 0.4, 0.05, 1, made_by="hand", assumptions=("a",))
    whole = Certificate.together((("f", part), ("m", part)), 0.2)
    documents = (whole, Shortfall(10, 3, None, 0.1, 0.1, 0.5, 0.4, 0.6, 20), Overlap(9, 1, 9, 0, 0.5, 1, 0, 0.5))
    for document in documents:
        yield Kind(type(document).__name__, document.to_dict(), type(document).from_dict, type(document).from_json)
    rng = np.random.default_rng(0)
    tables = [pd.DataFrame({"a": rng.normal(size=40), "c": rng.choice(["x", "y"], 40)}) for _ in range(2)]
    yield Kind("ShiftReport", compare(*tables).to_dict(), ShiftReport.from_dict, ShiftReport.from_json)
    yield Kind("Seen", Seen.of(tables[0]).to_dict(), Seen.from_dict, Seen.from_json)


def parts() -> Iterator[Kind]:
    declared = (
        rules.AtMost(2, ("a", "b")),
        rules.Implies(rules.Rises("a"), rules.Rises("b", by=2)),
        rules.Implies(rules.Changes("b"), rules.Is("c", "x")),
        rules.Linear({"a": 1.0, "c=x": -1.0}, "<=", 3.0),
        rules.Ordered("a", "b"),
        rules.Box({"a": 1.0}),
        rules.Polytope((({"a": 1.0}, 2.0),)),
        rules.Ball(1.0, {"a": 2.0}),
        rules.Budget(1.0, {"a": 2.0}),
        StructuralEquations(
            (Equation("b", 1.0, {"a": 2.0}, noise_sd=0.5, covariance=((1.0, 0.0), (0.0, 1.0))),), ("b",)
        ),
    )
    for rule in declared:
        yield Kind(f"rule {rule}", rule.to_dict(), read_rule)
    for cost in (
        costs.L1({"a": 2.0}) + 0.5 * costs.L2(),
        costs.PercentileShift(),
        costs.Weighted({"a": 1.0}),
        costs.MAD(),
    ):
        yield Kind(f"cost {cost}", cost.to_dict(), costs.from_dict)


KINDS = [*answers(), *attributions(), *promises(), *parts()]


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """Where in a document there is something: every key, and the first and the last entries of lists."""
    if isinstance(value, dict):
        for key in value:
            yield (*path, key)
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for place in sorted({*range(min(SOME - 1, len(value))), len(value) - 1} - {-1}):
            yield (*path, place)
            yield from places(value[place], (*path, place))


def changed(document: Any, path: tuple, change: Callable[[Any, Any], None]) -> Any:
    out = copy.deepcopy(document)
    inside = out
    for key in path[:-1]:
        inside = inside[key]
    change(inside, path[-1])
    return out


def damaged(document: Any) -> Iterator[tuple[str, Any]]:
    """The document with one thing wrong."""
    for path in places(document):
        yield f"{path} taken out", changed(document, path, lambda inside, key: inside.pop(key))
        for value in TRIED:
            yield (
                f"{path} = {value!r}",
                changed(document, path, lambda inside, key, v=value: inside.__setitem__(key, v)),
            )
        if isinstance(path[-1], int):
            yield f"{path} twice", changed(document, path, lambda inside, key: inside.insert(key, inside[key]))
    yield "an unknown entry", document | {"unknown": 1}
    for value in TRIED:
        yield f"nothing but {value!r}", value


def use(found: Any) -> None:
    """An object that was read can be told again."""
    repr(found)
    str(found)
    document = found.to_dict()
    if isinstance(found, ta.Recourse):
        found.changes()
        found.counts()
        assert ta.Recourse.from_dict(json.loads(json.dumps(document))) == found
        for person, option in found.plans.index:
            found.states_of(person, option)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_document_is_refused_or_read(kind):
    use(kind.from_dict(copy.deepcopy(kind.document)))
    every = list(damaged(kind.document))
    check_damaged(kind, random.Random(0).sample(every, min(MANY, len(every))))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
@pytest.mark.filterwarnings("ignore")
def test_a_document_damaged_anywhere_is_refused_or_read(kind):
    check_damaged(kind, damaged(kind.document))


def check_damaged(kind: Kind, damages: Iterable[tuple[str, Any]]) -> None:
    refused = 0
    for what, document in damages:
        try:
            found = kind.from_dict(document)
        except TurnaboutError as error:
            refused += 1
            if not (error.message and error.hint and len(str(error)) < 1500):
                pytest.fail(f"{kind.name}, {what}: {error}")
        except Exception as error:
            raise AssertionError(f"{kind.name}, {what}: {type(error).__name__}: {error}") from error
        else:
            try:
                use(found)
            except Exception as error:
                raise AssertionError(
                    f"{kind.name}, {what} is read, and then: {type(error).__name__}: {error}"
                ) from error
    assert refused > 5


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_a_document_of_any_depth_is_no_crash(kind):
    for wrap in (lambda inside: [inside], lambda inside: {"rule": inside}, lambda inside: {"actions": [inside]}):
        deep: Any = 1
        for _ in range(5000):
            deep = wrap(deep)
        with pytest.raises(TurnaboutError):
            kind.from_dict(deep)
        for path in list(places(kind.document))[:20]:
            with contextlib.suppress(TurnaboutError):  # a rule may learn only from the schema that a name is none
                kind.from_dict(changed(kind.document, path, lambda inside, key, v=deep: inside.__setitem__(key, v)))


@pytest.mark.parametrize("kind", [k for k in KINDS if k.from_json], ids=lambda kind: kind.name)
def test_a_torn_text_is_refused(kind):
    text = json.dumps(kind.document)
    for end in {0, 1, 10, len(text) // 2, len(text) - 1}:
        with pytest.raises(TurnaboutError, match="JSON"):
            kind.from_json(text[:end])
    for odd in ("[" * 100_000, '{"a":' * 50_000, "nan", b"\xff\xfe", None, 3, "9" * 5000, "\ufeff{"):
        with pytest.raises(TurnaboutError):
            kind.from_json(odd)
    assert kind.from_json("\ufeff" + text).to_dict() == kind.document  # as some editors save it


@pytest.mark.parametrize("kind", [k for k in KINDS if k.from_yaml], ids=lambda kind: kind.name)
def test_a_torn_yaml_is_refused(kind):
    text = yaml.safe_dump(kind.document)
    assert kind.from_yaml(text).to_dict() == kind.document
    torn = ("[" * 1000, "{a: " * 1000, "- " * 1000, BOMB, "&a [*a]", "&a {features: *a, actions: *a}", "a: [", "\x07")
    for odd in (
        *torn,
        "features: 2020-13-45",
        "!!python/object:os.system x",
        "? [1]\n: 2",
        b"\xff",
        None,
        "",
        "9" * 5000,
    ):
        with pytest.raises(TurnaboutError):
            kind.from_yaml(odd)
    with pytest.raises(TurnaboutError, match="stands twice in the mapping of line"):
        kind.from_yaml(text + "\n" + text)


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("plans", "columns", 0, "values", 0), 7, "'plans' count other steps than 'steps' have"),
        (("plans", "columns", 0, "name"), "stairs", "'plans' have no column 'steps'"),
        (("plans", "index", 0, 1), 9, "'plans' speak of an option that there is not"),
        (("steps", "columns", 1, "values", 0), "[]", "'parameters' of a step is no mapping"),
        (("steps", "columns", 1, "values", 0), "{", "'parameters' of a step is not JSON"),
    ],
)
def test_plans_that_do_not_fit_their_steps_are_told(path, value, text):
    document = changed(KINDS[0].document, path, lambda inside, key: inside.__setitem__(key, value))
    with pytest.raises(TurnaboutError, match=text):
        ta.Recourse.from_dict(document)


def test_aliases_that_stand_for_billions_are_refused_at_once():
    with pytest.raises(TurnaboutError, match=f"more than {MOST_VALUES} values"):
        read_yaml(BOMB, "this is not")
    with pytest.raises(TurnaboutError, match="an alias stands for a part that holds it"):
        read_yaml("&a [*a]", "this is not")
    assert read_yaml("a: &levels [1, 2]\nb: *levels", "this is not") == {"a": [1, 2], "b": [1, 2]}
    merged = read_yaml("x: &a {p: 1}\ny: &b {<<: *a, p: 2}\nz: {<<: *b, q: 3}", "this is not")
    assert merged["z"] == {"p": 2, "q": 3}
    assert read_yaml("", "this is not") is None


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), min_size=1), min_size=2, max_size=4, unique=True))
@example(["0", "\x85"])
@example(["\u2028a", "\ufeff", "no", "null", "1_0", "a: b", "- a"])
@settings(deadline=None)
def test_levels_of_any_text_survive_yaml_and_json(levels):
    schema = ta.Schema((ta.Category(levels[0], tuple(levels), label=levels[1]),))
    assert ta.Schema.from_yaml(schema.to_yaml()) == schema == ta.Schema.from_json(schema.to_json())


def test_errors_quote_no_more_than_a_line():
    assert shown([1, 2]) == "[1, 2]" and len(shown("x" * 999)) == 120
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    assert shown(deep) == "a list that is nested too deeply"


def test_half_a_character_can_be_written():
    text = write_json({"name": "\ud800"})
    assert text.encode("utf-8") and read_json(text, "this is not") == {"name": "\ud800"}
    assert write_json({"name": "ü"}) == '{"name": "ü"}'
