"""Seen: which rows a model was trained on, so that it is never calibrated on them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from turnabout.documents import Versioned
from turnabout.errors import TrainingError
from turnabout.intervals import binomial_cdf
from turnabout.schema import Schema, as_frame
from turnabout.typing import Json

DECIMALS = 9  # rows that agree to so many decimals are the same
CHANCE = 1e-4  # coincidences less likely than this are no coincidence
CHANCE_ALONE = 1e-2  # the same for values under equal labels, where no two training rows are alike
MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that a label and a row mix without loss

HASHES = ("rows", "labels")

Form = Literal["encoded rows", "table cells"]


@dataclass(frozen=True)
class Overlap(Versioned):
    """How many rows of one table stand in another, and whether chance explains it.

    Attributes
    ----------
    n, same : rows of the table in question, and those of them whose values stand in the other table.
    seen, twins : rows of the other table, and those of them whose values stand in it twice: some people are alike.
    chance : probability, at most, of as many coincidences of values if the rows of both tables were dealt out anew.
    shared, same_label : rows whose index label stands in the other table, and those whose values stand beside it.
    chance_label : probability of as many equal values under equal labels, if the labels were dealt out anew.
    """

    n: int
    same: int
    seen: int
    twins: int
    chance: float
    shared: int
    same_label: int
    chance_label: float

    mark = "turnabout_overlap"
    error = TrainingError

    @property
    def is_reuse(self) -> bool:
        """Whether rows of the one table are rows of the other, and not just alike."""
        rare = CHANCE if self.twins else CHANCE_ALONE
        everyone = self.n > 0 and self.same_label == self.n
        return self.chance < CHANCE or self.chance_label < rare or everyone

    @property
    def remark(self) -> str:
        """What was compared, and the coincidences that remain."""
        start = f"compared with {self.seen} training rows"
        if not self.same:
            return start
        if self.twins and (self.chance > 0.5 or self.same * self.seen <= self.twins * self.n):
            return f"{start}: {self.same} of {self.n} coincide with one, as often as training rows with each other"
        return (
            f"{start}: {self.same} of {self.n} coincide with one, and {self.twins} of {self.seen} training rows with "
            f"each other, which chance explains with a probability of up to {self.chance:.2g}"
        )

    def __str__(self) -> str:
        beside = f", {self.same_label} of them under the same index label" if self.same_label else ""
        verdict = "more than chance explains" if self.is_reuse else "no more than chance explains"
        return (
            f"{self.same} of {self.n} rows have the values of a training row{beside}: {verdict} "
            f"({self.twins} of {self.seen} training rows have the values of another)."
        )


@dataclass(frozen=True, eq=False)
class Seen(Versioned):
    """Fingerprints of the rows of a table; the rows cannot be read from them.

    Two people may have the same values without being one person, the more so the coarser the columns. So a coincidence
    alone proves nothing. What chance explains is told by the rows themselves: were the calibration people fresh, then
    all rows could be dealt out anew to the two tables, and S, the calibration rows with a twin among the seen ones,
    would be no unusual number. With N rows in both tables, m of them for calibration, and D in groups of equal ones,

        P(S >= s)  <=  max over a of hypergeometric(a; N, D, m) / binomial(a; D, m / N)  *  Q(S >= s)          (1)

    where Q puts each row into the calibration table by itself with probability m / N, so that groups are independent.
    Rows are taken for seen ones when (1) is below one in ten thousand; or when so many equal values under equal index
    labels are that unlikely, at the share of equal pairs among all rows. Where no two seen rows are alike, one
    row with its label is enough, and everywhere it is enough that each of them is a seen row with its label.

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

    mark = "turnabout_seen"
    error = TrainingError

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
        alike = np.unique(self.rows, return_counts=True)[1]
        sizes = np.unique(np.concatenate([self.rows, other.rows]), return_counts=True)[1]
        chance = _dealt(same, sizes, len(other))
        shared = same_label = 0
        chance_label = 1.0
        if len(self.labels) and len(other.labels):
            labels, counts = np.unique(self.labels, return_counts=True)
            there = np.isin(other.labels, labels)
            shared, same_label = int(there.sum()), int(np.isin(other._pairs, self._pairs).sum())
            compared = int(counts[np.searchsorted(labels, other.labels[there])].sum())  # more, where labels repeat
            total = float(sizes.sum())
            equal = float((sizes * (sizes - 1.0)).sum()) / max(1.0, total * (total - 1.0))  # P(two rows are equal)
            chance_label = _at_least(same_label, shared, min(1.0, equal * compared / max(1, shared)))
        twins = int(alike[alike > 1].sum())
        return Overlap(len(other), same, len(self), twins, chance, shared, same_label, chance_label)

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

    def to_dict(self) -> Json:
        """Plain values for JSON; hashes in hexadecimal."""
        return super().to_dict() | {name: [f"{v:016x}" for v in getattr(self, name).tolist()] for name in HASHES}

    @classmethod
    def _read(cls, document: Json) -> Self:
        hashes = {name: np.array([int(v, 16) for v in document[name]], dtype=np.uint64) for name in HASHES}
        return super()._read(document | hashes)


def refuse_seen(people: pd.DataFrame, trained_on: Any, schema: Schema | None = None) -> Overlap | None:
    """Refuse people who stand in a training table, or in its Seen, where chance does not explain it; what was found."""
    if trained_on is None:
        return None
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
    return overlap


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


def _dealt(same: int, sizes: np.ndarray, m: int) -> float:
    """(1) of Seen: P(at least `same` of m rows have a twin among the others), by the sizes of groups of equal rows."""
    if same <= 0:
        return 1.0
    total, groups = int(sizes.sum()), sizes[sizes > 1]
    alike, p = int(groups.sum()), m / int(sizes.sum())
    length = int((groups - 1).sum()) + 1  # of S, from 0 on: a group whose rows are all dealt out has no twin left
    wave = np.ones(length // 2 + 1, dtype=np.complex128)
    for size, count in zip(*np.unique(groups, return_counts=True), strict=True):
        part = np.exp(_log_binomial(np.arange(size + 1), int(size), p))
        part[0] += part[size]
        wave *= np.fft.rfft(part[:size], length) ** int(count)
    tail = float(np.fft.irfft(wave, length)[same:].sum())
    a = np.arange(max(0, m - total + alike), min(alike, m) + 1)
    dealt = _log_choose(alike, a) + _log_choose(total - alike, m - a) - _log_choose(total, np.array(m))
    worst = float(np.exp((dealt - _log_binomial(a, alike, p)).max()))
    return min(1.0, max(0.0, tail) * worst)


def _log_binomial(k: np.ndarray, n: int, p: float) -> np.ndarray:
    """log P(k of n), each with probability p."""
    return _log_choose(n, k) + k * np.log(p) + (n - k) * np.log1p(-p)


def _log_choose(n: int, k: np.ndarray) -> np.ndarray:
    from scipy.special import gammaln

    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))
