"""Records of tensors: rows are taken, written back and put one after the other in all fields alike."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.tensor_rows import TensorRows


@dataclass(frozen=True)
class Pair(TensorRows):
    a: torch.Tensor
    b: torch.Tensor


def pair() -> Pair:
    return Pair(torch.arange(3), torch.arange(6.0).reshape(3, 2))


def test_taken_rows_are_a_copy():
    whole = pair()
    part = whole.take(torch.tensor([2, 0]))
    part.a[0] = 9
    assert part.b.tolist() == [[4.0, 5.0], [0.0, 1.0]]
    assert whole.a.tolist() == [0, 1, 2]
    assert whole.take(whole.a > 0).a.tolist() == [1, 2]


def test_what_is_put_back_is_written_over():
    whole = pair()
    whole.put(torch.tensor([1]), whole.take(torch.tensor([2])))
    assert whole.a.tolist() == [0, 2, 2] and whole.b[1].tolist() == [4.0, 5.0]


def test_parts_are_joined_along_any_dimension():
    assert Pair.join([pair(), pair()]).b.shape == (6, 2)
    wide = Pair.join([Pair(pair().b, pair().b), Pair(pair().b, pair().b)], dim=1)
    assert wide.a.shape == (3, 4)
