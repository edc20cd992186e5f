"""The network that says whether a drawing is the whole cat: its shape, its training, and where its weights are kept.

It learns from jittered copies, made afresh for every step: one half whole cats, a quarter cats that lack 1 to 9 of
their 94 lines, a quarter other drawings. No stored drawing is among them, so the paper's whole sample is held out.
"""

from __future__ import annotations

import hashlib
import io
import math
import zipfile
from dataclasses import astuple, dataclass

import numpy as np
import torch
from torch import nn

from turnabout.datasets.data_files import SourceFile, cache_folder, keep
from turnabout.studies.domains.drawing_lines import CATS, LINES, OTHERS, SIZE, Sketches
from turnabout.typing import Tensor

LACKING = 9  # lines that an incomplete cat lacks, at most
HELD_OUT = 5  # every fifth of the other drawings is left out of the training
DROPOUT = 0.1


class Recogniser(nn.Module):
    """Encoded drawings (n, 512) -> logits (n, 2) of "not the whole cat" and "the whole cat".

    Three convolutions over the lines (8 filters, 5 lines wide), then a dense layer of 1,024: the network of the paper
    with its 1,052,474 weights, but for the two outputs, which are plain logits here and were cut off at zero there
    (a network both of whose outputs have died at zero never learns). It reads the lines in the order they come in: a
    stroke that is added later stands behind all others, where no copy it learned from has one.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        bare = nn.utils.skip_init
        self.first = bare(nn.Conv1d, 4, 8, 5, padding="same")
        self.second = bare(nn.Conv1d, 8, 8, 5, padding="same")
        self.third = bare(nn.Conv1d, 8, 8, 5, padding="same")
        self.dense = bare(nn.Linear, 8 * LINES, 1024)
        self.logits = bare(nn.Linear, 1024, 2)
        generator = torch.Generator().manual_seed(seed)
        for name, weight in self.state_dict().items():
            if name.endswith("bias"):
                weight.zero_()
            else:  # uniform within sqrt(6 / (inputs + outputs)): Glorot's, as in the paper's software
                size = weight[0].numel() + weight.numel() // weight.shape[1]
                weight.copy_((2 * torch.rand(weight.shape, generator=generator) - 1) * math.sqrt(6 / size))

    def forward(self, x: Tensor, kept: Tensor | float = 1.0) -> Tensor:
        """`kept` (n, 1024) weighs the dense units: zero for those that dropout takes away."""
        h = x.reshape(-1, LINES, 4).transpose(1, 2)
        for layer in (self.first, self.second, self.third):
            h = torch.relu(layer(h))
        out: Tensor = self.logits(torch.relu(self.dense(h.flatten(1))) * kept)
        return out


@dataclass(frozen=True)
class Training:
    """Steps of Adam on batches of that many drawings, a multiple of four; the rate falls to zero along a cosine."""

    steps: int = 300
    batch: int = 100
    lr: float = 1e-3
    seed: int = 0

    @property
    def fingerprint(self) -> str:
        """Of the settings and the drawings. Its first number is the edition: raise it when `train` changes."""
        return hashlib.sha256(repr((2, astuple(self), CATS.sha256, OTHERS.sha256)).encode()).hexdigest()[:16]


def sample(n: int, cat: Sketches, others: Sketches, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Encoded drawings (n, 512), n a multiple of four, and whether each is the whole cat (n,)."""
    quarter = n // 4
    lacking = torch.randint(1, LACKING + 1, (quarter,), generator=generator)
    remove = torch.cat([lacking.new_zeros(2 * quarter), lacking])
    cats = cat.copies(torch.zeros_like(remove), remove, generator)
    which = torch.randint(len(others), (quarter,), generator=generator)
    rest = others.copies(which, torch.zeros_like(which), generator)
    x = torch.cat([cats, rest]).reshape(4 * quarter, -1).float() / SIZE
    return x, (torch.arange(4 * quarter) < 2 * quarter).long()


def train(cat: Sketches, others: Sketches, training: Training) -> Recogniser:
    """A recogniser of the cat among these other drawings; on one machine the same settings give the same weights."""
    net = Recogniser(training.seed)
    generator = torch.Generator().manual_seed(training.seed)
    weights = list(net.parameters())
    mean, square = [torch.zeros_like(w) for w in weights], [torch.zeros_like(w) for w in weights]
    for step in range(1, training.steps + 1):
        x, whole = sample(training.batch, cat, others, generator)
        kept = (torch.rand(len(x), 1024, generator=generator) >= DROPOUT) / (1 - DROPOUT)
        slopes = torch.autograd.grad(nn.functional.cross_entropy(net(x, kept), whole), weights)
        rate = training.lr * (1 + math.cos(math.pi * step / training.steps)) / 2
        with torch.no_grad():  # Adam, by hand: torch.optim takes seconds to import
            for w, slope, m, v in zip(weights, slopes, mean, square):
                m.lerp_(slope, 0.1)
                v.lerp_(slope * slope, 0.001)
                w.sub_(rate / (1 - 0.9**step) * m / ((v / (1 - 0.999**step)).sqrt() + 1e-8))
    return net.requires_grad_(False)


def recogniser(cats: bytes, drawings: bytes, training: Training) -> Recogniser:
    """The trained network: from the cache if it is there, else trained on these drawings (seconds) and kept."""
    place = SourceFile("quickdraw", f"recogniser-{training.fingerprint}.npz", "")
    net = Recogniser().requires_grad_(False)
    try:
        content = (cache_folder() / place.folder / place.file).read_bytes()
        stored = np.load(io.BytesIO(content), allow_pickle=False)
        net.load_state_dict({name: torch.from_numpy(stored[name]) for name in stored.files})
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile):  # not there, or not whole
        net = train(Sketches.cat(cats), Sketches.others(drawings).split(HELD_OUT)[0], training)
        file = io.BytesIO()
        np.savez(file, **{name: weight.numpy() for name, weight in net.state_dict().items()})
        keep(place, file.getvalue())
    return net
