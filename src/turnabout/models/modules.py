"""Torch modules on encoded rows."""

from __future__ import annotations

import copy
from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch import nn

from turnabout.errors import ModelError
from turnabout.models.agreement import Agreement, compare, sample
from turnabout.models.batch_noise import note_gap, note_noise
from turnabout.models.column_types import call_failed
from turnabout.models.decision import ByProbability, ClassDecision, Decision, InRange, settle
from turnabout.models.forms import Layers, SmoothModel, layered_model
from turnabout.models.libraries.torch import Walk, leaves, module_noise, own_dtype, rounding, walk, without_tail
from turnabout.models.model import Model, Scale
from turnabout.models.probe import random_rows
from turnabout.schema import Schema
from turnabout.typing import Tensor

Output = Literal["logit", "probability"]
_SLACK = 1e-5  # rounding by which a float32 probability may leave [0, 1]


class ModuleJudge:
    """Margins of raw rows: encode, one forward pass in the module's own precision, compare with the cut-off."""

    def __init__(self, module: nn.Module, schema: Schema, decision: Decision, output: Output | None, title: str):
        self.module = module
        self.schema = schema
        self.decision = decision
        self.output = output
        self.title = title
        self.noise = module_noise(module)
        self.alone = False
        self.in_single = own_dtype(module) == torch.float32
        self.encoded = True
        self.like = None
        self.columns = schema.names

    @property
    def scale(self) -> Scale:
        return self.decision.scale

    @property
    def cut(self) -> float | None:
        return self.decision.cut

    @property
    def rule(self) -> str:
        decision = self.decision
        if isinstance(decision, ByProbability) and decision.threshold is None:
            return f"class {decision.labels[decision.yes]} wins"
        return decision.rule

    def __call__(self, table: pd.DataFrame) -> np.ndarray:
        if len(table) == 0:
            return np.empty(0)
        out = ask_module(self.module, self.schema.encode(table))
        decision = self.decision
        if self.output is None:
            return decision.margins(_numpy(out))
        if self.output == "probability":
            check_probabilities(out, table.index)
            p = torch.cat([1 - out, out], 1) if out.shape[1] == 1 else out
            return decision.margins(_numpy(p))
        margin = decision.from_scores(out.double()).cpu().numpy()
        if not isinstance(decision, ByProbability) or decision.threshold is None:
            return margin
        one = out.shape[1] == 1
        p = torch.sigmoid(out if decision.yes else -out)[:, 0] if one else out.softmax(1)[:, decision.yes]
        return settle(margin, (p >= decision.threshold).cpu().numpy())


class ModuleScores(nn.Module):
    """Scores of a module in float64: its logits, or the logits of its probabilities."""

    def __init__(self, module: nn.Module, output: Output | None):
        super().__init__()
        self.module = module
        self.output = output
        self.own_dtype = own_dtype(module)

    def forward(self, x: Tensor) -> Tensor:
        out = self.module(x.reshape(-1, x.shape[-1]).to(self.own_dtype))
        out = out.double().reshape(*x.shape[:-1], out.shape[1:].numel())
        if self.output != "probability":
            return out
        tiny = torch.finfo(self.own_dtype).eps / 2
        return torch.logit(out, tiny) if out.shape[-1] == 1 else out.clamp(min=tiny).log()


def wrap_module(
    module: nn.Module,
    schema: Schema,
    threshold: float | None,
    target: object,
    target_range: object,
    background: pd.DataFrame | None,
    output: Output | None,
) -> Model:
    """A module on encoded rows (n, d): one logit, several logits, probabilities, or an amount.

    A frozen copy in evaluation mode is kept; training the module further does not change the wrapped model.
    """
    if output not in (None, "logit", "probability"):
        raise ModelError(f"output={output!r} is not known.", hint="use 'logit' or 'probability', or None to find out.")
    title = type(module).__name__
    module = _frozen(module)
    walked = walk(module)
    out = ask_module(module, random_rows(schema))
    if target_range is not None:
        if threshold is not None or target is not None:
            raise ModelError("threshold, target and target_range exclude each other.", hint="give one of them.")
        if out.shape[1] != 1:
            raise ModelError(f"{title} predicts {out.shape[1]} amounts per row.", hint="one amount per row is needed.")
        decision: Decision = InRange.of(target_range)
        kind: Output | None = None
    else:
        kind = output or _find_output(module, walked, out, title)
        decision = _decide(out.shape[1], threshold, target, title)
    judge = ModuleJudge(module, schema, decision, kind, title)
    judge.noise = max(judge.noise, rounding(out.dtype))
    pairs = sample(schema, background, judge)
    tolerance = 1e-6 if judge.noise < 1e-9 else max(1e-4, judge.noise)
    noted = note_noise(judge, pairs[0][1] if pairs else None, labels_only=False)
    reasons = []
    for model in _forms(schema, judge, walked):
        try:
            found = compare(model, pairs, tolerance)
        except Exception as error:  # a module that insists on its own precision
            found = Agreement(f"in float64 it raised {type(error).__name__}")
        if found.reason is None:
            note_gap(judge, found.gap)
            model.notes += (noted,) if noted else ()
            return model
        reasons.append(found.reason)
    return Model(schema, judge, (f"not compiled: {reasons[-1]}.", *([noted] if noted else [])))


def ask_module(module: nn.Module, x: Tensor) -> Tensor:
    """Encoded rows (n, d) -> outputs (n, width), in the module's precision."""
    weight = next(module.parameters(), next(module.buffers(), torch.zeros(())))
    with torch.no_grad():
        try:
            out = module(x.to(weight.device, own_dtype(module)))
        except Exception as error:
            raise ModelError(
                f"{type(module).__name__} raised {type(error).__name__} on rows of shape {tuple(x.shape)}: {error}",
                hint=f"the module must take float tensors (n, {x.shape[1]}) as schema.encode makes them.",
            ) from error
    shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
    if not isinstance(out, Tensor) or out.ndim not in (1, 2) or out.shape[0] != len(x) or out.numel() == 0:
        raise ModelError(
            f"{type(module).__name__} returned {shape} for {len(x)} rows; expected ({len(x)},), ({len(x)}, 1) or "
            f"({len(x)}, C).",
            hint="let the module return one logit per row, or one per class.",
        )
    return out.reshape(len(x), -1)


def check_probabilities(out: Tensor, index: pd.Index) -> None:
    """Refuse outputs outside [0, 1], naming the first."""
    outside = ((out < -_SLACK) | (out > 1 + _SLACK)).any(1)
    if outside.any():
        i = int(outside.int().argmax())
        raise ModelError(
            f"the module returned {out[i].tolist()} for row {index[i]!r}, which is no probability in [0, 1].",
            hint="pass output='logit' if it returns logits.",
        )


def _forms(schema: Schema, judge: ModuleJudge, walked: Walk | None) -> list[Model]:
    """Candidate compiled forms, the most capable first."""
    decision, kind = judge.decision, judge.output
    out: list[Model] = []
    if walked is not None and walked.layers is not None and walked.tail in _TAILS[kind]:
        layers: Layers = walked.layers
        what = "a linear model" if len(layers) == 1 else f"a ReLU net of {len(layers)} layers"
        note = f"compiled: {judge.title}, {what} on {schema.d} encoded columns."
        out.append(layered_model(schema, judge, (note,), layers, decision))
    note = f"compiled: {judge.title}, run by torch"
    bare = without_tail(judge.module) if kind == "probability" else None
    for double in (True, False):
        if bare is not None:
            scores = ModuleScores(_cast(bare, double), "logit")
            out.append(SmoothModel(schema, judge, (f"{note} without its last activation.",), scores, decision))
        scores = ModuleScores(_cast(judge.module, double), kind)
        out.append(SmoothModel(schema, judge, (f"{note}.",), scores, decision))
    return out


_TAILS: dict[Output | None, tuple[str, ...]] = {
    "logit": ("", "LogSoftmax"),
    "probability": ("Sigmoid", "Softmax"),
    None: ("",),
}


def _find_output(module: nn.Module, walked: Walk | None, out: Tensor, title: str) -> Output:
    """Logits or probabilities: by the last activation, or refuse to guess."""
    tail = walked.tail if walked is not None else type(leaves(module)[-1]).__name__
    if tail in ("Sigmoid", "Softmax"):
        return "probability"
    if walked is None and bool(((out >= 0) & (out <= 1)).all()):
        raise ModelError(
            f"all outputs of {title} lie in [0, 1], and whether they are probabilities or logits cannot be seen.",
            hint="pass output='probability' or output='logit'.",
        )
    return "logit"


def _decide(width: int, threshold: float | None, target: object, title: str) -> ClassDecision:
    classes = max(width, 2)
    if target is None and width > 2:
        raise ModelError(
            f"{title} has {width} outputs, and which of them is a yes is not said.",
            hint=f"pass target=, the index of the class that is a yes: 0 to {width - 1}.",
        )
    yes = 1 if target is None else target
    if isinstance(yes, bool) or not isinstance(yes, (int, np.integer)) or not 0 <= yes < classes:
        raise ModelError(
            f"target={target!r} is not an output of {title}.", hint=f"give the index of a class: 0 to {classes - 1}."
        )
    return ByProbability("log-odds", tuple(range(classes)), int(yes), threshold)


def _frozen(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module).eval().requires_grad_(False)
    except Exception as error:
        raise call_failed(error, 0) from error


def _cast(module: nn.Module, double: bool) -> nn.Module:
    """A copy on the CPU, where compiled forms begin."""
    module = copy.deepcopy(module).cpu()
    return module.double() if double else module


def _numpy(out: Tensor) -> np.ndarray:
    out = out.detach().cpu()
    return (out if out.dtype in (torch.float32, torch.float64) else out.float()).numpy()
