"""The written-out passes of a stack are those of torch's own."""

import pytest
import torch

from turnabout.errors import MethodError
from turnabout.nn.mlp import StackedMlp


def stack(activation="relu", members=3, dtype=torch.float64):
    shift = torch.linspace(-1, 1, members * 4, dtype=dtype).reshape(members, 4)
    scale = torch.linspace(0.5, 2, members * 4, dtype=dtype).reshape(members, 4)
    return StackedMlp(4, (7, 5), range(members), activation, shift, scale, dtype=dtype)


def rows(seed=0, b=6, members=3):
    return torch.randn(members, b, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_exported_modules_give_the_stacks_logits(activation):
    net, x = stack(activation), rows()
    for m in range(3):
        assert torch.allclose(net.module(m)(x[m]).squeeze(1), net.margin(x)[m], atol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_slope_is_autograds(activation):
    net, x = stack(activation), rows(1)
    for m in range(3):
        own = x[m].clone().requires_grad_()
        (expected,) = torch.autograd.grad(net.module(m)(own).sum(), own)
        assert torch.allclose(net.gradient(x)[m], expected, atol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_backward_is_autograds(activation):
    net, x = stack(activation), rows(2)
    weight = torch.randn(3, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    masks = net.masks(6, 0.4, torch.Generator().manual_seed(4))
    free = net.parameters.clone().requires_grad_()
    views = net.cut(free)
    h = (x - net.shift) / net.scale
    for layer in range(3):
        h = h @ views[2 * layer] + views[2 * layer + 1]
        if layer < 2:
            h = (torch.relu(h) if activation == "relu" else torch.tanh(h)) * masks[layer]
    (expected,) = torch.autograd.grad((h.squeeze(-1) * weight).sum(), free)
    net.backward(net.forward(x, masks), weight)
    assert torch.allclose(net.gradients, expected, atol=1e-12)
    net.backward(net.forward(x, masks), weight, add=True)
    assert torch.allclose(net.gradients, 2 * expected, atol=1e-12)


def test_a_member_starts_the_same_in_any_stack():
    alone = StackedMlp(4, (7, 5), [2], dtype=torch.float64)
    together = StackedMlp(4, (7, 5), [0, 1, 2], dtype=torch.float64)
    for a, b in zip(alone.cut(alone.parameters), together.cut(together.parameters)):
        assert torch.equal(a[0], b[2])


def test_masks_keep_the_mean():
    masks = stack(members=1).masks(4000, 0.3, torch.Generator().manual_seed(0))
    assert [m.shape[-1] for m in masks] == [7, 5]
    assert all(abs(float(m.mean()) - 1) < 0.02 for m in masks)


def test_unknown_activation_is_refused():
    with pytest.raises(MethodError, match="activation='gelu' is not known"):
        StackedMlp(4, (3,), [0], "gelu")
