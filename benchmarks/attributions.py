"""How many people per second do KernelSHAP and LIME serve, beside shap and lime at equal error against exact values?

    python benchmarks/attributions.py --small                     a taste, under two minutes
    python benchmarks/attributions.py --full --json figures.json  1,000 Adult people; says beforehand how long it takes

Three models of Adult: a logistic regression, boosted trees and a small net, each in a Pipeline on raw columns; P(yes)
is explained, against the same 100 background rows. Rivals explain fewer people, since each person takes them the same
time, and ask in two ways: the Pipeline on a table, and our compiled model as their function, which is the faster one
for them. A ratio is our people per second over theirs, at the smallest of our budgets from which on our error is not
larger than theirs; the headline takes the rival's faster way and the worst of the three models.

Error: root mean square over people and features, against ExactShapley over all coalitions; for LIME, against the same
definition with very many samples, each library against its own. Ours is a mean over seeds, since its draws are the same
for everyone. Seconds are those of the processor, on one thread: the machine may be shared.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from rich.table import Table
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from threadpoolctl import threadpool_limits

import turnabout as ta
from turnabout.explain.lime.lime_table import LimeTable
from turnabout.explain.shapley.exact import ExactShapley
from turnabout.explain.shapley.kernel import KernelShap

sys.path.insert(0, str(Path(__file__).parent / "papers"))
from ledger import Cell, Ledger, Outcome, gather
from running import console, foretell, parse, work

MODELS = ("logistic", "boosting", "net")
PARTS = ("kernelshap", "lime")
Rows = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Size:
    """What a run measures."""

    training: int
    people: int  # ours
    theirs: int  # people of shap
    lime_theirs: int  # people of lime
    seeds: int  # over which our error is averaged
    lime_seeds: int
    budgets: tuple[int, ...]  # our masks
    shap_budgets: tuple[int, ...]  # 0 for shap's default
    lime_budgets: tuple[int, ...]  # our draws
    limit: int  # draws that stand for infinitely many


SMALL = Size(2000, 50, 2, 5, 2, 4, (512, 2048, 3000), (0,), (5000, 6500, 10_000), 50_000)
FULL = Size(
    training=30_000,
    people=1000,
    theirs=10,
    lime_theirs=50,
    seeds=5,
    lime_seeds=20,
    budgets=(128, 256, 512, 1024, 2048, 2500),
    shap_budgets=(256, 1024, 0),
    lime_budgets=(2500, 4500, 5000, 5500, 6000, 7000, 10_000),
    limit=200_000,
)


class Study:
    """The data, the models, and the people who are explained."""

    def __init__(self, size: Size):
        self.size = size
        self._models: dict[str, Pipeline] = {}

    @cached_property
    def data(self) -> ta.datasets.Dataset:
        return ta.datasets.load("adult")

    @cached_property
    def training(self) -> ta.datasets.Dataset:
        return self.data.split(seed=0)[0]

    @cached_property
    def people(self) -> pd.DataFrame:
        return self.data.split(seed=0)[1].people.iloc[: self.size.people].reset_index(drop=True)

    @cached_property
    def background(self) -> pd.DataFrame:
        return self.training.people.iloc[:100].reset_index(drop=True)

    @cached_property
    def reference(self) -> pd.DataFrame:
        """Training rows from which LIME takes its bins."""
        return self.training.people.iloc[:2000].reset_index(drop=True)

    def pipeline(self, name: str) -> Pipeline:
        """A trained model."""
        if name not in self._models:
            classifier = {
                "logistic": LogisticRegression(max_iter=500),
                "boosting": HistGradientBoostingClassifier(max_iter=100, max_depth=3, random_state=0),
                "net": MLPClassifier((32,), max_iter=15, random_state=0),
            }[name]
            rows = slice(0, self.size.training)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # 15 epochs are enough here
                pipeline = make_pipeline(self._columns(name != "boosting"), classifier)
                self._models[name] = pipeline.fit(self.training.people[rows], self.training.accepted[rows])
        return self._models[name]

    def _columns(self, onehot: bool) -> ColumnTransformer:
        numbers = [f.name for f in self.data.schema if f.kind == "number"]
        levels = [f.name for f in self.data.schema if f.kind != "number"]
        fill = SimpleImputer(strategy="constant", fill_value="absent")
        coded = (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False)
            if onehot
            else OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        )
        scaled = StandardScaler() if onehot else "passthrough"
        return ColumnTransformer([("numbers", scaled, numbers), ("levels", make_pipeline(fill, coded), levels)])

    def model(self, name: str) -> ta.models.Model:
        return ta.models.wrap(self.pipeline(name), self.data.schema, background=self.reference)


class Codes:
    """A table as numbers, one column for each feature, as shap and lime want it: levels by their place."""

    def __init__(self, schema: ta.Schema):
        self.schema = schema
        self.levels: dict[int, np.ndarray] = {}  # raw values of the codes, None for a missing cell last
        self.columns: dict[int, np.ndarray] = {}  # their encoded columns
        for j, feature in enumerate(schema):
            if feature.kind != "number":
                values = [*feature.levels, *([None] if feature.missing else [])]  # type: ignore[attr-defined]
                self.levels[j] = np.array(values, dtype=object)
                self.columns[j] = feature.encode(pd.Series(values, dtype=object))

    def of(self, people: pd.DataFrame) -> np.ndarray:
        out = np.zeros((len(people), len(self.schema)))
        for j, feature in enumerate(self.schema):
            column = people[feature.name]
            if j not in self.levels:
                out[:, j] = column
                continue
            place = {value: i for i, value in enumerate(self.levels[j])}
            out[:, j] = [place[None if pd.isna(value) else value] for value in column]
        return out

    def table(self, codes: np.ndarray) -> pd.DataFrame:
        cells = {}
        for j, feature in enumerate(self.schema):
            values = codes[:, j]
            cells[feature.name] = self.levels[j][values.astype(int)] if j in self.levels else values
        return pd.DataFrame(cells)

    def encoded(self, codes: np.ndarray) -> torch.Tensor:
        parts = []
        for j, feature in enumerate(self.schema):
            if j in self.columns:
                parts.append(self.columns[j][codes[:, j].astype(int)])
            else:
                parts.append(((codes[:, j] - feature.low) / feature.span)[:, None])  # type: ignore[attr-defined]
        return torch.from_numpy(np.hstack(parts))


def ways(study: Study, name: str) -> tuple[Codes, dict[str, Rows]]:
    """How rivals may ask for P(yes) of coded rows."""
    codes, pipeline, model = Codes(study.data.schema), study.pipeline(name), study.model(name)
    yes = list(pipeline.classes_).index(True)
    asked: dict[str, Rows] = {
        "pipeline": lambda rows: pipeline.predict_proba(codes.table(rows))[:, yes],
        "compiled": lambda rows: model.probability(codes.encoded(rows)).numpy(),
    }
    sample = codes.of(study.people.iloc[:20])
    assert np.allclose(asked["pipeline"](sample), asked["compiled"](sample), atol=1e-9)
    return codes, asked


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the processor, and the answer."""
    start = time.process_time()
    answer = call()
    return time.process_time() - start, answer


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def match(ours: list[dict[str, float]], error: float) -> dict[str, float]:
    """Our smallest budget from which on, at every larger one too, the error is not larger: luck does not count."""
    best: dict[str, float] = {"per_second": 0.0, "error": np.nan, "samples": 0}
    for run in sorted(ours, key=lambda run: -run["samples"]):
        if run["error"] > error:
            break
        best = run
    return best


def kernelshap(study: Study, name: str) -> Outcome:
    """KernelSHAP beside shap.KernelExplainer."""
    import shap

    size, model = study.size, study.model(name)
    given = {"background": study.background, "output": "probability"}
    few = study.people.iloc[: size.theirs]
    taken, exact = timed(lambda: ExactShapley(structure=False).explain(model, few, **given))
    due = exact.values.to_numpy()
    KernelShap(128).explain(model, few, **given)  # warm
    ours = []
    for samples in size.budgets:
        gaps = [
            rms(KernelShap(samples).explain(model, few, seed=seed, **given).values - due) for seed in range(size.seeds)
        ]
        seconds, _ = timed(partial(KernelShap(samples).explain, model, study.people, **given))
        ours.append({"samples": samples, "error": float(np.mean(gaps)), "per_second": len(study.people) / seconds})
    codes, asked = ways(study, name)
    rows, behind = codes.of(few), codes.of(study.background)
    theirs = []
    for way, function in asked.items():
        for samples in size.shap_budgets:
            for lasso in (0, "num_features(10)") if not samples and way == "compiled" else (0,):
                np.random.seed(0)  # noqa: NPY002 - shap draws from the global generator
                explainer = shap.KernelExplainer(function, behind)
                explain = partial(explainer.shap_values, rows, nsamples=samples or "auto", l1_reg=lasso, silent=True)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    seconds, values = timed(explain)
                spent = samples or 2 * rows.shape[1] + 2048
                line = {"way": way, "samples": spent, "l1_reg": str(lasso), "error": rms(values - due)}
                theirs.append(line | {"per_second": len(few) / seconds, "default": not samples})
    more = {"exact_per_second": len(few) / taken, "size": rms(due)}
    return outcome(f"kernelshap.{name}", ours, theirs, (len(study.people), len(few)), more)


def lime(study: Study, name: str) -> Outcome:
    """LIME for tables, with the reference's definition, beside lime.LimeTabularExplainer."""
    from lime.lime_tabular import LimeTabularExplainer

    size, model = study.size, study.model(name)
    given = {"background": study.reference, "output": "probability"}
    few = study.people.iloc[: size.lime_theirs]
    limit = LimeTable.reference(samples=size.limit, select=None).explain(model, few, seed=99, **given).values.to_numpy()
    ours = []
    for samples in size.lime_budgets:
        explainer = LimeTable.reference(samples=samples, select=None)
        gaps = [
            rms(explainer.explain(model, few, seed=seed, **given).values - limit) for seed in range(size.lime_seeds)
        ]
        seconds, _ = timed(partial(explainer.explain, model, study.people, **given))
        ours.append({"samples": samples, "error": float(np.mean(gaps)), "per_second": len(study.people) / seconds})
    codes, asked = ways(study, name)
    rival = LimeTabularExplainer(
        codes.of(study.reference),
        categorical_features=list(codes.levels),
        feature_selection="none",
        random_state=0,
    )
    rows = codes.of(few)

    def explain(function: Rows, samples: int) -> np.ndarray:
        both: Rows = lambda points: np.stack([1 - (p := function(points)), p], 1)  # noqa: E731
        out = np.zeros(rows.shape)
        for i, row in enumerate(rows):
            told = rival.explain_instance(row, both, num_features=rows.shape[1], num_samples=samples)
            for feature, value in told.local_exp[1]:
                out[i, feature] = value
        return out

    own = explain(asked["compiled"], size.limit)
    theirs = []
    for way, function in asked.items():
        seconds, values = timed(partial(explain, function, 5000))
        line = {"way": way, "samples": 5000, "l1_reg": "", "error": rms(values - own), "default": True}
        theirs.append(line | {"per_second": len(few) / seconds})
    more = {"limit_gap": rms(own - limit), "size": rms(limit)}
    return outcome(f"lime.{name}", ours, theirs, (len(study.people), len(few)), more)


def outcome(
    prefix: str,
    ours: list[dict[str, Any]],
    theirs: list[dict[str, Any]],
    people: tuple[int, int],
    more: dict[str, float],
) -> Outcome:
    """Figures at the rival's default budget, and every line for the table."""
    found = Outcome(data={"ours": ours, "theirs": theirs})
    for line in theirs:
        best = match(ours, line["error"])
        line["speedup"] = best["per_second"] / line["per_second"]
        line["matched"] = best["samples"]
        if not best["per_second"]:
            found.notes.append(f"{prefix}: none of our budgets is as near as {line['way']} with {line['samples']}.")
    usual = {line["way"]: line for line in theirs if line["default"] and line["l1_reg"] in ("0", "")}
    fastest = min(usual.values(), key=lambda line: line["speedup"])
    best = match(ours, fastest["error"])
    figures = {
        "speedup": fastest["speedup"],
        "speedup_pipeline": usual["pipeline"]["speedup"],
        "ours_per_second": best["per_second"],
        "ours_error": best["error"],
        "ours_samples": best["samples"],
    }
    found.figures = {f"{prefix}.{name}": (value, people[0]) for name, value in figures.items()}
    found.figures |= {f"{prefix}.{name}": (value, people[1]) for name, value in more.items()}
    for way, line in usual.items():
        for name in ("per_second", "error", "samples"):
            found.figures[f"{prefix}.rival_{way}_{name}"] = (line[name], people[1])
    return found


def show(ledger: Ledger, figures: dict[str, dict[str, Any]]) -> None:
    """One table."""
    table = Table("cell", "who", "samples", "error", "people/s", "our speed-up", "with our samples")
    for line in ledger.lines.values():
        for run in line["data"]["ours"]:
            table.add_row(
                line["cell"], "turnabout", f"{run['samples']}", f"{run['error']:.2e}", f"{run['per_second']:,.1f}"
            )
        for run in line["data"]["theirs"]:
            who = f"rival, {run['way']}" + (f", l1_reg={run['l1_reg']}" if run["l1_reg"] else "")
            told = (f"{run['error']:.2e}", f"{run['per_second']:,.2f}", f"{run['speedup']:,.1f}", f"{run['matched']}")
            table.add_row(line["cell"], who, f"{run['samples']}", *told)
    console.print(table)
    for name in ("kernelshap.speedup_over_shap", "lime.speedup_over_lime"):
        if name in figures:
            worst = f"{name}: {figures[name]['value']:,.1f} (the worst model, the rival's faster way)"
            console.print(f"{worst}; {figures[name + '_pipeline']['value']:,.1f} where the rival asks the Pipeline.")


def headline(figures: dict[str, dict[str, Any]]) -> None:
    """The worst of the models that were run."""
    for part, name in (("kernelshap", "kernelshap.speedup_over_shap"), ("lime", "lime.speedup_over_lime")):
        for end, place in (("speedup", name), ("speedup_pipeline", f"{name}_pipeline")):
            entries = [figures[key] for key in (f"{part}.{model}.{end}" for model in MODELS) if key in figures]
            if entries:
                figures[place] = min(entries, key=lambda entry: entry["value"])


def main(given: list[str] | None = None) -> None:
    arguments = parse(given, __doc__.split("\n")[0], PARTS, "a taste", "1,000 people, ten for the rivals")
    full = arguments.full
    study = Study(FULL if full else SMALL)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as fleeting:
        folder = arguments.out or (Path(tempfile.gettempdir(), "turnabout-attributions") if full else Path(fleeting))
        ledger = Ledger(folder, {"full": full})
        jobs = {"kernelshap": (kernelshap, 240), "lime": (lime, 120)}
        cells = [
            Cell(f"{part}.{name}", part, seconds, partial(run, study, name))
            for part, (run, seconds) in jobs.items()
            if part in arguments.parts
            for name in MODELS
        ]
        foretell(cells, ledger, "cpu", 1)
        try:
            with threadpool_limits(1):
                work(cells, ledger)
        except ta.errors.DataError as error:
            raise SystemExit(f"this benchmark needs the Adult data: {error}") from None
        names = {(cell.name, cell.seed) for cell in cells}
        figures = gather(line for key, line in ledger.lines.items() if key in names)
        headline(figures)
        show(ledger, figures)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
