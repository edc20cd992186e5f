"""Adam on plain tensors."""

from __future__ import annotations

import torch

from turnabout.typing import Tensor


class Adam:
    """Adam on a plain tensor, every row on its own (Kingma and Ba, 2015).

    Written out because `torch.optim` loads the whole compiler at its first use: seconds for a person who waits.
    """

    def __init__(self, lr: float, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8):
        self.lr = lr
        self.beta1 = beta1
        self.beta2 = beta2
        self.eps = eps
        self.t = 0
        self.m: Tensor | None = None
        self.v: Tensor | None = None

    def step(self, x: Tensor, gradient: Tensor) -> Tensor:
        """The next point; same shape as x."""
        self.m = gradient * (1 - self.beta1) if self.m is None else torch.lerp(gradient, self.m, self.beta1)
        square = gradient * gradient
        self.v = square * (1 - self.beta2) if self.v is None else torch.lerp(square, self.v, self.beta2)
        self.t += 1
        m_hat = self.m / (1 - self.beta1**self.t)
        v_hat = self.v / (1 - self.beta2**self.t)
        return x - self.lr * m_hat / (v_hat.sqrt() + self.eps)
