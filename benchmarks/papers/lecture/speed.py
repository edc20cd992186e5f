"""How long it takes: the report of 100,000 people, Shapley values of 16 features, LIME on an image."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from ledger import Outcome

from turnabout.audit.risk.risk_of_recourse import risk_of_recourse
from turnabout.explain.lime.lime_image import LimeImage
from turnabout.explain.shapley.games import shapley
from turnabout.studies.gaussian.gaussians import GaussianProjection, Gaussians


def _seconds(call: Callable[[], object], repeats: int) -> list[float]:
    out = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        out.append(time.perf_counter() - start)
    return out


def speed(full: bool) -> Outcome:
    """Seconds, each measured several times."""
    out, repeats = Outcome(), 3 if full else 1
    out.figures["risk.seconds_100000"] = (_risk(100_000, repeats), 100_000)
    game = torch.as_tensor(np.random.default_rng(0).standard_normal((1, 2**16)))
    shapley(game)
    out.figures["shapley.seconds_16_features"] = (_seconds(lambda: shapley(game), 5), 1)
    for name, stride in (("", 1), ("_light", 2)):
        ratios = _image(repeats, 1000 if full else 100, stride)
        out.figures[f"lime_image.times{name}_model_calls"] = (ratios, 1)
    return out


def _risk(people: int, repeats: int) -> list[float]:
    """The whole report with 2,000 replicates, groups and profit, given the answers and eta."""
    study = Gaussians()
    draw = study.sample(people, seed=0)
    problem = study.problem()
    table = study.table(draw.x)
    answer = GaussianProjection(study, 0.7).fit(problem).find(table)
    eta0 = study.eta(draw.x)
    first = answer.options.droplevel("option")
    landed = study.eta(first[list(study.schema.names)].to_numpy())
    eta1 = eta0.copy()
    eta1[table.index.get_indexer(first.index)] = landed
    groups = np.random.default_rng(1).integers(0, 4, people)

    def report() -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return risk_of_recourse(
                problem.model, table, draw.y, answer, eta=(eta0, eta1), groups=groups, gain=1.0, loss=3.0, outside=1.0
            )

    return _seconds(report, repeats)


def _image(repeats: int, samples: int, stride: int) -> list[float]:
    """LIME on a 64 x 64 image with two layers of convolutions: all of it, over the net alone on as many images.

    With a stride of 1 the net is still small (a few ms an image on one core); with 2 it is next to free.
    """
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=stride),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=stride),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(32, 1),
    ).eval()
    image = np.random.default_rng(0).random((64, 64, 3))
    spent = [0.0]

    def ask(images: np.ndarray) -> np.ndarray:
        start = time.perf_counter()
        with torch.no_grad():
            batch = torch.as_tensor(np.ascontiguousarray(images), dtype=torch.float32).permute(0, 3, 1, 2)
            values = net(batch)[:, 0].double().numpy()
        spent[0] += time.perf_counter() - start
        return values

    explainer, ratios = LimeImage(samples=samples), []
    explainer.explain_image(ask, image)
    for seed in range(repeats):
        spent[0] = 0.0
        (whole,) = _seconds(lambda seed=seed: explainer.explain_image(ask, image, seed=seed), 1)
        ratios.append(whole / spent[0])
    return ratios
