"""torch: a module as a chain of linear layers and ReLUs, and the precision it computes in."""

from __future__ import annotations

import copy
import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from turnabout.models.forms import Layers
from turnabout.models.libraries.library import Library
from turnabout.typing import Tensor

_SHAPE_ONLY = {"squeeze", "flatten", "view", "reshape", "contiguous", "unsqueeze", "getitem", "float", "double"}
_SILENT = (nn.Dropout, nn.AlphaDropout, nn.Identity, nn.Flatten)
_SQUASH = {"sigmoid": "Sigmoid", "softmax": "Softmax", "log_softmax": "LogSoftmax"}


@dataclass(frozen=True)
class Walk:
    """What a module does: its layers if it is a ReLU net, and the activation at its end ("" for none)."""

    layers: Layers | None
    tail: str


def walk(module: nn.Module) -> Walk | None:
    """Follow a module's operations from input to output; None if torch cannot trace it or the path forks."""
    import torch.fx

    if isinstance(module, nn.Linear):  # alone it would be traced into its own pieces
        module = nn.Sequential(module)
    try:
        graph = torch.fx.symbolic_trace(module).graph
    except Exception:  # control flow that depends on values, and the like: torch raises what it likes
        return None
    nodes = list(graph.nodes)
    steps: list[Tensor | tuple[Tensor, Tensor] | str] = []
    previous, tail, known = nodes[0], "", True
    chain = nodes[0].op == "placeholder"
    for node in nodes[1:]:
        if node.op == "output":
            break
        chain &= node.op in ("call_module", "call_function", "call_method") and node.all_input_nodes == [previous]
        name, step = _read(module, node)
        if name in _SQUASH.values():
            known &= not tail
            tail = name
        elif name == "shape":
            pass
        else:
            if tail:  # a squash in the middle is no tail
                known, tail = False, ""
            if step is None and name != "silent":
                known = False
            elif step is not None:
                steps.append(step)
        previous = node
    layers = _join(steps) if known and chain else None
    return Walk(layers, tail)


def _read(module: nn.Module, node: Any) -> tuple[str, Any]:
    """Kind of an operation, and the layer or "relu" it stands for."""
    if node.op == "call_module":
        part = module.get_submodule(node.target)
        if isinstance(part, nn.Linear):
            bias = part.bias if part.bias is not None else torch.zeros(part.out_features)
            return "linear", (part.weight.detach().double().cpu(), bias.detach().double().cpu())
        if isinstance(part, nn.BatchNorm1d) and part.running_mean is not None and part.running_var is not None:
            scale = (part.running_var.double() + part.eps).rsqrt().cpu()
            shift = -part.running_mean.double().cpu() * scale
            if part.affine:
                gain = part.weight.detach().double().cpu()
                scale, shift = scale * gain, shift * gain + part.bias.detach().double().cpu()
            return "linear", (torch.diag(scale), shift)
        if isinstance(part, nn.ReLU):
            return "relu", "relu"
        if isinstance(part, _SILENT):
            return "silent", None
        for squash in (nn.Sigmoid, nn.Softmax, nn.LogSoftmax):
            if isinstance(part, squash):
                return squash.__name__, None
        return "other", None
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if node.target is operator.getitem:
        name = "getitem"
    name = name.rstrip("_")
    if name == "relu":
        return "relu", "relu"
    if name == "dropout":
        return "silent", None
    return _SQUASH.get(name) or ("shape" if name in _SHAPE_ONLY else "other"), None


def _join(steps: list[Any]) -> Layers | None:
    """Layers with exactly one ReLU between each two."""
    layers: list[tuple[Tensor, Tensor]] = []
    open_layer = False  # whether the last layer still lacks its ReLU
    for step in steps:
        if step == "relu" if isinstance(step, str) else False:
            if not layers:
                return None
            open_layer = False
        elif open_layer:
            weight, bias = layers[-1]
            layers[-1] = step[0] @ weight, step[0] @ bias + step[1]
        else:
            layers.append(step)
            open_layer = True
    if not layers:
        return None
    if not open_layer:  # the net ends in a ReLU
        width = layers[-1][0].shape[0]
        layers.append((torch.eye(width, dtype=torch.float64), torch.zeros(width, dtype=torch.float64)))
    return tuple(layers)


def leaves(module: nn.Module) -> list[nn.Module]:
    """The submodules that hold no others, in their order."""
    return [part for part in module.modules() if _is_leaf(part)]


def _is_leaf(module: nn.Module) -> bool:
    return not any(True for _ in module.children())


def without_tail(module: nn.Module) -> nn.Module | None:
    """A copy whose last submodule, if it squashes, is taken out."""
    names = [name for name, part in module.named_modules() if name and _is_leaf(part)]
    if not names or not isinstance(module.get_submodule(names[-1]), (nn.Sigmoid, nn.Softmax)):
        return None
    bare = copy.deepcopy(module)
    parent, _, last = names[-1].rpartition(".")
    setattr(bare.get_submodule(parent), last, nn.Identity())
    return bare


def dtypes(module: nn.Module) -> list[torch.dtype]:
    """Precisions of the module's parameters, in their order; float64 for a module without any."""
    tensors = (*module.parameters(), *module.buffers())
    return [tensor.dtype for tensor in tensors if tensor.is_floating_point()] or [torch.float64]


def own_dtype(module: nn.Module) -> torch.dtype:
    """Precision in which the module takes rows: that of its first parameters."""
    return dtypes(module)[0]


def module_noise(module: nn.Module) -> float:
    """Rounding errors of a module of several layers: those of its coarsest parameters."""
    return max(map(rounding, dtypes(module)))


def rounding(dtype: torch.dtype) -> float:
    """Noise of margins computed in a precision: 1e-6 in float32, 8e-3 in float16."""
    return {torch.float64: 1e-12, torch.float32: 1e-6}.get(dtype, 8 * torch.finfo(dtype).eps)


class Torch(Library):
    """What comes from torch itself."""

    name = "torch"
    single_precision = True
    runs_own_code = True


class Skorch(Torch):
    """Estimators around torch modules."""

    name = "skorch"
