"""Saved: what people keep as a file and review, in YAML or JSON."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from turnabout.documents.text import read_file, read_json, read_yaml, write_yaml
from turnabout.errors import TurnaboutError
from turnabout.typing import Json

MARKS = "check brackets, quotes and indents."


class Saved(ABC):
    """Plain data as a text of YAML or JSON, and as a file."""

    error: ClassVar[type[TurnaboutError]]
    invalid: ClassVar[str]
    """How errors start: "the schema is not valid"."""
    unreadable: ClassVar[str]
    """What to do about a file that cannot be read."""

    @abstractmethod
    def to_dict(self) -> Json:
        """Plain data."""

    @classmethod
    @abstractmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of to_dict."""

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.from_dict(read_json(text, cls.invalid, cls.error, MARKS))

    def to_yaml(self) -> str:
        return write_yaml(self.to_dict())

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        return cls.from_dict(read_yaml(text, cls.invalid, cls.error, MARKS))

    def save(self, path: str | Path) -> None:
        """Write YAML, or JSON if the name ends in .json."""
        path = Path(path)
        path.write_text(self.to_json() if path.suffix == ".json" else self.to_yaml(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what save wrote."""
        return cls.from_dict(read_file(path, "{}", cls.invalid, cls.error, MARKS, cls.unreadable))
