"""Published studies of plans, ready to run: people who were refused, the network that refused them, what they may do.

``load("german")`` gives the hundred people, the network and the actions of one study. The files are looked for in the
folder named by ``TURNABOUT_DATA`` and checked before they are read; the actions are part of the package.
"""

from __future__ import annotations

import difflib

import pandas as pd

from turnabout.datasets.data_files import obtain, on_disk
from turnabout.errors import DataError
from turnabout.studies.domains import adult_domain, drawing_domain, fanniemae, german_domain
from turnabout.studies.domains.domain import Domain, DomainRecipe

ALL: tuple[DomainRecipe, ...] = (german_domain.RECIPE, adult_domain.RECIPE, fanniemae.RECIPE, drawing_domain.RECIPE)

__all__ = ["Domain", "describe", "load", "names"]


def names() -> tuple[str, ...]:
    """Names that `load` knows."""
    return tuple(recipe.name for recipe in ALL)


def load(name: str, whole: bool = False) -> Domain:
    """The study of that name: people in their own units, the published network, the actions.

    Numbers are continuous, as in the paper. With whole=True plans use whole months, years, points and dollars (and
    eighths of a percent), which a letter could really ask for; people, network and actions are the same.
    """
    recipe = _recipe(name)
    return recipe.build(tuple(obtain(source).content for source in recipe.sources), whole)


def describe() -> pd.DataFrame:
    """One row per domain: its size, where it comes from, and whether its files are on this machine."""
    return pd.DataFrame(
        {
            "name": [recipe.name for recipe in ALL],
            "question": [recipe.question for recipe in ALL],
            "people": [recipe.people for recipe in ALL],
            "features": [recipe.features for recipe in ALL],
            "actions": [recipe.actions for recipe in ALL],
            "licence": [recipe.licence for recipe in ALL],
            "available": [all(on_disk(source) is not None for source in recipe.sources) for recipe in ALL],
        }
    )


def _recipe(name: str) -> DomainRecipe:
    for recipe in ALL:
        if recipe.name == name:
            return recipe
    near = difflib.get_close_matches(str(name), names(), n=1)
    raise DataError(
        f"there is no domain {name!r}.",
        hint=(f"did you mean {near[0]!r}? " if near else "") + f"known names: {', '.join(names())}.",
    )
