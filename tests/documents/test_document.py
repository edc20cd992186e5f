"""Document and Versioned: written and read by the types of their fields."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import pytest

from turnabout.documents import Document, Versioned
from turnabout.errors import AuditError, ProblemError, TurnaboutError


class Color(Enum):
    RED = "red"


@dataclass(frozen=True)
class Part(Document):
    share: float | None
    n: int

    kind = "Part"
    keys = "kind share n twice"

    @property
    def twice(self) -> int:
        return 2 * self.n


@dataclass(frozen=True)
class Line(Document):
    text: str

    kind = "Line"
    keys = "kind text"


@dataclass(frozen=True, eq=False)
class Sheet(Document):
    label: Hashable
    against: Hashable | None
    labels: tuple[Hashable, ...]
    by_group: dict[Hashable, Part]
    color: Color
    table: pd.DataFrame
    column: pd.Series


class Named(NamedTuple):
    label: str | int
    part: Part


@dataclass(frozen=True)
class Whole(Versioned):
    level: float
    test: Literal["KS", "chi-square"]
    parts: tuple[Part, ...] = ()
    named: tuple[Named, ...] = ()
    place: Part | Line | None = None
    pair: tuple[int, str] = (1, "a")
    added: bool = False

    mark = "turnabout_whole"
    error = ProblemError
    later = "added"


def sheet(**given: object) -> Sheet:
    table = pd.DataFrame({"a": [1.0, np.nan]})
    parts: dict[str, object] = {"label": 3, "against": None, "labels": (1, None), "by_group": {1: Part(None, 2)}}
    return Sheet(**(parts | {"color": Color.RED, "table": table, "column": table["a"]} | given))


def test_parts_are_written_by_their_types():
    assert sheet().to_dict() == {
        "label": "3",
        "against": None,
        "labels": ["1", "None"],
        "by_group": {"1": {"kind": "Part", "share": None, "n": 2, "twice": 4}},
        "color": "red",
        "column": {"0": 1.0, "1": None},
    }
    assert sheet(against=False).to_dict()["against"] == "False"
    assert list(Part(0.5, 1).to_dict()) == ["kind", "share", "n", "twice"]


def test_labels_of_the_same_text_are_refused():
    with pytest.raises(AuditError, match="two have the same text"):
        sheet(by_group={1: Part(None, 2), "1": Part(None, 3)}).to_dict()


WHOLE = Whole(0.5, "KS", (Part(0.1, 1),), (Named("f", Part(None, 2)),), Line("x"), (2, "b"), True)


def test_a_versioned_document_comes_back():
    assert Whole.from_json(WHOLE.to_json()) == WHOLE
    assert WHOLE.to_dict()["turnabout_whole"] == 1
    assert WHOLE.to_dict()["named"] == [{"label": "f", "part": Part(None, 2).to_dict()}]
    assert Whole.from_dict(WHOLE.to_dict() | {"place": Part(None, 3).to_dict()}).place == Part(None, 3)


def test_older_documents_lack_what_came_later():
    document = WHOLE.to_dict()
    del document["added"]
    assert Whole.from_dict(document).added is False
    del document["pair"]
    with pytest.raises(ProblemError, match="this Whole cannot be read: it has no 'pair'"):
        Whole.from_dict(document)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("level", "high"),
        ("level", True),
        ("test", "t"),
        ("parts", None),
        ("parts", [{"share": 1.0, "n": 0.5}]),
        ("place", {"kind": "Circle"}),
        ("pair", [1]),
        ("added", 1),
    ],
)
def test_damage_is_told(key, value):
    with pytest.raises(ProblemError, match="this Whole cannot be read"):
        Whole.from_dict(WHOLE.to_dict() | {key: value})


def test_other_documents_are_refused():
    with pytest.raises(ProblemError, match="this is not a Whole of turnabout"):
        Whole.from_dict({"turnabout_whole": 2})
    with pytest.raises(TurnaboutError, match="JSON"):
        Whole.from_json("{")
