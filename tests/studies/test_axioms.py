"""Only the Shapley value keeps every axiom; each of the others breaks what theory says it breaks."""

import json

import pytest
import torch

from turnabout.errors import ExplainError
from turnabout.explain.shapley.games import coalition_sizes, coalitions, dividends, shapley
from turnabout.studies.axioms import AXIOMS, check_axioms


def m_of(v):
    return len(v).bit_length() - 1


def places(v):
    return 2 ** torch.arange(m_of(v) - 1, -1, -1)


def occlusion(v):
    return v[-1] - v[len(v) - 1 - places(v)]


def first_in(v):
    """What a gradient at the empty coalition would see."""
    return v[places(v)] - v[0]


def gradient_times_input(v):
    """Slope of the multilinear extension at the full coalition, halved: a gradient with its own scale."""
    return occlusion(v) / 2


def banzhaf(v):
    z = 2 * coalitions(m_of(v)) - 1
    return v @ z / 2 ** (m_of(v) - 1)


def normalised_banzhaf(v):
    raw = banzhaf(v)
    return raw / raw.sum() * (v[-1] - v[0]) if abs(float(raw.sum())) > 1e-9 else raw * 0 + (v[-1] - v[0]) / m_of(v)


def lime(v):
    """Weighted least squares with a free intercept and a kernel around the full coalition."""
    z = coalitions(m_of(v))
    root = torch.exp(-((1 - z.mean(1).sqrt()) ** 2) / (4 * 0.25**2))
    rows = torch.cat([torch.ones(len(z), 1, dtype=torch.float64), z], 1) * root[:, None]
    return torch.linalg.lstsq(rows, (v * root)[:, None]).solution[1:, 0]


def equal_shares(v):
    return ((v[-1] - v[0]) / m_of(v)).repeat(m_of(v))


def in_order(v):
    """Features come in one by one, in the order of their names."""
    path = torch.cat([torch.zeros(1, dtype=torch.long), places(v).cumsum(0)])
    return v[path][1:] - v[path][:-1]


def slide(v):
    """The weight |z|!(m-|z|-1)!/m! beside v(z) - v(z without i)."""
    m, z, size = m_of(v), coalitions(m_of(v)), coalition_sizes(m_of(v))
    fact = torch.tensor(
        [1.0] * 2 + [float(torch.arange(1, k + 1).prod()) for k in range(2, m + 1)], dtype=torch.float64
    )
    weight = fact[size] * fact[(m - size - 1).clamp(min=0)] / fact[m]
    index = torch.arange(len(v))
    out = torch.zeros(m, dtype=torch.float64)
    for i, place in enumerate(places(v)):
        inside = z[:, i] == 1
        out[i] = (weight * (v - v[(index - place).clamp(min=0)]))[inside].sum()
    return out


def dividends_over_size(v):
    return dividends(v) / coalition_sizes(m_of(v)).clamp(min=1) @ coalitions(m_of(v))


@pytest.mark.parametrize("m", [2, 3, 5])
def test_shapley_keeps_every_axiom(m):
    for rule in (shapley, dividends_over_size):
        report = check_axioms(rule, m, trials=40, seed=m)
        assert report.passed, str(report)
        assert all(report.holds(axiom) for axiom in AXIOMS)


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        (occlusion, {"local accuracy"}),
        (first_in, {"local accuracy"}),
        (gradient_times_input, {"local accuracy"}),
        (banzhaf, {"local accuracy"}),
        (normalised_banzhaf, {"strong monotonicity", "linearity"}),
        (equal_shares, {"missingness", "strong monotonicity"}),
        (in_order, {"symmetry"}),
        (lime, {"local accuracy", "missingness", "strong monotonicity"}),
        (slide, {"local accuracy"}),
        (lambda v: shapley(v).square(), {"local accuracy", "strong monotonicity", "linearity"}),
    ],
)
def test_each_other_rule_breaks_what_it_should(rule, broken):
    assert set(check_axioms(rule, 4, trials=40).broken) == broken


def test_a_counter_example_can_be_checked_by_hand():
    example = check_axioms(occlusion, 3).broken["local accuracy"]
    v = torch.tensor(example.game, dtype=torch.float64)
    assert example.said[0] == pytest.approx(float(occlusion(v).sum()))
    assert example.due[0] == pytest.approx(float(v[-1] - v[0]))
    assert example.said[0] != pytest.approx(example.due[0])
    pair = check_axioms(equal_shares, 3).broken["strong monotonicity"]
    higher, lower = (torch.tensor(game, dtype=torch.float64) for game in (pair.game, pair.other))
    (i,) = pair.features
    without = (coalitions(3)[:, i] == 0).nonzero()[:, 0]
    gains = [game[without + 2 ** (2 - i)] - game[without] for game in (higher, lower)]
    assert (gains[0] >= gains[1] - 1e-12).all()
    assert float(equal_shares(higher)[i]) < float(equal_shares(lower)[i])


def test_reports_read_and_travel():
    report = check_axioms(banzhaf, 3, trials=5, seed=2)
    assert "local accuracy: broken. the shares do not add up." in str(report) and "linearity: kept." in str(report)
    document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert document["passed"] is False and document["broken"]["local accuracy"]["features"] == [0, 1, 2]
    assert check_axioms(banzhaf, 3, trials=5, seed=2) == report


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: check_axioms(shapley, 1), "m=1 is not a whole number from 2 to 12"),
        (lambda: check_axioms(shapley, 13), "m=13 is not a whole number from 2 to 12"),
        (lambda: check_axioms(shapley, 3, trials=0), "trials=0"),
        (lambda: check_axioms(shapley, 3, seed=-1), "seed=-1"),
        (lambda: check_axioms(shapley, 3, tolerance=float("nan")), "tolerance=nan is not a number"),
        (lambda: check_axioms(shapley, 3, tolerance=-1.0), "tolerance=-1.0"),
        (lambda: check_axioms(lambda v: v, 3), "gave 8 shares"),
        (lambda: check_axioms(lambda v: shapley(v) * torch.nan, 3), "no numbers"),
    ],
)
def test_what_cannot_be_tried_is_refused(call, text):
    with pytest.raises(ExplainError, match=text):
        call()
