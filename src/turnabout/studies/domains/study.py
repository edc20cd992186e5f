"""The files of Ramakrishnan, Lee and Albarghouthi (2020): standardised rows and networks become people and models."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

import numpy as np
import pandas as pd
import torch
from torch import nn

from turnabout.actions import ActionSet
from turnabout.datasets.data_files import SourceFile
from turnabout.models import Model, wrap
from turnabout.schema import Category, Number, Schema
from turnabout.studies.domains.domain import Domain
from turnabout.typing import Moves, Tensor

CITATION = (
    "Ramakrishnan, Lee and Albarghouthi, Synthesizing action sequences for modifying model decisions, AAAI 2020; "
    "rows and network from github.com/goutham7r/synth-action-seq (MIT)."
)
LABELS = 2  # columns at the end of every row: the one-hot label
SECONDS_PER_SEQUENCE = 15.0  # the authors' "iteration": one sequence of actions for one person, on their machine


@dataclass(frozen=True)
class Standardization:
    """How the study standardised a number: z = (value - mean) / std. Values have so many decimals."""

    mean: float
    std: float
    decimals: int = 0


def source(folder: str, file: str, sha256: str) -> SourceFile:
    """A file of the study, as it lies under TURNABOUT_DATA."""
    return SourceFile(
        folder,
        file,
        sha256,
        by_hand="Set TURNABOUT_DATA to the folder of data sets; the file is made from the model folders of "
        "github.com/goutham7r/synth-action-seq, as docs/domains.md tells.",
    )


def number(
    name: str,
    low: float,
    high: float,
    unit: str,
    label: str,
    *,
    decimals: int,
    whole: float | None,
    moves: Moves = "free",
) -> Number:
    """A number that actions change: continuous with that many decimals, or on a grid of steps of `whole`."""
    if whole is not None:
        return Number(name, low, high, whole, unit, moves, label)
    return Number(name, low, high, None, unit, moves, label, decimals=decimals)


def read_domain(
    name: str,
    schema: Schema,
    scales: Mapping[str, Standardization],
    yes: int,
    contents: tuple[bytes, ...],
    about: str,
    published: Mapping[str, float],
) -> Domain:
    """A domain from the study's rows and network, the first two contents, and the YAML file of its actions."""
    rows, network = contents[:2]
    people = read_people(rows, schema, scales)
    text = resources.files("turnabout.studies.domains").joinpath(f"{name}_actions.yaml").read_text(encoding="utf-8")
    model = read_model(network, schema, scales, yes, people)
    return Domain(name, schema, model, people, ActionSet.from_yaml(text), f"{CITATION} {about}", published)


def read_people(rows: bytes, schema: Schema, scales: Mapping[str, Standardization]) -> pd.DataFrame:
    """Standardised rows -> people; columns without a scale are one-hot levels, or stay as they are."""
    z = pd.read_csv(io.BytesIO(rows)).to_numpy(dtype=np.float64)[:, :-LABELS]
    assert z.shape[1] == schema.d, "the schema lists the study's columns in their order"
    columns: dict[str, object] = {}
    for feature, s in zip(schema, schema.slices, strict=True):
        if isinstance(feature, Category):
            columns[feature.name] = np.array(feature.levels, dtype=object)[z[:, s].argmax(1)]
        elif (scale := scales.get(feature.name)) is not None:
            value = np.round(scale.mean + scale.std * z[:, s.start], scale.decimals)
            columns[feature.name] = value if scale.decimals else value.astype(np.int64)
        else:
            columns[feature.name] = z[:, s.start]
    return pd.DataFrame(columns)


def read_model(
    network: bytes, schema: Schema, scales: Mapping[str, Standardization], yes: int, people: pd.DataFrame
) -> Model:
    """The study's network on encoded rows; `yes` is the logit of the decision people hope for.

    Rows are standardised in float64, and the network computes in float32, as it was published.
    """
    arrays = np.load(io.BytesIO(network), allow_pickle=False)
    layers: list[nn.Module] = [_standardize(schema, scales), _Single()]
    depth = len(arrays.files) // 2
    for i in range(depth):
        layers.append(_linear(arrays[f"kernel_{i}"].T, arrays[f"bias_{i}"], torch.float32))
        if i < depth - 1:
            layers.append(nn.ReLU())
    # the stored people are those whom it refuses, not those it was trained on: levels they lack are known to it
    return wrap(nn.Sequential(*layers), schema, target=yes, background=people, unseen_levels="allow")


def _standardize(schema: Schema, scales: Mapping[str, Standardization]) -> nn.Linear:
    """Encoded columns -> the study's inputs: value = low + x span, z = (value - mean) / std; levels pass through."""
    gain, shift = np.ones(schema.d), np.zeros(schema.d)
    for feature, s in zip(schema, schema.slices, strict=True):
        if isinstance(feature, Number):
            scale = scales.get(feature.name, Standardization(0.0, 1.0))
            gain[s.start] = feature.span / scale.std
            shift[s.start] = (feature.low - scale.mean) / scale.std
    return _linear(np.diag(gain), shift)


class _Single(nn.Module):
    """Rounds to float32."""

    def forward(self, x: Tensor) -> Tensor:
        return x.float()


def _linear(weight: np.ndarray, bias: np.ndarray, dtype: torch.dtype = torch.float64) -> nn.Linear:
    """A layer with these numbers; made without drawing random ones first."""
    layer = nn.utils.skip_init(nn.Linear, weight.shape[1], weight.shape[0], dtype=dtype)
    assert isinstance(layer, nn.Linear)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.array(weight)))
        layer.bias.copy_(torch.from_numpy(np.array(bias)))
    return layer
