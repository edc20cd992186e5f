"""Document: a frozen report that is written as JSON and read back."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import ClassVar, Self

from turnabout.errors import TrainingError
from turnabout.typing import Json


class Document:
    """A dataclass with JSON both ways. One that holds more than plain values writes `_write` and `_read` of its own."""

    mark: ClassVar[str]
    """The key that tells one kind of document from another; its value is the version."""
    version: ClassVar[int] = 1

    def _write(self) -> Json:
        """Everything it holds, as plain data; its fields, where these are plain."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def _read(cls, document: Json) -> Self:
        """The inverse of _write."""
        return cls(**{field.name: document[field.name] for field in fields(cls)})  # type: ignore[arg-type]

    def to_dict(self) -> Json:
        """Plain data."""
        return {self.mark: self.version} | self._write()

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, document: Json) -> Self:
        """The inverse of to_dict."""
        name = cls.__name__
        if not isinstance(document, dict) or document.get(cls.mark) != cls.version:
            raise TrainingError(
                f"this is not a {name} of turnabout, or one of another version.",
                hint=f"this release reads {cls.mark} version {cls.version}, as written by {name}.to_json.",
            )
        try:
            return cls._read(document)
        except (KeyError, TypeError, ValueError) as error:
            raise TrainingError(
                f"this {name} cannot be read: {error!r}.", hint=f"pass what {name}.to_json wrote."
            ) from error

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of to_json."""
        try:
            document = json.loads(text)
        except ValueError as error:
            raise TrainingError(f"this is not JSON: {error}", hint=f"pass what {cls.__name__}.to_json wrote.") from None
        return cls.from_dict(document)
