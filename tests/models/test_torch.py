"""Torch modules on encoded rows."""

from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from turnabout import models
from turnabout.errors import ModelError
from turnabout.models import Differentiable, LinearMargin, ReluNet, wrap

D = 9  # encoded columns of the shared schema


def net(*tail: nn.Module, out: int = 1, middle: nn.Module | None = None) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(D, 6), middle or nn.ReLU(), nn.Linear(6, out), *tail)


class Written(nn.Module):
    """A net in the usual handwriting, with functions instead of modules."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.first, self.last = nn.Linear(D, 5), nn.Linear(5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.last(nn.functional.relu(self.first(x)))).squeeze(-1)


class Opaque(Written):
    """Not to be traced, since its path depends on values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) if x.sum() < 1e9 else x[:, 0]


class Forked(Written):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        return self.last(torch.relu(h) + torch.tanh(h))


RELU_NETS = {
    "logit": net(),
    "flat logit": net(nn.Flatten(0)),
    "dropout": net(middle=nn.Sequential(nn.Dropout(0.5), nn.ReLU(), nn.Identity())),
    "batch norm": net(middle=nn.Sequential(nn.BatchNorm1d(6), nn.ReLU())),
    "sigmoid": net(nn.Sigmoid()),
    "two logits": net(out=2),
    "two probabilities": net(nn.Softmax(-1), out=2),
    "log probabilities": net(nn.LogSoftmax(-1), out=2),
    "float64": net().double(),
    "ends in relu": net(nn.ReLU()),
    "written": Written(),
}


@pytest.mark.parametrize("module", RELU_NETS.values(), ids=RELU_NETS)
@pytest.mark.parametrize(("threshold", "target"), [(None, None), (0.6, None), (None, 0), (0.45, 0)])
def test_relu_nets_are_found(module, threshold, target, people, schema):
    model = wrap(module, schema, threshold, target=target, background=people)
    assert isinstance(model, ReluNet), model.notes
    assert isinstance(model, Differentiable)
    x = schema.encode(people)
    assert np.abs(model.margin(x).numpy() - model.judge(people)).max() < 1e-5
    assert model.margin(x).dtype == torch.float64
    p = probability(module, x)
    p = 1 - p if target == 0 else p
    clear = np.abs(p - (threshold or 0.5)) > 1e-6
    assert np.array_equal((model.judge(people) >= 0)[clear], (p >= (threshold or 0.5))[clear])
    assert torch.equal(pickle.loads(pickle.dumps(model)).margin(x), model.margin(x))


def probability(module: nn.Module, x: torch.Tensor) -> np.ndarray:
    """P(class 1), worked out by hand."""
    module.eval()
    with torch.no_grad():
        out = module(x.to(next(module.parameters()).dtype)).double()
    module.train()
    ends_in = str(list(module.modules())[-1])
    if out.ndim == 2 and out.shape[1] == 2:
        return (out if "Softmax" in ends_in and "Log" not in ends_in else out.softmax(1))[:, 1].numpy()
    out = out.reshape(-1)
    return (out if "Sigmoid" in ends_in or isinstance(module, Written) else out.sigmoid()).numpy()


def test_one_layer_is_linear(people, schema):
    model = wrap(nn.Sequential(nn.Linear(D, 1)), schema)
    assert isinstance(model, LinearMargin)
    assert np.abs(model.margin(schema.encode(people)).numpy() - model.judge(people)).max() < 1e-5


@pytest.mark.parametrize(
    ("module", "options"),
    [
        (net(middle=nn.Tanh()), {}),
        (net(nn.Sigmoid(), middle=nn.Tanh()), {"threshold": 0.6}),
        (Forked(), {}),
        (Opaque(), {"output": "probability"}),
        (net(out=3), {"target": 2}),
        (net(nn.Softmax(-1), out=3), {"target": 0, "threshold": 0.3}),
        (net(), {"target_range": (-0.1, 0.1)}),
    ],
    ids=["tanh", "tanh sigmoid", "forked", "opaque", "three classes", "three with cut-off", "range"],
)
def test_other_modules_are_differentiable(module, options, people, schema):
    model = wrap(module, schema, background=people, **options)
    assert model.compiled, model.notes
    assert isinstance(model, Differentiable)
    assert not isinstance(model, (LinearMargin, ReluNet))
    x = schema.encode(people).requires_grad_()
    margin = model.margin(x)
    assert np.abs(margin.detach().numpy() - model.judge(people)).max() < 1e-5
    margin.sum().backward()
    assert torch.equal(x.grad, model.gradient(x))
    assert model.margin(x[:4].reshape(2, 2, D)).shape == (2, 2)


def test_amounts(people, schema):
    model = wrap(net(), schema, target_range=(0.1, None))
    assert isinstance(model, ReluNet)
    assert model.scale == "target"
    with pytest.raises(ModelError, match="predicts 3 amounts"):
        wrap(net(out=3), schema, target_range=(0, 1))


def test_the_module_itself_is_left_alone(people, schema):
    module = net(middle=nn.Sequential(nn.ReLU(), nn.Dropout(0.9))).train()
    model = wrap(module, schema)
    before = model.judge(people)
    assert module.training
    assert all(p.requires_grad for p in module.parameters())
    with torch.no_grad():
        module[0].weight.zero_()
    assert np.array_equal(model.judge(people), before)
    assert model.noise == 1e-6


def test_what_cannot_be_seen_is_not_guessed(schema):
    with pytest.raises(ModelError, match="output='probability' or output='logit'"):
        wrap(Opaque(), schema)
    with pytest.raises(ModelError, match="output='odds' is not known"):
        wrap(net(), schema, output="odds")


class Wrong(nn.Module):
    def __init__(self, answer: str):
        super().__init__()
        self.answer = answer

    def forward(self, x: torch.Tensor) -> object:
        return {"many": x.unsqueeze(0), "few": x[:-1, 0], "tuple": (x,), "wild": 3 * x[:, 0]}[self.answer]


def test_misbehaving_modules(people, schema):
    for answer in ("many", "few", "tuple"):
        with pytest.raises(ModelError, match="returned"):
            wrap(Wrong(answer), schema)
    with pytest.raises(ModelError, match="raised RuntimeError on rows of shape"):
        wrap(nn.Linear(D + 1, 1), schema)
    with pytest.raises(ModelError, match=r"no probability in \[0, 1\]"):
        wrap(Wrong("wild"), schema, output="probability").judge(people)
    with pytest.raises(ModelError, match="3 outputs, and which of them is a yes"):
        wrap(net(out=3), schema)
    with pytest.raises(ModelError, match="target=7 is not an output"):
        wrap(net(out=3), schema, target=7)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu(people, schema):
    x = schema.encode(people)
    for module in (net(), net(middle=nn.Tanh()), net().cuda(), net(nn.Sigmoid(), middle=nn.Tanh()).cuda()):
        model = wrap(module, schema)
        assert model.compiled
        assert np.abs(model.judge(people) - model.margin(x).numpy()).max() < 1e-4
        there = model.to("cuda")
        assert torch.allclose(there.margin(x.cuda()).cpu(), model.margin(x))
        assert there.gradient(x.cuda()).is_cuda


def test_needs_no_sklearn(monkeypatch, people, schema):
    for source in Path(models.__file__).parent.glob("*.py"):
        assert not re.search(r"^(import|from) (sklearn|xgboost|lightgbm|catboost)", source.read_text(), re.MULTILINE)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert wrap(net(), schema).compiled
    assert np.isfinite(wrap(lambda table: table["age"] / 100, schema).judge(people)).all()


def test_nobody_asked_nothing_answered(schema):
    module = nn.Sequential(nn.Linear(schema.d, 3), nn.Tanh(), nn.Linear(3, 1))
    assert wrap(module, schema).margin(torch.zeros(0, schema.d)).shape == (0,)
