"""How large is the package, and how is it cut up?

    python tools/measure_tree.py               a table for each room, and what is long
    python tools/measure_tree.py --list        and which modules, functions and files these are
    python tools/measure_tree.py --tree OTHER  of another checkout

Lines are all lines of .py files. A module has one importer if exactly one other module of the package imports it;
`__init__` files count as importers and are not counted themselves.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

LONG_FUNCTION, LONGEST_FUNCTION, LONG_FILE, LONGEST_FILE, MANY = 70, 80, 300, 400, 8
APART = ("studies", "testing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", default=Path(__file__).parents[1], type=Path, help="the root of a checkout")
    parser.add_argument("--list", action="store_true", help="name what is long, and modules with one importer")
    parser.add_argument("--seconds", action="store_true", help="also time import turnabout and turnabout --help")
    given = parser.parse_args()
    package = given.tree / "src" / "turnabout"
    files = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    rooms(package, files)
    trees = {path: ast.parse(text) for path, text in files.items()}
    importers = importing(package, trees)
    single = sorted(name for name, users in importers.items() if len(users) == 1)
    functions = [found for path, tree in trees.items() for found in long_ones(path.relative_to(package), tree)]
    sizes = {str(path.relative_to(package)): text.count("\n") for path, text in files.items()}
    tell("modules with one importer", single, given.list, f" of {len(importers)}")
    tell(f"functions over {LONG_FUNCTION} lines", [f for f, n, _ in functions if n > LONG_FUNCTION], given.list)
    tell(f"functions over {LONGEST_FUNCTION} lines", [f for f, n, _ in functions if n > LONGEST_FUNCTION], given.list)
    tell(f"signatures over {MANY} parameters", [f for f, _, p in functions if p > MANY], given.list)
    tell(f"files over {LONG_FILE} lines", [f for f, n in sizes.items() if n > LONG_FILE], given.list)
    tell(f"files over {LONGEST_FILE} lines", [f for f, n in sizes.items() if n > LONGEST_FILE], given.list)
    sizes_of = method_sizes(package, trees, files)
    tell("methods", [f"{name}: {lines} lines" for name, lines in sizes_of.items()], given.list)
    print(f"{'median lines of a method':34} {statistics.median(sizes_of.values()):8,.0f}")
    classes = class_names(package, trees)
    tell("public class names used twice", [f"{n}: {', '.join(w)}" for n, w in classes.items()], given.list)
    if given.seconds:
        for title, code in (("import turnabout", "import turnabout"), ("turnabout --help", HELP)):
            print(f"{title:34} {seconds(code, given.tree):8.2f} s")


HELP = "import sys; sys.argv = ['turnabout', '--help']; from turnabout.cli.app import main; main()"


def rooms(package: Path, files: dict[Path, str]) -> None:
    """Print lines and files of each room."""
    count: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path, text in files.items():
        parts = path.relative_to(package).parts
        room = count[parts[0] if len(parts) > 1 else "(top)"]
        room[0] += text.count("\n")
        room[1] += 1
    for name, (lines, number) in sorted(count.items()):
        print(f"{name:34} {lines:8,} lines {number:5} files")
    inside = [v for k, v in count.items() if k not in APART]
    for title, some in (("in all", list(count.values())), (f"without {' and '.join(APART)}", inside)):
        print(f"{title:34} {sum(n for n, _ in some):8,} lines {sum(n for _, n in some):5} files")


def importing(package: Path, trees: dict[Path, ast.Module]) -> dict[str, set[str]]:
    """Who imports each module that is no `__init__`."""
    names = {}
    for path in trees:
        parts = ("turnabout", *path.relative_to(package).with_suffix("").parts)
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    users: dict[str, set[str]] = {n: set() for n, path in names.items() if path.stem != "__init__"}
    for name, path in names.items():
        for node in ast.walk(trees[path]):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                targets = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            for target in targets:
                if target in users and target != name:
                    users[target].add(name)
    return users


def long_ones(path: Path, tree: ast.Module) -> list[tuple[str, int, int]]:
    """Functions with their lines and the number of their parameters, self and cls not counted."""
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            given = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            number = len([a for a in given if a not in ("self", "cls")])
            out.append((f"{path}:{node.name}", (node.end_lineno or 0) - node.lineno + 1, number))
    return out


def class_names(package: Path, trees: dict[Path, ast.Module]) -> dict[str, list[str]]:
    """Public classes of one name in several modules."""
    where = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(str(path.relative_to(package)))
    return {name: places for name, places in sorted(where.items()) if len(places) > 1}


def method_sizes(package: Path, trees: dict[Path, ast.Module], files: dict[Path, str]) -> dict[str, int]:
    """Lines of each method of `methods.ALL` with its own modules: those of `methods` that no other method loads."""
    room = package / "methods"
    paths = {
        ".".join(("turnabout", *p.relative_to(package).with_suffix("").parts)): p for p in trees if room in p.parents
    }

    def imported(path: Path) -> set[Path]:
        found = [n for n in ast.walk(trees[path]) if isinstance(n, ast.ImportFrom) and n.module]
        names = {name for n in found for name in (n.module, *(f"{n.module}.{a.name}" for a in n.names))}
        return {paths[name] for name in names if name in paths}

    def closure(path: Path) -> set[Path]:
        seen, todo = set(), {path}
        while todo:
            seen |= todo
            todo = {q for p in todo for q in imported(p)} - seen
        return seen

    init = trees[room / "__init__.py"]
    homes = {
        a.name: paths[n.module]
        for n in init.body
        if isinstance(n, ast.ImportFrom) and n.module in paths
        for a in n.names
    }
    targets = (n for n in init.body if isinstance(n, (ast.Assign, ast.AnnAssign)))
    listed = next(n.value for n in targets if "ALL" in ast.unparse(n).split("=")[0])
    reached = {e.id: closure(homes[e.id]) for e in listed.elts}  # type: ignore[union-attr]
    out = {}
    for name, mine in reached.items():
        others = set().union(*(theirs for other, theirs in reached.items() if other != name)) - {homes[name]}
        out[name] = sum(files[p].count("\n") for p in mine - others)
    return dict(sorted(out.items(), key=lambda entry: entry[1]))


def tell(title: str, found: list[str], names: bool, rest: str = "") -> None:
    print(f"{title:34} {len(found):8,}{rest}")
    for name in found if names else ():
        print(f"    {name}")


def seconds(code: str, tree: Path) -> float:
    """The least of three runs in a fresh process, less the start of Python itself."""
    environment = {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}

    def run(text: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", text], env=environment, stdout=subprocess.DEVNULL, check=False)
        return time.perf_counter() - began

    return min(run(code) for _ in range(3)) - min(run("pass") for _ in range(3))


if __name__ == "__main__":
    main()
