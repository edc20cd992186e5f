"""Document: a frozen report that is written as JSON and read back."""

from __future__ import annotations

from dataclasses import fields
from types import UnionType
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from turnabout.documents import DAMAGE, check_finite, read_json, reason_of, shown, write_json
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
        kinds = get_type_hints(cls)
        for field in fields(cls):  # type: ignore[arg-type]
            if not is_of(document[field.name], kinds[field.name]):
                raise ValueError(f"'{field.name}' is {shown(document[field.name])}")
        return cls(**{field.name: document[field.name] for field in fields(cls)})  # type: ignore[arg-type]

    def to_dict(self) -> Json:
        """Plain data."""
        return {self.mark: self.version} | self._write()

    def to_json(self, indent: int | None = None) -> str:
        return write_json(self.to_dict(), indent)

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
            check_finite(document)
            return cls._read(document)
        except TrainingError:
            raise
        except DAMAGE as error:
            raise TrainingError(
                f"this {name} cannot be read: {reason_of(error)}.", hint=f"pass what {name}.to_json wrote."
            ) from error

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of to_json."""
        hint = f"pass what {cls.__name__}.to_json wrote."
        return cls.from_dict(read_json(text, "this is not", TrainingError, hint))


def is_of(value: object, kind: Any) -> bool:
    """Whether a value of JSON is of a field's type: a number, a text, one of some words, or None where that may be."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if isinstance(kind, UnionType):
        return any(is_of(value, part) for part in get_args(kind))
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
