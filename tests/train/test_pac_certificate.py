"""A certificate can be read, stored, checked and not be forged; a shortfall says what can be promised instead."""

from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import pytest

from turnabout.core import Recourse, Status
from turnabout.errors import TrainingError
from turnabout.intervals import clopper_pearson
from turnabout.train.calibrate import certify, pac_threshold
from turnabout.train.certificate import Certificate, Shortfall, downward, in_percent, upward


@pytest.fixture
def scores():
    return np.random.default_rng(0).random(735)


def answer(short, n=500, accepted=100):
    """An answer in which so many people have nothing."""
    status = [Status.ACCEPTED] * accepted + [Status.FOUND] * (n - accepted - short) + [Status.NOT_FOUND] * short
    people = pd.DataFrame({"income": np.arange(n)})
    nothing = pd.DataFrame({"income": pd.Series(dtype=int)})
    return Recourse(people, nothing, pd.Series(status, index=people.index, dtype=object), nothing, "Walk()", 0.0)


def test_the_sentence():
    scores = np.concatenate([np.full(26, 0.1), [0.41879], np.full(708, 0.9)])
    assert str(pac_threshold(scores)) == (
        "With 95 % confidence over the draw of 735 calibration people, at least 95 % of people like them are accepted "
        "or can reach acceptance when the threshold is at most 0.418 (26 of 735 may fall short; exact failure "
        "probability 3.64 %)."
    )


def test_failure_is_rounded_up_and_exact_only_without_ties(scores):
    certificate = pac_threshold(scores)
    assert certificate.exact and certificate.failure == pytest.approx(0.0363415, abs=1e-6)
    assert str(certificate).endswith("exact failure probability 3.64 %).")
    for tied in (np.round(scores, 1), np.concatenate([np.full(26, 0.1), np.full(2, 0.4), np.full(707, 0.9)])):
        certificate = pac_threshold(tied)
        assert not certificate.exact and certificate.check(tied)
        assert str(certificate).endswith("failure probability at most 3.64 %).") and "exact" not in str(certificate)
        assert not replace(certificate, exact=True).check(tied)
    older = pac_threshold(scores).to_dict()
    del older["exact"]  # a document of before knows only the bound
    assert not Certificate.from_dict(older).exact and Certificate.from_dict(older).check(scores)
    assert upward(0.0) == "0" and upward(100.0) == "100" and upward(3.2) == "3.2"


@pytest.mark.parametrize("alpha", [1e-6, 1e-12, 1e-40])
def test_nothing_is_wholly_sure(alpha):
    text = str(pac_threshold(np.linspace(0, 1, 5000), alpha=alpha))
    assert text.startswith("With 99.99 % confidence") and " at least 95 % " in text
    assert "99.99 % confidence" in str(certify(answer(100), alpha=max(alpha, 1e-12)))
    assert in_percent(1 - 1e-12) == "99.99 %" and in_percent(1.0) == "100 %"


def test_the_sentence_names_every_group(scores):
    groups = np.where(np.arange(735) % 3, "b", "a")
    text = str(pac_threshold(scores, groups=groups))
    assert text.count(".") - text.count("0.") - text.count(" 3.") <= 2
    assert "in each group" in text and " for 'a' and 0." in text and "failure probability at most" in text


def test_printed_thresholds_are_never_higher_than_the_certified_one():
    for value in np.random.default_rng(1).random(300) ** 6:
        assert value * 0.98 <= float(downward(value)) <= value
    assert downward(0.0) == "0" and downward(1.0) == "1" and downward(-0.12345) == "-0.124"
    assert in_percent(1 - 0.07) == "93 %" and in_percent(1 - 0.05 / 3) == "98.33 %"


def test_json_both_ways(scores):
    for certificate in (pac_threshold(scores), pac_threshold(scores, groups=np.arange(735) % 2), certify(answer(3))):
        again = Certificate.from_json(certificate.to_json())
        assert again == certificate
        assert pickle.loads(pickle.dumps(certificate)) == certificate
    assert pac_threshold(scores, groups=np.arange(735) % 2).by_group.keys() == {0, 1}


def test_a_true_certificate_checks(scores):
    certificate = Certificate.from_json(pac_threshold(scores).to_json())
    assert certificate.check(scores)
    assert certificate.check(pd.Series(scores[::-1]))
    assert certificate.short == 26 and (scores < certificate.threshold).sum() == 26


@pytest.mark.parametrize(
    ("field", "value"),
    [("threshold", 0.9), ("threshold", 0.0), ("k", 27), ("n", 736), ("short", 3), ("failure", 0.01), ("epsilon", 0.01),
     ("alpha", 0.01), ("threshold", None)],
)  # fmt: skip
def test_a_forged_certificate_does_not_check(scores, field, value):
    document = json.loads(pac_threshold(scores).to_json()) | {field: value}
    assert not Certificate.from_dict(document).check(scores)


def test_other_scores_do_not_check(scores):
    certificate = pac_threshold(scores)
    assert not certificate.check(scores + 0.01)
    assert not certificate.check(scores[:-1])
    assert not certificate.check(scores[:5])


def test_certificates_with_groups_check(scores):
    groups = np.where(np.arange(735) % 3, "b", "a")
    certificate = pac_threshold(scores, groups=groups)
    assert certificate.check(scores, groups)
    assert not certificate.check(scores, np.roll(groups, 1))
    assert not certificate.check(scores, np.where(groups == "a", "c", "b"))
    assert not replace(certificate, threshold=0.9).check(scores, groups)
    forged = tuple((label, replace(part, threshold=0.9)) for label, part in certificate.groups)
    assert not Certificate.together(forged, 0.05).check(scores, groups)
    greedy = tuple((label, pac_threshold(scores[groups == label])) for label in "ab")  # 5 % each is not 5 % together
    assert not Certificate.together(greedy, 0.05).check(scores, groups)
    with pytest.raises(TrainingError, match="the certificate has groups"):
        certificate.check(scores)


def test_lower_thresholds_are_permitted(scores):
    certificate = pac_threshold(scores)
    assert certificate.permits(certificate.threshold) and certificate.permits(0.0)
    assert not certificate.permits(certificate.threshold + 1e-9)
    grouped = pac_threshold(np.where(np.arange(735) % 2, scores, scores / 2), groups=np.arange(735) % 2)
    assert grouped.permits(grouped.by_group[1].threshold, group=1)
    assert not grouped.permits(grouped.by_group[1].threshold)
    with pytest.raises(TrainingError, match="the certificate has no group 'x'"):
        grouped.permits(0.1, group="x")
    with pytest.raises(TrainingError, match="promises nothing for other thresholds"):
        certify(answer(3)).permits(0.1)


def test_certificates_are_frozen(scores):
    with pytest.raises(FrozenInstanceError):
        pac_threshold(scores).threshold = 1.0


def test_other_documents_are_refused(scores):
    with pytest.raises(TrainingError, match="this is not JSON"):
        Certificate.from_json("{")
    with pytest.raises(TrainingError, match="not a Certificate of turnabout"):
        Certificate.from_json('{"turnabout_recourse": 1}')
    document = pac_threshold(scores).to_dict()
    del document["k"]
    with pytest.raises(TrainingError, match="this Certificate cannot be read: it has no 'k'"):
        Certificate.from_dict(document)
    with pytest.raises(TrainingError, match="'kind' is 'guess'"):
        Certificate.from_dict(pac_threshold(scores).to_dict() | {"kind": "guess"})


# -- certify ----------------------------------------------------------------------------------------------------------


def test_a_fixed_model_is_certified_when_few_fall_short():
    certificate = certify(answer(16))
    assert isinstance(certificate, Certificate)
    assert (certificate.n, certificate.k, certificate.short, certificate.threshold) == (500, 16, 16, None)
    assert certificate.failure == pytest.approx(0.0343, abs=5e-5)
    assert certificate.check(answer(16).status) and not certificate.check(answer(15).status)
    assert certificate.check([True] * 484 + [False] * 16)
    assert "find a way to acceptance by Walk() (16 of 500 fell short and 16 might have" in str(certificate)
    with pytest.raises(TrainingError, match="whether they are accepted or have an option"):
        certificate.check(["yes", "no"])


def test_a_shortfall_says_what_can_be_promised():
    shortfall = certify(answer(17))
    assert isinstance(shortfall, Shortfall) and not shortfall
    assert shortfall.k == 16 and 0.945 < shortfall.at_least < 0.95
    assert (shortfall.low, shortfall.high) == clopper_pearson(483, 500)
    assert str(shortfall).startswith(
        "No certificate for 95 %: 17 of 500 people fell short and at most 16 may; with 95 % confidence, at least 94.9"
    )
    assert Shortfall.from_json(shortfall.to_json()) == shortfall


def test_too_few_people_are_a_shortfall_even_if_all_succeed():
    shortfall = certify(answer(0, n=58, accepted=10))
    assert shortfall.k is None and shortfall.needed == 59 and shortfall.at_least < 0.95
    assert "58 people are too few (59 are needed even if nobody falls short)" in str(shortfall)
    assert isinstance(certify(answer(0, n=59, accepted=10)), Certificate)


@pytest.mark.parametrize("share", [0.05, 0.06])
def test_bad_models_are_rarely_certified(share):
    rng = np.random.default_rng(2)
    drawn = rng.binomial(300, share, 4000)
    granted = {int(short): bool(certify(answer(int(short), n=300, accepted=0))) for short in np.unique(drawn)}
    assert np.mean([granted[int(short)] for short in drawn]) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 4000)
