"""Do two versions of turnabout give the same answers?

    python tools/same_answers.py --old ../before/src --new src           2,000 people, eight methods, two seeds
    python tools/same_answers.py --old ../before/src --new src --small   40 people of each data set
    python tools/same_answers.py --old before.pkl --new src              answers of an old tree, kept by --keep

Each tree answers in a process of its own, through the names that users type; models are trained in it, from the same
seeds. Compared are statuses, the cells of all options, and their costs: equal to the last bit. Exit 1 if they differ.
TURNABOUT_DATA names the folder that holds the data.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

DATA = ("german", "adult", "heloc", "taiwan")
METHODS = {
    "logistic": ("ExactLinear", "Wachter", "OneStep"),
    "net": ("Wachter", "Dice", "LinearApproximation"),
    "trees": ("LocalSearch", "GrowingSpheres", "NearestRow"),
}
ACTIONS = 25  # people whose plans of actions are compared as well, the ninth method: a hundred times slower
SEEDS = (0, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", help="the src folder of a tree, or a file of answers")
    parser.add_argument("--new", default="src")
    parser.add_argument("--keep", help="keep the answers of --new in this file")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.answer:
        Path(given.answer).write_bytes(pickle.dumps(answers(40 if given.small else 500)))
        return 0
    new = asked(given.new, given.small)
    if given.keep:
        Path(given.keep).write_bytes(pickle.dumps(new))
    if given.old is None:
        return 0
    old = pickle.loads(Path(given.old).read_bytes()) if Path(given.old).is_file() else asked(given.old, given.small)
    return report(old, new)


def asked(tree: str, small: bool) -> dict[str, Any]:
    """The answers of a tree."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "answers.pkl"
        environment = {**os.environ, "PYTHONPATH": str(Path(tree).resolve()), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--answer", str(out), *(["--small"] if small else [])]
        subprocess.run(command, env=environment, check=True)
        return pickle.loads(out.read_bytes())


def report(old: dict[str, Any], new: dict[str, Any]) -> int:
    """Print what differs; 1 if anything does."""
    differing = 0
    for key in sorted({*old, *new}):
        if key not in old or key not in new:
            print(f"{key}: only in the {'new' if key in new else 'old'} tree")
            differing += 1
            continue
        a, b = old[key], new[key]
        people = [who for who in a["status"] if a["status"][who] != b["status"].get(who)]
        rows = [at for at in {*a["options"], *b["options"]} if a["options"].get(at) != b["options"].get(at)]
        if people or rows:
            differing += 1
            print(f"{key}: {len(people)} statuses and {len(rows)} options differ, of {len(a['status'])} people")
            for who in people[:2]:
                print(f"    {who}: {a['status'][who]} -> {b['status'].get(who)}")
            for at in sorted(rows, key=str)[:2]:
                print(f"    {at}: {a['options'].get(at)} -> {b['options'].get(at)}")
    shared = [key for key in old if key in new]
    seconds = [sum(tree[key]["seconds"] for key in shared) for tree in (old, new)]
    options = sum(len(new[key]["options"]) for key in shared)
    print(f"{len(shared)} cells, {options} options; {differing} differ; {seconds[0]:.0f} s of find, {seconds[1]:.0f} s")
    return int(differing > 0)


# -- in the tree that is asked -----------------------------------------------------------------------------------------


def answers(count: int) -> dict[str, Any]:
    """What this tree answers, cell by cell."""
    import turnabout as ta

    warnings.simplefilter("ignore")
    out: dict[str, Any] = {}
    for name in DATA:
        data = ta.datasets.load(name)
        people, accepted = data.people.iloc[:4000], data.accepted.iloc[:4000]
        asking = data.people.sample(count, random_state=1)
        for kind, methods in METHODS.items():
            model = ta.models.wrap(trained(kind, people, accepted), data.schema, background=people)
            problem = ta.Problem(data.schema, model, background=people, labels=accepted)
            for method in methods:
                fitted = getattr(ta.methods, method)().fit(problem)
                for seed in SEEDS:
                    out[f"{name} {kind} {method} {seed}"] = kept(fitted.find(asking, options=2, seed=seed))
            if kind == "logistic":
                actions = ta.ActionSet.draft(data.schema)
                problem = ta.Problem(data.schema, model, background=people, actions=actions)
                fitted = ta.methods.ActionSequences(max_steps=1).fit(problem)
                out[f"{name} {kind} ActionSequences 0"] = kept(fitted.find(asking.iloc[:ACTIONS]))
        print(f"{time.strftime('%H:%M:%S')} {ta.__file__}: {name}", file=sys.stderr)
    return out


def trained(kind: str, people: Any, accepted: Any) -> Any:
    """A pipeline on raw columns."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )
    final = {
        "logistic": LogisticRegression(max_iter=2000),
        "net": MLPClassifier((10, 10), random_state=0, max_iter=60),
        "trees": GradientBoostingClassifier(n_estimators=60, max_depth=3, random_state=0),
    }
    return make_pipeline(columns, final[kind]).fit(people, accepted)


def kept(answer: Any) -> dict[str, Any]:
    """An answer as plain values."""
    options = answer.options.astype(object)
    rows = {key: tuple(repr(cell) for cell in row) for key, row in zip(options.index, options.to_numpy())}
    return {"status": {k: str(s.value) for k, s in answer.status.items()}, "options": rows, "seconds": answer.seconds}


if __name__ == "__main__":
    sys.exit(main())
