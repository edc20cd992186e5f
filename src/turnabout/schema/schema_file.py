"""A file with a schema: that it is there, before anything is read."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from turnabout.errors import SchemaError


def check_there(path: object) -> None:
    """Refuse what is no path, and a path at which there is no file."""
    if not isinstance(path, (str, os.PathLike)):
        raise SchemaError(
            f"load takes the path of a file, not {type(path).__name__}.",
            hint="Schema.from_yaml and Schema.from_json read texts, Schema.from_dict plain values.",
        )
    with contextlib.suppress(OSError):  # what cannot even be looked at is told by reading it
        if not Path(path).exists():
            raise SchemaError(f"there is no schema file {str(path)!r}.", hint="`turnabout schema infer` writes one.")
