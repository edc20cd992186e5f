"""Tables in files: CSV, JSON records and parquet, read so that nothing is changed on the way.

The schema decides how each column is read. Columns that it does not name are kept as they are. Without a schema, see
`turnabout.schema.cell_types`. JSON and parquet have types of their own, which are kept.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import warnings
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, get_args

import pandas as pd

from turnabout.documents.cells import is_single
from turnabout.errors import DataError
from turnabout.schema.cell_types import (
    TEXT,
    column_by_look,
    declared_cells,
    declared_column,
    own_column,
    text_column,
)
from turnabout.schema.passthrough import Passthrough
from turnabout.schema.schema import Schema
from turnabout.typing import Json

TableKind = Literal["csv", "tsv", "json", "jsonl", "parquet"]
SUFFIXES: dict[str, TableKind] = {
    ".tsv": "tsv", ".tab": "tsv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet",
    ".pq": "parquet",
}  # fmt: skip
FOREIGN = (".xlsx", ".xls", ".xlsm", ".ods", ".feather", ".arrow", ".sav", ".dta", ".sas7bdat", ".rds", ".pkl", ".zip")
PACKED = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}
OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
Source = str | Path | IO[Any]


def read_table(
    source: Source,
    schema: Schema | None = None,
    *,
    kind: TableKind | None = None,
    as_text: Collection[str] = (),
    by_look: Collection[str] = (),
) -> pd.DataFrame:
    """People from a file, with the values and types that the schema declares.

    Every cell arrives: one that cannot be read as its feature has it (a word in a column of numbers) stays a text, so
    that one person has no answer and the others have theirs.

    Parameters
    ----------
    source : the name of a file, which may end in .gz, .bz2 or .xz, or an open file.
    schema : decides how its columns are read; those that it does not name are kept as text. Without one, columns of
        CSV are read by their look: as numbers or truths if every cell is one beyond doubt, else as text.
    kind : of the file, if its name does not say it; "csv" otherwise.
    as_text : columns to keep as text that the schema does not type, such as the labels of people: "00017" stays so.
    by_look : columns outside the schema to read by their look, such as outcomes and groups.
    """
    return TableFile.open(source, kind).read(schema, as_text=as_text, by_look=by_look)


@dataclass(frozen=True)
class TableFile:
    """The cells of a file before anything is decided about their types.

    Attributes
    ----------
    name : of the file, for errors.
    columns : name -> cells; texts of CSV, or what JSON says. Empty for parquet.
    has_types : whether cells have types of their own.
    frame : of parquet.
    """

    name: str
    columns: dict[str, list[Any]]
    has_types: bool = False
    frame: pd.DataFrame | None = None

    @classmethod
    def open(cls, source: Source, kind: TableKind | None = None) -> TableFile:
        """Read a file, whatever is to be made of it."""
        if kind is not None and kind not in get_args(TableKind):
            raise DataError(f"kind={kind!r} is no kind of table.", hint=f"use one of {', '.join(get_args(TableKind))}.")
        name = str(getattr(source, "name", "the table") if hasattr(source, "read") else source)
        kind = kind or _kind_of(name)
        try:
            content = _content(source, name)
            if kind == "parquet":
                return cls(name, {}, True, _parquet(content, name))
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise DataError(
                f"{name!r} cannot be read: {reason}.", hint="check the name, and that it is whole."
            ) from None
        text = _text(content, name)
        if kind in ("json", "jsonl"):
            return cls(name, _columns_of(_records(text, name, kind), name), True)
        return cls(name, _csv(text, name, "\t" if kind == "tsv" else ","))

    @property
    def names(self) -> list[Any]:
        """The columns, in order."""
        return list(self.columns) if self.frame is None else list(self.frame.columns)

    def is_text(self, name: str) -> bool:
        """Whether a column of CSV is text by its look."""
        if self.has_types or name not in self.columns:
            return False
        return bool(column_by_look(self.columns[name], absent=frozenset())[0].dtype == TEXT)

    def read(
        self, schema: Schema | None = None, *, as_text: Collection[str] = (), by_look: Collection[str] = ()
    ) -> pd.DataFrame:
        """The table, as `read_table` reads it."""
        if self.frame is not None:
            return self.frame
        features = {} if schema is None else {feature.name: feature for feature in schema}
        columns: dict[str, pd.Series] = {}
        for name, cells in self.columns.items():
            if name in features and not (name in as_text and isinstance(features[name], Passthrough)):
                columns[name] = (declared_cells if self.has_types else declared_column)(features[name], cells)
            elif self.has_types:
                columns[name] = own_column(cells)
            elif name in as_text or (schema is not None and name not in by_look):
                columns[name] = text_column(cells)
            else:
                columns[name], odd = column_by_look(cells)
                if odd:
                    warnings.warn(
                        f"column '{name}' of {self.name!r} is read as text, not as numbers, because of {odd!r}. Hint: "
                        "if it is a number, say so in a schema; cells that are none must be empty or NA.",
                        stacklevel=3,
                    )
        return pd.DataFrame(columns)


def read_tables(
    files: Sequence[TableFile], schema: Schema, *, as_text: Collection[str] = (), by_look: Collection[str] = ()
) -> list[pd.DataFrame]:
    """Several tables about the same columns, so that a column has one type in all of them.

    A `Passthrough`, which declares no type, could have two: codes without leading zeros in one file, and with some in
    another. It is text in all if it is in one. A number that parquet keeps in single precision is in single precision
    in files that do not say: some models tell 24.6386 as a float from the same decimals as a double.
    """
    loose = [feature.name for feature in schema if isinstance(feature, Passthrough)]
    texts = [name for name in loose if any(file.is_text(name) for file in files)]
    tables = [file.read(schema, as_text=[*as_text, *texts], by_look=by_look) for file in files]
    single = {
        name: dtype
        for file in files
        if file.frame is not None
        for name, dtype in file.frame.dtypes.items()
        if name in schema.names and is_single(dtype)
    }
    for i, file in enumerate(files):
        if file.frame is None:
            short = [name for name in tables[i].columns if name in single and tables[i][name].dtype == float]
            tables[i] = tables[i].astype({name: single[name] for name in short})
    return tables


def _kind_of(name: str) -> TableKind:
    path = Path(name.lower())
    suffix = Path(path.stem).suffix if path.suffix in PACKED else path.suffix
    if suffix in FOREIGN:
        raise DataError(f"{name!r} is no table that can be read here.", hint="save it as CSV or parquet.")
    return SUFFIXES.get(suffix, "csv")


def _content(source: Source, name: str) -> bytes | str:
    if not isinstance(source, (str, Path)):
        return source.read()
    content = Path(source).read_bytes()
    unpack = PACKED.get(Path(name.lower()).suffix)
    return content if unpack is None else unpack(content)


def _text(content: bytes | str, name: str) -> str:
    """UTF-8, with or without a mark at its start."""
    if isinstance(content, bytes):
        raw = content
        try:
            content = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw[: error.start].count(b"\n") + 1
            raise DataError(
                f"{name!r} is not UTF-8 text: line {line} has the byte 0x{raw[error.start]:02x}.",
                hint="save it as UTF-8, for example: iconv -f latin1 -t utf8 old.csv > new.csv",
            ) from None
    if "\0" in content:
        raise DataError(f"{name!r} is not text: it has zero bytes.", hint="save it as UTF-8 text.")
    return content.removeprefix("\ufeff")


# -- CSV ----------------------------------------------------------------------------------------------------------


def _csv(text: str, name: str, separator: str) -> dict[str, list[str]]:
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    header: list[str] | None = None
    rows: list[list[str]] = []
    try:
        for row in lines:
            if header is None:
                header = row or None
            elif len(row) == len(header):
                rows.append(row)
            elif row and not (len(row) == 1 and not row[0].strip()):  # a blank line is no person
                _check_separator(header, row, name)
                raise DataError(
                    f"line {lines.line_num} of {name!r} has {len(row)} cells, and the header has {len(header)}.",
                    hint='a cell with a comma in it stands in quotes: "Smith, Ann".',
                )
    except csv.Error as error:
        raise DataError(
            f"line {lines.line_num} of {name!r} is not CSV: {error}.", hint="look for a quote that is not closed."
        ) from None
    if header is None:
        raise DataError(f"{name!r} is empty.", hint="its first line names the columns.")
    _check_separator(header, rows[0] if rows else header, name)
    names = _unique([cell or f"Unnamed: {place}" for place, cell in enumerate(header)], name)
    return {key: list(cells) for key, cells in zip(names, zip(*rows), strict=True)} if rows else {k: [] for k in names}


def _check_separator(header: list[str], row: list[str], name: str) -> None:
    """Refuse one column whose name and cells hold another separator."""
    for mark, word in OTHER_SEPARATORS.items():
        if len(header) == 1 and mark in header[0] and any(mark in cell for cell in row):
            raise DataError(
                f"the header of {name!r} is one column, {header[0]!r}: its cells seem to be separated by {word}.",
                hint="separate them by commas, or by tabs in a file that ends in .tsv; decimals have a point.",
            )


def _unique(names: list[str], name: str) -> list[str]:
    if twice := [column for place, column in enumerate(names) if column in names[:place]]:
        raise DataError(f"{name!r} has more than one column {twice[0]!r}.", hint="keep one of them, or rename it.")
    return names


# -- JSON and parquet ---------------------------------------------------------------------------------------------


def _records(text: str, name: str, kind: TableKind) -> list[Json]:
    """One mapping for each person."""
    lines = text.splitlines() if kind == "jsonl" else [text]
    read: Any = []
    for place, line in enumerate(lines, 1):
        if kind == "jsonl" and not line.strip():
            continue
        where = f"line {place} of {name!r}" if kind == "jsonl" else repr(name)
        try:
            read.append(json.loads(line, object_pairs_hook=_record))
            if "\\u" in line:
                json.dumps(read[-1], ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(f"{where} spells half a character, like \\ud800.", hint="write texts as UTF-8.") from None
        except RecursionError:
            raise DataError(f"{where} is nested too deeply for a table.", hint=RECORDS) from None
        except ValueError as error:
            raise DataError(f"{where} is not JSON: {error}.", hint=RECORDS) from None
    if kind == "json":
        read = read[0]
        if isinstance(read, dict) and not any(isinstance(cell, (dict, list)) for cell in read.values()):
            read = [read]  # one person
    if not isinstance(read, list) or not all(isinstance(record, dict) for record in read):
        raise DataError(f"{name!r} holds no list of records.", hint=RECORDS)
    return read


RECORDS = 'write one record for each person: [{"income": 30, "home": "rent"}, ...], or one per line in a .jsonl file.'


def _record(pairs: list[tuple[str, Any]]) -> Json:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [key for key, _ in pairs]
        raise ValueError(f"a record names {next(k for i, k in enumerate(names) if k in names[:i])!r} twice")
    return record


def _columns_of(records: list[Json], name: str) -> dict[str, list[Any]]:
    """Records by column; what a record does not name is missing."""
    names = list(dict.fromkeys(key for record in records for key in record))
    if not names:
        raise DataError(f"{name!r} holds no records.", hint=RECORDS)
    return {key: [record.get(key) for record in records] for key in names}


def _parquet(content: bytes | str, name: str) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(io.BytesIO(content if isinstance(content, bytes) else content.encode()))
    except ImportError:
        raise DataError(f"{name!r} needs pyarrow to be read.", hint='pip install "turnabout[parquet]"') from None
    except Exception as error:  # pyarrow has many
        raise DataError(f"{name!r} is not a parquet file: {error}", hint="pandas' to_parquet writes one.") from None
    _unique(list(map(str, frame.columns)), name)
    return frame
