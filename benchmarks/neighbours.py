"""How do the plans of dice-ml, NICE and treecf compare with ours on the same people and models, judged as printed?

    python benchmarks/neighbours.py --install      # once: an environment for each library, under --envs
    python benchmarks/neighbours.py --small        # five people, one data set
    python benchmarks/neighbours.py                # fifty refused people, Adult and HELOC, a net and boosted trees

Every library, ours included, is a worker in `rivals/`: it gets the case in a neutral form, proves that the model
answers in its environment as it did where it was trained, warms up on one more person, and is timed for the search
alone, on one thread. What it returns is written to a CSV file as a person would get it (whole numbers as whole
numbers), read back and put to the original model; only that counts as valid. A plan's cost is L1 on numbers scaled by
their training range, a switched category costing 1. Columns:

    found     share of the people asked who were given a plan
    valid     share of the plans accepted when read back
    kept      share of the plans that left alone what may not change
    proved    share of the people asked whose plan the library says it proved cheapest, or impossible
    cost      mean +- standard error over valid plans
    changed   columns changed, mean over valid plans
    x_ours    their cost over ours, on the people both served with a valid plan
    seconds   of wall time, which other work on the machine may stretch; beside them the CPU seconds
    people/s  people asked per CPU second

A library that runs into --limit is judged on the people it got to, and its row says so. NICE cannot be told what may
not change, so its costs are those of an easier question. TURNABOUT_DATA names the folder that holds the data.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RIVALS = Path(__file__).parent / "rivals"
sys.path.insert(0, str(RIVALS))
import case as frame  # noqa: E402
from judge import judge  # noqa: E402
from making import FIXED, make_case  # noqa: E402

XGBOOST = "xgboost-cpu==3.2.0"


@dataclass(frozen=True)
class Library:
    """One library: its worker, what it is made of, what it is asked to do, and on which models."""

    name: str
    worker: str
    variants: tuple[str, ...]
    packages: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()  # installed without what they ask for: dice-ml would fetch the GPU build of xgboost
    kinds: tuple[str, ...] = ("net", "trees")


LIBRARIES = (
    Library("turnabout", "run_turnabout.py", ("LocalSearch", "Wachter"), kinds=("net",)),
    Library("turnabout", "run_turnabout.py", ("LocalSearch",), kinds=("trees",)),
    Library(
        "dice-ml",
        "run_dice.py",
        ("random", "random, best of 10", "kdtree", "genetic"),
        packages=(
            "numpy==1.26.4",
            "pandas==2.2.3",
            "scikit-learn==1.5.2",
            "raiutils==0.4.2",
            "lightgbm==4.7.0",
            "jsonschema",
            "tqdm",
            XGBOOST,
        ),
        alone=("dice-ml==0.12",),
    ),
    Library(
        "NICE",
        "run_nice.py",
        ("sparsity", "proximity"),
        packages=("NICEx==0.2.3", "numpy==1.26.4", "pandas==1.5.3", "scipy==1.13.1", XGBOOST),
    ),
    Library(
        "treecf",
        "run_treecf.py",
        ("genetic", "genetic, own cost", "exact"),
        packages=("treecf==0.3.2", "numpy==1.26.4", XGBOOST),
        kinds=("trees",),
    ),
)


def install(libraries: tuple[Library, ...], envs: Path) -> None:
    """An environment for each library that needs one."""
    for library in libraries:
        if not library.packages:
            continue
        where = envs / library.name
        print(f"installing {library.name} into {where}", file=sys.stderr)
        venv.create(where, with_pip=True, clear=True)
        pip = [str(python_of(where)), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, *library.packages], check=True)
        if library.alone:
            subprocess.run([*pip, "--no-deps", *library.alone], check=True)


def python_of(where: Path) -> Path:
    """The interpreter of an environment."""
    return where / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def run_worker(
    library: Library, variant: str, case: frame.Case, people: int, seed: int, limit: float, envs: Path
) -> dict[str, Any]:
    """One worker's answers: versions, plans by person, seconds."""
    python = python_of(envs / library.name) if library.packages else Path(sys.executable)
    out = case.folder / f"{library.name}-{variant.replace(', ', '-')}-{seed}.jsonl"
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    command = [python, RIVALS / library.worker, case.folder, variant, seed, people, limit, out]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" or not library.packages} | one
    done = subprocess.run([str(c) for c in command], env=env, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, frame.OVERTIME):
        raise SystemExit(f"{library.name} ({variant}) failed:\n{done.stderr[-3000:]}")
    first, *lines = (json.loads(line) for line in out.read_text().splitlines())
    overtime = done.returncode == frame.OVERTIME
    plans = {i: plan for line in lines for i, plan in zip(line["people"], line["plans"], strict=True)}
    return {
        "versions": first["versions"],
        "plans": plans,
        "proved": sum(line["proved"] for line in lines),
        "seconds": limit if overtime else sum(line["seconds"] for line in lines),
        "cpu": sum(line["cpu"] for line in lines),
        "overtime": overtime,
    }


KEY = ("data", "model", "library", "variant", "people", "seed")


def finished(out: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Cells already in the file, by key; a later line replaces an earlier one."""
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    return {tuple(cell[k] for k in KEY): cell for cell in map(json.loads, lines)}


def cells(options: argparse.Namespace) -> Iterator[tuple[str, str, Library, str, int]]:
    """What is to be run, in order."""
    for data in options.data:
        for kind in options.models:
            for seed in range(options.repeats):
                for library in LIBRARIES:
                    if kind in library.kinds and library.name in options.libraries:
                        for variant in library.variants:
                            yield data, kind, library, variant, seed


def table(rows: list[dict[str, Any]], data: str, kind: str) -> str:
    """Side by side, for one data set and one model; the first of our rows is the one others are compared with."""
    shares = ("asked", "found", "valid", "kept", "proved")
    head = ("", *shares, "cost", "changed", "x_ours", "seconds", "cpu", "people/s")
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if (row["data"], row["model"]) == (data, kind):
            groups.setdefault(f"{row['library']} ({row['variant']})", []).append(row)
    ours = next((group for group in groups.values() if group[0]["library"] == "turnabout"), [])
    reference = {(c["seed"], i): v for c in ours for i, v in c["costs"].items()}
    lines = [head, ("do nothing", "", "", "0%", "100%", "", "0", "0", "", "", "", "")]
    for name, group in groups.items():
        asked, found, valid, kept = (sum(c[k] for c in group) for k in ("asked", "found", "valid", "kept"))
        proved = sum(c["proved"] for c in group)
        costs = {(c["seed"], i): v for c in group for i, v in c["costs"].items()}
        changed = [v for c in group for v in c["changed"].values()]
        both = [k for k in costs if k in reference]
        values = np.array(list(costs.values()))
        rates = [c["asked"] / (c["seconds"] if c["overtime"] else c["cpu"]) for c in group]
        late = any(c["overtime"] for c in group)
        spread = f" +- {values.std(ddof=1) / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
        speed = f"{np.mean(rates):.3g}" + (f" ({min(rates):.3g}-{max(rates):.3g})" if len(rates) > 1 else "")
        lines.append(
            (
                name,
                f"{asked} of {sum(c['people'] for c in group)}" if late else str(asked),
                f"{found / asked:.0%}" if asked else "-",
                f"{valid / found:.0%}" if found else "-",
                f"{kept / found:.0%}" if found else "-",
                f"{proved / asked:.0%}" if proved else "-",
                f"{values.mean():.3f}{spread}" if len(values) else "-",
                f"{np.mean(changed):.2f}" if changed else "-",
                f"{sum(costs[k] for k in both) / sum(reference[k] for k in both):.2f}" if both else "-",
                f"{sum(c['seconds'] for c in group):.2f}" + (" (limit)" if late else ""),
                f"{sum(c['cpu'] for c in group):.2f}",
                speed,
            )
        )
    widths = [max(len(line[j]) for line in lines) for j in range(len(head))]
    text = [f"{data}, {kind}"]
    for line in lines:
        rest = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        text.append("  ".join([line[0].ljust(widths[0]), *rest]).rstrip())
    return "\n".join(text)


def main() -> None:
    """Parse, run what is missing, print."""
    names = list(dict.fromkeys(library.name for library in LIBRARIES))
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--install", action="store_true", help="create the environments and stop")
    parser.add_argument("--small", action="store_true", help="five people, HELOC only, a minute a library at most")
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=1, help="seeds 0, 1, ... for every cell")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of searching a library may use for a cell")
    parser.add_argument("--data", nargs="+", choices=tuple(FIXED), default=list(FIXED))
    parser.add_argument("--models", nargs="+", choices=("net", "trees"), default=["net", "trees"])
    parser.add_argument("--libraries", nargs="+", choices=names, default=list(names))
    parser.add_argument("--envs", type=Path, default=Path.home() / ".cache" / "turnabout" / "neighbours")
    parser.add_argument("--out", type=Path, default=Path("build") / "neighbours.jsonl")
    options = parser.parse_args()
    options.envs = options.envs.expanduser().resolve()
    if options.install:
        return install(tuple(library for library in LIBRARIES if library.name in options.libraries), options.envs)
    if options.small:
        options.people, options.data, options.limit = min(options.people, 5), ["heloc"], min(options.limit, 60.0)
    for library in LIBRARIES:
        absent = library.packages and not python_of(options.envs / library.name).exists()
        if absent and library.name in options.libraries:
            print(f"{library.name} left out: no environment in {options.envs}; --install makes it", file=sys.stderr)
            options.libraries.remove(library.name)

    where = Path(os.environ["TURNABOUT_DATA"])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done, shown = finished(options.out), []
    made: dict[tuple[str, str], frame.Case] = {}
    for data, kind, library, variant, seed in cells(options):
        key = (data, kind, library.name, variant, options.people, seed)
        if key not in done or (done[key]["overtime"] and done[key]["seconds"] < options.limit):
            if (data, kind) not in made:
                folder = options.envs / "cases" / f"{data}-{kind}"
                made[data, kind] = make_case(data, kind, options.people, where, folder)
            case = made[data, kind]
            answer = run_worker(library, variant, case, options.people, seed, options.limit, options.envs)
            cell = dict(zip(KEY, key, strict=True)) | judge(case, answer.pop("plans")) | answer
            cell["machine"] = {"cpu": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
            with open(options.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(cell) + "\n")
            done[key] = cell
            short = f"{cell['valid']} of {cell['asked']} in {cell['seconds']:.2f} s"
            print(f"  {library.name} ({variant}): {short}", file=sys.stderr)
        shown.append(done[key])
    print("\n\n".join(table(shown, d, m) for d in options.data for m in options.models))


if __name__ == "__main__":
    main()
