"""The same numbers as captum, where both mean the same thing."""

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.explain.score import Score
from turnabout.explain.slopes.gradients import Gradient, GradientTimesInput, IntegratedGradients
from turnabout.explain.slopes.smooth import SmoothGrad

attr = pytest.importorskip("captum.attr")

SCHEMA = ta.Schema(
    (ta.Number("a", 0, 1), ta.Number("b", 0, 1), ta.Category("home", levels=("own", "rent")), ta.Number("c", 0, 1))
)


@pytest.fixture(scope="module")
def net():
    generator = torch.Generator().manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    return module


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame(rng.random((6, 3)), columns=["a", "b", "c"])
    return numbers.assign(home=rng.choice(["own", "rent"], 6))


def by_feature(columns):
    return np.column_stack([columns.detach().numpy()[:, s].sum(1) for s in SCHEMA.slices])


def test_gradient_is_saliency_with_its_sign(net, table):
    theirs = attr.Saliency(net).attribute(SCHEMA.encode(table).requires_grad_(), target=0, abs=False)
    ours = Gradient().explain(ta.models.wrap(net, SCHEMA, threshold=0.3), table)  # a cut-off moves no slope
    np.testing.assert_allclose(ours.values, theirs.detach(), atol=1e-12)


def test_gradient_times_input_is_theirs_by_feature(net, table):
    theirs = attr.InputXGradient(net).attribute(SCHEMA.encode(table).requires_grad_(), target=0)
    ours = GradientTimesInput().explain(ta.models.wrap(net, SCHEMA), table)
    np.testing.assert_allclose(ours.values, by_feature(theirs), atol=1e-12)


@pytest.mark.parametrize("nodes", [3, 50])
def test_integrated_gradients_are_theirs_by_feature(net, table, nodes):
    start = SCHEMA.encode(table).mean(0)
    theirs = attr.IntegratedGradients(net).attribute(
        SCHEMA.encode(table), start.unsqueeze(0), target=0, n_steps=nodes, method="gausslegendre"
    )
    ours = IntegratedGradients(nodes=nodes).explain(ta.models.wrap(net, SCHEMA), table, background=table)
    np.testing.assert_allclose(ours.values, by_feature(theirs), atol=1e-12)
    given = IntegratedGradients(start.tolist(), nodes).explain(ta.models.wrap(net, SCHEMA), table)
    np.testing.assert_allclose(given.values, ours.values, atol=1e-14)


def test_smoothgrad_is_theirs_within_errors(net, table):
    x = SCHEMA.encode(table)
    ours = SmoothGrad(0.2, 4000).explain(ta.models.wrap(net, SCHEMA), table)
    tunnel = attr.NoiseTunnel(attr.Saliency(net))
    torch.manual_seed(1)  # captum draws from the global generator
    theirs = tunnel.attribute(x, nt_type="smoothgrad", nt_samples=4000, stdevs=0.2, target=0, abs=False)
    # their draws are not mirrored: at least as noisy as single draws of ours, taken from one more sample of gradients
    noise = torch.as_tensor(np.random.default_rng(2).normal(size=(4000, 5)) * 0.2)
    gradients = Score.of(ta.models.wrap(net, SCHEMA)).gradients(x.unsqueeze(1) + noise)
    joint = np.hypot(ours.errors, gradients.std(1) / 4000**0.5)
    assert (np.abs(ours.values - theirs.detach().numpy()) < 4.5 * joint).to_numpy().all()
