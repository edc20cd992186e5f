"""The same numbers as shap, where the definitions agree."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import turnabout as ta
from turnabout.explain.shapley.exact import ExactShapley
from turnabout.explain.shapley.kernel import KernelShap

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    shap = pytest.importorskip("shap")


@pytest.fixture(scope="module")
def numbers():
    rng = np.random.default_rng(0)
    people = pd.DataFrame(rng.random((200, 6)).round(3), columns=list("abcdef"))
    good = people["a"] + people["b"] * people["c"] * 2 - people["d"] + 0.1 * rng.standard_normal(200) > 0.5
    return people, good, ta.Schema.infer(people)


def explain(classifier, numbers, explainer, output="margin"):
    people, _, schema = numbers
    model = ta.models.wrap(classifier, schema, background=people)
    return explainer.explain(model, people.iloc[:5], background=people.iloc[100:130], output=output)


def test_linear(numbers):
    people, good, _ = numbers
    logistic = LogisticRegression(C=100.0).fit(people.to_numpy(), good)
    masker = shap.maskers.Independent(people.iloc[100:130].to_numpy(), max_samples=30)
    theirs = shap.LinearExplainer(logistic, masker).shap_values(people.iloc[:5].to_numpy())
    np.testing.assert_allclose(explain(logistic, numbers, ExactShapley()).values, theirs, atol=1e-9)


def test_trees(numbers):
    people, good, _ = numbers
    boost = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(people.to_numpy(), good)
    theirs = shap.TreeExplainer(boost, people.iloc[100:130].to_numpy(), feature_perturbation="interventional")
    ours = explain(boost, numbers, ExactShapley())
    np.testing.assert_allclose(ours.values, theirs.shap_values(people.iloc[:5].to_numpy()), atol=1e-6)  # float32 there
    by_path = shap.TreeExplainer(boost).shap_values(people.iloc[:5].to_numpy())
    assert np.abs(ours.values - by_path).to_numpy().max() > 0.01, "another definition: see ExactShapley"


@pytest.fixture(scope="module")
def net(numbers):
    people, good, _ = numbers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MLPClassifier((8,), max_iter=200, random_state=0).fit(people.to_numpy(), good)


@pytest.mark.slow  # shap compiles it first
def test_exact(numbers, net):
    people, _, _ = numbers
    masker = shap.maskers.Independent(people.iloc[100:130].to_numpy(), max_samples=30)
    theirs = shap.ExactExplainer(lambda x: net.predict_proba(x)[:, 1], masker)(people.iloc[:5].to_numpy())
    ours = explain(net, numbers, ExactShapley(), "probability")
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-9)
    np.testing.assert_allclose(ours.base, theirs.base_values, atol=1e-9)


def test_kernel(numbers, net):
    people, _, _ = numbers
    theirs = shap.KernelExplainer(lambda x: net.predict_proba(x)[:, 1], people.iloc[100:130].to_numpy())
    values = theirs.shap_values(people.iloc[:5].to_numpy(), l1_reg=0, silent=True)
    np.testing.assert_allclose(explain(net, numbers, KernelShap(), "probability").values, values, atol=1e-9)


def test_kernel_with_few_samples_estimates_the_same_values():
    """12 features, 300 masks: both err, ours no more than theirs."""
    rng = np.random.default_rng(1)
    w, x, background = rng.standard_normal(12), rng.standard_normal((8, 12)), rng.standard_normal((20, 12))

    def bent(points):
        return np.tanh(points @ w) + points[:, 0] * points[:, 1] * points[:, 2]

    def ours(points):
        return torch.from_numpy(bent(points.numpy()))

    exact = ExactShapley().explain(ours, x, background=background).values.to_numpy()
    np.random.seed(0)  # noqa: NPY002 - shap draws from the global generator
    kernel = shap.KernelExplainer(bent, background)
    theirs = kernel.shap_values(x, nsamples=300, l1_reg=0, silent=True)
    mine = KernelShap(300).explain(ours, x, background=background)
    error = [np.sqrt(np.mean((values - exact) ** 2)) for values in (mine.values.to_numpy(), theirs)]
    assert 0 < error[0] < 1.2 * error[1] and error[1] < 0.2
