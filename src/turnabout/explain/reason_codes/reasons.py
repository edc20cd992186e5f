"""Reason codes: at most four principal reasons for a refusal, each checked against what the person can do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from turnabout.core import Attribution, Problem, Recourse, Status
from turnabout.core.limits import limits_left
from turnabout.documents import Document, plain_records
from turnabout.errors import ExplainError
from turnabout.explain.reason_codes.responsiveness import responsiveness
from turnabout.intervals import clopper_pearson
from turnabout.markup import report_html
from turnabout.parameters import Instance, Maybe, Whole, checked
from turnabout.schema import Category, Number, Schema
from turnabout.typing import Json

ALONE, TOGETHER, NONE, UNKNOWN, CANNOT = "alone", "with others", "none shown", "unknown", "not actionable"
BY_SCORE = "the share of their own changes of each that turn the decision, then by the plan"


@dataclass(frozen=True, eq=False)
class Reasons(Document):
    """Principal reasons of refused people.

    Attributes
    ----------
    table : index (person, rank from 1):
        feature, value : what it is, and what they have.
        contribution : of the attribution that ordered the reasons, below 0; <NA> without one.
        actionable, share, exact, nearest, why : as in Responsiveness.
        in_plan, plan_to : whether the first option of the answer changes the feature, and to what; the text of a range
            where it asks to provide a missing cell.
        recourse : "alone" (some change of it alone is accepted; the original accepted `nearest`), "with others" (not
            alone, but the plan changes it), "none shown" (no change of it alone is accepted, all counted, and the plan
            leaves it), "unknown" (a selection of changes showed none), "not actionable".
        without_recourse : "none shown" or "not actionable": no recourse through this feature was shown. Another plan
            may still use it together with others.
    people : one line per refused person: their status in the answer, and plan_only, what the plan changes beyond the
        reasons given.
    ordered_by : what puts one reason before another.
    made_by : the method that gave the plans.
    notes : what a reader must know.
    """

    table: pd.DataFrame
    people: pd.DataFrame
    schema: Schema
    ordered_by: str
    made_by: str
    notes: tuple[str, ...] = ()

    keys = "ordered_by made_by notes"

    @property
    def without_recourse(self) -> pd.Series:
        """Index person: whether they have reasons and no recourse was shown through any of them."""
        flags = self.table["without_recourse"].groupby(level="person", sort=False).all()
        return flags.reindex(self.people.index, fill_value=False).astype(bool).rename("without_recourse")

    def of(self, person: Any) -> str:
        """One person's reasons in plain words."""
        if person not in self.people.index:
            raise ExplainError(f"there is no refused person {person!r} here.", hint="accepted people have no reasons.")
        line = self.people.loc[person]
        if person in self.table.index.get_level_values("person"):
            mine = self.table.xs(person, level="person")
            out = [f"Refused. Principal reasons, by {self.ordered_by}:"]
            planned = line["status"] == Status.FOUND
            out += [f"  {rank}. {self._said(row, planned)}" for rank, row in mine.iterrows()]
        else:
            out = [f"Refused. No feature stands out by {self.ordered_by}."]
        return "\n".join([*out, f"  {self._plan_said(line)}"])

    def _said(self, row: pd.Series, planned: bool) -> str:
        feature = self.schema[row["feature"]]
        own = "now missing" if pd.isna(row["value"]) else f"now {self._value(feature.name, row['value'])}"
        said = f"{feature.title}, {own}: "
        if row["recourse"] == ALONE:
            counted = "all counted" if row["exact"] else "of an even selection"
            said += f"changing it alone turns the decision for {_percent(row['share'])} of the values within reach "
            said += f"({counted}), {'for example' if isinstance(feature, Category) else 'the nearest being'} "
            said += self._value(feature.name, row["nearest"])
        elif not row["actionable"]:
            said += f"cannot be changed alone ({row['why']})"
        elif row["exact"]:
            said += "changing it alone never turns the decision (all values within reach counted)"
        else:
            said += "no change of it alone was found to turn the decision (an even selection was tried)"
        if getattr(feature, "provide", False) and isinstance(row["plan_to"], str):
            return f"{said}; the plan asks to provide it: {self._value(feature.name, row['plan_to'])}."
        if row["in_plan"]:
            return said + f"; the plan changes it to {self._value(feature.name, row['plan_to'])}."
        left = "; the plan leaves it" if planned else ""
        if row["without_recourse"]:
            return f"{said}{left}{', and' if planned else ';'} no recourse through it was shown."
        return f"{said}{left}."

    def _plan_said(self, line: pd.Series) -> str:
        if line["status"] == Status.IMPOSSIBLE:
            return f"There is no plan; {self.made_by} proved it."
        if line["status"] == Status.NOT_FOUND:
            return f"No plan was found by {self.made_by}."
        if line["status"] == Status.UNFINISHED:
            return f"The search for a plan by {self.made_by} was not finished."
        if not line["plan_only"]:
            return "The plan changes only what is among these reasons."
        return f"The plan also changes {', '.join(self.schema[name].title for name in line['plan_only'])}."

    def _value(self, name: str, value: Any) -> str:
        feature = self.schema[name]
        unit = f" {feature.unit}" if isinstance(feature, Number) and feature.unit else ""
        return f"{value:.12g}{unit}" if isinstance(value, (float, np.floating)) else f"{value}{unit}"

    _repr_html_ = report_html

    def __str__(self) -> str:
        n = len(self.people)
        if not n:
            return "nobody is refused: there are no reasons to give."
        told = self.table["recourse"].value_counts()
        counts = ", ".join(f"{told.get(kind, 0)} {kind}" for kind in (ALONE, TOGETHER, NONE, UNKNOWN, CANNOT))
        stuck = int(self.without_recourse.sum())
        low, high = clopper_pearson(stuck, n)
        lines = [
            f"{len(self.table)} reasons for {n} refused people, by {self.ordered_by}; recourse through them: {counts}.",
            f"{stuck} of {n} people, {stuck / n:.3f} [{low:.3f}, {high:.3f}], have only reasons through which no "
            "recourse was shown.",
        ]
        return "\n".join(lines + [f"note: {note}" for note in self.notes])

    def to_frame(self) -> pd.DataFrame:
        """The table with person and rank as columns."""
        return self.table.reset_index()

    def to_dict(self) -> Json:
        """Plain values for JSON."""
        people = self.people.assign(without_recourse=self.without_recourse).rename_axis("person").reset_index()
        return super().to_dict() | {"people": plain_records(people), "reasons": plain_records(self.to_frame())}


@checked(
    ExplainError,
    answer=Instance(Recourse, "an answer", hint="write reasons(method.find(people), problem)."),
    problem=Instance(Problem, hint="write reasons(method.find(people), problem)."),
    attribution=Maybe(Instance(Attribution, hint="use explainer.explain(...).")),
    most=Whole(1, hint="letters give at most 4."),
    values=Whole(2),
)
def reasons(
    answer: Recourse,
    problem: Problem,
    attribution: Attribution | None = None,
    most: int = 4,
    *,
    values: int = 2000,
    limits: Any = None,
) -> Reasons:
    """At most four principal reasons for each refusal, marked by whether the person can act on them.

    Without an attribution, reasons are what they can change: first the features whose own changes turn the decision
    most often (see `responsiveness`), then those that only the plan changes. What is fixed is then never named, though
    it may weigh most. With contributions (of ExactShapley, KernelShap, IntegratedGradients, ...) the reasons are the
    features that lower their score most; what raises it is none. Slopes are refused: they say how the score would react
    to a change, and not what lowers it.

    Each reason is checked: can they change it, does some change of it alone turn the decision, does the plan use it?
    Reasons on which they cannot act are kept, and flagged: to leave them out would be to hide them. Notes of the
    attribution are carried over.

    Parameters
    ----------
    answer : with the plans; its first options count.
    problem : the question that it answers; its model must decide as the answer says.
    attribution : contributions of all refused people, to the features of the schema.
    most : reasons for each person.
    values, limits : as for responsiveness.
    """
    schema, refused = problem.schema, answer.people.index[answer.refused.to_numpy(dtype=bool)]
    _check_decisions(answer, problem)
    weights, ordered_by = _weights(attribution, schema, refused)
    told = () if attribution is None else tuple(attribution.notes)
    if not len(refused):
        return Reasons(_empty(), _people(answer, refused, {}, {}), schema, ordered_by, answer.made_by, told)
    own = limits_left(limits, answer.people.index, refused, schema)
    table = responsiveness(problem, answer.people.loc[refused], values, own).table.drop(columns="reachable")
    table = _with_plan(table, answer, schema)
    each = np.full(len(table), np.nan) if weights is None else weights.ravel()
    table.insert(0, "contribution", pd.Series(each, index=table.index, dtype="Float64"))
    chosen = _chosen(table, most, by_contribution=weights is not None)
    planned, given = (_features(part) for part in (table[table["in_plan"]], chosen))
    people = _people(answer, refused, planned, given)
    proved = refused[(people["status"] == Status.IMPOSSIBLE).to_numpy(dtype=bool)]
    alone = set(table.index[table["recourse"] == ALONE].get_level_values("person"))
    notes = tuple(
        f"the answer says that person {person!r} has no recourse, yet a change of one feature alone is accepted."
        for person in proved
        if person in alone
    )
    return Reasons(_ranked(chosen), people, schema, ordered_by, answer.made_by, (*notes, *told))


def _check_decisions(answer: Recourse, problem: Problem) -> None:
    """Refuse an answer that the problem's model does not bear out."""
    said = (answer.status == Status.ACCEPTED).to_numpy(dtype=bool)
    decided = np.flatnonzero(said | answer.refused.to_numpy(dtype=bool))
    people = answer.people.iloc[decided]
    accepted = problem.judge(problem.schema.table(people)) >= 0 if len(people) else np.zeros(0, bool)
    wrong = accepted != said[decided]
    if wrong.any():
        person = people.index[int(wrong.argmax())]
        raise ExplainError(
            f"the answer and the problem's model decide person {person!r} differently.",
            hint="pass the problem that the answer was found for.",
        )
    first = answer.options[answer.options.index.get_level_values("option") == 0]
    if len(first) and (denied := ~(problem.judge(problem.schema.table(first)) >= 0)).any():
        raise ExplainError(
            f"the plan of person {first.index[int(denied.argmax())][0]!r} is refused by the problem's model.",
            hint="pass the problem that the answer was found for.",
        )


def _weights(attribution: Any, schema: Schema, refused: pd.Index) -> tuple[np.ndarray | None, str]:
    """(n, F) contributions of the refused, and what they are; None without an attribution."""
    if attribution is None:
        return None, BY_SCORE
    if attribution.kind != "contribution":
        wrong = {
            "direction": "a direction says where to move",
            "slope": "a slope says how the score reacts to a change",
        }
        raise ExplainError(
            f"{wrong[attribution.kind]}, and is no reason.",
            hint="pass contributions, such as ExactShapley or KernelShap give, or none.",
        )
    if len(absent := refused.difference(attribution.values.index)):
        raise ExplainError(
            f"person {absent.tolist()[0]!r} is refused and not in the attribution.", hint="explain all refused people."
        )
    values = attribution.values.loc[refused]
    if not np.isfinite(values.to_numpy(dtype=np.float64)).all():
        raise ExplainError("the attribution holds NaN or an infinity.", hint="every contribution must be a number.")
    if set(values.columns) == set(schema.names):
        said = f"how much each lowers the {attribution.score} ({attribution.made_by})"
        return values[list(schema.names)].to_numpy(dtype=np.float64), said
    odd = [str(name) for name in values.columns if name not in schema.names]
    raise ExplainError(
        f"the attribution speaks of {odd[:3]}, which are no features of the schema.",
        hint="use attribution.grouped({'housing': ['housing=own', ...]}) to add columns up.",
    )


def _with_plan(table: pd.DataFrame, answer: Recourse, schema: Schema) -> pd.DataFrame:
    """Scores (person, feature), with their own value, what the plan does to it, and what recourse it gives."""
    own = answer.people.loc[table.index.unique("person"), list(schema.names)]
    table.insert(0, "value", own.astype(object).to_numpy(dtype=object).ravel())
    changes = answer.changes_in_words()  # a cell to provide is a range
    changes = changes[(changes["option"] == 0) & changes["feature"].isin(schema.names)] if len(changes) else changes
    keys = pd.MultiIndex.from_arrays([changes["person"], changes["feature"]]) if len(changes) else table.index[:0]
    place = table.index.get_indexer(keys)
    in_plan, plan_to = np.zeros(len(table), dtype=bool), np.full(len(table), None, dtype=object)
    in_plan[place] = True
    plan_to[place] = changes["to"].to_numpy(dtype=object) if len(changes) else []
    table["in_plan"], table["plan_to"] = in_plan, plan_to
    alone = (table["share"].fillna(0.0) > 0).to_numpy(dtype=bool)
    actionable, exact = (table[name].to_numpy(dtype=bool) for name in ("actionable", "exact"))
    kinds = np.select([alone, in_plan, ~actionable, ~exact], [ALONE, TOGETHER, CANNOT, UNKNOWN], NONE)
    table["recourse"] = kinds.astype(object)
    table["without_recourse"] = np.isin(kinds, (CANNOT, NONE))
    return table


def _chosen(table: pd.DataFrame, most: int, by_contribution: bool) -> pd.DataFrame:
    """The first `most` reasons of each person, in order."""
    if by_contribution:
        key = table["contribution"].to_numpy(dtype=float)
        counts = key < 0  # what raises the score is no reason for a refusal
    else:
        key = -table["share"].fillna(0.0).to_numpy(dtype=float)
        counts = (key < 0) | table["in_plan"].to_numpy(dtype=bool)
    person = pd.factorize(table.index.get_level_values("person"))[0]
    order = np.lexsort((key, person))  # stable: of equals, the schema's order
    kept = table.iloc[order[counts[order]]]
    return kept.groupby(level="person", sort=False).head(most)


def _ranked(chosen: pd.DataFrame) -> pd.DataFrame:
    """The reasons with their rank, from 1, in place of the feature in the index."""
    rank = chosen.groupby(level="person", sort=False).cumcount() + 1
    chosen = chosen.reset_index("feature")
    return chosen.set_axis(pd.MultiIndex.from_arrays([chosen.index, rank], names=["person", "rank"]))


def _features(table: pd.DataFrame) -> dict[Any, list[str]]:
    """Person -> the features of their lines."""
    out: dict[Any, list[str]] = {}
    for person, feature in table.index:
        out.setdefault(person, []).append(feature)
    return out


def _percent(share: float) -> str:
    """8 %, 0.031 %; never 0 % or 100 % of what is not none or all."""
    said = f"{100 * share:.3g} %"
    return f"almost {said}" if said == "100 %" and share < 1 else said


def _people(
    answer: Recourse, refused: pd.Index, planned: dict[Any, list[str]], given: dict[Any, list[str]]
) -> pd.DataFrame:
    beyond = [[name for name in planned.get(p, []) if name not in given.get(p, [])] for p in refused]
    status = answer.status.loc[refused].astype(object)
    return pd.DataFrame({"status": status, "plan_only": pd.Series(beyond, index=refused, dtype=object)}, index=refused)


def _empty() -> pd.DataFrame:
    columns = ["feature", "contribution", "value", "actionable", "share", "exact", "nearest", "why"]
    columns += ["in_plan", "plan_to", "recourse", "without_recourse"]
    index = pd.MultiIndex.from_arrays([[], []], names=["person", "rank"])
    return pd.DataFrame({name: pd.Series(dtype=object) for name in columns}).set_axis(index)
