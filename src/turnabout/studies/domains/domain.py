"""Domain: people, the model that refused them, and the actions open to them; Recipe: how one is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from turnabout.actions import ActionSet
from turnabout.core import Problem
from turnabout.datasets.data_files import SourceFile
from turnabout.models import Model
from turnabout.schema import Schema


@dataclass(frozen=True, eq=False)
class Domain:
    """One study of plans.

    Parameters
    ----------
    name : the name it was loaded by.
    schema : the columns, which way each may move, and within what bounds.
    model : the study's own network, wrapped; it judges the rows of `people`.
    people : those it refused, in the units a person would use, in the study's order.
    actions : what a person can do, what that costs and when it is allowed.
    about : origin, licence, citation, and where we read the study differently from its code.
    published : the figures its authors report, by name.
    """

    name: str
    schema: Schema
    model: Model
    people: pd.DataFrame
    actions: ActionSet
    about: str
    published: Mapping[str, float]

    def __len__(self) -> int:
        return len(self.people)

    def __repr__(self) -> str:
        return (
            f"Domain({self.name!r}: {len(self)} people, {len(self.schema)} features, {len(self.actions)} actions, "
            f"{self.model!r})"
        )

    @cached_property
    def problem(self) -> Problem:
        """The question to hand to a method: schema, model and actions, bound together."""
        return Problem(self.schema, self.model, actions=self.actions)


@dataclass(frozen=True)
class DomainRecipe:
    """How to make one Domain.

    Parameters
    ----------
    name : as in Domain.
    question : what the model decides, in a few words.
    licence : in a few words.
    people, features, actions : how many there are; tests hold them true.
    sources : the files it is made from.
    build : (content of the files in order, whole) -> the domain; `whole` asks for numbers one could write in a letter.
    """

    name: str
    question: str
    licence: str
    people: int
    features: int
    actions: int
    sources: tuple[SourceFile, ...]
    build: Callable[[tuple[bytes, ...], bool], Domain]
