"""KernelSHAP: exhaustive, paired, unbiased; its constraints, its errors, and checks 6, 8 and 9."""

import numpy as np
import pytest
import torch

from turnabout.errors import ExplainError
from turnabout.explain.engine import LocalApproximation, SquaredError
from turnabout.explain.shapley.coalitions import AllCoalitions, OneOut, ShapleySizes, Strata, least_samples
from turnabout.explain.shapley.exact import ExactShapley
from turnabout.explain.shapley.games import coalition_sizes, coalitions, kernel_weights, shapley
from turnabout.explain.shapley.kernel import Efficient, KernelShap, ShapleyKernel
from turnabout.explain.shapley.remove import Background


def random_game(m, seed=0, order=None):
    """A random game, or one whose dividends vanish beyond an order."""
    values = torch.as_tensor(np.random.default_rng(seed).standard_normal(2**m))
    if order is None:
        return values
    values = values * (coalition_sizes(m) <= order)
    for axis in range(m):
        cube = values.reshape(2**axis, 2, -1)
        cube[:, 1] += cube[:, 0]
    return values


def play(v, m, samples, seed=0, paired=True, unbiased=False):
    design = ShapleySizes(samples, paired).design(m, np.random.default_rng(seed))
    omega = design.mass * ShapleyKernel()(design.xi)
    place = (design.xi @ 2.0 ** torch.arange(m - 1, -1, -1, dtype=torch.float64)).long()
    return Efficient(unbiased).fit(design, omega, v[place].unsqueeze(0), 0.0)


@pytest.mark.parametrize("m", [1, 2, 6, 9, 12])
@pytest.mark.parametrize("unbiased", [False, True])
def test_all_masks_give_the_shapley_values(m, unbiased):
    v = random_game(m, seed=m)
    fit = play(v, m, max(2, 2**m - 2), unbiased=unbiased)
    assert fit.exact and fit.error is None
    assert (fit.slope[0] - shapley(v)).abs().max() < 1e-12


def test_finite_weights_tend_to_the_constraints():
    m, v = 6, random_game(6)
    z = coalitions(m)
    gaps = []
    for finite in (1e2, 1e4, 1e6, 1e8):
        root = kernel_weights(m)[coalition_sizes(m)].clamp(max=finite).sqrt()
        rows = torch.cat([torch.ones(len(z), 1, dtype=torch.float64), z], 1) * root[:, None]
        slope = torch.linalg.lstsq(rows, (v * root)[:, None]).solution[1:, 0]
        gaps.append(float((slope - shapley(v)).abs().max()))
    ratios = np.array(gaps[:-1]) / np.array(gaps[1:])
    assert ((ratios > 80) & (ratios < 125)).all(), gaps


@pytest.mark.parametrize("seed", range(5))
def test_pairs_solve_games_of_order_two(seed):
    v = random_game(10, seed=seed, order=2)
    assert (play(v, 10, 24, seed).slope[0] - shapley(v)).abs().max() < 1e-10
    assert (play(v, 10, 24, seed, paired=False).slope[0] - shapley(v)).abs().max() > 0.1


def test_the_constraints_hold_at_every_budget():
    v = random_game(9, seed=3)
    for samples, paired, unbiased in ((22, True, False), (100, True, True), (101, False, False), (300, False, True)):
        fit = play(v, 9, samples, paired=paired, unbiased=unbiased)
        assert abs(float(fit.slope.sum() - (v[-1] - v[0]))) < 1e-10
        assert float(fit.intercept) == float(v[0])


def coverage(m, order, samples, seeds, **how):
    v = random_game(m, seed=1, order=order)
    fits = [play(v, m, samples, seed, **how) for seed in range(seeds)]
    gap = torch.cat([fit.slope for fit in fits]) - shapley(v)
    error = torch.cat([fit.error for fit in fits])
    return float((gap.abs() <= 1.96 * error).double().mean()), gap


@pytest.mark.parametrize(("m", "order", "samples"), [(10, 4, 200), (8, 3, 100)])
def test_errors_cover(m, order, samples):
    """1,000 seeds: 1.96 standard errors hold the Shapley value in 93 to 97 of 100 cases."""
    share, _ = coverage(m, order, samples, 1000)
    assert 0.93 <= share <= 0.97, share


def test_errors_of_the_unbiased_form_cover_and_it_has_no_bias():
    share, gap = coverage(10, 4, 150, 1000, unbiased=True)
    assert 0.93 <= share <= 0.97, share
    z = gap.mean(0) / (gap.std(0) / len(gap) ** 0.5)
    assert z.abs().max() < 4


def test_errors_fall_to_nothing_as_all_masks_are_taken():
    v = random_game(8)
    few, many = play(v, 8, 150), play(v, 8, 252)
    assert few.error.max() > 3 * many.error.max() > 0
    assert play(v, 8, 254).error is None


def test_too_few_masks_have_no_known_error():
    assert torch.isinf(play(random_game(10), 10, 24).error).all()


def test_designs_stand_for_all_masks():
    """Whatever is drawn, the masses of each size add up to what there is of it."""
    for m, samples, paired in ((10, 300, True), (9, 200, True), (9, 200, False), (30, 400, True)):
        design = ShapleySizes(samples, paired).design(m, np.random.default_rng(0))
        assert isinstance(design, Strata) and len(design.xi) == samples + 2
        assert len(design.xi.unique(dim=0)) == samples + 2, "no mask twice"
        size = design.xi.sum(1).long()
        for k in range(1, m):
            assert float(design.mass[size == k].sum()) == pytest.approx(float(np.exp(_log_choose(m, k))), rel=1e-9)
        if paired:
            assert torch.equal(design.xi[::2] + design.xi[1::2], torch.ones(samples // 2 + 1, m, dtype=torch.float64))


def _log_choose(m, k):
    from math import lgamma

    return lgamma(m + 1) - lgamma(k + 1) - lgamma(m - k + 1)


def test_tiny_designs_carry_the_whole_kernel():
    design = ShapleySizes(26).design(11, np.random.default_rng(0))
    omega = design.mass * ShapleyKernel()(design.xi)
    total = sum((11 - 1) / (k * (11 - k)) for k in range(1, 11))
    assert float(omega[2:].sum()) == pytest.approx(total)


def test_exhaustive_designs():
    full = AllCoalitions().design(5, np.random.default_rng(0))
    assert full.exact and len(full.xi.unique(dim=0)) == 32 and full.xi[0].sum() == 0 and full.xi[1].sum() == 5
    assert OneOut().design(4, np.random.default_rng(0)).xi.sum(1).tolist() == [4, 3, 3, 3, 3]


# -- as an explainer ------------------------------------------------------------------------------------------------


def bent(x):
    return x[:, 0] * x[:, 1] * x[:, 2] + torch.tanh(x[:, 3] * x[:, 4]) * x[:, 5] + x.sum(1).sin()


def points(n, d=7, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def test_linear_functions_get_their_coefficients():
    w = np.array([1.0, -2.0, 0.5, 3.0, 0.0, 4.0, -1.0])
    x, background = points(5), points(30, seed=1)
    due = w * (x - background.mean(0))
    for explainer in (KernelShap(), KernelShap(40), KernelShap(60, paired=False), ExactShapley()):
        answer = explainer.explain(lambda p: p @ torch.as_tensor(w) + 2, x, background=background)
        np.testing.assert_allclose(answer.values.to_numpy(), due, atol=1e-10)
        np.testing.assert_allclose(answer.base, background.mean(0) @ w + 2, atol=1e-10)


def test_samples_enough_for_all_masks_are_exact():
    x, background = points(6), points(20, seed=1)
    exact = ExactShapley().explain(bent, x, background=background)
    whole = KernelShap(samples=126).explain(bent, x, background=background)
    assert whole.exact and whole.errors is None and whole.seed is None
    np.testing.assert_allclose(whole.values, exact.values, atol=1e-10)
    some = KernelShap(samples=80).explain(bent, x, background=background)
    assert not some.exact and some.seed == 0
    gap = (some.values - exact.values).abs()
    assert gap.to_numpy().max() > 1e-6 and (gap <= 5 * some.errors).to_numpy().all()
    assert some.gap.abs().max() < 1e-10
    assert some.asked == 6 * 82 * 20


def test_same_seed_same_answer_and_company_changes_nothing():
    x, background = points(6), points(20, seed=1)
    one = KernelShap(60).explain(bent, x, background=background, seed=3)
    assert one == KernelShap(60).explain(bent, x, background=background, seed=3)
    assert one != KernelShap(60).explain(bent, x, background=background, seed=4)
    alone = KernelShap(60).explain(bent, x[4:5], background=background, seed=3)
    np.testing.assert_allclose(alone.values.iloc[0], one.values.iloc[4], atol=1e-12)


def test_it_is_a_preset_of_the_engine():
    x, background = torch.as_tensor(points(3)), points(20, seed=1)
    from turnabout.explain.explainer import ExplanationTask
    from turnabout.explain.score import Score

    question = ExplanationTask(Score(bent), x, None, torch.as_tensor(background), 0)
    engine = LocalApproximation(
        ShapleySizes(60), Background().operation(question), ShapleyKernel(), SquaredError(), Efficient()
    )
    fit = engine.fit(Score(bent), x, seed=0)
    answer = KernelShap(60).explain(bent, x.numpy(), background=background)
    np.testing.assert_allclose(fit.slope, answer.values, atol=1e-14)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: KernelShap(10).explain(bent, x, background=x), "samples=10 masks are too few for 7 features"),
        (lambda x: KernelShap(0).explain(bent, x, background=x), "samples=0, which is not a whole number from 2 up"),
        (lambda x: KernelShap(2.5).explain(bent, x, background=x), "samples=2.5, which is not a whole number"),
        (lambda x: KernelShap().explain(bent, x), "needs a background"),
        (lambda x: KernelShap().explain(bent, x, background=x[:, :3]), "3 columns and the people have 7"),
        (lambda x: KernelShap().explain(bent, x[:0], background=x), "no people"),
        (lambda x: KernelShap().explain(lambda p: p[:, 0] * torch.nan, x, background=x), "NaN or infinite"),
        (lambda x: ShapleySizes(4000).design(1500, np.random.default_rng(0)), "too many"),
        (lambda x: KernelShap(30, paired=False).explain(bent, points(1, 14), background=points(3, 14)), "too few"),
    ],
)
def test_what_cannot_be_explained_is_refused(call, text):
    with pytest.raises(ExplainError, match=text):
        call(points(4))


def test_masks_that_do_not_determine_the_values_are_refused():
    xi = torch.tensor([[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 1]], dtype=torch.float64)
    design = Strata(xi, torch.ones(4, dtype=torch.float64), paired=True, stratum=torch.zeros(1, dtype=torch.long))
    with pytest.raises(ExplainError, match="do not determine 3 values"):
        Efficient().fit(design, ShapleyKernel()(xi), torch.ones(1, 4, dtype=torch.float64), 0.0)
    with pytest.raises(ExplainError, match="no ridge"):
        Efficient().fit(design, ShapleyKernel()(xi), torch.ones(1, 4, dtype=torch.float64), 1.0)


def test_least_samples():
    assert [least_samples(m) for m in (1, 2, 4, 10, 40)] == [0, 2, 12, 24, 84]
