"""A seed -> a question about a world: who asks, under which rules, at what cost, answered by which method."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from fuzz.advised import Limit, Limits, random_limits
from fuzz.columns import Cell, Column
from fuzz.constraints import AtMost, Ball, Box, Budget, Condition, Constraint, Follows, Implies, Ordered, Polytope, Sum
from fuzz.costs import Price
from fuzz.worlds import PER_WORLD, World, is_advised, people_like

__all__ = ["PER_WORLD", "Question", "random_question"]
OFTEN = ("auto", "auto", "auto", "ExactLinear", "LocalSearch", "Wachter", "GrowingSpheres", "NearestRow")
RARE = ("Dice", "OneStep", "LinearApproximation", "CausalRecourse", "CausalRecourse", "ActionSequences")
METHODS = (*OFTEN, *OFTEN, *OFTEN, *RARE)
DEFAULT = Price({"Effort": 1.0})  # what is meant where no cost is named
FILES = ("csv", "json", "jsonl", "parquet")


@dataclass
class Question:
    """What is asked.

    people : rows of cells. labels : of the people, the index of their table.
    broken : places of people with a cell that is no value of its column.
    types : how the people's table is typed: as the training table, "nullable" by convert_dtypes, or "object".
    file : the kind of file through which the command line is asked; None for a call in Python.
    limits : what single people will not change, by their label.
    names_cost : whether the cost is given; the default is meant otherwise.
    """

    seed: int
    people: list[list[Cell]]
    labels: list[Any]
    broken: list[int] = field(default_factory=list)
    rules: list[Constraint] = field(default_factory=list)
    price: Price = field(default_factory=lambda: Price({"L1": 1.0}))
    method: str = "auto"
    options: int = 1
    landing: float | str | None = None
    types: str = "training"
    background: bool = True
    file: str | None = None
    limits: dict[Any, Limits] = field(default_factory=dict)
    names_cost: bool = True

    def world_of(self, world: World, person: Any) -> World:
        """The world as it is for one person: with their limits, and every legal value where they act in steps."""
        limits = self.limits.get(person, {})
        columns = [c.plain() for c in world.columns] if self.acts else list(world.columns)
        return world.under([limits[c.name].narrowed(c) if c.name in limits else c for c in columns])

    def price_of(self, person: Any) -> Price:
        """What changes cost one person: what is harder for them costs more."""
        harder = {name: limit.difficulty for name, limit in self.limits.get(person, {}).items()}
        names = {*harder, *self.price.difficulty}
        weights = {n: self.price.difficulty.get(n, 1.0) * harder.get(n, 1.0) for n in names}
        return replace(self.price, difficulty=weights)

    @property
    def acts(self) -> bool:
        """Whether plans of actions are asked for."""
        return self.method == "ActionSequences"

    @property
    def steps(self) -> int:
        """How many steps a plan of actions may have; each changes one column."""
        return 1 + self.seed // 3 % 2

    @property
    def certify(self) -> bool:
        """Whether a lower bound on the cost of plans is asked for too."""
        return self.acts and self.seed % 3 == 0

    @property
    def time_limit(self) -> float | None:
        """Seconds; proofs about plans may take minutes."""
        return 2.0 if self.certify else None

    @property
    def query_limit(self) -> int | None:
        """Rows of the original that may be asked for each person."""
        return (5, 40, 400)[self.seed % 3] if self.seed % 13 == 4 and self.file is None else None

    @property
    def is_limited(self) -> bool:
        """Whether a search may end before it is done."""
        return self.time_limit is not None or self.query_limit is not None


def random_question(world: World, seed: int) -> Question:
    """The question of a seed about its world."""
    random = Random(f"question {seed}")
    count = random.randint(2, 4)
    people = people_like(random, world, count, odd=0.08)
    labels: list[Any] = random.sample(range(100), count) if random.random() < 0.7 else [f"p{i}" for i in range(count)]
    question = Question(seed, people, labels, method=random.choice(METHODS), options=random.choice((1, 1, 1, 2, 3)))
    question.rules = random_rules(random, world)
    question.background = world.decider.needs_background or random.random() < 0.8
    question.price = random_price(random, world, question)
    question.types = random.choice(("training", "training", "training", "nullable", "object"))
    if random.random() < 0.12 and "target_range" not in world.decider.arguments:
        question.landing = random.choice((0.6, 0.75, "mirror"))
    if random.random() < 0.08:
        question.broken = _break(random, world, question)
    if random.random() < 0.06 and world.decider.files and not question.acts:
        question.file = random.choice(FILES)
        question.rules, question.price, question.landing = [], DEFAULT, None
    return _advised(world, question) if is_advised(world.seed) else question


def _advised(world: World, question: Question) -> Question:
    """The question with what worlds of the second kind have."""
    random = Random(f"advised question {question.seed}")
    question.options = random.choice((1, 1, 2, 3, 3))
    if random.random() < 0.5 and not question.acts:
        known = question.background or question.file is not None  # the command line is always told the training table
        question.price, question.names_cost = replace(DEFAULT, measured=known), False
    if question.file is None and random.random() < 0.5:
        for label, row in zip(question.labels, question.people):
            if random.random() < 0.6:
                question.limits[label] = random_limits(random, world.columns, row)
    if random.random() < 0.7:  # rules about everything else are attacked elsewhere
        question.rules = question.rules[:1]
    follow = {rule.target for rule in question.rules if isinstance(rule, Follows)}  # nobody limits a consequence
    for label, own in question.limits.items():
        question.limits[label] = {n: Limit(difficulty=o.difficulty) if n in follow else o for n, o in own.items()}
    return question


def _break(random: Random, world: World, question: Question) -> list[int]:
    """Put one cell that is no value of its column into a row; places of the people it costs an answer."""
    i, who = random.randrange(len(world.columns)), random.randrange(len(question.people))
    column = world.columns[i]
    if not column.chosen or column.missing or column.moves == "fixed":
        return []
    if column.dtype in ("int64", "int32", "int16", "uint8", "bool"):
        return []
    question.people[who][i] = None
    return [who]


def random_price(random: Random, world: World, question: Question) -> Price:
    """L1 or the default most of the time."""
    parts: dict[str, float] = random.choice(
        (
            {"L1": 1.0},
            {"Effort": 1.0},
            {"L1": 1.0, "L0": 0.1},
            {"L2": 1.0},
            {"MAD": 1.0},
            {"PercentileShift": 1.0, "L1": 0.01},
        )
    )
    weights = {c.name: float(random.randint(1, 4)) for c in world.columns} if random.random() < 0.3 else {}
    price = Price(dict(parts), weights, question.background)
    plain = question.acts or (price.background_needed and not question.background)
    return Price({"L1": 1.0}) if plain else price


# -- rules -------------------------------------------------------------------------------------------------------------


def random_rules(random: Random, world: World) -> list[Constraint]:
    """None most of the time; else one or two, a region, or an equation."""
    makers = (_at_most, _sum, _ordered, _implies, _implies, _box, _budget, _ball, _polytope, _follows)
    rules = []
    for _ in range(random.choice((0, 0, 0, 1, 1, 1, 2))):
        rule = random.choice(makers)(random, list(world.columns))
        if rule is not None:
            rules.append(rule)
    return rules


def _scalars(columns: list[Column], moving: bool = False) -> list[Column]:
    return [c for c in columns if c.scalar and not (moving and c.moves == "fixed")]


def _at_most(random: Random, columns: list[Column]) -> Constraint:
    usable = [c for c in columns if c.formula is None]
    names = tuple(c.name for c in random.sample(usable, 2)) if random.random() < 0.3 else None
    return AtMost(random.randint(1, 2), names)


def _sum(random: Random, columns: list[Column]) -> Constraint | None:
    scalars = _scalars(columns)
    if not scalars:
        return None
    chosen = random.sample(scalars, min(len(scalars), random.randint(1, 2)))
    weights = {c.name: random.choice((1.0, -1.0, 0.5, 2.0)) for c in chosen}
    levels = [f"{c.name}={level}" for c in columns if c.kind == "category" for level in c.levels]
    if levels and random.random() < 0.4:
        key = random.choice(levels)
        if key not in weights and sum(key == other for other in levels) == 1 and key not in [c.name for c in columns]:
            weights[key] = random.choice((1.0, -2.0))
    ends = [sorted((w * _low(columns, k), w * (_low(columns, k) + _span(columns, k)))) for k, w in weights.items()]
    low, high = sum(end[0] for end in ends), sum(end[1] for end in ends)
    return Sum(weights, random.choice(("<=", ">=")), round(low + random.uniform(0.3, 0.7) * (high - low), 3))


def _named(columns: list[Column], key: str) -> Column | None:
    return next((c for c in columns if c.name == key), None)


def _low(columns: list[Column], key: str) -> float:
    column = _named(columns, key)
    return column.low if column is not None and column.kind == "number" else 0.0


def _span(columns: list[Column], key: str) -> float:
    column = _named(columns, key)
    return column.span if column is not None else 1.0


def _ordered(random: Random, columns: list[Column]) -> Constraint | None:
    scalars = _scalars(columns)
    if len(scalars) < 2:
        return None
    lower, upper = random.sample(scalars, 2)
    if _low(columns, lower.name) > _low(columns, upper.name) + upper.span:
        lower, upper = upper, lower
    return Ordered(lower.name, upper.name)


def _condition(random: Random, column: Column, consequence: bool) -> Condition:
    if column.kind != "number" and (not column.scalar or random.random() < 0.4):
        if not consequence and random.random() < 0.4:
            return Condition("changes", column.name)
        return Condition("is", column.name, level=random.choice(column.levels))
    by = None
    if random.random() < 0.4:
        by = float((column.step or 0.1 * column.span) * random.choice((1, 2))) if column.kind == "number" else 1.0
    return Condition(random.choice(("rises", "falls")), column.name, by)


def _implies(random: Random, columns: list[Column]) -> Constraint | None:
    usable = [c for c in columns if c.chosen]
    if len(usable) < 2:
        return None
    first, then = random.sample(usable, 2)
    return Implies(_condition(random, first, False), _condition(random, then, True))


def _box(random: Random, columns: list[Column]) -> Constraint:
    usable = [c for c in columns if c.chosen]
    chosen = random.sample(usable, random.randint(1, len(usable)))
    return Box({c.name: round(c.span * random.uniform(0.2, 1.0), 3) if c.scalar else 1.0 for c in chosen})


def _budget(random: Random, columns: list[Column]) -> Constraint:
    weights = {c.name: round(random.choice((0.5, 1.0, 2.0)) / c.span, 6) for c in _chosen(columns)}
    return Budget(random.choice((0.5, 1.0, 1.5)), weights)


def _chosen(columns: list[Column]) -> list[Column]:
    return [c for c in _scalars(columns) if c.chosen]


def _ball(random: Random, columns: list[Column]) -> Constraint | None:
    scalars = _chosen(columns)
    if not scalars:
        return None
    return Ball(random.choice((0.5, 1.0)), {c.name: round(c.span * random.choice((0.5, 1.0)), 6) for c in scalars})


def _polytope(random: Random, columns: list[Column]) -> Constraint | None:
    scalars = _chosen(columns)
    if len(scalars) < 2:
        return None
    a, b = random.sample(scalars, 2)
    rows = (({a.name: 1.0, b.name: -a.span / b.span}, round(0.3 * a.span, 6)), ({b.name: 1.0}, round(0.8 * b.span, 6)))
    return Polytope(rows)


def _follows(random: Random, columns: list[Column]) -> Constraint | None:
    targets = [c for c in columns if c.kind == "number" and c.moves == "free" and c.chosen]
    if not targets:
        return None
    target = random.choice(targets)
    parents = [c for c in _chosen(_scalars(columns, moving=True)) if c.name != target.name]
    if not parents:
        return None
    parent = random.choice(parents)
    share = random.choice((0.2, 0.5, 1.0, -0.4))
    return Follows(target.name, {parent.name: round(share * target.span / parent.span, 6)})
