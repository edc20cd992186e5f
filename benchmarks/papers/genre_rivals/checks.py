"""Formulas against slow references: ROAR's inner maximum, PROBE's rate, FACE's ways, the auto-encoder's bound."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import torch
from ledger import Outcome
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import turnabout as ta
from turnabout.bench.learners import pipeline
from turnabout.methods.latent import immutable
from turnabout.nn.network_training import Schedule
from turnabout.nn.vae import KL_WEIGHT, ConditionalVae, train_vae

CUBE = ta.Schema(tuple(ta.Number(name, 0, 1, decimals=6) for name in "abcde"))


def cube(estimator: object, seed: int) -> ta.Problem:
    """People in a cube, and a model of them."""
    rng = np.random.default_rng(seed)
    people = pd.DataFrame(rng.random((400, 5)).round(6), columns=list("abcde"))
    yes = (people.sum(axis=1) + rng.normal(0, 0.3, 400)) > 2.5
    fitted = pipeline(CUBE, estimator).fit(people, yes)
    return ta.Problem(CUBE, ta.models.wrap(fitted, CUBE, background=people, target=True), background=people)


def roar(seed: int) -> Outcome:
    """The lowest margin over all corners of the box of models, with a numeric slope, beside `worst_margin`."""
    problem = cube(MLPClassifier((10, 10, 10), max_iter=300, random_state=seed), seed)
    method, worst = ta.methods.Roar().fit(problem), 0.0
    corners = method.delta * np.array(list(itertools.product((-1, 1), repeat=6)))  # of the weights and the bias
    rows = torch.as_tensor(np.random.default_rng(seed).uniform(-1, 1, (50, 5)))
    step = 1e-7
    for x, own in zip(rows, method.worst_margin(rows)):
        around = problem.margin(torch.cat([x + step * torch.eye(5), x - step * torch.eye(5)]))
        slope = ((around[:5] - around[5:]) / (2 * step)).numpy()
        bias = float(problem.margin(x.unsqueeze(0))) - slope @ x.numpy()
        lowest = ((slope + corners[:, :5]) @ x.numpy() + bias + corners[:, 5]).min()
        worst = max(worst, abs(lowest - float(own)))
    return Outcome({"ROAR.inner_maximum.error": (worst, len(rows))})


def probe(seed: int, draws: int) -> Outcome:
    """The invalidation rate of a linear model beside as many noisy copies of each row."""
    problem = cube(LogisticRegression(), seed)
    method, rng = ta.methods.Probe().fit(problem), np.random.default_rng(seed)
    rows = torch.as_tensor(rng.random((50, 5)))
    told, apart = method.invalidation_rate(rows), 0.0
    for x, rate in zip(rows, told):
        noisy = x + method.sigma * torch.as_tensor(rng.normal(size=(draws, 5)))
        apart = max(apart, abs(float((problem.model.margin(noisy) < 0).double().mean()) - float(rate)))
    return Outcome({"PROBE.rate.error": (apart, len(rows))})


def face(seed: int) -> Outcome:
    """Lengths of the ways beside those of Floyd and Warshall, edges weighed one by one by the formula."""
    problem = cube(LogisticRegression(), seed)
    method = ta.methods.Face(neighbours=5).fit(problem)
    graph, z = method.graph_, method.graph_.z.numpy()
    apart = np.sqrt(((z[:, None] - z[None]) ** 2).sum(2))
    np.fill_diagonal(apart, np.inf)
    weight = np.full_like(apart, np.inf)
    for i in range(len(z)):
        for j in np.argsort(apart[i], kind="stable")[: method.neighbours]:
            middle = float(graph.density(torch.as_tensor((z[i] + z[j]) / 2).unsqueeze(0)))
            weight[i, j] = weight[j, i] = apart[i, j] * (1 + max(0.0, graph.highest - middle))
    np.fill_diagonal(weight, 0.0)
    for k in range(len(z)):
        weight = np.minimum(weight, weight[:, k : k + 1] + weight[k : k + 1])
    best = weight[:, np.flatnonzero(method.targets_.numpy())].min(1)
    own = method.ways_.length.numpy()
    same = np.isfinite(best) == np.isfinite(own)
    error = np.abs(best - own)[np.isfinite(best) & same].max() if same.all() else np.inf
    return Outcome({"FACE.ways.error": (float(error), len(z))})


def bound(network: ConditionalVae, x: torch.Tensor, given: torch.Tensor, noise: torch.Tensor) -> tuple[float, float]:
    """The mean bound with the KL term's weight in training, and with its full weight."""
    with torch.no_grad():
        each = [float(network.elbo(x, given, noise, weight).mean()) for weight in (KL_WEIGHT, 1.0)]
    return each[0], each[1]


def auto_encoder(data: str, seed: int, steps: int) -> Outcome:
    """The bound of held-out people before and after training; L1 of a round trip, and of the mean row in its place."""
    train, test = ta.datasets.load(data).split(seed=seed)
    schema = train.schema
    rows, fresh = schema.encode(train.people).float(), schema.encode(test.people).float()
    problem = ta.Problem(schema, ta.models.wrap(lambda table: np.ones(len(table)), schema), background=train.people)
    network = ConditionalVae(schema, rows, immutable(problem), 8, (128, 64), seed)
    given = immutable(problem).expand(len(fresh), -1)
    noise = torch.randn(len(fresh), 8, generator=torch.Generator().manual_seed(seed))
    free = ~immutable(problem)[schema.feature_of]
    bounds = [bound(network, fresh, given, noise)]
    train_vae(network, rows, Schedule(steps), seed)
    bounds.append(bound(network, fresh, given, noise))
    with torch.no_grad():
        code, _ = network.encode(fresh, given)
        back = network.decode(code, network.condition(fresh, given))
    lost = float((back - fresh).abs()[:, free].sum(1).mean())
    by_mean = float((rows.mean(0) - fresh).abs()[:, free].sum(1).mean())
    n = len(fresh)
    return Outcome(
        {
            f"{data}.VAE.bound.before": (bounds[0][0], n),
            f"{data}.VAE.bound.after": (bounds[1][0], n),
            f"{data}.VAE.full_weight.before": (bounds[0][1], n),
            f"{data}.VAE.full_weight.after": (bounds[1][1], n),
            f"{data}.VAE.round_trip": (lost, n),
            f"{data}.VAE.mean_row": (by_mean, n),
        }
    )
