"""LIME on texts and images, selection, stability, and the batched fit."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.core import Attribution, ConceptSpans, Pixels
from turnabout.errors import ExplainError
from turnabout.explain.engine import Affine, Design
from turnabout.explain.lime.common import batched_fit, stability
from turnabout.explain.lime.lime_image import LimeImage, top_segments
from turnabout.explain.lime.lime_text import LimeText
from turnabout.explain.lime.maskers import Blur, ConstantColor, ImageMasker, Infill, MeanColor, TextMasker
from turnabout.explain.lime.superpixels import Rectangles
from turnabout.studies.lime_limits import lime_exact

TEXT = "A good film, not a bad film: good."
WORDS = ["A", "good", "film", "not", "a", "bad"]
WEIGHTS = {"good": 1.0, "bad": -2.0, "not": 0.5}


def linear(texts: list[str]) -> np.ndarray:
    """Linear in which words are there."""
    return np.array([sum(w for word, w in WEIGHTS.items() if word in text.split()) for text in _plain(texts)])


def crossed(texts: list[str]) -> np.ndarray:
    """Not linear: "not" turns "bad" around."""
    return np.array([("good" in t) - 2.0 * ("bad" in t) * (1 - 2 * ("not" in t)) for t in _plain(texts)])


def _plain(texts: list[str]) -> list[str]:
    return [text.replace(",", " ").replace(":", " ").replace(".", " ") for text in texts]


def photo(h: int = 12, w: int = 12, c: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((h, w, c))


def brightness(images: np.ndarray) -> np.ndarray:
    return images[:, :6, :6].mean((1, 2, 3)) * images[:, 6:, 6:].mean((1, 2, 3))


# -- texts ----------------------------------------------------------------------------------------------------


def test_words_of_a_text_in_order_and_where_they_stand():
    masker = TextMasker.of(TEXT)
    assert list(masker.words) == WORDS
    assert [TEXT[a:b] for a, b, k in masker.layout.spans if masker.words[k] == "good"] == ["good", "good"]
    masks = np.ones((3, 6))
    masks[1, 1] = 0
    masks[2] = 0
    assert masker(masks) == [TEXT, "A  film, not a bad film: .", "  ,    : ."]
    assert TextMasker.of(TEXT, "[MASK]")(masks[1:2]) == ["A [MASK] film, not a bad film: [MASK]."]


@pytest.mark.parametrize("lime", [LimeText(exact=True), LimeText(samples=200, ridge=0.0)], ids=["exact", "sampled"])
def test_text_linear_functions_keep_their_coefficients(lime):  # check 1
    found = lime.explain_text(linear, TEXT)
    expected = [WEIGHTS.get(word, 0.0) for word in WORDS]
    assert found.values.iloc[0].to_numpy() == pytest.approx(expected, abs=1e-10)
    assert found.base is not None and found.base[0] == pytest.approx(0, abs=1e-10)


def test_text_attribution_says_how_it_was_made():
    found = LimeText(samples=300).explain_text(crossed, TEXT, seed=4)
    assert found.names == WORDS and found.space == "concept" and found.kind == "contribution"
    assert isinstance(found.layout, ConceptSpans) and found.layout.text == TEXT
    assert found.asked == 300 and found.seed == 4 and not found.exact
    assert found.output[0] == crossed([TEXT])[0]
    assert found.errors is not None and (found.errors > 0).all(axis=None)
    assert Attribution.from_json(found.to_json()) == found
    exact = LimeText(exact=True).explain_text(crossed, TEXT)
    assert exact.exact and exact.errors is None and exact.seed is None and exact.asked == 64


def test_text_exact_is_the_limit_of_the_theory():
    masker = TextMasker.of(TEXT)
    found = LimeText(exact=True, width=0.4).explain_text(crossed, TEXT)
    expected = lime_exact(lambda masks: crossed(masker(masks)), 6, 0.4, "text")
    assert found.values.iloc[0].to_numpy() == pytest.approx(expected.values, abs=1e-11)
    assert found.base is not None and found.base[0] == pytest.approx(expected.intercept, abs=1e-11)


def test_text_samples_tend_to_the_limit():
    limit = LimeText(exact=True).explain_text(crossed, TEXT)
    found = LimeText(samples=5000, ridge=0.0).explain_text(crossed, TEXT, seed=1)
    assert found.errors is not None
    assert ((found.values - limit.values).abs() < 4 * found.errors).all(axis=None)


def test_texts_are_asked_in_batches():
    sizes = []

    def watched(texts: list[str]) -> np.ndarray:
        sizes.append(len(texts))
        return linear(texts)

    LimeText(samples=100, batch=30).explain_text(watched, TEXT)
    assert max(sizes) == 30 and sum(sizes) == 101


# -- images ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lime", [LimeImage(exact=True), LimeImage(samples=100, ridge=0.0)], ids=["exact", "sampled"])
def test_image_linear_functions_keep_their_coefficients(lime):  # check 1
    image = photo()
    lime = LimeImage(
        samples=lime.samples, ridge=lime.ridge, exact=lime.exact, segmenter=Rectangles(2, 3), fill=ConstantColor(0.0)
    )
    found = lime.explain_image(lambda images: images.sum((1, 2, 3)) + 1, image)
    labels = Rectangles(2, 3)(image)
    expected = [image[labels == k].sum() for k in range(6)]
    assert found.values.iloc[0].to_numpy() == pytest.approx(expected, abs=1e-9)
    assert found.base is not None and found.base[0] == pytest.approx(1, abs=1e-9)


def test_image_attribution_says_how_it_was_made():
    found = LimeImage(samples=60, segmenter=Rectangles(2, 2)).explain_image(brightness, photo(), seed=2)
    assert found.names == [f"segment {k}" for k in range(4)]
    assert isinstance(found.layout, Pixels) and (found.layout.segments == Rectangles(2, 2)(photo())).all()
    assert found.asked == 60 and found.seed == 2 and not found.exact
    assert found.output[0] == pytest.approx(brightness(photo()[None])[0])
    assert Attribution.from_json(found.to_json()) == found
    assert found == LimeImage(samples=60, segmenter=Rectangles(2, 2)).explain_image(brightness, photo(), seed=2)


def test_image_errors_cover_the_limit():
    image, lime = photo(), {"segmenter": Rectangles(2, 2), "fill": ConstantColor(0.0)}
    truth = LimeImage(exact=True, **lime).explain_image(brightness, image).values.to_numpy()
    found = [LimeImage(samples=120, ridge=0.0, **lime).explain_image(brightness, image, seed=s) for s in range(400)]
    z = np.concatenate([(one.values.to_numpy() - truth) / one.errors.to_numpy() for one in found])
    covered = (np.abs(z) < 1.98).mean(0)
    assert ((covered > 0.915) & (covered < 0.985)).all(), covered  # 95 %, and three deviations of 400 repeats


def test_top_segments_are_the_largest_above_zero():
    image = np.ones((8, 8, 1))
    weight = np.array([[1.0, -5.0], [3.0, -0.5]])

    def score(images: np.ndarray) -> np.ndarray:
        return np.einsum("nijc,ij->n", images, np.kron(weight, np.ones((4, 4))))

    found = LimeImage(exact=True, segmenter=Rectangles(2, 2), fill=ConstantColor(0.0)).explain_image(score, image)
    assert (top_segments(found, 1) == (found.layout.segments == 2)).all()
    assert (top_segments(found, 2) == np.isin(found.layout.segments, [0, 2])).all()
    assert (top_segments(found, 4) == top_segments(found, 2)).all()  # the others speak against it


def test_fills():
    image = photo(6, 6, 2)
    labels = np.zeros((6, 6), dtype=int)
    labels[2:4, 2:4] = 1
    means = MeanColor()(image, labels)
    assert means[3, 3] == pytest.approx(image[2:4, 2:4].mean((0, 1)))
    assert ConstantColor((0.1, 0.7))(image, labels)[0, 0].tolist() == [0.1, 0.7]
    smooth = Blur(3.0)(image, labels)
    assert smooth.std() < image.std() and smooth.mean() == pytest.approx(image.mean(), abs=0.05)
    painted = Infill()(image, labels)
    around = (image[1, 2] + image[2, 1] + painted[3, 2] + painted[2, 3]) / 4
    assert painted[2, 2] == pytest.approx(around)  # the mean of its neighbors
    flat = np.full((6, 6, 2), 0.3)
    assert Infill()(flat, labels) == pytest.approx(flat)
    assert Infill()(image, np.zeros((6, 6), dtype=int))[0, 0] == pytest.approx(image.mean((0, 1)))


def test_removed_segments_keep_the_type_of_the_image():
    image = np.array([[[10], [11]], [[200], [201]]], dtype=np.uint8)
    labels = np.array([[0, 0], [1, 1]])
    masker = ImageMasker.of(image, labels, MeanColor())
    shown = masker(np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]))
    assert shown.dtype == np.uint8 and (shown[0] == image).all()
    assert shown[1, :, :, 0].tolist() == [[10, 10], [200, 201]]  # 10.5 rounds to even
    assert shown[2, :, :, 0].tolist() == [[10, 11], [200, 200]]


def test_images_take_little_time_beside_the_model():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(32, 1),
    ).eval()
    spent = 0.0

    def model(images: np.ndarray) -> np.ndarray:
        nonlocal spent
        start = time.process_time()
        with torch.no_grad():
            out = net(torch.from_numpy(images).permute(0, 3, 1, 2)).squeeze(1).numpy()
        spent += time.process_time() - start
        return out

    image = photo(64, 64).astype(np.float32)
    LimeImage(samples=20).explain_image(model, image)  # imports
    ratios = []
    for _ in range(3):
        spent, start = 0.0, time.process_time()
        LimeImage(samples=1000).explain_image(model, image)
        ratios.append((time.process_time() - start) / spent)
        if ratios[-1] <= 2:
            break
    assert min(ratios) <= 2, ratios


# -- linearity, selection, stability --------------------------------------------------------------------------


def test_lime_is_linear_in_the_score():  # check 16
    lime = LimeText(samples=200)
    parts = [lime.explain_text(f, TEXT, seed=3).values.to_numpy() for f in (linear, crossed)]
    both = lime.explain_text(lambda texts: linear(texts) + crossed(texts), TEXT, seed=3).values.to_numpy()
    assert both == pytest.approx(parts[0] + parts[1], abs=1e-12)


@pytest.mark.parametrize("select", [2, 7])
def test_selection_warns_and_breaks_linearity(select):  # check 16
    text = "one two three four five six seven eight nine ten"
    rng = np.random.default_rng(0)
    table = {word: rng.normal(size=2) for word in text.split()}

    def score(part: int):
        return lambda texts: np.array([sum(table[w][part] for w in t.split()) for t in texts])

    lime = LimeText(samples=200, select=select)
    with pytest.warns(UserWarning, match="no longer linear"):
        parts = [lime.explain_text(score(k), text).values.to_numpy() for k in (0, 1)]
    with pytest.warns(UserWarning, match="no longer linear"):
        both = lime.explain_text(lambda texts: score(0)(texts) + score(1)(texts), text)
    assert np.abs(both.values.to_numpy() - parts[0] - parts[1]).max() > 0.1
    assert (both.values.to_numpy() != 0).sum() == select
    assert both.errors is not None and both.errors.notna().to_numpy().sum() == select
    assert "features were selected" in both.notes[0]
    top = np.argsort(-np.abs([table[w].sum() for w in text.split()]))[:select]
    assert set(np.flatnonzero(both.values.to_numpy()[0])) == set(top)


def test_selecting_everything_is_no_selection():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = LimeText(samples=100, select=6).explain_text(linear, TEXT)
    assert found.notes == () and found.values.equals(LimeText(samples=100).explain_text(linear, TEXT).values)


def test_selection_among_all_masks_is_exact():
    with pytest.warns(UserWarning, match="selected"):
        found = LimeText(exact=True, select=2).explain_text(linear, TEXT)
    assert found.exact and set(np.flatnonzero(found.values.to_numpy()[0])) == {1, 5}


def test_batched_fits_are_those_of_one_person_at_a_time():
    rng = np.random.default_rng(0)
    rows = torch.from_numpy(rng.normal(size=(4, 60, 3)))
    omega, values = torch.from_numpy(rng.random((4, 60))), torch.from_numpy(rng.normal(size=(4, 60)))
    for ridge in (0.0, 1.0):
        found = batched_fit(rows.mT, omega, values, ridge)
        for i in range(4):
            one = Affine().fit(Design(rows[i], torch.ones(60)), omega[i], values[i : i + 1], ridge)
            assert found.slope[i].tolist() == pytest.approx(one.slope[0].tolist(), abs=1e-12)
            assert found.error is not None and one.error is not None
            assert found.error[i].tolist() == pytest.approx(one.error[0].tolist(), rel=1e-9)
            assert found.intercept is not None and one.intercept is not None
            assert float(found.intercept[i]) == pytest.approx(float(one.intercept[0]), abs=1e-12)


def test_columns_that_never_vary_get_zero_and_no_error():
    columns = torch.ones(1, 2, 20, dtype=torch.float64)
    columns[0, 1] = torch.arange(20)
    found = batched_fit(columns, torch.ones(1, 20), 3.0 * columns[:, 1] + 1, 0.0)
    assert found.slope[0].tolist() == pytest.approx([0, 3]) and found.error is not None
    assert torch.isnan(found.error[0, 0]) and float(found.error[0, 1]) == pytest.approx(0, abs=1e-9)


def test_stability_counts_what_seeds_share():
    tops = {0: [3.0, 2.0, 1.0, 0.0], 1: [3.0, 2.0, 1.0, 0.0], 2: [3.0, 0.0, 1.0, 2.0]}

    def explain(seed: int) -> Attribution:
        found = LimeText(samples=10).explain_text(linear, "good bad film not", seed=0)
        values = pd.DataFrame([tops[seed]], columns=found.names)
        return Attribution(**{**{n: getattr(found, n) for n in found.__dataclass_fields__}, "values": values})

    found = stability(explain, reseeds=3, k=2)
    assert found.mean == pytest.approx((1 + 1 / 3 + 1 / 3) / 3) and found.least == pytest.approx(1 / 3)
    assert str(found) == "top-2 Jaccard 0.56 over 3 seeds (least 0.33)"
    assert found.to_dict() == {"mean": found.mean, "least": found.least, "k": 2, "reseeds": 3}


def test_more_samples_are_more_stable():
    words = " ".join(f"word{k}" for k in range(30))
    size = {f"word{k}": 1.0 + 0.15 * k for k in range(30)}

    def score(texts: list[str]) -> np.ndarray:
        return np.array([np.tanh(sum(size[w] for w in t.split()) / 20) for t in texts])

    few, many = (
        stability(lambda seed, n=n: LimeText(samples=n).explain_text(score, words, seed=seed), 4) for n in (60, 2000)
    )
    assert few.mean < many.mean


# -- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: LimeText().explain_text(linear, "..."), "has no words"),
        (lambda: LimeText().explain_text(linear, 3), "must be strings"),
        (lambda: LimeText(token=None).explain_text(linear, TEXT), "token=None"),
        (lambda: LimeText(samples=1).explain_text(linear, TEXT), "samples=1"),
        (lambda: LimeText(width=0).explain_text(linear, TEXT), "width=0"),
        (lambda: LimeText(width=1e-4).explain_text(linear, TEXT), "weight 0 to every mask but the full one"),
        (lambda: LimeText(ridge=-1.0).explain_text(linear, TEXT), "ridge=-1.0"),
        (lambda: LimeText(ridge=1.0, exact=True).explain_text(linear, TEXT), "exact=True with ridge=1.0"),
        (lambda: LimeText(select=0).explain_text(linear, TEXT), "select=0"),
        (lambda: LimeText(batch=0).explain_text(linear, TEXT), "batch=0"),
        (lambda: LimeText().explain_text(linear, TEXT, seed=-1), "seed=-1"),
        (lambda: LimeText(exact=True).explain_text(linear, "good"), "do not determine 1 slopes"),
        (lambda: LimeText(samples=5, ridge=0.0).explain_text(linear, TEXT), "do not determine 6 slopes"),
        (lambda: LimeText(exact=True).explain_text(linear, "a b c d e f g h i j k l m n o p q r s"), "2^19"),
        (lambda: LimeText().explain_text(lambda t: np.ones((len(t), 2)), TEXT), "shape (500, 2) for 500 texts"),
        (lambda: LimeText().explain_text(lambda t: np.full(len(t), np.nan), TEXT), "NaN or infinite"),
        (lambda: LimeImage().explain_image(brightness, np.zeros((4, 4))), "no image of shape"),
        (lambda: LimeImage(segmenter=lambda i: i).explain_image(brightness, photo()), "segmenter gave shape"),
        (lambda: LimeImage(segmenter=lambda i: np.full((12, 12), 1)).explain_image(brightness, photo()), "not 0, 1, 2"),
        (lambda: LimeImage(fill=lambda i, s: i[0]).explain_image(brightness, photo()), "the fill gave shape"),
        (lambda: LimeImage(fill=ConstantColor((1.0, 2.0))).explain_image(brightness, photo()), "3 channels"),
        (lambda: LimeImage(fill=Blur(0.0)).explain_image(brightness, photo()), "sigma=0.0"),
        (lambda: top_segments(LimeText(samples=20).explain_text(linear, TEXT)), "not one of an image"),
        (lambda: top_segments(LimeImage(samples=200).explain_image(brightness, photo()), 0), "k=0"),
        (lambda: top_segments(LimeImage(samples=200).explain_image(brightness, photo()), 1, "x"), "no row 'x'"),
        (lambda: stability(lambda seed: None, reseeds=1), "reseeds=1"),
    ],
)  # fmt: skip
def test_errors_say_what_is_wrong(call, words):
    with pytest.raises(ExplainError) as error:
        call()
    assert words in str(error.value)


def test_a_text_of_one_word_rests_on_one_row():
    def function(texts):
        return np.array([float("good" in text) for text in texts])

    for samples in (50, 5000, 20_000):
        found = LimeText(samples=samples).explain_text(function, "good")
        assert 0 < found.values.iloc[0, 0] < 0.5  # of 1, however many samples
        assert np.isnan(found.errors.iloc[0, 0]) and found.notes[0].startswith("no draw shares: good (1 row).")
    assert LimeText(samples=50).explain_text(function, "good day").notes == ()
