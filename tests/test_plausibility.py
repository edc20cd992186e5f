"""Plausibility on tables whose answers are known: Gaussians, noise, copies, and tables too small to say anything."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.neighbors import LocalOutlierFactor

import turnabout as ta
from test_metrics import made_up
from turnabout.errors import ProblemError
from turnabout.metrics.ordinary_rows import OrdinaryRows, ordinary_threshold
from turnabout.metrics.plausibility import RealPeople
from turnabout.metrics.row_space import RowSpace
from turnabout.metrics.two_sample_auc import two_sample_auc

PLANE = ta.Schema((ta.Number("a", low=-10, high=10, decimals=3), ta.Number("b", low=-10, high=10, decimals=3)))


def gaussian(n, seed, middle=2.0):
    z = np.random.default_rng(seed).normal(middle, 1, (n, 2))
    return pd.DataFrame(z.round(3), columns=["a", "b"])


def plane(background):
    """A question about the plane; the model accepts a + b > 0, which nearly everyone around (2, 2) has."""
    model = ta.models.wrap(lambda t: ((t.a + t.b) > 0).to_numpy(dtype=float), PLANE)
    return ta.Problem(PLANE, model, ta.costs.L1(), background=background)


def unit(table):
    """Rows as points of the unit square."""
    return (table.to_numpy() + 10) / 20


def answered(options, own=None):
    """An answer with one option for each refused person."""
    own = gaussian(len(options), 9, -2.0) if own is None else own
    return made_up(own.reset_index(drop=True), {i: [row] for i, row in enumerate(options.itertuples(index=False))})


@pytest.fixture(scope="module")
def problem():
    return plane(pd.concat([gaussian(600, 0), gaussian(200, 1, -2.0)], ignore_index=True))


def test_options_drawn_as_real_people_look_like_them(problem):
    report = ta.metrics.plausibility(answered(gaussian(300, 3)), problem, real=gaussian(400, 2))
    for rows in ("options", "real people"):
        auc = report.line("two_sample_auc", rows)
        assert 0.4 < auc.value < 0.6 and auc.low < 0.5 < auc.high
        assert report.line("lof_calibrated", rows).value == pytest.approx(0.95, abs=0.04)
        assert report.line("neighbour_percentile", rows).value == pytest.approx(0.5, abs=0.06)
        assert report.line("neighbour_ratio", rows).value == pytest.approx(1.0, abs=0.15)
        assert report.line("copying", rows).value == 0.0
    assert report.line("two_sample_auc", "doing nothing").value > 0.99
    assert report.line("lof_calibrated", "doing nothing").value < 0.2


def test_noise_is_told_from_real_people(problem):
    noise = pd.DataFrame(np.random.default_rng(4).uniform(-10, 10, (300, 2)).round(3), columns=["a", "b"])
    report = ta.metrics.plausibility(answered(noise), problem, real=gaussian(400, 2))
    assert report.line("two_sample_auc").value > 0.9
    assert report.line("lof_calibrated").value < 0.3 and report.line("lof_paper").value < 0.5
    assert report.line("neighbour_ratio").value > 3 and report.line("neighbour_percentile").value > 0.85


def test_copies_of_training_rows_are_copies(problem):
    copies = problem.background[(problem.background_margin >= 0).numpy()].head(100)
    report = ta.metrics.plausibility(answered(copies), problem, real=gaussian(400, 2))
    assert report.line("copying").value == 1.0 and report.line("nearest_row").value == 0.0
    assert report.line("copying", "real people").value == 0.0


def test_held_out_people_are_no_copies_of_themselves(problem):
    """Held out of the background, they are compared with its other rows; copies of them still are copies."""
    report = ta.metrics.plausibility(answered(gaussian(50, 3)), problem)
    assert report.line("copying", "real people").value == 0.0 and (report.real, report.fitted) == (199, 400)
    ordinary = OrdinaryRows.of(problem, True, 0)
    copies = problem.background.iloc[ordinary.held_out.numpy()]
    assert ta.metrics.plausibility(answered(copies), problem).line("copying").value == 1.0


def test_outlier_factors_are_those_of_scikit_learn(problem):
    options = gaussian(80, 5, 0.5)
    accepted = problem.background[(problem.background_margin >= 0).numpy()]
    judge = LocalOutlierFactor(n_neighbors=5, novelty=True).fit(unit(accepted))
    report = ta.metrics.plausibility(answered(options), problem, real=gaussian(50, 2))
    assert report.line("lof_paper").value == (judge.predict(unit(options)) > 0).mean()
    judge = LocalOutlierFactor(n_neighbors=20, novelty=True).fit(np.unique(unit(accepted), axis=0))
    table = ta.metrics.plausibility_per_option(answered(options), problem, real=gaussian(50, 2))
    assert (table.lof.to_numpy() == (judge.predict(unit(options)) > 0)).all() and 0 < table.lof.mean() < 1
    assert (ta.metrics.per_option(answered(options), problem).inlier.to_numpy() == table.lof.to_numpy()).all()


def test_distances_by_hand():
    """Half of a range, another level (2 columns), another binary; missing is a level, or 1/2 + |v - 1/2| from v."""
    schema = ta.Schema(
        (
            ta.Number("n", low=0, high=10, step=1, missing=True),
            ta.Category("c", levels=("x", "y", "z"), missing=True),
            ta.Binary("b", levels=("no", "yes")),
        )
    )
    rows = pd.DataFrame(
        {"n": [0, 5, None, None, 10], "c": ["x", "y", "x", None, "z"], "b": ["no", "no", "no", "no", "yes"]}
    )
    space = RowSpace(schema)
    z = space.points(schema.encode(rows))
    apart = space.distance(z, z).numpy()
    assert apart[0].tolist() == [0, 1.5, 1.0, 2.0, 3.0]
    assert apart[1].tolist() == [1.5, 0, 1.5, 1.5, 2.5] and (apart == apart.T).all()
    points = space.euclidean(z)
    assert ((points[0] - points[4]) ** 2).sum() == pytest.approx(3.0)  # (2)
    assert not np.isnan(points).any()
    nearest, mean = space.near(z, z, torch.ones(5, dtype=torch.bool), torch.tensor([0, -1, 2, 3, 4]))
    assert nearest.tolist() == [1.0, 0.0, 1.0, 1.0, 2.5] and mean[0] == pytest.approx(7.5 / 5)
    assert space.near(z, z, torch.zeros(5, dtype=torch.bool))[1] is None


def test_the_cut_of_ordinary_people():
    """Of 19 others the lowest is the cut; of 39 the second."""
    assert ordinary_threshold(np.arange(18.0)) is None
    assert ordinary_threshold(np.arange(19.0)[::-1]) == 0.0 and ordinary_threshold(np.arange(39.0)) == 1.0


def test_few_rows_are_not_told_apart():
    rng = np.random.default_rng(0)
    assert two_sample_auc(rng.normal(size=(39, 2)), rng.normal(size=(400, 2)), 0) is None
    auc = two_sample_auc(rng.normal(size=(40, 2)) + 9, rng.normal(size=(400, 2)), 0)
    assert auc.value > 0.99 and auc.high == 1.0 and auc.n == 40


def test_constant_rows_are_not_told_apart():
    auc = two_sample_auc(np.zeros((50, 3)), np.zeros((60, 3)), 0)
    assert (auc.value, auc.low, auc.high) == (0.5, 0.5, 0.5)


def test_a_report_travels_and_repeats(problem):
    answer, real = answered(gaussian(60, 3)), gaussian(100, 2)
    report = ta.metrics.plausibility(answer, problem, real=real, seed=1)
    assert report == ta.metrics.plausibility(answer, problem, real=real, seed=1)
    assert report != ta.metrics.plausibility(answer, problem, real=real, seed=2)
    assert ta.metrics.Plausibility.from_json(report.to_json()) == report and json.loads(report.to_json())["seed"] == 1
    table = report.to_frame()
    assert len(table) == 27 and table.groupby("measure").size().eq(3).all()
    known = table.dropna()
    assert (known.low <= known.value).all() and (known.value <= known.high).all()
    assert "doing nothing" in str(report) and "100 given rows" in str(report) and "<pre" in report._repr_html_()
    with pytest.raises(KeyError, match="there is no line 'beauty'"):
        report.line("beauty")


def test_only_accepted_rows_are_real_people(problem):
    mixed = pd.concat([gaussian(100, 2, 5.0), gaussian(30, 2, -5.0)])
    report = ta.metrics.plausibility(answered(gaussian(60, 3)), problem, real=mixed)
    assert report.real == 100 and "30 given rows are left out" in str(report)
    nobody = ta.metrics.plausibility(answered(gaussian(60, 3)), problem, real=gaussian(30, 2, -5.0))
    assert nobody.real == 0 and nobody.line("lof", "real people").value is None
    assert nobody.line("lof").value is not None and nobody.line("lof_calibrated").value is None


def test_nobody_has_an_option(problem):
    own = gaussian(50, 9, -2.0)
    index = pd.MultiIndex.from_arrays([[], []], names=["person", "option"])
    status = pd.Series([ta.Status.NOT_FOUND] * 50, index=own.index, dtype=object)
    why = pd.DataFrame(columns=["reason", "best_margin", "asked", "binding", "proof"])
    options = pd.DataFrame({name: pd.Series(dtype=float) for name in ("a", "b", "cost", "margin")}, index=index)
    answer = ta.Recourse(own, options, status, why, "by hand", 0.0)
    report = ta.metrics.plausibility(answer, problem)
    assert all(report.line(m).value is None for m in report.to_frame().measure.unique())
    assert report.line("lof", "doing nothing").n == 50 and "not enough people" in str(report)
    table = ta.metrics.plausibility_per_option(answer, problem)
    assert not len(table) and "nearest_row" in table


@pytest.mark.parametrize("accepted", [0, 1, 3, 8])
def test_few_accepted_people(accepted):
    tiny = plane(pd.concat([gaussian(accepted, 0), gaussian(10, 1, -5.0)], ignore_index=True))
    report = ta.metrics.plausibility(answered(gaussian(5, 3)), tiny)
    assert report.fitted + report.real == accepted
    assert report.line("copying").value == 0.0
    assert (report.line("lof").value is None) == (report.fitted < 6)
    assert (report.line("neighbour_distance").value is None) == (report.fitted < 5)
    assert report.line("two_sample_auc").value is None and report.line("lof_calibrated").value is None
    assert ("nobody of the background" in str(report)) == (accepted == 0)
    table = ta.metrics.plausibility_per_option(answered(gaussian(5, 3)), tiny)
    assert ("lof" in table) == (report.fitted >= 6) and not table.isna().any(axis=None)


def test_duplicates_are_told_and_collapsed():
    """100 rows many times over: for the paper's factor, rows beside a heap of copies are far outside."""
    base = gaussian(100, 0)
    heaps = base.iloc[np.repeat(np.arange(100), np.r_[np.full(50, 12), np.full(50, 1)])]
    problem = plane(heaps.reset_index(drop=True))
    report = ta.metrics.plausibility(answered(gaussian(60, 3)), problem, real=gaussian(100, 2))
    (note,) = [note for note in report.notes if note.startswith("lof_paper calls")]
    assert "% of these repeat another" in note
    assert report.line("lof").value > report.line("lof_paper").value + 0.1


def test_categories_and_constant_columns():
    levels = tuple("pqr")
    schema = ta.Schema(tuple(ta.Category(name, levels=levels) for name in "uvw"))
    rng = np.random.default_rng(0)
    background = pd.DataFrame(rng.choice(list("pq"), (200, 3)), columns=list("uvw")).assign(w="r")
    model = ta.models.wrap(lambda t: (t.u == "p").to_numpy(dtype=float), schema)
    problem = ta.Problem(schema, model, ta.costs.L1(), background=background)
    own = background[background.u == "q"].head(50)
    report = ta.metrics.plausibility(answered(own.assign(u="p"), own), problem)
    assert report.line("copying").value == 1.0 and report.line("neighbour_distance").value == 0.0
    assert report.line("lof").value is None  # two rows differ
    assert report.line("neighbour_ratio").value is None  # neighbours of real people are copies of them
    assert 0.3 < report.line("two_sample_auc").value < 0.7


def test_misuse_is_told(problem):
    answer = answered(gaussian(5, 3))
    with pytest.raises(ProblemError, match="the problem has none"):
        ta.metrics.plausibility(answer, plane(None))
    with pytest.raises(TypeError, match="takes an answer and its problem, not DataFrame"):
        ta.metrics.plausibility(gaussian(5, 3), problem)
    with pytest.raises(ProblemError, match="seed=-1"):
        ta.metrics.plausibility_per_option(answer, problem, seed=-1)
    with pytest.raises(ta.TurnaboutError, match="no column 'b'"):
        ta.metrics.plausibility(answer, problem, real=gaussian(5, 3)[["a"]])


def test_people_measured_once_say_the_same_of_every_answer():
    problem = plane(gaussian(200, 0))
    answers = [answered(gaussian(60, seed, middle)) for seed, middle in ((1, 2.0), (2, 0.5), (3, 5.0))]
    people = RealPeople.of(problem, gaussian(90, 9), seed=4)
    for answer in answers:
        assert people.compare(answer) == ta.metrics.plausibility(answer, problem, gaussian(90, 9), seed=4)
        alone = ta.metrics.plausibility_per_option(answer, problem, gaussian(90, 9), seed=4)
        pd.testing.assert_frame_equal(people.per_option(answer), alone)
    assert len(people.refused_scores) == 1  # all three are about the same people
