"""Documents: values of every kind as plain data, and texts of JSON and YAML as plain data; both ways.

Document, Versioned : dataclasses written, and read back, by the types of their fields.
Saved : files in YAML or JSON that people review.
read_file, read_json, write_json, read_yaml, write_yaml, reads : texts, and errors that say what is damaged.
`documents.frames`, `documents.cells` : tables with the types of their columns, and single cells.
"""

from turnabout.documents.document import Document, Versioned, plain_records, texts_of, write
from turnabout.documents.saved import Saved
from turnabout.documents.text import (
    DEEP,
    MOST_VALUES,
    read_file,
    read_json,
    read_yaml,
    reads,
    shown,
    write_json,
    write_yaml,
)

__all__ = [
    "DEEP",
    "MOST_VALUES",
    "Document",
    "Saved",
    "Versioned",
    "plain_records",
    "read_file",
    "read_json",
    "read_yaml",
    "reads",
    "shown",
    "texts_of",
    "write",
    "write_json",
    "write_yaml",
]
