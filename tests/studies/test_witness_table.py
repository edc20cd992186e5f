"""The table of the known example f(x) = |x| - 0.75, delta = 1: rates, Lipschitz constants and witnesses."""

from __future__ import annotations

import json
import math

import pytest
import torch

from turnabout.studies.attribution_maps.map_report import audit_attribution
from turnabout.studies.attribution_maps.witness import WitnessKind

CELLS = 2001  # midpoints of as many cells of (-0.75, 0.75), 0 among them
POINTS = ((torch.arange(CELLS, dtype=torch.float64) - CELLS // 2) * 1.5 / CELLS).unsqueeze(1)


def f(x):
    return x[:, 0].abs() - 0.75


def smoothgrad(s):
    return lambda x: 2 * torch.special.ndtr(x / s) - 1  # E sign(x + s Z)


def nearest(x):
    return torch.where(x >= 0, 0.75, -0.75) - x


def audit(phi):
    report = audit_attribution(f, phi, POINTS, 1.0)
    assert json.dumps(report.to_dict(), allow_nan=False)
    return report


def rate(report):
    return round(report.sensitivity.rate.value, 4)


def test_gradient():
    report = audit(torch.sign)
    assert rate(report) == 0.9995
    assert report.sensitivity.verdicts[CELLS // 2] == "fails" and report.sensitivity.verdicts.count("fails") == 1
    assert report.continuity.at(1e-4).lipschitz == pytest.approx(1e4) and report.continuity.diverges
    assert report.witness.kind is WitnessKind.JUMP
    assert report.witness.size == 2.0 and abs(report.witness.x[0]) < 1e-12


@pytest.mark.parametrize(("s", "digits"), [(0.1, "7.98"), (0.5, "1.60")])
def test_smoothgrad(s, digits):
    report = audit(smoothgrad(s))
    assert rate(report) == 0.9995
    lipschitz = report.continuity.at(1e-4).lipschitz
    assert f"{lipschitz:.2f}" == digits and lipschitz == pytest.approx(math.sqrt(2 / math.pi) / s, rel=1e-5)
    assert not report.continuity.diverges and report.continuity.jump is None
    assert report.witness.kind is WitnessKind.VANISHING
    assert report.witness.size < 1e-10 and abs(report.witness.x[0]) < 1e-12
    assert abs(report.witness.recourse[0]) == pytest.approx(0.75)


def test_nearest_counterfactual():
    report = audit(nearest)
    assert rate(report) == 1.0 and report.sensitivity.rate.hits == CELLS
    assert report.continuity.at(1e-4).typical == pytest.approx(1.0)  # away from 0
    assert report.witness.kind is WitnessKind.JUMP
    assert report.witness.size == pytest.approx(1.5) and abs(report.witness.x[0]) < 1e-12
    assert report.continuity.jump.size == pytest.approx(1.5)


def test_constant():
    report = audit(torch.ones_like)
    assert rate(report) == 0.6667
    assert report.continuity.at(1e-4).lipschitz == 0.0
    assert report.witness.kind is WitnessKind.WRONG_DIRECTION
    assert -0.75 < report.witness.x[0] < -0.25  # on L \ R
    assert report.witness.recourse[0] == pytest.approx(-0.75)


def test_both_options_are_a_way_out():
    report = audit(lambda x: torch.stack([-torch.ones_like(x), torch.ones_like(x)], 1))
    assert rate(report) == 1.0 and report.witness is None and report.pairs > 0
    assert report.continuity.at(1e-4).lipschitz == 0.0
    assert "came through" in str(report)


def test_the_report_lists_the_lengths_that_would_do():
    report = audit(torch.sign)
    (conflicts,) = report.conflicts
    assert conflicts.rate.value == 1.0
    assert [str(i) for i in conflicts.free_deltas] == ["(0, 0.75)", "[1.5, 2]"]
    for delta, found in ((0.7, False), (0.75, True), (1.49, True), (1.5, False)):
        assert (audit_attribution(f, nearest, POINTS, delta).witness is not None) is found
