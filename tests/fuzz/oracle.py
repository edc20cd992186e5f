"""The oracle: what is wrong with an answer. It asks the original, on tables built as the training table was built."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from fuzz.columns import Cell, same
from fuzz.constraints import Follows, changed
from fuzz.deciders import SINGLE, Verdict
from fuzz.formulas import follows, is_consistent, strays
from fuzz.frames import as_given, as_parquet, build, cells, printed
from fuzz.grids import accepted_rows, cheapest, provided_rows, reachable, size, useful_values
from fuzz.plans import judge_plans
from fuzz.questions import Question
from fuzz.ways import PROVIDED, judge_ranges, judge_ways, provided_by
from fuzz.worlds import World

SLACK = 1e-7  # share of a column's range that rounding may take
KNOWN = ("ACCEPTED", "FOUND", "NOT_FOUND", "IMPOSSIBLE", "UNFINISHED", "UNREADABLE", "FAILED")
COUNTED = 512  # rows up to which a complete search is promised


@dataclass(frozen=True)
class Fault:
    """Something that an answer says and that is not so."""

    kind: str
    person: Any
    text: str


@dataclass
class Judgement:
    """Faults of an answer, what a complete search missed without claiming anything, and what was looked at."""

    faults: list[Fault] = field(default_factory=list)
    missed: int = 0
    proofs: int = 0
    optima: int = 0

    def accuse(self, kind: str, person: Any, text: str) -> None:
        self.faults.append(Fault(kind, person, text))


def judge(world: World, question: Question, answer: Any) -> Judgement:
    """Everything that is wrong with an answer."""
    seen = Judgement()
    status = {label: str(getattr(s, "value", s)) for label, s in answer.status.items()}
    if list(status) != question.labels:
        seen.accuse("people lost", None, f"asked about {question.labels}, answered about {list(status)}")
        return seen
    _judge_numbers(answer, seen)
    rows = _options(world, answer)
    _judge_shape(question, status, rows, seen)
    _judge_options(world, question, answer, rows, seen)
    for kind, person, text in judge_ways(world, question, rows):
        seen.accuse(kind, person, text)
    for kind, person, text in judge_ranges(world, question, answer, rows):
        seen.accuse(kind, person, text)
    _judge_status(world, question, status, seen)
    _judge_search(world, question, answer, status, rows, seen)
    if question.acts:
        for kind, person, text in judge_plans(world, question, answer, rows):
            seen.accuse(kind, person, text)
    return seen


Rows = dict[tuple[Any, int], list[Cell]]


def _options(world: World, answer: Any) -> Rows:
    """The options as printed: (person, option) -> cells."""
    return dict(zip(answer.options.index, printed(answer.options, world.columns), strict=True))


def own_row(question: Question, person: Any) -> list[Cell]:
    return question.people[question.labels.index(person)]


def _as_provided(world: World, question: Question, answer: Any, key: tuple[Any, int], row: list[Cell]) -> list[Cell]:
    """A person's own row with the cells that an option asks them to provide, as the option has them."""
    own, names = own_row(question, key[0]), set(provided_by(answer, key))
    filled = [b if c.name in names else a for c, a, b in zip(world.columns, own, row)]
    return follows(world.columns, own, filled) or filled


def _from(world: World, question: Question, answer: Any, key: tuple[Any, int], row: list[Cell]) -> list[list[Cell]]:
    """Rows from which a change may be counted: the person's own, with any useful value in the cells to provide."""
    names = list(provided_by(answer, key))
    bases = [_as_provided(world, question, answer, key, row)]
    for i, column in enumerate(world.columns):
        if column.name in names:
            bases = [[*base[:i], v, *base[i + 1 :]] for base in bases for v in (row[i], *useful_values(column)[:200])]
    return bases[: 200 * 200]


def _judge_numbers(answer: Any, seen: Judgement) -> None:
    """No NaN among costs and margins; the document says what the table says."""
    for name in ("cost", "margin"):
        for key, value in answer.options[name].items():
            if not math.isfinite(value):
                seen.accuse("no number", key[0], f"the {name} is {value}")
    written = {entry["name"]: entry["values"] for entry in answer.to_dict()["options"]["columns"]}
    for name in answer.options.columns:
        for key, cell, value in zip(answer.options.index, cells(answer.options[name]), written[name], strict=True):
            absent = bool(pd.isna(cell))
            if (value is None) != absent or (not absent and not _reads_as(cell, value)):
                seen.accuse("printed otherwise", key[0], f"{name} is {cell!r}, and the document says {value!r}")


def _reads_as(cell: Any, value: Any) -> bool:
    if isinstance(value, dict):
        value = value["value"]
    if isinstance(cell, (pd.Timestamp, np.datetime64)):
        return pd.Timestamp(cell) == pd.Timestamp(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) == float(cell if isinstance(cell, np.float16) else str(cell))
    return str(value) == str(cell)


def _judge_shape(question: Question, status: dict[Any, str], rows: Rows, seen: Judgement) -> None:
    """Options for those who were promised some, and for nobody else."""
    for person, said in status.items():
        mine = [option for who, option in rows if who == person]
        if said not in KNOWN:
            seen.accuse("unknown status", person, said)
        if (said == "FOUND") != bool(mine):
            seen.accuse("options and status", person, f"{said} with {len(mine)} options")
        if len(mine) > question.options or mine != list(range(len(mine))):
            seen.accuse("options and status", person, f"options {mine}, {question.options} were asked for")


# -- options -----------------------------------------------------------------------------------------------------------


def _judge_options(world: World, question: Question, answer: Any, rows: Rows, seen: Judgement) -> None:
    verdicts = asked_every_way(as_kept(world, question), list(rows.values()))
    for place, (key, row) in enumerate(rows.items()):
        own, mine = own_row(question, key[0]), question.world_of(world, key[0])
        base, count = _as_provided(world, question, answer, key, row), len(provided_by(answer, key))
        _judge_cells(mine, question, key[0], base, row, count, seen)
        for way, verdict in verdicts.items():
            if isinstance(verdict, Exception):
                seen.accuse("the original raises", key[0], f"{way}: {type(verdict).__name__}: {verdict}")
            elif not verdict.yes[place]:
                text = f"refused {way}, margin {verdict.margin[place]:.3g}: {world.row(row)}, from {world.row(own)}"
                seen.accuse("refused as printed", key[0], text)
            else:
                _judge_landing(world, question, key[0], own, verdict, place, seen)
        if not question.acts:
            said = float(answer.options["cost"].loc[key]) - PROVIDED * count
            _judge_cost(world, question, key, _from(world, question, answer, key, row), row, said, seen)


def _judge_cells(
    world: World, question: Question, person: Any, own: list[Cell], row: list[Cell], provided: int, seen: Judgement
) -> None:
    followers = [rule.target for rule in question.rules if isinstance(rule, Follows)]
    if not provided and not changed(world.by_name, world.row(own), world.row(row)):
        seen.accuse("nothing changes", person, "an option that is the person's own row")
    stray = strays(world.columns, own_row(question, person), row)
    if stray is not None:
        seen.accuse("a computed column strays", person, f"{stray}: {world.row(own)} -> {world.row(row)}")
    for column, before, after in zip(world.columns, own, row):
        wrong = (column.plain() if column.name in followers else column).breach(before, after)
        if wrong == "out of bounds" and column.name in followers:
            continue  # bounds limit choices, and this is a consequence
        if wrong is not None:
            seen.accuse(wrong, person, f"{column.name!r}: {before!r} -> {after!r}")
        elif not same(before, after) and column.levels and question.background:
            i = world.columns.index(column)
            if not any(same(line[i], after) for line in world.background):
                seen.accuse("unseen level", person, f"{column.name!r} -> {after!r}, which training never had")
    if any(column.levels and column.position(cell) < 0 for column, cell in zip(world.columns, row) if cell is not None):
        return
    for rule in question.rules:
        broken = rule.breaks(world.by_name, world.row(own), world.row(row), SLACK)
        if broken is not None:
            kind = "stale consequence" if isinstance(rule, Follows) else f"rule {type(rule).__name__} broken"
            seen.accuse(kind, person, f"{broken}: {world.row(own)} -> {world.row(row)}")


def _judge_cost(
    world: World,
    question: Question,
    key: tuple[Any, int],
    bases: list[list[Cell]],
    row: list[Cell],
    said: float,
    seen: Judgement,
) -> None:
    """The cost is that of the change; where cells are provided, of a change from any value that they may have."""
    person, price = key[0], question.price_of(key[0])
    try:
        costs = [price.cost(world.columns, world.background, base, row) for base in bases]
    except (TypeError, ValueError):
        return  # a cell that is no value; accused already
    slack = 1e-7 + 1e-6 * max(costs)
    if not min(costs) - slack <= said <= max(costs) + slack:
        own = own_row(question, person)
        seen.accuse("wrong cost", person, f"said {said!r}, is {min(costs)!r}: {world.row(own)} -> {world.row(row)}")


def _judge_landing(
    world: World, question: Question, person: Any, own: list[Cell], verdict: Verdict, place: int, seen: Judgement
) -> None:
    target = landing_chance(world, question, own)
    if target is not None and verdict.chance is not None and verdict.chance[place] < target - 1e-6:
        text = f"P(yes) is {verdict.chance[place]:.6g}, and must be {target:.6g}"
        seen.accuse("landed short", person, text)


def landing_chance(world: World, question: Question, own: list[Cell]) -> float | None:
    """The least P(yes) at which a person must land."""
    if question.landing is None:
        return None
    if isinstance(question.landing, float):
        return question.landing
    chance = world.decider.ask(build(world.columns, [own])).chance
    return None if chance is None else 1 - float(chance[0])


def as_kept(world: World, question: Question) -> World:
    """The world whose tables hold the gaps of the files through which a question was asked.

    The library knows training by a parquet file, which does not tell NaN from None; a model may. Where it cannot take
    the file's, gaps are those of training.
    """
    if not question.file:
        return world
    kept = replace(world, columns=as_parquet(world.columns))
    rows = [row for row in world.background if any(cell is None for cell in row)]
    takes = not rows or not isinstance(_answered(lambda: world.decider.ask(build(kept.columns, rows))), Exception)
    return kept if takes else world


def asked_every_way(world: World, rows: Sequence[list[Cell]]) -> dict[str, Verdict | Exception]:
    """What the original says about rows in a batch, each alone and, where noise is large, in company."""
    if not rows:
        return {}
    ask, columns, behind = world.decider.ask, world.columns, len(world.background)
    ways = {
        "in a batch": lambda: ask(build(columns, rows)),
        "alone": lambda: _joined([ask(build(columns, [row])) for row in rows]),
    }
    if world.decider.noise >= SINGLE:
        ways["in company"] = lambda: _tail(ask(build(columns, [*world.background, *rows])), behind)
    return {name: _answered(way) for name, way in ways.items()}


def _answered(way: Callable[[], Verdict]) -> Verdict | Exception:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return way()
        except Exception as error:
            return error


def _joined(parts: list[Verdict]) -> Verdict:
    chances = [part.chance for part in parts]
    chance = None if any(c is None for c in chances) else np.concatenate(chances)  # type: ignore[arg-type]
    return Verdict(np.concatenate([p.yes for p in parts]), np.concatenate([p.margin for p in parts]), chance)


def _tail(verdict: Verdict, start: int) -> Verdict:
    chance = None if verdict.chance is None else verdict.chance[start:]
    return Verdict(verdict.yes[start:], verdict.margin[start:], chance)


# -- statuses ----------------------------------------------------------------------------------------------------------


def _judge_status(world: World, question: Question, status: dict[Any, str], seen: Judgement) -> None:
    """Who is accepted is; who is refused is; and nobody is sent away without a cause."""
    together = _answered(lambda: world.decider.ask(build(world.columns, question.people)))
    for place, (person, said) in enumerate(status.items()):
        own, broken = question.people[place], place in question.broken
        if broken:
            if said not in ("UNREADABLE", "FAILED"):
                seen.accuse("unreadable row answered", person, f"{said}: {world.row(own)}")
        elif said == "UNFINISHED" and question.is_limited:
            continue
        elif said in ("UNREADABLE", "FAILED", "UNFINISHED"):
            if not isinstance(_answered(lambda own=own: world.decider.ask(build(world.columns, [own]))), Exception):
                seen.accuse(f"{said} without a cause", person, f"{world.row(own)}")
        elif isinstance(together, Exception) or bool(together.yes[place]) != (said == "ACCEPTED"):
            _judge_decision(world, question, person, place, said, seen)


def _judge_decision(world: World, question: Question, person: Any, place: int, said: str, seen: Judgement) -> None:
    """A status that the original contradicts is wrong if it does so whichever way it is asked.

    A file may say nothing of precision: its decimals are read as doubles, also where training had floats.
    """
    own = question.people[place]
    verdicts = list(asked_every_way(world, [own]).values())
    if question.file:
        verdicts += asked_every_way(as_kept(world, question), [own]).values()
    if question.types != "training":  # to some models a missing cell among objects is another than in a typed column
        given = as_given(build(world.columns, question.people), world.columns, question.types)
        verdicts.append(_answered(lambda: world.decider.ask(given.iloc[[place]])))
    if question.file:
        doubles = [replace(c, dtype="float64") if "float" in c.dtype.lower() else c for c in world.columns]
        verdicts.append(_answered(lambda: world.decider.ask(build(doubles, [own]))))
    if any(isinstance(verdict, Exception) for verdict in verdicts):
        return
    answers = [bool(verdict.yes[0]) for verdict in verdicts if isinstance(verdict, Verdict)]
    clear = all(verdict.margin[0] > world.decider.noise for verdict in verdicts if isinstance(verdict, Verdict))
    if said == "ACCEPTED" and not any(answers):
        seen.accuse("false ACCEPTED", person, f"the original refuses {world.row(own)}")
    if said in ("FOUND", "NOT_FOUND", "IMPOSSIBLE") and clear and all(answers) and question.landing is None:
        seen.accuse("false refusal", person, f"{said}, and the original accepts {world.row(own)}")


def _judge_search(
    world: World, question: Question, answer: Any, status: dict[Any, str], rows: Rows, seen: Judgement
) -> None:
    """IMPOSSIBLE and optima, by brute force."""
    for place, (person, said) in enumerate(status.items()):
        own = question.people[place]
        mine, price = question.world_of(world, person), question.price_of(person)
        exact = question.certify if question.acts else is_exact(mine, own, answer.made_by)
        exact &= question.query_limit is None and is_consistent(world.columns, own)
        if place in question.broken or not (said == "IMPOSSIBLE" or (exact and said in ("FOUND", "NOT_FOUND"))):
            continue
        candidates = [row for row in reachable(mine, question, own) if not _unseen(world, own, row)]
        if said == "IMPOSSIBLE" and not question.acts and question.landing is None:
            candidates += [row for row in provided_rows(mine, question, own) if not _unseen(world, own, row)]
        if question.acts:
            candidates = [row for row in candidates if sum(not same(a, b) for a, b in zip(own, row)) <= question.steps]
        good = accepted_rows(world, candidates, landing_chance(world, question, own))
        good = [row for row in good if _accepted_as_given(world, question, place, row, own)]
        if said == "IMPOSSIBLE":
            seen.proofs += 1
            if good:
                seen.accuse("false IMPOSSIBLE", person, f"{world.row(own)} can become {world.row(good[0])}")
        elif said == "NOT_FOUND":
            seen.missed += bool(good)
        else:
            seen.optima += 1
            first = _first_without_provided(question, answer, person)
            if first is None:
                seen.missed += bool(good)
                continue
            near = [row for row in good if _is_near(mine, own, row)]
            least, claim = cheapest(world, price, own, near or good), _claim(question, answer, person, first)
            if least < claim - 1e-6:
                seen.accuse(
                    "not the cheapest", person, f"{claim:.6g} is proved, {least:.6g} would do: {world.row(own)}"
                )
            if near and not question.acts and not _is_near(mine, own, rows[person, first]):
                text = f"{world.row(rows[person, first])}, {world.row(near[0])} is nearer: {world.row(own)}"
                seen.accuse("farther than people usually go", person, text)


def _first_without_provided(question: Question, answer: Any, person: Any) -> int | None:
    """The first option of a person that asks for no missing cell."""
    mine = [option for who, option in answer.options.index if who == person]
    return next((option for option in mine if not provided_by(answer, (person, option))), None)


def _is_near(world: World, own: list[Cell], row: list[Cell]) -> bool:
    """Whether a row lies within what people usually do."""
    return not any(c.near().breach(a, b) == "beyond reach" for c, a, b in zip(world.columns, own, row))


def _accepted_as_given(world: World, question: Question, place: int, row: list[Cell], own: list[Cell]) -> bool:
    """Whether a row is accepted, and lands, in the types of the table that was given, unlike those of training."""
    if question.file:
        kept = _answered(lambda: world.decider.ask(build(as_kept(world, question).columns, [row])))
        return isinstance(kept, Exception) or bool(kept.yes[0])
    if question.types == "training":
        return True
    people = [*question.people[:place], row, *question.people[place + 1 :]]
    given = as_given(build(world.columns, people), world.columns, question.types)
    verdict, chance = _answered(lambda: world.decider.ask(given.iloc[[place]])), landing_chance(world, question, own)
    if isinstance(verdict, Exception):
        return True
    lands = chance is None or verdict.chance is None or float(verdict.chance[0]) > chance + world.decider.noise
    return bool(verdict.yes[0]) and lands


def _claim(question: Question, answer: Any, person: Any, first: int) -> float:
    """The cost that no plan of a person undercuts, as the answer has it."""
    if not question.acts:
        return float(answer.options["cost"].loc[(person, first)])
    bound = answer.plans["lower_bound"].loc[(person, 0)]
    return 0.0 if pd.isna(bound) else float(bound)


def is_exact(world: World, own: list[Cell], made_by: str) -> bool:
    """Whether the method promises the cheapest plan: for linear models, or where it tries all rows."""
    return made_by.startswith("ExactLinear") or (made_by.startswith("LocalSearch") and size(world, own) <= COUNTED)


def _unseen(world: World, own: list[Cell], row: list[Cell]) -> bool:
    """Whether a row moves to a level that training never had."""
    for i, (column, a, b) in enumerate(zip(world.columns, own, row)):
        if column.levels and not same(a, b) and not any(same(line[i], b) for line in world.background):
            return True
    return False
