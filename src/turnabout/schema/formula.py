"""Formulas over columns, as people write them: "loan / value", "30 * Term", "max(a, b) - `paid back`", "age >= 65".

A formula is read once into a tree of a few kinds of node and computed over arrays or tensors alike. Names are columns;
what is no plain word stands in backticks. A comparison is 1 where it holds, else 0; `job == "none"` asks for a level.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from turnabout.errors import SchemaError
from turnabout.typing import Tensor

LONGEST = 2000  # characters, so that no file makes the reader work for ever
QUOTED = re.compile(r"`([^`]*)`")
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}
COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}
FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "abs": torch.abs,
    "sqrt": torch.sqrt,
    "log": torch.log,
    "log1p": torch.log1p,
    "exp": torch.exp,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "min": lambda a, *rest: a if not rest else torch.minimum(a, FUNCTIONS["min"](*rest)),
    "max": lambda a, *rest: a if not rest else torch.maximum(a, FUNCTIONS["max"](*rest)),
}


def quoted(name: str) -> str:
    """A column's name as it stands in a formula: in backticks unless it is a plain word."""
    return name if name.isidentifier() and name not in FUNCTIONS and not keyword.iskeyword(name) else f"`{name}`"


@dataclass(frozen=True)
class Formula:
    """A text that computes a number from columns.

    >>> Formula("loan / value").parents
    ('loan', 'value')
    >>> Formula("30 * `Term in months`").parents
    ('Term in months',)
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip() or len(self.text) > LONGEST:
            raise SchemaError(f"{self.text!r:.80} is no formula.", hint='write one such as "loan / value".')
        self._check(self._tree)
        if not self.parents:
            raise SchemaError(f"the formula '{self.text}' names no column.", hint="use the names of columns.")

    def __str__(self) -> str:
        return self.text

    def __getstate__(self) -> str:
        return self.text

    def __setstate__(self, text: str) -> None:
        object.__setattr__(self, "text", text)

    @cached_property
    def _read(self) -> tuple[ast.expr, dict[str, str]]:
        """The tree, and the columns that placeholders stand for."""
        names: dict[str, str] = {}

        def hold(match: re.Match[str]) -> str:
            names[f"_column_{len(names)}"] = match[1]
            return f" _column_{len(names) - 1} "

        try:
            return ast.parse(QUOTED.sub(hold, self.text).strip(), mode="eval").body, names
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise SchemaError(
                f"the formula '{self.text}' cannot be read.",
                hint="use + - * / **, comparisons, min, max, abs, log, sqrt; columns with spaces stand in `backticks`.",
            ) from None

    @property
    def _tree(self) -> ast.expr:
        return self._read[0]

    @cached_property
    def parents(self) -> tuple[str, ...]:
        """The columns it is computed from, in the order in which they appear."""
        called = {node.func for node in ast.walk(self._tree) if isinstance(node, ast.Call)}
        found = [node for node in ast.walk(self._tree) if isinstance(node, ast.Name) and node not in called]
        found.sort(key=lambda node: (node.lineno, node.col_offset))
        return tuple(dict.fromkeys(self._read[1].get(node.id, node.id) for node in found))

    def compute(self, columns: Mapping[str, Tensor]) -> Tensor:
        """Columns in their units -> the number; NaN or infinite where the formula has no value.

        Of a column that is compared with a level, "column=level" says where it is there, as 1 or 0.
        """
        return self._value(self._tree, columns)

    def linear(self) -> dict[str, float] | None:
        """Weights by column where the formula is a sum of multiples of columns; "" is the constant. Else None."""
        return self._linear(self._tree)

    # -- the nodes that a formula may hold ---------------------------------------------------------------------

    def _check(self, node: ast.expr) -> None:
        known = isinstance(node, ast.Name) or (isinstance(node, ast.Constant) and type(node.value) in (int, float))
        parts: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            known, parts = True, [node.left, node.right]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            known, parts = True, [node.operand]
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
            known, parts = True, [node.left, *([] if _level(node) is not None else node.comparators)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
            many = node.func.id in ("min", "max")
            known, parts = not node.keywords and (len(node.args) >= 1 if many else len(node.args) == 1), node.args
        if not known:
            raise SchemaError(
                f"the formula '{self.text}' holds '{ast.unparse(node)}', which formulas do not know.",
                hint=f"use + - * / **, comparisons and {', '.join(sorted(FUNCTIONS))}.",
            )
        for part in parts:
            self._check(part)

    def _value(self, node: ast.expr, columns: Mapping[str, Tensor]) -> Tensor:
        if isinstance(node, ast.Constant):
            return torch.as_tensor(float(node.value), dtype=torch.float64)  # type: ignore[arg-type]
        if isinstance(node, ast.Name):
            return columns[self._read[1].get(node.id, node.id)]
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](self._value(node.left, columns), self._value(node.right, columns))
        if isinstance(node, ast.UnaryOp):
            value = self._value(node.operand, columns)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.Compare) and (level := _level(node)) is not None:
            assert isinstance(node.left, ast.Name)
            at = columns[f"{self._read[1].get(node.left.id, node.left.id)}={level}"]
            return at if isinstance(node.ops[0], ast.Eq) else 1.0 - at
        if isinstance(node, ast.Compare):
            left, right = self._value(node.left, columns), self._value(node.comparators[0], columns)
            holds = COMPARISONS[type(node.ops[0])](left, right).to(torch.float64)
            return torch.where(torch.isnan(left) | torch.isnan(right), torch.nan, holds)
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        return FUNCTIONS[node.func.id](*(self._value(part, columns) for part in node.args))

    def _linear(self, node: ast.expr) -> dict[str, float] | None:
        if isinstance(node, ast.Constant):
            return {"": float(node.value)}  # type: ignore[arg-type]
        if isinstance(node, ast.Name):
            return {self._read[1].get(node.id, node.id): 1.0}
        if isinstance(node, ast.UnaryOp):
            inner = self._linear(node.operand)
            sign = -1.0 if isinstance(node.op, ast.USub) else 1.0
            return None if inner is None else {name: sign * w for name, w in inner.items()}
        if not isinstance(node, ast.BinOp):
            return None
        left, right = self._linear(node.left), self._linear(node.right)
        if left is None or right is None:
            return None
        if isinstance(node.op, (ast.Add, ast.Sub)):
            sign = 1.0 if isinstance(node.op, ast.Add) else -1.0
            return {name: left.get(name, 0.0) + sign * right.get(name, 0.0) for name in {**left, **right}}
        if isinstance(node.op, ast.Mult) and set(left) <= {""}:
            left, right = right, left
        if isinstance(node.op, (ast.Mult, ast.Div)) and set(right) <= {""} and (factor := right.get("", 0.0)):
            return {n: w * factor if isinstance(node.op, ast.Mult) else w / factor for n, w in left.items()}
        return None


def _level(node: ast.Compare) -> str | None:
    """The level in `column == "level"`, or its opposite; None in other comparisons."""
    right = node.comparators[0]
    is_level = isinstance(right, ast.Constant) and isinstance(right.value, str) and isinstance(node.left, ast.Name)
    return right.value if is_level and isinstance(node.ops[0], (ast.Eq, ast.NotEq)) else None  # type: ignore
