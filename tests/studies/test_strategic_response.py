"""The strategic lender: the table of the study to five decimals, both theorems, and intervals that cover."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm as normal

import turnabout as ta
from hand import linear
from turnabout.audit.estimate import Estimate
from turnabout.intervals import wilson
from turnabout.studies.gaussian.gaussians import Gaussians
from turnabout.studies.strategic.response import strategic_response
from turnabout.studies.strategic.threshold_lines import GaussianLine, PeopleLine

STUDY = GaussianLine(math.sqrt(2), math.sqrt(1.5))
BEFORE = 0.12410653949496184

# D: f* compliant, f* defiant, shift by D compliant, best compliant, best shift, forced by the shift D, approved after
TABLE = {
    0.5: (0.13374, 0.14336, 0.11521, 0.11515, 0.472, 0.0843, 0.5046),
    1.0: (0.16004, 0.19598, 0.09684, 0.09504, 0.855, 0.1716, 0.5243),
    2.0: (0.23366, 0.34322, 0.07104, 0.05298, 1.469, 0.3406, 0.5897),
}

LINES = st.builds(GaussianLine, st.floats(0.2, 3), st.floats(0.3, 2), st.floats(0.2, 0.8))


@pytest.mark.parametrize("distance", TABLE)
def test_table_of_the_study(distance):  # check 25
    stay, gamed, shift, best, at, forced, approved = TABLE[distance]
    report = strategic_response(STUDY, distance)
    good, bad = report.compliant, report.defiant
    assert report.exact and report.approved_before.value == pytest.approx(0.5, abs=1e-12)
    assert round(report.risk_before.value, 5) == 0.12411
    assert [round(f.risk.value, 5) for f in (good.stay, bad.stay, good.shift)] == [stay, gamed, shift]
    assert round(good.best.risk.value, 5) == best and round(good.best_shift, 3) == at
    assert round(good.shift.newly_forced.value, 4) == forced
    assert round(good.best.approved.value, 4) == approved


def test_study_is_the_line_of_the_gaussians():
    study = Gaussians()
    assert GaussianLine(study.normal_mean, study.normal_sd).mean == pytest.approx(STUDY.mean)
    assert strategic_response(STUDY, 1.0).risk_before.value == pytest.approx(study.bayes_risk, abs=1e-12)


@pytest.mark.parametrize("distance", [0.0, 0.1, 0.5, 1.0, 2.0, 5.0])
def test_defiant_people_are_cancelled_in_the_study(distance):  # check 26
    defiant = strategic_response(STUDY, distance).defiant
    assert defiant.shift.risk.value == pytest.approx(BEFORE, abs=1e-12)
    assert defiant.best.risk.value == pytest.approx(BEFORE, abs=1e-9)
    assert defiant.best_shift == pytest.approx(distance, abs=1e-4)


@pytest.mark.parametrize("distance", [100.0, 1e5, 1e7])
def test_long_ways_are_no_harder(distance):
    report = strategic_response(STUDY, distance)
    assert report.defiant.best_shift == distance and report.defiant.best.risk.value == pytest.approx(BEFORE, abs=1e-9)
    assert report.compliant.best.risk.value < 1e-12  # everyone who moves far enough is good


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("distance", [0.3, 1.0, 2.0])
def test_best_shift_is_where_the_slope_is_zero(scale, distance):
    line, reach = GaussianLine(STUDY.mean * scale, STUDY.sd * scale), distance * scale

    def slope(s):
        """Of the compliant risk: g(s - D) - f(s - D) (1 - eta(s)) - P(M) eta'(s), f = g + b the density."""
        good = 0.5 * normal.pdf(s - reach, line.mean, line.sd)
        bad = 0.5 * normal.pdf(s - reach, -line.mean, line.sd)
        eta = float(line.eta(s))
        movers = sum(
            0.5 * (normal.cdf(s, m, line.sd) - normal.cdf(s - reach, m, line.sd)) for m in (line.mean, -line.mean)
        )
        return good - (good + bad) * (1 - eta) - movers * eta * (1 - eta) * 2 * line.mean / line.sd**2

    found = strategic_response(line, reach).compliant.best_shift
    exact = brentq(slope, found - 0.1 * scale, found + 0.1 * scale, xtol=1e-14 * scale)
    assert found == pytest.approx(exact, abs=1e-7 * line.sd)


@given(line=LINES, distance=st.floats(0, 4))
@settings(max_examples=60, deadline=None)
def test_both_theorems_on_random_lines(line, distance):
    report = strategic_response(line, distance)
    before = report.risk_before.value
    assert report.defiant.shift.risk.value == pytest.approx(before, abs=1e-12)
    assert report.defiant.best.risk.value == pytest.approx(before, abs=1e-8)
    assert report.defiant.shift.approved.value == pytest.approx(report.approved_before.value, abs=1e-12)
    assert report.compliant.best.risk.value <= report.compliant.shift.risk.value + 1e-12
    assert report.compliant.stay.risk.value >= before - 1e-12  # the theorem of section 8.1
    assert report.defiant.stay.risk.value >= before - 1e-12


@given(line=LINES, distance=st.floats(0.05, 3), shift=st.floats(-2, 4), compliance=st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_closed_form_is_the_integral(line, distance, shift, compliance):
    centre = line.threshold

    def density(t):
        good = line.share * normal.pdf(t, line.mean - centre, line.sd)
        return good, (1 - line.share) * normal.pdf(t, -line.mean - centre, line.sd)

    def wrong(t):
        good, bad = density(t)
        if t < shift - distance:
            return good
        return bad if t >= shift else compliance * (good + bad) * (1 - line.eta(shift)) + (1 - compliance) * bad

    def integral(f, a, b):
        return quad(f, a, b, limit=200)[0] if b > a else 0.0

    low, edge = shift - distance, 30.0
    figures = line.figures(shift, distance, compliance)
    total = integral(wrong, -edge, low) + integral(wrong, low, shift) + integral(wrong, shift, edge)
    assert figures.risk.value == pytest.approx(total, abs=1e-7)
    start = max(0.0, low)
    forced = integral(lambda t: sum(density(t)), start, shift)
    assert figures.newly_forced.value == pytest.approx(forced, abs=1e-8)
    if forced > 1e-3:
        paid = integral(lambda t: (shift - t) * sum(density(t)), start, shift)
        assert figures.forced_distance.value == pytest.approx(paid / forced, rel=1e-5)
    gains = figures.newly_approved.value - figures.newly_refused.value
    assert figures.approved.value - strategic_response(line, 0).approved_before.value == pytest.approx(gains, abs=1e-9)


SHIFTS = np.linspace(-0.5, 2.5, 31)


def sample(n, seed, labels=True):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.5
    t = rng.normal(np.where(y, STUDY.mean, -STUDY.mean), STUDY.sd)
    return PeopleLine(t, y if labels else STUDY.eta(t), lambda s: np.full(n, STUDY.eta(s)))


@pytest.mark.parametrize("labels", [True, False], ids=["labels", "eta"])
def test_a_large_sample_gives_the_table(labels):
    report = strategic_response(sample(60_000, 1, labels), 1.0, compliance=0.5)
    exact = strategic_response(STUDY, 1.0, compliance=0.5)
    assert not report.exact and len(report.responses) == 3
    for mine, true in zip(report.responses, exact.responses, strict=True):
        for boundary in ("stay", "shift", "best"):
            got, want = getattr(mine, boundary).risk, getattr(true, boundary).risk.value
            assert abs(got.value - want) < 4 * (got.high - got.low) / (2 * 1.96)
        assert mine.best_shift == pytest.approx(true.best_shift, abs=0.15)


def test_means_of_shares_by_hand():
    """For yes and no this is Wilson's interval; no width is lost at 0."""
    low, high = wilson(3, 20)
    got = Estimate.share(np.arange(20) < 3)
    assert (got.low, got.high) == pytest.approx((low, high), abs=0.01)  # m = n - 1
    assert Estimate.share(np.zeros(20)).high == pytest.approx(wilson(0, 20)[1])
    assert Estimate.share(np.full(9, 0.5)).n == 9


@given(seed=st.integers(0, 10_000), distance=st.floats(0.1, 2))
@settings(max_examples=60, deadline=None)
def test_theorems_on_random_people(seed, distance):
    """Finite spaces: with every threshold to choose from, defiant people change nothing, compliant ones are bounded."""
    rng = np.random.default_rng(seed)
    t = rng.normal(size=12)
    height = rng.random(40)
    line = PeopleLine(t, rng.random(12), lambda s: np.full(12, height[int(abs(s) * 7) % 40]))
    ends = np.sort(t)
    cuts = np.concatenate([[ends[0] - 1], (ends[1:] + ends[:-1]) / 2, [ends[-1] + 1]])
    before = [line.losses(c, 0.0, 0.0).mean() for c in cuts]
    losses = [line.losses(c + distance, distance, 0.0).mean() for c in cuts]
    assert losses == pytest.approx(before, abs=1e-12)  # R_Q of the partner is R_P of f, for each f
    best = line.best(distance, 0.0, cuts + distance)
    assert line.losses(best, distance, 0.0).mean() == pytest.approx(min(before), abs=1e-12)
    fbar = cuts[int(np.argmin(before))]
    moved = np.where((t >= fbar) & (t < fbar + distance), fbar + distance, t)
    assert ((moved >= fbar) == (moved >= fbar + distance)).all()  # fbar and its partner agree where people now are
    bound = line.losses(fbar + distance, distance, 1.0).mean()
    best = line.best(distance, 1.0, cuts + distance)
    assert line.losses(best, distance, 1.0).mean() <= bound + 1e-12


@pytest.mark.parametrize(("n", "distance"), [(300, 1.0), pytest.param(600, 2.0, marks=pytest.mark.slow)])
def test_intervals_cover(n, distance):
    """1,000 samples: every 95 % interval holds the population's figure in 93 to 97 % of them."""
    hits = {}
    for seed in range(1000):
        report = strategic_response(sample(n, seed), distance, shifts=SHIFTS, seed=seed)
        pairs = {"before": (report.risk_before, BEFORE), "approved": (report.approved_before, 0.5)}
        for response in report.responses:
            moves = {"stay": 0.0, "shift": distance, "best": response.best_shift}
            for boundary, by in moves.items():
                mine, true = getattr(response, boundary), STUDY.figures(by, distance, response.compliance)
                for figure in ("risk", "approved", "newly_forced", "forced_distance"):
                    if by > 0.3 or figure in ("risk", "approved"):  # nobody is forced by a boundary that stays
                        pairs[boundary, response.compliance, figure] = (
                            getattr(mine, figure),
                            getattr(true, figure).value,
                        )
        for name, (got, want) in pairs.items():
            hits.setdefault(name, []).append(got.low <= want <= got.high)
    shares = {name: float(np.mean(h)) for name, h in hits.items() if len(h) > 900}
    assert len(shares) >= 16
    assert all(0.93 <= share <= 0.97 for share in shares.values()), shares


def test_people_before_a_linear_model():
    study = Gaussians()
    draw = study.sample(4000, seed=3)
    people = study.table(draw.x)
    line = PeopleLine.of(study.model(), people, lambda table: study.eta(table.to_numpy()), labels=draw.y)
    assert line.position * study.unit == pytest.approx(draw.x @ study.normal, abs=1e-9)
    assert line.landing(0.5 / study.unit) == pytest.approx(STUDY.eta(0.5), abs=1e-5)  # up to printed decimals
    report = strategic_response(line, 1.0 / study.unit)
    true = strategic_response(STUDY, 1.0)
    for got, want in ((report.compliant, true.compliant), (report.defiant, true.defiant)):
        assert got.stay.risk.value == pytest.approx(want.stay.risk.value, abs=0.02)
        assert got.shift.risk.value == pytest.approx(want.shift.risk.value, abs=0.02)


def test_labels_go_by_the_people():
    study = Gaussians()
    draw = study.sample(200, seed=3)
    people, eta = study.table(draw.x), lambda table: study.eta(table.to_numpy())
    plain = PeopleLine.of(study.model(), people, eta, labels=draw.y)
    shuffled = pd.Series(draw.y).sort_values()
    assert (PeopleLine.of(study.model(), people, eta, labels=shuffled).eta == plain.eta).all()
    with pytest.raises(ta.errors.AuditError, match="index is not that of the people"):
        PeopleLine.of(study.model(), people, eta, labels=shuffled.iloc[:-1])


@pytest.mark.parametrize(("norm", "move"), [(1, (0, 0.1)), (2, (0.06, 0.08)), (math.inf, (0.1, 0.1))])
def test_landing_goes_the_shortest_way(norm, move):
    schema = ta.Schema((ta.Number("a", low=0, high=1), ta.Number("b", low=0, high=1)))
    seen = []
    line = PeopleLine.of(
        linear((3.0, 4.0), -3.5, schema),
        pd.DataFrame({"a": [0.5] * 5, "b": 0.5}),
        lambda table: seen.append(table.to_numpy()) or np.full(len(table), 0.5),
        norm=norm,
    )
    line.landing(0.1)
    assert line.position == pytest.approx(np.zeros(5), abs=1e-12)
    assert seen[-1][0] == pytest.approx(np.array([0.5 + move[0], 0.5 + move[1]]))


def test_report_travels():
    report = strategic_response(sample(50, 0), 0.5, compliance=0.3)
    document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert document["responses"][2]["compliance"] == 0.3 and document["responses"][0]["best"]["risk"]["n"] == 25
    frame = report.to_frame()
    assert len(frame) == 3 * 3 * 6 and set(frame["boundary"]) == {"stay", "shift", "best"}
    assert "best for the lender: moved by" in str(report) and "must now move" in str(strategic_response(STUDY, 1.0))
    assert strategic_response(sample(50, 0), 0.5, compliance=0.3) == report
    assert STUDY.eta(np.array([-1e9, 0.0, 1e9])).tolist() == [0.0, 0.5, 1.0]
    nobody = strategic_response(STUDY, 0.0)
    assert nobody.compliant.shift.forced_distance.value is None


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: strategic_response(STUDY, -1), "distance=-1"),
        (lambda: strategic_response(STUDY, 1, compliance=1.2), "compliance=1.2 is not a number from 0 to 1"),
        (lambda: strategic_response(STUDY, 1, shifts=[]), "no places for a boundary"),
        (lambda: strategic_response(STUDY, 1, shifts=["a"]), "no places for a boundary"),
        (lambda: strategic_response(STUDY, 1, seed=-1), "seed=-1"),
        (lambda: strategic_response("line", 1), "str is no line of people"),
        (lambda: GaussianLine(-1, 1), "which is not a number above 0"),
        (lambda: GaussianLine(1, math.nan), "which is not a number above 0"),
        (lambda: GaussianLine(1, 1, share=1), "share=1, which is not a number strictly between 0 and 1"),
        (lambda: PeopleLine([0], [0], None), "1 positions and 1 probabilities"),
        (lambda: PeopleLine([0, 1, 2, 3], [0, 1], None), "4 positions and 2 probabilities"),
        (
            lambda: strategic_response(PeopleLine([0, 1, 2], [0, 1, 1], lambda s: np.ones(3)), 0.5),
            "3 people cannot be split",
        ),
        (lambda: PeopleLine([0, 1], ["good", "bad"], None), "hold what is no number"),
        (
            lambda: PeopleLine.of(Gaussians().model(), Gaussians().table(np.zeros((5, 2))), 0.5),
            "eta=0.5 is no function",
        ),
        (lambda: PeopleLine.of("model", [], len), "no straight boundary"),
        (lambda: PeopleLine([0, 1, 2, math.nan], [0, 1, 0, 1], None), "NaN or infinite"),
        (lambda: PeopleLine([0, 1, 2, 3], [0, 1, 0, 2], None), "eta= holds"),
        (
            lambda: strategic_response(PeopleLine([-1, -2, 2, 3], [0, 1, 0, 1], lambda s: np.full(4, math.nan)), 2),
            "landing= holds",
        ),
        (
            lambda: strategic_response(PeopleLine([-1, -2, 2, 3], [0, 1, 0, 1], lambda s: 0.5), 2),
            "landing gives values of shape",
        ),
        (
            lambda: PeopleLine.of(
                Gaussians().model(), Gaussians().table(np.zeros((5, 2))), lambda t: 0.5 + t["x1"] + 9
            ),
            "eta= holds 9.5",
        ),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(ta.errors.AuditError, match=text):
        call()
