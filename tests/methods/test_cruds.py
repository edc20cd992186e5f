"""CRUDS: what is searched and what is held, where it starts, when the whole code is searched."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import turnabout as ta
from earners import SCHEMA, decider, earners
from plain_codes import PERSON, PLANE, with_plain_codes
from turnabout.methods import Cruds

X = PLANE.encode(PERSON)


def test_w_alone_moves_and_z_is_the_persons():
    method = with_plain_codes(Cruds(label_width=1), spoken=True)
    space = method.space(X)
    assert space.first.tolist() == [[0.4]]  # the mean of the accepted people's w
    assert torch.equal(space.rest, X)
    assert space.printed(torch.tensor([[0.4]], dtype=torch.float64)).tolist()[0] == pytest.approx([0.6, 0.5])
    assert space.printed(torch.tensor([[0.0]], dtype=torch.float64)).tolist()[0] == pytest.approx([0.2, 0.1])


def test_the_loss_is_equation_1():
    sure = 1 / (1 + math.exp(-0.5))  # P(yes) whose log-odds are 0.5
    method = with_plain_codes(Cruds(label_width=1, confidence=sure), spoken=True)
    w = torch.tensor([[0.33]], dtype=torch.float64, requires_grad=True)  # prints as 0.5, 0.4: margin -0.1, cost 0.6
    loss = method.loss(method.space(X), w, torch.tensor([2.0], dtype=torch.float64))
    assert loss.item() == pytest.approx((0.5 + 0.1) + 2 * 0.6)
    loss.sum().backward()
    assert w.grad.item() == pytest.approx(-2 + 2 * 2)


def test_further_starts_lie_further_from_the_refused():
    method = with_plain_codes(Cruds(label_width=1), spoken=True)
    space, lost = method.space(X.repeat(2, 1)), torch.tensor([False, True])
    starts = [space.start(turn, lost, method.run)[:, 0].tolist() for turn in range(3)]
    assert starts == [pytest.approx([0.4, 0.4]), pytest.approx([0.6, 0.4]), pytest.approx([0.8, 0.4])]


def test_the_cheapest_row_along_w_is_found():
    answer = with_plain_codes(Cruds(label_width=1, confidence=0.5), spoken=True).find(PERSON, refine=False)
    option = answer.options.iloc[0]
    assert (option["a"], option["b"]) == pytest.approx((0.6, 0.5))  # both move by w


@pytest.mark.parametrize("refine", [False, True])
def test_rows_are_accepted_with_confidence_where_they_can_be(refine):
    sure = 1 / (1 + math.exp(-0.45))  # w moves a and b in steps of 0.1 each: margins are 0.1, 0.3, 0.5
    method = with_plain_codes(Cruds(label_width=1, confidence=sure), spoken=True)
    assert method.sure_ == pytest.approx(0.45)
    assert method.find(PERSON, refine=refine).options["margin"].iloc[0] == pytest.approx(0.5)


def test_where_no_row_is_accepted_with_confidence_an_accepted_one_is_shown():
    method = with_plain_codes(Cruds(label_width=1, confidence=0.99), spoken=True)  # no row has a margin of 4.6
    assert not method.criterion(X, torch.ones_like(X)).any()
    assert method.find(PERSON).options["margin"].iloc[0] >= 0


class DeafToW(Cruds):
    """No w changes a row, so that only the whole code can."""

    def space(self, x):
        space = super().space(x)
        space.coder = _Deaf()
        return space


class _Deaf:
    def condition(self, x, given):
        return None

    def decode(self, code, condition):
        return code[..., 1:]


def test_the_whole_code_is_searched_for_people_whom_no_w_helps():
    method = with_plain_codes(DeafToW(label_width=1, rounds=1), spoken=True)
    assert with_plain_codes(Cruds(label_width=1), spoken=True).find(PERSON).status.iloc[0] == "FOUND"
    rows = method._search(X).x_new
    assert (method.problem_.margin(rows[0, :1]) > 0).all()
    whole = method.whole(X)
    assert whole.first.tolist()[0] == pytest.approx([0.3, 0.9, 0.8])  # w of an accepted person, z of an accepted row
    assert whole.rest.shape == (1, 0)


def test_labels_of_the_problem_come_before_the_models_decisions(monkeypatch):
    from turnabout.methods import cruds

    seen = []
    monkeypatch.setattr(cruds, "train_csvae", lambda network, rows, labels, *rest: seen.append(labels.clone()))
    background = earners(60, 1)
    decided = torch.tensor((decider().judge(background) >= 0).tolist())
    said = decided.clone()
    said[:5] = ~said[:5]
    Cruds.small().fit(ta.Problem(SCHEMA, decider(), background=background))
    Cruds.small().fit(ta.Problem(SCHEMA, decider(), background=background, labels=said.numpy()))
    assert torch.equal(seen[0], decided) and torch.equal(seen[1], said)


def test_accepted_people_lie_where_w_is_that_of_the_accepted():
    """For most refused people the row at the start of the search is accepted."""
    problem = ta.Problem(SCHEMA, decider(), background=earners(600, 1))
    method = Cruds(latent=4, hidden=(32,), training_steps=600).fit(problem)
    x = SCHEMA.encode(earners(60, 2, refused=True))
    space = method.space(x)
    begun = problem.margin(space.printed(space.first))
    assert (begun >= 0).double().mean() > 0.5


def test_it_is_refused_labels_of_one_kind():
    background = pd.DataFrame({"a": [0.9, 0.8, 1.0], "b": [0.9, 0.9, 0.7]})
    with pytest.raises(ta.errors.MethodError, match=r"all 3 background rows are accepted[\s\S]*Revise and Cchvae"):
        with_plain_codes(Cruds(), background=background)


def test_where_confidence_is_out_of_reach_rows_are_likely_all_the_same():
    method = with_plain_codes(Cruds(label_width=1, confidence=0.99), spoken=True, threshold=-1.25)
    person = PERSON.assign(a=0.6, b=0.1)  # likely rows are those with a + b of at most 1.25
    for refine in (False, True):
        option = method.find(person, refine=refine).options.iloc[0]
        assert 1.0 <= option["a"] + option["b"] <= 1.25
    assert not len(method.unsure_)  # the fitted method knows of nobody


def test_a_landing_far_beyond_the_boundary_is_searched():
    """The cut-off that stands for a landing rounds to 1, and its log-odds do not."""
    schema = ta.Schema((ta.Number("a", 0, 100, step=1), ta.Number("b", 0, 100, step=1)))
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 101, (300, 2)).astype(float), columns=["a", "b"])
    steep = LogisticRegression().fit(table, table["a"] > 50)
    steep.coef_[:], steep.intercept_[:] = [[1.5, 0.0]], -75.0
    model = ta.models.wrap(steep, schema, background=table, target=True)
    assert model.shifted(40.0).margin_at(0.5) == pytest.approx(-40.0)
    problem = ta.Problem(schema, model, background=table, labels=table["a"] > 50)
    eta = ta.landing.Calibration.of(model, table, rng.random(300) < table["a"] / 100)
    answer = (
        Cruds.small()
        .fit(problem)
        .find(pd.DataFrame({"a": [20.0], "b": [5.0]}), landing=ta.landing.Probability(0.9, eta=eta))
    )
    assert (answer.status == "FOUND").all()
