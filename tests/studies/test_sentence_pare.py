"""SentencePare: its objective on numbers, its candidates, and what it never claims."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.core import Status
from turnabout.errors import TrainingError
from turnabout.studies.sentences import SentencePare
from turnabout.studies.sentences.bag import Bag, BagSettings, Swaps, Texts, objective
from turnabout.train.stack import History

WORDS = {"bad": ("good",), "good": ("bad", "evil"), "dull": ("lively", "bright"), "short": ("long",)}
FILLERS = ["the", "film", "a", "plot", "and", "of", "it", "story"]


def reviews(n=240, seed=0):
    """Made-up sentences: favourable if they hold "good", "lively" or "fine"; some cannot be changed at all."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(n):
        yes = rng.random() < 0.5
        key = rng.choice(["good", "lively", "fine"] if yes else ["bad", "dull", "awful"])
        words = [*rng.choice(FILLERS, rng.integers(2, 6)), key]
        rng.shuffle(words)
        texts.append(" ".join(map(str, words)))
        labels.append(yes)
    return pd.Series(texts, index=range(100, 100 + n)), pd.Series(labels, index=range(100, 100 + n))


def small(**given):
    return SentencePare(**({"candidates": WORDS, "dim": 8, "hidden": 8, "epochs": 8, "batch": 32, "lr": 0.02} | given))


@pytest.fixture(scope="module")
def fitted():
    return small().fit(*reviews())


def settings(**given):
    usual = {"lam": 0.5, "dropout": 0.0, "word_dropout": 0.0, "epochs": 1, "batch": 8, "lr": 0.01}
    return BagSettings(**(usual | {"refused_only": False, "keep": "loss", "patience": None, "seed": 0} | given))


@pytest.mark.parametrize("refused_only", [False, True])
def test_the_objective_by_hand(refused_only):
    """(1) with every changed sentence written out and scored as a sentence of its own."""
    net = Bag(9, torch.ones(9, dtype=torch.bool), 4, 3, seed=1).double()
    ids = torch.tensor([[2, 3, 4], [5, 6, 0], [7, 0, 0], [3, 3, 8]])
    swaps = Swaps(torch.tensor([[3, 4], [6, 0], [0, 0], [3, 8]]), torch.tensor([[5, 8], [2, 0], [0, 0], [6, 7]]))
    changed = {0: [[2, 5, 4], [2, 3, 8]], 1: [[5, 2, 0]], 3: [[6, 3, 8], [3, 3, 7]]}
    y = torch.tensor([0.0, 1.0, 0.0, 1.0])
    own = net.score(ids)
    expected = -(y * own.log() + (1 - y) * (1 - own).log()).sum()
    for row, sentences in changed.items():
        if not refused_only or own[row] < 0.5:
            expected = expected - 0.5 * net.score(torch.tensor(sentences)).log().max()
    loss, logits = objective(net, Texts(ids, y, swaps), settings(refused_only=refused_only))
    assert float(loss) == pytest.approx(float(expected) / 4, abs=1e-12)
    assert torch.allclose(logits.sigmoid(), own)
    assert (own < 0.5).any() and (own >= 0.5).any()  # else the option was not put to the test


def test_without_lam_it_is_the_cross_entropy():
    net = Bag(4, torch.ones(4, dtype=torch.bool), 4, 3, seed=0)
    texts = Texts(torch.tensor([[2, 3]]), torch.ones(1), Swaps(torch.tensor([[2]]), torch.tensor([[3]])))
    loss, _ = objective(net, texts, settings(lam=0.0))
    assert float(loss) == pytest.approx(-float(net.score(texts.ids).log()), rel=1e-6)


def test_candidates_come_in_reading_order_and_keep_capitals():
    found = small().candidates_of("Good plot , dull film .")
    assert [(c.position, c.word, c.antonym) for c in found] == [
        (0, "Good", "Bad"),
        (0, "Good", "Evil"),
        (3, "dull", "lively"),
        (3, "dull", "bright"),
    ]
    assert found[0].sentence == "Bad plot , dull film ."
    assert found[3].sentence == "Good plot , bright film ."
    assert small().candidates_of("nothing to change") == []


def test_at_most_ten_candidates():
    text = "good " * 8
    assert len(small().candidates_of(text)) == 10
    assert [c.position for c in small(most=3).candidates_of(text)] == [0, 0, 1]


def test_it_learns_and_grants_recourse(fitted):
    texts, accepted = reviews(seed=1)
    assert fitted.score(texts, accepted) > 0.95
    answer = fitted.recourse(texts)
    bad = texts.str.contains("bad")
    assert (answer["status"][bad] == Status.FOUND).mean() > 0.9
    assert (answer["status"][texts.str.contains("awful")] == Status.NOT_FOUND).all()


def test_what_is_claimed_is_accepted_as_printed(fitted):
    texts, _ = reviews(seed=2)
    for threshold in (0.2, 0.5, 0.9):
        model = copy.copy(fitted).set_params(threshold=threshold)
        answer = model.recourse(texts)
        assert answer.index.equals(texts.index)
        found = answer[answer["status"] == Status.FOUND]
        assert len(found)
        for own, row in zip(texts[found.index], found.itertuples()):
            assert model.predict([row.replacement])[0] and not model.predict([own])[0]
            assert row.replacement in [c.sentence for c in model.candidates_of(own)]
            assert row.after == pytest.approx(model.score_of([row.replacement])[0], abs=1e-12)
            assert row.antonym in row.replacement.split() and row.word in own.split()
        rest = answer[answer["status"] != Status.FOUND]
        assert (rest[["replacement", "word", "antonym"]] == "").all(axis=None)
        lost = answer[answer["status"] == Status.NOT_FOUND]
        assert (lost["after"] < threshold).all()
        accepted = answer[answer["status"] == Status.ACCEPTED]
        assert (accepted["before"] >= threshold).all() and (accepted["after"] == accepted["before"]).all()
        assert not answer.isna().any(axis=None)


def test_recourse_is_the_best_of_all_candidates(fitted):
    row = fitted.recourse(["a dull plot and bad film"]).iloc[0]
    scores = {c.sentence: fitted.score_of([c.sentence])[0] for c in fitted.candidates_of("a dull plot and bad film")}
    assert row["candidates"] == 3
    assert row["after"] == pytest.approx(max(scores.values()), abs=1e-12)


def test_a_sentence_without_candidates_or_words_is_answered(fitted):
    answer = fitted.recourse(["awful", "", "words never seen"])
    assert answer["candidates"].tolist() == [0, 0, 0]
    assert (answer["after"] == answer["before"]).all()
    assert len(fitted.recourse([])) == 0


def test_recourse_training_makes_a_new_word_count():
    """ "bright" is in no training sentence: ordinary training knows nothing of it, recourse training all the more."""
    texts, accepted = reviews()
    plain, granting = (small(candidates={"dull": ("bright",)}, lam=lam).fit(texts, accepted) for lam in (0, 2))
    assert plain.score_of(["the bright film"])[0] == plain.score_of(["the unheard-of film"])[0]
    assert granting.score_of(["the bright film"])[0] > granting.score_of(["the unheard-of film"])[0] + 0.1
    assert granting.recourse(["the dull film"])["status"].tolist() == [Status.FOUND]


def test_same_seed_same_answer_and_neighbours_do_not_matter(fitted):
    texts, accepted = reviews()
    again = small().fit(texts.tolist(), accepted.tolist())
    assert np.array_equal(again.score_of(texts), fitted.score_of(texts))
    other = small(seed=1).fit(texts, accepted)
    assert not np.array_equal(other.score_of(texts), fitted.score_of(texts))
    alone = np.concatenate([fitted.score_of([text]) for text in texts[:20]])
    assert np.allclose(alone, fitted.score_of(texts)[:20], atol=1e-12)
    pd.testing.assert_frame_equal(fitted.recourse(texts[::-1])[::-1], fitted.recourse(texts))


def test_numbers_of_numpy_are_numbers(fitted):
    given = {name: np.int64(getattr(fitted, name)) for name in ("most", "dim", "hidden", "epochs", "batch", "seed")}
    again = small(**given, lam=np.float64(0.25), patience=np.int64(2)).fit(*reviews())
    assert np.array_equal(again.score_of(reviews()[0]), fitted.score_of(reviews()[0]))


def test_case_is_ignored_and_word_order_too(fitted):
    assert fitted.score_of(["The FILM good"])[0] == pytest.approx(fitted.score_of(["good film the"])[0], abs=1e-12)


def test_progress_dev_and_early_stop():
    texts, accepted = reviews(80)
    calls = []
    model = small(epochs=40, patience=2).fit(
        texts, accepted, dev=reviews(40, seed=5), progress=lambda done, total: calls.append((done, total))
    )
    assert calls[-1][0] == calls[-1][1] == 40 * 3
    assert isinstance(model.history_, History)
    epochs = len(model.history_.train)
    assert len(model.history_.validation) == epochs
    assert epochs == 40 or epochs == int(model.history_.kept) + 3
    assert int(model.history_.kept) == int(np.argmin(model.history_.validation))
    last = small(epochs=3, keep="last", patience=None).fit(texts, accepted)
    assert int(last.history_.kept) == 2
    assert int(small(epochs=3, keep="f1").fit(texts, accepted).history_.kept) <= 2


def test_manners_of_an_estimator(fitted):
    assert SentencePare(**small(lam=0.7).get_params()).get_params() == small(lam=0.7).get_params()
    assert repr(SentencePare(WORDS, lam=1.0)) == "SentencePare(<4 words>, lam=1.0)"
    proba = fitted.predict_proba(["good film", "bad film"])
    assert proba.shape == (2, 2) and np.allclose(proba.sum(1), 1)
    assert fitted.predict(["good film", "bad film"]).tolist() == [True, False]
    assert fitted.classes_.tolist() == [False, True]
    thawed = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(thawed.score_of(["good film"]), fitted.score_of(["good film"]))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, y: small(lam=-1).fit(x, y), "lam=-1, which is not a number from 0 up"),
        (lambda x, y: small(lam="much").fit(x, y), "lam='much', which is not a number from 0 up"),
        (lambda x, y: small(lam=np.inf).fit(x, y), "lam=inf, which is not a number from 0 up"),
        (lambda x, y: small(most=0).fit(x, y), "most=0, which is not a whole number from 1 up"),
        (lambda x, y: small(dim=2.5).fit(x, y), "dim=2.5, which is not a whole number from 1 up"),
        (lambda x, y: small(hidden=(8,)).fit(x, y), r"hidden=\(8,\), which is not a whole number from 1 up"),
        (lambda x, y: small(epochs=0).fit(x, y), "epochs=0, which is not a whole number from 1 up"),
        (lambda x, y: small(batch=True).fit(x, y), "batch=True, which is not a whole number from 1 up"),
        (lambda x, y: small(dropout=1).fit(x, y), "dropout=1, which is not a number from 0 up, below 1"),
        (
            lambda x, y: small(word_dropout=-0.1).fit(x, y),
            "word_dropout=-0.1, which is not a number from 0 up",
        ),
        (lambda x, y: small(lr=0).fit(x, y), "lr=0, which is not a number above 0"),
        (lambda x, y: small(keep="best").fit(x, y), "keep='best', which is not one of 'loss', 'f1', 'last'"),
        (lambda x, y: small(patience=0).fit(x, y), "patience=0, which is not a whole number from 1 up"),
        (lambda x, y: small(validation=1).fit(x, y), "validation=1, which is not a number strictly between 0 and 1"),
        (lambda x, y: small(threshold=50).fit(x, y), "threshold=50, which is not a number strictly between 0 and 1"),
        (lambda x, y: small(seed=-1).fit(x, y), "seed=-1, which is not a whole number from 0 up"),
        (lambda x, y: SentencePare(["bad"]).fit(x, y), "candidates=\\['bad'\\], which is not a Mapping"),
        (lambda x, y: SentencePare({"bad": 5}).fit(x, y), "candidates 5 of 'bad' are not single words"),
        (lambda x, y: SentencePare({"bad": (5,)}).fit(x, y), "of 'bad' are not single words"),
        (lambda x, y: SentencePare({"bad": ("Good",)}).fit(x, y), "of 'bad' are not single words in lower case"),
        (lambda x, y: SentencePare({"bad": ("very good",)}).fit(x, y), "not single words"),
        (lambda x, y: SentencePare({"bad": "good"}).fit(x, y), "candidates 'good' of 'bad' are not single words"),
        (lambda x, y: small().fit("good film", y), "a str is not a list of sentences"),
        (lambda x, y: small().fit(x.to_frame(), y), "a DataFrame is not a list of sentences"),
        (lambda x, y: small().fit([*x[:-1], None], y), "sentence 239 is None, which is no text"),
        (lambda x, y: small().fit(x, y[:5]), "5 labels for 240 people"),
        (lambda x, y: small().fit(x, y[::-1]), "different indexes"),
        (lambda x, y: small().fit(x, np.ones(240)), "all 240 people are labelled accepted"),
        (lambda x, y: small().fit(x, y, dev=([], [])), "there are no dev sentences"),
        (lambda x, y: small(lr=1e30, patience=None).fit(x, y), "no longer a finite number in epoch"),
        (lambda x, y: small().score_of(x), "not trained yet"),
        (lambda x, y: small().score([], []), "there is nobody to judge"),
        (lambda x, y: small().recourse(x), "not trained yet"),
        (lambda x, y: small().set_params(mu=1), "no parameter 'mu'"),
    ],
)
def test_errors_say_what_is_wrong(call, text):
    with pytest.raises(TrainingError, match=text):
        call(*reviews())
