"""The lime package gives the same numbers, where the definitions agree."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from turnabout.explain.lime.common import batched_fit
from turnabout.explain.lime.lime_image import LimeImage
from turnabout.explain.lime.lime_table import LimeTable
from turnabout.explain.lime.lime_text import LimeText
from turnabout.explain.lime.maskers import ImageMasker, MeanColor, TextMasker
from turnabout.explain.lime.superpixels import Rectangles

lime_tabular = pytest.importorskip("lime.lime_tabular")
lime_text = pytest.importorskip("lime.lime_text")
lime_image = pytest.importorskip("lime.lime_image")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 5)) @ (np.eye(5) + 0.3)


def probability(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-(x @ [1.0, -1.0, 0.5, 0.0, 0.3] + x[:, 0] * x[:, 1] / 2))))


def classes(p: np.ndarray) -> np.ndarray:
    return np.stack([1 - p, p], 1)


def slopes(explanation, m: int, label: int = 1) -> np.ndarray:
    found = dict(explanation.local_exp[label])
    return np.array([found.get(j, 0.0) for j in range(m)])


def refit(data: np.ndarray, values: np.ndarray, weights: np.ndarray, select: int | None = None) -> np.ndarray:
    """Our fit of their rows."""
    columns = torch.from_numpy(data.T.astype(np.float64)).unsqueeze(0)
    own = torch.from_numpy(data[:1].astype(np.float64))
    rows = [torch.from_numpy(np.asarray(v, dtype=np.float64)).unsqueeze(0) for v in (weights, values)]
    return batched_fit(columns, rows[0], rows[1], 1.0, select, own).slope[0].numpy()


@pytest.fixture
def caught(monkeypatch):
    """What lime passes to its fit: rows, values, weights."""
    from lime.lime_base import LimeBase

    seen = {}
    original = LimeBase.explain_instance_with_data

    def watch(self, data, labels, distances, label, *args, **kwargs):
        seen.update(data=np.array(data), values=labels[:, label], weights=self.kernel_fn(distances))
        return original(self, data, labels, distances, label, *args, **kwargs)

    monkeypatch.setattr(LimeBase, "explain_instance_with_data", watch)
    return seen


@pytest.mark.parametrize("discretize", [True, False])
@pytest.mark.parametrize(("select", "how"), [(None, "none"), (3, "forward_selection"), (3, "auto")])
def test_table_same_rows_same_slopes(caught, discretize, select, how):
    theirs = lime_tabular.LimeTabularExplainer(
        X, discretize_continuous=discretize, feature_selection=how, random_state=0
    )
    found = theirs.explain_instance(X[7], lambda x: classes(probability(x)), num_features=select or 5, num_samples=800)
    ours = refit(caught["data"], caught["values"], caught["weights"], select)
    assert ours == pytest.approx(slopes(found, 5), abs=1e-8)
    distance = np.linalg.norm(caught["data"] - caught["data"][0], axis=1)
    assert caught["weights"] == pytest.approx(np.exp(-(distance**2) / (2 * (0.75**2 * 5))), abs=1e-12)


def test_table_the_largest_weights_are_the_same(caught):
    wide = RNG.normal(size=(300, 9))
    theirs = lime_tabular.LimeTabularExplainer(wide, random_state=0)  # auto: largest weights beyond 6
    predict = lambda x: classes(probability(x[:, :5]) * 0.5 + probability(x[:, 4:]) * 0.5)  # noqa: E731
    found = theirs.explain_instance(wide[0], predict, num_features=7, num_samples=800)
    assert refit(caught["data"], caught["values"], caught["weights"], 7) == pytest.approx(slopes(found, 9), abs=1e-8)


@pytest.mark.parametrize(("discretize", "around"), [(True, "mean"), (False, "mean"), (False, "person")])
def test_table_own_draws_agree_within_errors(discretize, around):
    theirs = lime_tabular.LimeTabularExplainer(
        X,
        discretize_continuous=discretize,
        sample_around_instance=around == "person",
        feature_selection="none",
        random_state=1,
    )
    people = X[:8]
    score = lambda x: torch.from_numpy(probability(x.numpy()))  # noqa: E731
    ours = LimeTable(discretize=discretize, around=around).explain(score, people, background=X)
    assert ours.errors is not None
    z = []
    for person, mine, error in zip(people, ours.values.to_numpy(), ours.errors.to_numpy(), strict=True):
        found = theirs.explain_instance(person, lambda x: classes(probability(x)), num_samples=5000)
        z.append((slopes(found, 5) - mine) / (np.sqrt(2) * error))
    assert np.abs(z).max() < 4.5
    assert 0.6 < np.std(z) < 1.4


TEXT = "The staff was kind, the room was not clean and the food was not good at all."


def mood(texts: list[str]) -> np.ndarray:
    return np.array([("kind" in t) + ("good" in t) * (1 - 2 * ("not" in t)) + 0.1 * len(t) / 80 for t in texts])


def test_text_same_words_same_rows_same_slopes(caught):
    theirs = lime_text.LimeTextExplainer(feature_selection="none", random_state=0)
    found = theirs.explain_instance(TEXT, lambda t: classes(mood(t)), num_samples=600)
    masker = TextMasker.of(TEXT)
    words = found.domain_mapper.indexed_string
    assert [words.word(k) for k in range(words.num_words())] == list(masker.words)
    assert mood(masker(caught["data"])) == pytest.approx(caught["values"], abs=1e-12)
    assert refit(caught["data"], caught["values"], caught["weights"]) == pytest.approx(
        slopes(found, len(masker.words)), abs=1e-8
    )
    kept = caught["data"].mean(1)
    assert caught["weights"] == pytest.approx(np.exp(-((1 - np.sqrt(kept)) ** 2) / (2 * 0.25**2)), abs=1e-9)
    assert (kept == 0).any()  # where the cosine is 0 / 0, and 1 in both


def test_text_own_draws_agree_within_errors():
    theirs = lime_text.LimeTextExplainer(feature_selection="none", random_state=1)
    ours = LimeText().explain_text(mood, TEXT)
    assert ours.errors is not None
    found = slopes(theirs.explain_instance(TEXT, lambda t: classes(mood(t))), len(ours.names))
    z = (found - ours.values.iloc[0].to_numpy()) / (np.sqrt(2) * ours.errors.iloc[0].to_numpy())
    assert np.abs(z).max() < 4


def light(images: np.ndarray) -> np.ndarray:
    return np.asarray(images[:, :8].mean((1, 2, 3)) * images[:, 8:].mean((1, 2, 3)) * 2)


def test_image_same_segments_same_rows_same_slopes(caught):
    image = RNG.random((16, 16, 3))
    grid = Rectangles(4, 3)
    theirs = lime_image.LimeImageExplainer(feature_selection="none", random_state=0)
    found = theirs.explain_instance(
        image, lambda i: classes(light(i)), labels=(1,), top_labels=None, num_samples=400, segmentation_fn=grid
    )
    masker = ImageMasker.of(image, grid(image), MeanColor())
    assert light(masker(caught["data"].astype(float))) == pytest.approx(caught["values"], abs=1e-12)
    assert refit(caught["data"], caught["values"], caught["weights"]) == pytest.approx(slopes(found, 12), abs=1e-8)


def test_image_own_draws_agree_within_errors():
    image = RNG.random((16, 16, 3)) * np.linspace(0, 1, 16)[:, None, None]
    theirs = lime_image.LimeImageExplainer(feature_selection="none", random_state=1)
    found = theirs.explain_instance(
        image, lambda i: classes(light(i)), labels=(1,), top_labels=None, hide_color=0, segmentation_fn=Rectangles(4, 3)
    )
    from turnabout.explain.lime.maskers import ConstantColor

    ours = LimeImage(segmenter=Rectangles(4, 3), fill=ConstantColor(0.0)).explain_image(light, image)
    assert ours.errors is not None
    z = (slopes(found, 12) - ours.values.iloc[0].to_numpy()) / (np.sqrt(2) * ours.errors.iloc[0].to_numpy())
    assert np.abs(z).max() < 4
