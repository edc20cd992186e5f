"""Seen: which rows a model was trained on, so that it is never calibrated on them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd

from turnabout.errors import TrainingError
from turnabout.intervals import binomial_cdf, upper_bound
from turnabout.schema import Schema, as_frame
from turnabout.train.document import Document
from turnabout.typing import Json

DECIMALS = 9  # rows that agree to so many decimals are the same
CHANCE = 1e-6  # coincidences less likely than this are no coincidence
MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that a label and a row mix without loss

Form = Literal["encoded rows", "table cells"]


@dataclass(frozen=True)
class Overlap(Document):
    """How many rows of one table stand in another, and whether chance explains it.

    Attributes
    ----------
    n : rows of the table in question.
    same : rows whose values stand in the other table.
    usual : the share of such rows to expect of fresh people, at most: some people are simply alike.
    shared, same_label : rows whose index label stands in the other table, and those whose values stand beside it.
    usual_label : the share of the shared labels to expect beside equal values, at most.
    chance : probability of as many coincidences among fresh people.
    """

    n: int
    same: int
    usual: float
    shared: int
    same_label: int
    usual_label: float
    chance: float

    mark: ClassVar[str] = "turnabout_overlap"

    @property
    def is_reuse(self) -> bool:
        """Whether rows of the one table are rows of the other, and not just alike."""
        return self.chance < CHANCE or (self.n > 0 and self.same_label == self.n)

    def __str__(self) -> str:
        beside = f", {self.same_label} of them under the same index label" if self.same_label else ""
        verdict = "more than chance explains" if self.is_reuse else "no more than chance explains"
        return (
            f"{self.same} of {self.n} rows have the values of a training row{beside}: {verdict} "
            f"(of fresh people at most {self.usual:.1%} would)."
        )


@dataclass(frozen=True, eq=False)
class Seen(Document):
    """Fingerprints of the rows of a table; the rows cannot be read from them.

    Two people may have the same values without being one person, the more so the coarser the columns. So a coincidence
    alone proves nothing. The share of fresh people who would coincide with a seen row is estimated from the seen rows
    themselves, as the share of them with a twin among the others (leave one out). Calibration rows are taken for
    seen ones when they coincide so often that fresh people would do it with a probability below one in a million;
    the same for values under equal index labels, where the share of equal pairs counts; or when each of them is
    a seen row with its label.

    Attributes
    ----------
    rows : (n,) a hash of each row.
    labels : (n,) a hash of each index label; empty where labels are unknown.
    width : columns of a row.
    form : "encoded rows" of a schema, or "table cells" as they stand.
    """

    rows: np.ndarray
    labels: np.ndarray
    width: int
    form: Form

    mark: ClassVar[str] = "turnabout_seen"

    @classmethod
    def of(cls, x: Any, index: Any = None) -> Seen:
        """Of encoded rows (n, d), a tensor or an array, and their index labels; or of a table as it stands."""
        if isinstance(x, pd.DataFrame):
            cells, form = _cells(x), "table cells"
            index = x.index if index is None else index
        else:
            cells, form = np.asarray(x.detach().cpu() if hasattr(x, "detach") else x, dtype=np.float64), "encoded rows"
        if cells.ndim != 2 or (index is not None and len(index) != len(cells)):
            raise TrainingError(
                "rows come as (n, d), with one index label each or none.",
                hint="Seen.of(schema.encode(table), table.index)",
            )
        whole = np.ascontiguousarray(np.round(cells, DECIMALS) + 0.0)  # -0.0 becomes 0.0
        labels = [] if index is None else [str(label).encode() for label in index]
        rows = _hash([row.tobytes() for row in whole])
        return cls(rows, _hash(labels), int(whole.shape[1]), form)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Seen({len(self)} {self.form} of {self.width} columns{'' if len(self.labels) else ', without labels'})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seen) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.rows.tobytes(), self.labels.tobytes(), self.width, self.form))

    def share(self, x: Any, index: Any = None) -> float:
        """The share of rows that were seen; with an index, under the same label."""
        there = Seen.of(x, index)
        self._check_form(there)
        if not len(there):
            return 0.0
        if index is None or not len(self.labels):
            return float(np.isin(there.rows, self.rows).mean())
        return float(np.isin(there._pairs, self._pairs).mean())

    def overlap(self, other: Seen) -> Overlap:
        """How many rows of another table were seen here, and how likely that is for fresh people."""
        self._check_form(other)
        same = int(np.isin(other.rows, self.rows).sum())
        usual, usual_label = self._usual()
        chance = _at_least(same, len(other), usual)
        shared = same_label = 0
        if len(self.labels) and len(other.labels):
            shared = int(np.isin(other.labels, self.labels).sum())
            same_label = int(np.isin(other._pairs, self._pairs).sum())
            chance = min(chance, _at_least(same_label, shared, usual_label))
        return Overlap(len(other), same, usual, shared, same_label, usual_label, chance)

    def _usual(self) -> tuple[float, float]:
        """Upper bounds of P(a fresh row has a twin here), and of P(two rows are equal)."""
        n = len(self)
        if n < 2:
            return 1.0, 1.0
        counts = np.unique(self.rows, return_counts=True)[1]
        twins = int(counts[counts > 1].sum())
        equal = float((counts * (counts - 1.0)).sum()) / (n * (n - 1.0))
        return upper_bound(twins, n, 1 - CHANCE), upper_bound(int(np.ceil(equal * n)), n, 1 - CHANCE)

    @property
    def _pairs(self) -> np.ndarray:
        with np.errstate(over="ignore"):
            return self.rows ^ (self.labels * MIX)

    def _check_form(self, other: Seen) -> None:
        if (self.form, self.width) != (other.form, other.width):
            raise TrainingError(
                f"{other!r} cannot be compared with {self!r}.",
                hint="encode both tables with the schema of training, or pass both as tables with the same columns.",
            )

    def _write(self) -> Json:
        parts = {name: [f"{v:016x}" for v in getattr(self, name).tolist()] for name in ("rows", "labels")}
        return parts | {"width": self.width, "form": self.form}

    @classmethod
    def _read(cls, document: Json) -> Self:
        rows, labels = (np.array([int(v, 16) for v in document[n]], dtype=np.uint64) for n in ("rows", "labels"))
        return cls(rows, labels, int(document["width"]), document["form"])


def refuse_seen(people: pd.DataFrame, trained_on: Any, schema: Schema | None = None) -> int:
    """Refuse people who stand in a training table, or in its Seen; how many training rows were looked at."""
    if trained_on is None:
        return 0
    names = list(people.columns) if schema is None else list(schema.names)
    if isinstance(trained_on, Seen):
        seen = trained_on
    else:
        train = as_frame(trained_on)
        names = [name for name in names if name in train.columns]
        if not names:
            raise TrainingError(
                "trained_on has no column in common with the people.", hint="pass the table the model was trained on."
            )
        seen = _fingerprints(train, names, schema)
    overlap = seen.overlap(_fingerprints(people, names, schema))
    if overlap.is_reuse:
        raise TrainingError(
            f"the calibration people were trained on: {overlap}",
            hint="calibrate on people whom neither training nor the choice of the model has seen.",
        )
    return len(seen)


def _fingerprints(table: pd.DataFrame, names: list[str], schema: Schema | None) -> Seen:
    return Seen.of(table[names]) if schema is None else Seen.of(schema.encode(table), table.index)


def _hash(parts: list[bytes]) -> np.ndarray:
    """(n,) uint64, the same on every machine."""
    digests = b"".join(hashlib.blake2b(part, digest_size=8).digest() for part in parts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def _cells(table: pd.DataFrame) -> np.ndarray:
    """(n, d) numbers as they are; anything else as a number that stands for its text."""
    columns = []
    for name in table.columns:
        column = table[name]
        if pd.api.types.is_numeric_dtype(column.dtype):
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            text = column.astype(str)
            code = {t: int.from_bytes(hashlib.blake2b(t.encode(), digest_size=6).digest()) for t in set(text)}
            values = text.map(code).to_numpy(dtype=np.float64)
        columns.append(values)
    return np.column_stack(columns) if columns else np.zeros((len(table), 0))


def _at_least(k: int, n: int, p: float) -> float:
    """P(at least k of n), each with probability p."""
    return 1.0 if k <= 0 else binomial_cdf(n - k, n, 1.0 - p)
