"""What a risk report is made from: who is refused, who has an option, where it leads, who repaid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from turnabout.audit.aligned import aligned, first_options, same_rows
from turnabout.core import Method, Problem, Recourse, Status
from turnabout.errors import AuditError
from turnabout.models import Model
from turnabout.schema import as_frame
from turnabout.typing import Tensor


@dataclass(frozen=True, eq=False)
class Offers:
    """People, and the first option of those who have one.

    Attributes
    ----------
    people, after : the rows before, and after the option; the same row where there is none.
    accepted, offered : (n,) whether the model says yes, and whether there is an option.
    cost : (n,) of the option, NaN without.
    x, x_after : encoded rows.
    """

    people: pd.DataFrame
    after: pd.DataFrame
    accepted: np.ndarray
    offered: np.ndarray
    cost: np.ndarray
    x: Tensor
    x_after: Tensor
    made_by: str


def read_people(model: Model, people: object) -> tuple[pd.DataFrame, np.ndarray]:
    """The table of people, and (n,) the model's margins."""
    if not isinstance(model, Model):
        raise AuditError(
            f"{type(model).__name__} is not a wrapped model.", hint="use turnabout.models.wrap(model, schema)."
        )
    given = as_frame(people)
    if not len(given):
        raise AuditError("there are no people in the table.", hint="give the people whom the model decides about.")
    if given.index.has_duplicates:
        raise AuditError("two people share an index label.", hint="people.reset_index(drop=True)")
    table = model.schema.table(given)
    margin = np.asarray(model.judge(table), dtype=np.float64)
    if np.isnan(margin).any():
        first = table.index[int(np.isnan(margin).argmax())]
        raise AuditError(
            f"the model's score of person {first!r} is NaN: there is no decision to be wrong about.",
            hint="leave these people out, or mend the model.",
        )
    return table, margin


def read_offers(
    model: Model,
    table: pd.DataFrame,
    accepted: np.ndarray,
    labels: np.ndarray | None,
    method: Recourse | Method,
    seed: int,
) -> Offers:
    """Find, or take over, the answer, and check it against the model.

    Parameters
    ----------
    labels : (n,) who repaid, for the background of a method that is not fitted; None if that is not known of all.
    """
    answer = _answer(model, table, labels, method, seed)
    if not answer.people.index.equals(table.index):
        raise AuditError(
            f"the answer is about {len(answer)} people, and not about the {len(table)} of the table in their order.",
            hint="pass the table that find(people) was given.",
        )
    if not same_rows(answer.people, table, model.schema.names):
        raise AuditError(
            "the answer is about people with other values than those of the table.",
            hint="pass the table that find(people) was given; labels of the index alone do not tell who is who.",
        )
    if not np.array_equal((answer.status == Status.ACCEPTED).to_numpy(dtype=bool), accepted):
        raise AuditError(
            "the answer and the model disagree on who is accepted: it was made for another model, or other rows.",
            hint="pass the model of the method's problem and the people of the answer.",
        )
    first = first_options(answer)
    where = table.index.get_indexer(first.index)
    offered, cost = np.zeros(len(table), dtype=bool), np.full(len(table), np.nan)
    offered[where], cost[where] = True, first["cost"].to_numpy(dtype=np.float64)
    after = table
    if offered.any():
        new = first[list(model.schema.names)]
        after = pd.concat([table[~offered], new.set_axis(new.index.rename(table.index.name))]).loc[table.index]
        if not (np.asarray(model.judge(after[offered])) >= 0).all():
            raise AuditError(
                "some options of the answer are refused by the model.", hint="pass the model the answer was made for."
            )
    x = model.schema.encode(table)
    x_after = x.clone()
    x_after[torch.as_tensor(offered)] = model.schema.encode(after[offered])
    return Offers(table, after, accepted, offered, cost, x, x_after, answer.made_by)


def _answer(
    model: Model, people: pd.DataFrame, labels: np.ndarray | None, method: Recourse | Method, seed: int
) -> Recourse:
    if isinstance(method, Recourse):
        return method
    if not isinstance(method, Method):
        raise AuditError(
            f"{method!r} is no answer and no method.", hint="pass a Recourse, or a method such as Wachter()."
        )
    if not hasattr(method, "problem_"):
        problem = Problem(model.schema, model, background=people, labels=labels)
        return method.clone().fit(problem).find(people, seed=seed)
    if vars(method.problem_.model).get("_judge") is not vars(model).get("_judge"):  # the same model on any device
        raise AuditError(
            "the method was fitted to the problem of another model.", hint="pass the model of that problem."
        )
    return method.find(people, seed=seed)


def read_labels(labels: object, index: pd.Index, seen: np.ndarray) -> np.ndarray:
    """(n,) who repaid; False for people whose labels are not seen, whatever they are."""
    known = pd.Series(aligned("labels", labels, index)[seen], dtype=object)
    try:
        odd = known[~known.isin([0, 1]).to_numpy(dtype=bool)]
    except TypeError:  # lists and the like
        odd = known
    if len(odd):
        raise AuditError(
            f"labels hold {odd.iloc[0]!r}; they say who repaid.",
            hint="give True or False; where labels of refused people are missing, use observed='approved'.",
        )
    if known.nunique() < 2:
        raise AuditError(
            f"all {len(known)} labels that can be seen are alike: with a single class no risk can be told.",
            hint="labels say who truly repaid; give people of both kinds.",
        )
    out = np.zeros(len(index), dtype=bool)
    out[seen] = known.to_numpy().astype(bool)
    return out
