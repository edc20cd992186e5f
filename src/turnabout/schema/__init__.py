"""What values exist: columns, their values, and which way each may move. Knows pandas, knows no model."""

from turnabout.schema.features import Feature, Scalar
from turnabout.schema.identities import Derived
from turnabout.schema.levels import Binary, Category, Ordinal
from turnabout.schema.number import Number
from turnabout.schema.passthrough import Passthrough
from turnabout.schema.put import mold
from turnabout.schema.reach import Reach
from turnabout.schema.reading import Reading
from turnabout.schema.schema import Schema
from turnabout.schema.spreadsheet import bare_text, spreadsheet_csv
from turnabout.schema.table import as_frame
from turnabout.schema.table_file import TableFile, read_table, read_tables

__all__ = [
    "Binary",
    "Category",
    "Derived",
    "Feature",
    "Number",
    "Ordinal",
    "Passthrough",
    "Reach",
    "Reading",
    "Scalar",
    "Schema",
    "TableFile",
    "as_frame",
    "bare_text",
    "mold",
    "read_table",
    "read_tables",
    "spreadsheet_csv",
]


def __dir__() -> list[str]:
    return __all__
