"""The list of data sets, and how one is loaded."""

from __future__ import annotations

import difflib
import hashlib
import warnings

import numpy as np
import pandas as pd

from turnabout.datasets import adult, bail, compas, german, gmc, heloc, pima, taiwan
from turnabout.datasets.data_files import FileContent, keep, obtain, on_disk
from turnabout.datasets.dataset import Dataset
from turnabout.datasets.recipe import DatasetRecipe, advised
from turnabout.errors import DataError

ALL: tuple[DatasetRecipe, ...] = (
    *german.RECIPES,
    *adult.RECIPES,
    *compas.RECIPES,
    *heloc.RECIPES,
    *bail.RECIPES,
    *pima.RECIPES,
    *gmc.RECIPES,
    *taiwan.RECIPES,
)


def names(defective: bool = False) -> tuple[str, ...]:
    """Names that `load` knows; with defective=True also the files kept only to replay published numbers."""
    return tuple(recipe.name for recipe in ALL if defective or not recipe.defect)


def load(name: str, advice: bool = False) -> Dataset:
    """The data set of that name, cleaned, with its reviewed schema.

    advice : with a schema for letters: useful steps, least changes and reach by hand, and what a careful officer would
        not advise held fixed. Without it every legal value may be chosen, as in published figures. The levels of
        German's `status` stand in another order then: a network on encoded rows must be trained with that schema.

    Names of files with a known defect ("carla-heloc", ...) must be asked for in full, and warn.

    >>> load("german")
    Dataset('german': 1,000 people, 20 features, 70.0% accepted)
    """
    recipe = _recipe(name)
    if recipe.defect:
        warnings.warn(f"{name}: {recipe.defect}", UserWarning, stacklevel=2)
    found = [obtain(source) for source in recipe.sources]
    exact = all(file.exact for file in found)
    people, accepted = _read(recipe, found)
    if not exact:
        _check_content(recipe, found, people, accepted)
    schema = advised(recipe.schema(), recipe.advice) if advice else recipe.schema()
    people = people[list(schema.names)]
    return Dataset(recipe.name, people, accepted.astype(bool), schema, recipe.about, recipe.protected)


def describe() -> pd.DataFrame:
    """One row per name: size, accepted share, licence, and whether it can be loaded here without a download."""
    return pd.DataFrame(
        {
            "name": [recipe.name for recipe in ALL],
            "rows": [recipe.rows for recipe in ALL],
            "features": [len(recipe.schema()) for recipe in ALL],
            "accepted": [recipe.accepted / recipe.rows for recipe in ALL],
            "licence": [recipe.licence for recipe in ALL],
            "embedded": [not recipe.sources for recipe in ALL],
            "available": [all(on_disk(source) is not None for source in recipe.sources) for recipe in ALL],
            "defect": [recipe.defect for recipe in ALL],
        }
    )


def fingerprint(people: pd.DataFrame, accepted: pd.Series) -> str:
    """sha256 of the values read, whatever bytes they were read from."""
    digest = hashlib.sha256()
    for name, column in (*people.items(), ("accepted", accepted)):
        digest.update(str(name).encode())
        if pd.api.types.is_numeric_dtype(column):
            digest.update(np.ascontiguousarray(column, dtype="<f8").tobytes())
        else:
            digest.update("\n".join(column.astype(str)).encode())
    return digest.hexdigest()


def _recipe(name: str) -> DatasetRecipe:
    for recipe in ALL:
        if recipe.name == name:
            return recipe
    near = difflib.get_close_matches(str(name), names(defective=True), n=1)
    raise DataError(
        f"there is no data set {name!r}.",
        hint=(f"did you mean {near[0]!r}? " if near else "") + f"known names: {', '.join(names())}.",
    )


def _read(recipe: DatasetRecipe, found: list[FileContent]) -> tuple[pd.DataFrame, pd.Series]:
    """The recipe's own reader; bytes that are not the reviewed ones may be anything, so its failures are explained."""
    if all(file.exact for file in found):
        return recipe.read(*(file.content for file in found))
    try:
        return recipe.read(*(file.content for file in found))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        where = ", ".join(file.where for file in found)
        raise DataError(
            f"{where!r} does not hold the {recipe.name} data: {error}.", hint="replace or remove that file."
        ) from error


def _check_content(recipe: DatasetRecipe, found: list[FileContent], people: pd.DataFrame, accepted: pd.Series) -> None:
    """For a publisher whose bytes differ from the reviewed file: the values must be the same; then keep them."""
    digest = fingerprint(people, accepted)
    if digest != recipe.fingerprint:
        where = ", ".join(file.where for file in found)
        raise DataError(
            f"{where!r} has the wrong checksum: neither its bytes nor the values in it are those of {recipe.name} "
            f"(values sha256 {digest}, expected {recipe.fingerprint}).",
            hint="replace or remove that file; it is not the one that was reviewed.",
        )
    for source, file in zip(recipe.sources, found, strict=True):
        if file.where == source.url:
            keep(source, file.content)
