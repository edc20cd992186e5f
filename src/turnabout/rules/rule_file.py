"""Rules kept in a file that people review: a list in YAML or JSON, one entry for each rule."""

from __future__ import annotations

from pathlib import Path

from turnabout.documents import read_file, reads, shown
from turnabout.errors import RuleError
from turnabout.rules.rule import Rule, from_dict

EXAMPLE = "write a list, like - {rule: at_most, k: 3}."


@reads("the file of rules", RuleError, EXAMPLE)
def load(path: str | Path) -> tuple[Rule, ...]:
    """The rules of a YAML file, or of a JSON file if the name ends in .json; `from_dict` says what an entry may be.

    - {rule: at_most, k: 3}
    - {rule: linear, coefficients: {debt: 1, income: -0.4}, sense: "<=", bound: 0}
    """
    name = f"the file of rules {str(Path(path))!r}"
    found = read_file(path, "the rules in {}", f"{name} is not valid", RuleError, EXAMPLE)
    if isinstance(found, dict):
        found = found["rules"] if set(found) == {"rules"} else [found]
    if not isinstance(found, list) or not found:
        raise RuleError(f"{name} holds {shown(found)} and no list of rules.", hint=EXAMPLE)
    return tuple(map(from_dict, found))
