"""Grid: which data sets, models, methods and seeds are compared, by which protocol."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from turnabout import datasets
from turnabout.bench.entrants import DOING_NOTHING, Entrant, every_method
from turnabout.bench.learners import LEARNERS
from turnabout.bench.protocols import PROTOCOLS
from turnabout.documents import read_file, shown
from turnabout.errors import BenchError
from turnabout.parameters import Maybe, Positive, Whole, checked
from turnabout.provenance import versions
from turnabout.typing import as_tuple, is_whole

SMALL_PEOPLE = 20
MOST, MOST_OPTIONS = 10_000, 1_000_000  # seeds and retrained models; options of a person
LARGEST_SEED = 2**32 - 1  # that scikit-learn takes
HINT = "see docs/bench.md for what a grid may say."


@dataclass(frozen=True)
class BenchCell:
    """One measurement: a method on a case, its rows walked back towards the person or not."""

    protocol: str
    data: str
    model: str
    entrant: Entrant
    refine: bool
    seed: int

    @property
    def key(self) -> tuple[str, str, str, str, bool, int]:
        """What tells it from other cells of a file."""
        return (self.protocol, self.data, self.model, self.entrant.label, self.refine, self.seed)


@dataclass(frozen=True, eq=False)
@checked(
    BenchError,
    people=Maybe(Whole(2)),
    options=Whole(1, most=MOST_OPTIONS),
    retrained=Whole(0, most=MOST),
    time_limit=Maybe(Positive()),
)
class Grid:
    """Data sets x models x methods x seeds.

    Parameters
    ----------
    data : names of `turnabout.datasets`.
    models : "logistic", "net" or "forest".
    methods : names, "package.module:Class", {name: {parameter: value}} or Method objects; when None, all that need no
        actions. Each is asked twice, with its rows walked back towards the person and without. Doing nothing is added.
    seeds : a list, or how many, from 0; a seed draws the split, the model's weights and the method's search.
    protocol : "strict" or "paper".
    people : refused people asked about in each case, at most; None for all.
    options : for the diversity, this many options are asked for once more, for at most 50 people; 1 measures none.
    retrained : models trained again on other draws, to see which options they accept; 0 for none.
    time_limit : seconds for each call of `find`, or None.
    """

    data: Sequence[str] | str = ("german",)
    models: Sequence[str] | str = ("net",)
    methods: Sequence[object] | str | None = None
    seeds: Sequence[int] | int = 1
    protocol: str = "strict"
    people: int | None = 200
    options: int = 3
    retrained: int = 3
    time_limit: float | None = None

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "data", known_names("data set", self.data, datasets.names(defective=True)))
        set_(self, "models", known_names("model", self.models, LEARNERS))
        known_names("protocol", self.protocol if isinstance(self.protocol, str) else (self.protocol,), PROTOCOLS)
        given = every_method() if self.methods in (None, "all") else _listed(self.methods)
        entrants = tuple(Entrant.of(one) for one in given)
        labels = [entrant.label for entrant in entrants]
        if twice := [label for label in labels if labels.count(label) > 1]:
            raise BenchError(f"{twice[0]} stands twice in the methods.", hint="name it once, or give other parameters.")
        set_(self, "methods", entrants)
        set_(self, "seeds", known_seeds(self.seeds))
        for name in ("people", "options", "retrained"):
            value = getattr(self, name)
            set_(self, name, None if value is None else int(value))
        set_(self, "time_limit", None if self.time_limit is None else float(self.time_limit))

    @classmethod
    def from_dict(cls, document: Any) -> Grid:
        """From what a YAML file says: the parameters by name; `people: all` for everybody."""
        if not isinstance(document, Mapping):
            raise BenchError(f"a grid is a mapping, not {shown(document)}.", hint=HINT)
        known = [field.name for field in fields(cls)]
        if unknown := [name for name in document if name not in known]:
            near = difflib.get_close_matches(str(unknown[0]), known, n=1)
            raise BenchError(
                f"a grid has no {unknown[0]!r}.",
                hint=(f"did you mean {near[0]!r}? " if near else "") + f"it may say {', '.join(known)}.",
            )
        given = dict(document)
        if given.get("people") == "all":
            given["people"] = None
        return cls(**given)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Grid:
        """From a file of YAML, or of JSON if its name ends in .json."""
        return cls.from_dict(read_file(os.fspath(path), "the grid {}", "this grid is no", BenchError, HINT))

    def small(self) -> Grid:
        """A taste: the first data set, model and seed, 20 people, two retrained models."""
        people = SMALL_PEOPLE if self.people is None else min(self.people, SMALL_PEOPLE)
        seeds = cast("tuple[int, ...]", self.seeds)[:1]
        return replace(
            self,
            data=self.data[:1],
            models=self.models[:1],
            seeds=seeds,
            people=people,
            retrained=min(2, self.retrained),
        )

    def cells(self) -> Iterator[BenchCell]:
        """All cells, those of one case together, doing nothing first."""
        for data in self.data:
            for model in self.models:
                for seed in cast("tuple[int, ...]", self.seeds):
                    yield BenchCell(self.protocol, data, model, DOING_NOTHING, False, seed)
                    for entrant in cast("tuple[Entrant, ...]", self.methods):
                        for refine in (True, False):
                            yield BenchCell(self.protocol, data, model, entrant, refine, seed)

    @property
    def settings(self) -> dict[str, Any]:
        """What all cells share; lines of a file with other settings are of another comparison."""
        return {name: getattr(self, name) for name in ("people", "options", "retrained", "time_limit")}

    @property
    def fingerprint(self) -> str:
        """Of the settings and of the library's version."""
        shared = [self.settings, versions()["turnabout"]]
        return hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()[:12]


def _listed(given: Any) -> Iterable[Any]:
    listed = as_tuple(given) if not isinstance(given, (str, Mapping, type)) else None
    if not listed:
        raise BenchError(f"methods={shown(given)} is no list.", hint="write methods: [Wachter, NearestRow], or all.")
    return listed


def known_seeds(given: Any) -> tuple[int, ...]:
    """Seeds that are listed, or so many from 0."""
    count = is_whole(given, 1) and int(given) <= MOST
    seeds = as_tuple(range(int(given)) if count else given)
    good = seeds and all(is_whole(seed, 0) and int(seed) <= LARGEST_SEED for seed in seeds)
    if not good or len(set(seeds or ())) < len(seeds or ()):
        raise BenchError(
            f"seeds={shown(given)} names no seeds.",
            hint=f"write how many, as 5, at most {MOST:,}, or a list without repetitions, as [0, 1], none above "
            f"{LARGEST_SEED:,}.",
        )
    return tuple(int(seed) for seed in seeds or ())


def known_names(what: str, given: Any, known: Collection[str]) -> tuple[str, ...]:
    """One name or several, each of them known."""
    names = (given,) if isinstance(given, str) else as_tuple(given)
    if not names:
        raise BenchError(f"{shown(given)} names no {what}.", hint=f"known: {', '.join(known)}.")
    for name in names:
        if not isinstance(name, str) or name not in known:
            near = difflib.get_close_matches(str(name), list(known), n=1)
            raise BenchError(
                f"there is no {what} {name!r}.",
                hint=(f"did you mean {near[0]!r}? " if near else "") + f"known: {', '.join(known)}.",
            )
    if len(set(names)) < len(names):
        raise BenchError(f"{what}s {shown(list(names))} name one twice.", hint="name each once.")
    return tuple(names)
