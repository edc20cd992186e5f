"""Superpixels: labels without gaps, segments in one piece."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.ndimage import label

from turnabout.errors import ExplainError
from turnabout.explain.lime.superpixels import Felzenszwalb, Rectangles, Slic, connect

SEGMENTERS = [
    Slic(),
    Slic(count=6, compactness=1.0),
    Slic(count=1),
    Slic(count=10_000),
    Rectangles(),
    Rectangles(3, 5),
    Felzenszwalb(),
    Felzenszwalb(scale=10, sigma=0.0, smallest=1),
]


def in_one_piece(labels: np.ndarray) -> bool:
    """Whether labels run 0..m-1, and each is 4-connected."""
    count = np.bincount(labels.ravel())
    return bool(count.all()) and all(label(labels == k)[1] == 1 for k in range(len(count)))


@st.composite
def images(draw) -> np.ndarray:
    shape = draw(st.tuples(st.integers(1, 14), st.integers(1, 14), st.integers(1, 4)))
    if draw(st.booleans()):
        return draw(arrays(np.uint8, shape))
    return np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape)


@pytest.mark.parametrize("segmenter", SEGMENTERS, ids=repr)
@given(image=images())
def test_labels_have_no_gaps_and_segments_are_in_one_piece(segmenter, image):
    labels = segmenter(image)
    assert labels.shape == image.shape[:2]
    assert np.issubdtype(labels.dtype, np.integer)
    assert in_one_piece(labels)
    assert (segmenter(image) == labels).all()


@pytest.mark.parametrize("segmenter", [Slic(count=8), Felzenszwalb(smallest=5)], ids=repr)
def test_segments_follow_colors(segmenter):
    image = np.zeros((40, 40, 3))
    image[:, 17:] = 1.0  # not where a grid would cut
    image += np.random.default_rng(0).normal(scale=0.02, size=image.shape)
    labels = segmenter(image)
    assert not set(labels[:, :17].ravel()) & set(labels[:, 17:].ravel())


def test_units_of_color_do_not_matter():
    image = np.random.default_rng(1).integers(0, 256, (30, 30, 3)).astype(np.uint8)
    for segmenter in (Slic(), Felzenszwalb(smallest=3)):
        assert (segmenter(image) == segmenter(image.astype(np.float64) / 255 - 0.5)).mean() > 0.99


def test_slic_makes_about_as_many_as_asked():
    ramp = np.stack(np.meshgrid(np.linspace(0, 1, 90), np.linspace(0, 1, 60)), 2)
    assert 30 <= Slic(count=50)(ramp).max() + 1 <= 75


def test_small_pieces_join_the_neighbor_of_nearest_color():
    colors = np.zeros((5, 6, 1))
    colors[:, 3:] = 1.0
    colors[2, 2] = 0.9
    labels = (colors[..., 0] > 0.5).astype(int) * 2
    labels[2, 2] = 7
    joined = connect(labels, colors, 2)
    assert joined[2, 2] == joined[2, 3] != joined[2, 1]
    assert joined.max() == 1
    assert connect(labels, colors, 1).max() == 2


def test_parts_of_one_label_become_two_segments():
    labels = np.array([[1, 1, 0, 0, 1, 1]] * 2)
    assert connect(labels, np.zeros((2, 6, 1)), 1).tolist() == [[0, 0, 1, 1, 2, 2]] * 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Slic()(np.zeros((4, 4))), "no image of shape (h, w, c): (4, 4)"),
        (lambda: Rectangles()(np.zeros((0, 4, 3))), "(0, 4, 3)"),
        (lambda: Felzenszwalb()(np.full((4, 4, 1), np.nan)), "finite numbers"),
        (lambda: Slic()([[1]]), "list"),
        (lambda: Slic(count=0)(np.zeros((4, 4, 1))), "count=0"),
        (lambda: Slic(compactness=float("nan"))(np.zeros((4, 4, 1))), "compactness=nan"),
        (lambda: Slic(iterations=1.5)(np.zeros((4, 4, 1))), "iterations=1.5"),
        (lambda: Rectangles(rows=-1)(np.zeros((4, 4, 1))), "rows=-1"),
        (lambda: Felzenszwalb(scale=0)(np.zeros((4, 4, 1))), "scale=0"),
        (lambda: Felzenszwalb(sigma=-1)(np.zeros((4, 4, 1))), "sigma=-1"),
        (lambda: Felzenszwalb(smallest=0)(np.zeros((4, 4, 1))), "smallest=0"),
    ],
)
def test_errors_say_what_is_wrong(call, words):
    with pytest.raises(ExplainError) as error:
        call()
    assert words in str(error.value)
