"""Would a careful loan officer send these plans? Measures what a reader would question, before and after.

    python benchmarks/sensible.py --small          one data set, one model, 20 people
    python benchmarks/sensible.py                  five data sets, four models, 100 refused people each
    python benchmarks/sensible.py --json out.json  the figures as names and numbers: adult.xgboost.tiny_share, ...
    python benchmarks/sensible.py --markdown       the table as it stands in docs/advice.md
    python benchmarks/sensible.py --read 60        prints plans to be read

`after` is what the library does by default: a schema drafted from the training part with its labels, in which what the
data set's own schema fixes is fixed too, and the default cost. `before` is every legal value of every column that the
data set's own schema lets move, freely, at L1 on ranges. Three options each, by the method that `find` picks. All is
judged against columns of the training part, by formulas of this file. Columns:

    found        share of the refused with an option; `lost` is how much less than before, in points
    explained    of the people lost: the share who have an option again when reach, steps and directions are lifted
    against      changes against a direction that the training part proves
    tiny         options with a change below one percent of the ordinary range (between the 5 and 95 % quantiles)
    alike        pairs of a person's options with the same columns, none of which differs by 5 % of the ordinary range
    off grid     changed numbers off the round step in which their column is used
    beyond       changed numbers that no accepted person of the training part has
    effort       cost of first options under the default cost, over the proved optimum where the model is additive
    x time       CPU seconds of `find` by a fitted method, after over before: medians of three calls in turn

`identities` is a made-up table with a ratio, a unit change and a sum among its columns, declared and not; there
every legal value may be chosen, so that nothing else differs.
TURNABOUT_DATA names the folder that holds the data.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import turnabout as ta

DATA = ("adult", "german", "heloc", "gmc", "taiwan")
MOST = 6000  # rows of a data set
OPTIONS = 3
CALLS = 3  # of `find`, of whose seconds the median counts


def preparing() -> Any:
    """Encoders as people write them."""
    words, numbers = make_column_selector(dtype_exclude="number"), make_column_selector(dtype_include="number")
    return make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")), words),
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
    )


def xgboost() -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=100, max_depth=3, random_state=0)


MODELS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: LogisticRegression(max_iter=3000),
    "xgboost": xgboost,
    "forest": lambda: RandomForestClassifier(60, max_depth=6, random_state=0),
    "net": lambda: MLPClassifier((20,), max_iter=200, random_state=0),
}


@dataclass(frozen=True)
class Case:
    """A model, and the people it refuses."""

    data: str
    model: str
    fitted: Any
    train: pd.DataFrame
    good: pd.Series
    refused: pd.DataFrame
    own: ta.Schema


def cases(data: str, models: tuple[str, ...], people: int) -> list[Case]:
    """The refused of the test part, by each model."""
    given = ta.datasets.load(data)
    order = np.random.default_rng(0).permutation(len(given.people))[:MOST]
    table, good = given.people.iloc[order], given.accepted.iloc[order]
    cut = int(0.7 * len(table))
    out = []
    for name in models:
        fitted = make_pipeline(preparing(), MODELS[name]()).fit(table[:cut], good[:cut])
        test = table[cut:]
        refused = test[np.asarray(fitted.predict(test)) == 0].head(people)
        out.append(Case(data, name, fitted, table[:cut], good[:cut], refused, given.schema))
    return out


# -- before and after --------------------------------------------------------------------------------------------------


def fixed_in(schema: ta.Schema) -> list[str]:
    return [f.name for f in schema if f.moves == "fixed"]


def drafted(case: Case) -> ta.Schema:
    """What `Schema.infer` says, with what the data set's own schema fixes."""
    return ta.Schema.infer(case.train, labels=case.good, immutable=fixed_in(case.own))


def unguarded(case: Case, schema: ta.Schema) -> ta.Schema:
    """Every legal value of all that the data set's own schema does not fix."""
    fixed, features = set(fixed_in(case.own)), []
    for f in schema.plain().features:
        entry = {k: v for k, v in f.to_dict().items() if k not in ("moves", "formula")}
        entry["kind"] = "number" if f.kind == "derived" else f.kind
        constant = entry["kind"] == "number" and f.low == f.high
        free = f.name not in fixed and not constant and f.kind != "passthrough"
        features.append(entry | {"moves": "free" if free else "fixed"})
    return ta.Schema.from_dict({"features": features})


def chosen(case: Case, schema: ta.Schema, cost: Any) -> ta.core.Method:
    """The method that `find` picks, fitted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ta.models.wrap(case.fitted, schema, background=case.train)
        problem = ta.Problem(schema, model, cost, background=case.train, labels=case.good)
        return ta.methods.choose(problem)


def answered(method: ta.core.Method, people: pd.DataFrame, options: int) -> ta.Recourse:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method.find(people, options=options, seed=0)


def seconds(methods: tuple[ta.core.Method, ...], people: pd.DataFrame, options: int) -> list[float]:
    """CPU seconds of `find` by each method: the median of some calls, in turn."""
    taken: list[list[float]] = [[] for _ in methods]
    for _ in range(CALLS):
        for method, mine in zip(methods, taken):
            began = time.process_time()
            answered(method, people, options)
            mine.append(time.process_time() - began)
    return [float(np.median(mine)) for mine in taken]


# -- what a reader sees ------------------------------------------------------------------------------------------------


class Columns:
    """The numbers of the training part: ordinary ranges, steps, directions, what accepted people have."""

    def __init__(self, case: Case, schema: ta.Schema):
        from turnabout.schema.trends import trends

        self.names = [f.name for f in schema if isinstance(f, ta.Number) and f.kind == "number"]
        self.values = {n: case.train[n].to_numpy(dtype=float) for n in self.names}
        there = {n: v[np.isfinite(v)] for n, v in self.values.items()}
        ends = {n: np.quantile(v, (0.05, 0.95)) for n, v in there.items()}
        self.spread = {n: float(e[1] - e[0]) or float(np.ptp(there[n])) for n, e in ends.items()}
        self.step = {n: schema[n].useful_step or schema[n].step or 10.0 ** -schema[n].places for n in self.names}
        good = case.good.to_numpy()
        accepted = {n: v[good & np.isfinite(v)] for n, v in self.values.items()}
        self.low = {n: v.min() for n, v in accepted.items()}
        self.high = {n: v.max() for n, v in accepted.items()}
        self.proved = {n: t.good for n, t in trends(self.values, good).items()}


def judged(answer: ta.Recourse, columns: Columns) -> dict[str, float]:
    """Shares of what a reader would question."""
    options, names = answer.options, columns.names
    own = answer.people.loc[options.index.get_level_values(0)]
    changes = against = off = beyond = 0
    tiny = np.zeros(len(options), dtype=bool)
    for n in names:
        a, b = own[n].to_numpy(dtype=float), options[n].to_numpy(dtype=float)
        moved = (a != b) & np.isfinite(a) & np.isfinite(b)
        changes += int(moved.sum())
        tiny |= moved & (np.abs(b - a) < 0.01 * columns.spread[n])
        ratio = b / columns.step[n]
        off += int((moved & (np.abs(ratio - np.rint(ratio)) > 1e-6)).sum())
        outside = (b < columns.low[n]) & (a >= columns.low[n]) | (b > columns.high[n]) & (a <= columns.high[n])
        beyond += int((moved & outside).sum())
        way = columns.proved.get(n)
        wrong = (b < a) if way == "up" else (b > a) if way == "down" else np.zeros(len(a), dtype=bool)
        against += int((moved & wrong).sum())
    pairs, alike = 0, 0
    for person, rows in options.groupby(level=0):
        mine = answer.people.loc[person]
        for i in range(len(rows)):
            for j in range(i + 1, len(rows)):
                pairs += 1
                alike += same(mine, rows.iloc[i], rows.iloc[j], answer.choices, columns)
    return {
        "against": against / max(changes, 1),
        "tiny": float(tiny.mean()) if len(options) else 0.0,
        "alike": alike / max(pairs, 1),
        "off_grid": off / max(changes, 1),
        "beyond": beyond / max(changes, 1),
    }


def same(own: pd.Series, a: pd.Series, b: pd.Series, names: list[str], columns: Columns) -> bool:
    """Whether two options change the same columns by nearly the same."""
    for n in names:
        if _differs(own[n], a[n]) != _differs(own[n], b[n]):
            return False
        if _differs(a[n], b[n]) and (n not in columns.spread or abs(a[n] - b[n]) >= 0.05 * columns.spread[n]):
            return False
    return True


def _differs(a: Any, b: Any) -> bool:
    return not (a == b or (pd.isna(a) and pd.isna(b)))


def measured(case: Case) -> dict[str, dict[str, float]]:
    """Both columns of the table for one case."""
    schema = drafted(case)
    columns, free = Columns(case, schema), unguarded(case, schema)
    then, now = chosen(case, free, ta.costs.L1()), chosen(case, schema, None)
    before, after = (answered(method, case.refused, OPTIONS) for method in (then, now))
    took = seconds((then, now), case.refused, OPTIONS)
    lost = case.refused.index[(before.status == "FOUND").to_numpy() & (after.status != "FOUND").to_numpy()]
    again = answered(chosen(case, free, None), case.refused.loc[lost], 1) if len(lost) else None
    rows = {}
    for name, answer in (("before", before), ("after", after)):
        rows[name] = {"found": float((answer.status == "FOUND").mean()), **judged(answer, columns)}
        rows[name]["options"] = len(answer.options) / max(1, int((answer.status == "FOUND").sum()))
    rows["after"]["lost"] = rows["before"]["found"] - rows["after"]["found"]
    rows["after"]["explained"] = 1.0 if again is None else float((again.status == "FOUND").mean())
    rows["after"]["time_ratio"] = took[1] / took[0]
    rows["after"]["effort"] = effort(case, schema, after)
    return rows


def effort(case: Case, schema: ta.Schema, answer: ta.Recourse) -> float:
    """First options of LocalSearch over the proved optimum, where the model is additive; else NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ta.models.wrap(case.fitted, schema, background=case.train)
        problem = ta.Problem(schema, model, background=case.train, labels=case.good)
        if not isinstance(problem.model, ta.models.Additive):
            return float("nan")
        exact = ta.methods.ExactLinear().fit(problem).find(case.refused)
        near = ta.methods.LocalSearch().fit(problem).find(case.refused)
    both = exact.options.cost.index.intersection(near.options.cost.index)
    return float((near.options.cost[both] / exact.options.cost[both]).mean()) if len(both) else float("nan")


# -- identities --------------------------------------------------------------------------------------------------------


def identities(people: int) -> dict[str, float]:
    """A made-up lender whose table holds a ratio, a unit change and a sum; declared against left alone."""
    rng = np.random.default_rng(0)
    n = 2000
    table = pd.DataFrame(
        {"loan": (rng.integers(20, 400, n) * 50).astype(float), "value": rng.gamma(6, 3000, n).round(0)}
    )
    table = table.assign(value=table.value + 2000, income=rng.lognormal(8, 0.4, n).round(0))
    table = table.assign(
        term=rng.integers(6, 60, n), rent=(rng.gamma(4, 150, n)).round(0), other=rng.gamma(2, 120, n).round(0)
    )
    table["ltv"], table["days"] = (table.loan / table.value).round(3), table.term * 30
    table["costs"] = table.rent + table.other
    score = np.log(table.income) * 2 - 2 * table.ltv - table.costs / 800 - table.days / 900
    good = score + rng.normal(0, 0.4, n) > score.median()
    from xgboost import XGBClassifier

    model = XGBClassifier(n_estimators=100, max_depth=3, random_state=0).fit(table[:1400], good[:1400])
    test = table[1400:]
    refused = test[model.predict(test) == 0].head(people)
    with_them = ta.Schema.infer(table[:1400], labels=good[:1400]).plain()
    without = _as_numbers(with_them)
    methods, found, wrong = [], [], []
    for schema in (without, with_them):
        wrapped = ta.models.wrap(model, schema, background=table[:1400])
        problem = ta.Problem(schema, wrapped, background=table[:1400], labels=good[:1400])
        method = ta.methods.LocalSearch().fit(problem)
        methods.append(method)
        answer = answered(method, refused, 1)
        o = answer.options
        broken = (np.abs(o.loan / o.value - o.ltv) > 0.00051) | (o.term * 30 != o.days) | (o.rent + o.other != o.costs)
        found.append(float((answer.status == "FOUND").mean()))
        wrong.append(float(broken.mean()))
    took = seconds(tuple(methods), refused, 1)
    return {
        "found_share": sum(f.kind == "derived" for f in with_them) / 3,
        "time_ratio": took[1] / took[0],
        "inconsistent": wrong[1],
        "inconsistent_before": wrong[0],
        "found": found[1],
        "found_before": found[0],
    }


def _as_numbers(schema: ta.Schema) -> ta.Schema:
    """The same columns, with derived ones as numbers that plans may choose."""
    entries = []
    for f in schema.features:
        entry = f.to_dict()
        if f.kind == "derived":
            entry = {k: v for k, v in entry.items() if k != "formula"} | {"kind": "number", "moves": "free"}
        entries.append(entry)
    return ta.Schema.from_dict({"features": entries})


# -- running -----------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="one data set, one model, 20 people")
    parser.add_argument("--data", nargs="*", default=DATA)
    parser.add_argument("--models", nargs="*", default=tuple(MODELS))
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--read", type=int, default=0, metavar="N", help="print the plans of N people, to be read")
    parser.add_argument("--markdown", action="store_true", help="print the table of the docs")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    data, models, people = given.data, tuple(given.models), given.people
    if given.small:
        data, models, people = ("german",), ("logistic",), 20
    out: dict[str, float] = {}
    columns = (
        "found",
        "options",
        "against",
        "tiny",
        "alike",
        "off_grid",
        "beyond",
        "lost",
        "explained",
        "effort",
        "time_ratio",
    )
    table = Table("case", "", *columns, title="What a careful reader would question")
    console = Console(width=170)
    for name in data:
        for case in cases(name, models, people):
            if given.read:
                read(case, given.read)
                continue
            rows = measured(case)
            for when, row in rows.items():
                table.add_row(f"{name} {case.model}", when, *(f"{row[c]:.3f}" if c in row else "" for c in columns))
            for key, short in (("tiny", "tiny_share"), ("alike", "duplicate_share"), ("off_grid", "off_grid"),
                               ("against", "against"), ("beyond", "beyond"), ("lost", "found_lost"),
                               ("explained", "lost_explained"), ("effort", "effort"), ("time_ratio", "time_ratio"),
                               ("found", "found")):  # fmt: skip
                out[f"{name}.{case.model}.{short}"] = round(rows["after"][key], 6)
                if key in rows["before"]:
                    out[f"{name}.{case.model}.{short}_before"] = round(rows["before"][key], 6)
    if given.read:
        return
    out |= {f"identities.{key}": round(value, 6) for key, value in identities(people).items()}
    if given.json:
        given.json.write_text(json.dumps(out, indent=1), encoding="utf-8")
    if given.markdown:
        print("\n".join(markdown(out)))
        return
    console.print(table)
    for key, value in out.items():
        if key.startswith("identities."):
            console.print(f"{key} {value:.3f}", highlight=False)


def markdown(out: dict[str, float]) -> list[str]:
    """A line for each case: before -> after."""
    lines = ["| case | found | against | tiny | alike | off grid | beyond | effort | time |", "| --- |" + " --- |" * 8]
    for name in dict.fromkeys(key.rsplit(".", 1)[0] for key in out if not key.startswith("identities.")):
        cells = [
            f"{100 * out[f'{name}.{key}_before']:.1f} -> {100 * out[f'{name}.{key}']:.1f}"
            for key in ("found", "against", "tiny_share", "duplicate_share", "off_grid", "beyond")
        ]
        effort = out[f"{name}.effort"]
        cells += ["" if np.isnan(effort) else f"{effort:.3f}", f"{out[f'{name}.time_ratio']:.2f}"]
        lines.append(f"| {name.replace('.', ', ')} | {' | '.join(cells)} |")
    return [*lines, *(f"{key} {value:.3f}" for key, value in out.items() if key.startswith("identities."))]


def read(case: Case, count: int) -> None:
    """Plans, as a reader gets them."""
    schema = drafted(case)
    answer = answered(chosen(case, schema, None), case.refused.head(count), OPTIONS)
    for person in case.refused.head(count).index:
        print(f"\n{case.data} {case.model}, person {person}: {answer.status[person]}")
        print(answer.of(person).to_string() if answer.status[person] == "FOUND" else "")


if __name__ == "__main__":
    main()
