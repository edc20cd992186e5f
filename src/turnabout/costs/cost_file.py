"""A cost kept in a file that people review, in YAML or JSON."""

from __future__ import annotations

from pathlib import Path

from turnabout.costs.cost import Cost, from_dict
from turnabout.documents import read_file, reads
from turnabout.errors import ProblemError

EXAMPLE = "write a cost, like {kind: L1, difficulty: {age: 5}}."


@reads("the file of the cost", ProblemError, EXAMPLE)
def load(path: str | Path) -> Cost:
    """The cost of a YAML file, or of a JSON file if the name ends in .json; `from_dict` says what it may be.

    kind: L1
    difficulty: {age: 5.0}
    """
    start = f"the file of the cost {str(Path(path))!r} is not valid"
    return from_dict(read_file(path, "the cost in {}", start, ProblemError, EXAMPLE))
