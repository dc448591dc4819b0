"""Data files to rows, read as a stream: JSON Lines, JSON arrays, CSV and Parquet.

What a record may look like is `forms`; how a file that is no JSON Lines is cut into records is
`tables`. The suffix says which it is: `.csv`, `.parquet`, `.json` (one array, or JSON Lines);
everything else is JSON Lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tunegate.errors import DataError, UsageError
from tunegate.types import Json, Row, Turn
from tunegate.worker import tables
from tunegate.worker.forms import SHAPES, kind_of, parse_row

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape of a half of a surrogate pair; a pair of them is a character."""

_DECODER = json.JSONDecoder(object_pairs_hook=tables.unique_keys, parse_constant=tables.no_number)

Columns = Mapping[str, str]
"""Our keys and the file's names for them (`data.columns`)."""


def columns_of(frozen: Json, split: str) -> Columns | None:
    """The column map that the rows of a split are read with; recorded answers have none."""
    found: Columns | None = (frozen["settings"].get("data") or {}).get("columns")
    return None if split == "teacher" else found


def read_rows(
    path: Path, *, system: str | None = None, columns: Columns | None = None
) -> Iterator[Row]:
    """Read the rows of one file.

    A `system` text is put in front of each row that has no system turn. Blank lines are no rows.
    Raises DataError at the first bad row, its `where` being `file:line`, and UsageError
    (`file_missing`) where the file cannot be opened.
    """
    for item in scan_rows(path, system=system, columns=columns):
        if isinstance(item, DataError):
            raise item
        yield item


def scan_rows(
    path: Path, *, system: str | None = None, columns: Columns | None = None
) -> Iterator[Row | DataError]:
    """As `read_rows`, but a bad row is yielded as its error and reading goes on where it can.

    `Row.index` counts good rows only, as a trainer that skips bad lines would.
    """
    index = 0
    for line, record in _records(path, columns):
        row: Row | DataError
        where = f"{path}:{line}"
        try:
            if isinstance(record, bytes):
                row = parse_line(record, index=index, line=line, where=where, columns=columns)
            elif isinstance(record, DataError):
                row = record
            else:
                row = parse_row(record, index=index, line=line, where=where, columns=columns)
        except DataError as error:
            row = error
        if isinstance(row, DataError):
            yield row
            continue
        yield with_system(row, system)
        index += 1


def is_lines(path: Path) -> bool:
    """Whether the file is JSON Lines, so that a row can be read again from its first byte."""
    return path.suffix.lower() not in (".csv", ".parquet") and not tables.is_json_array(path)


def _records(
    path: Path, columns: Columns | None
) -> Iterator[tuple[int, bytes | Mapping[str, Any] | DataError]]:
    """The records of a file with the line of each: bytes of a line, an object, or an error."""
    try:
        kind = path.suffix.lower()
        if kind == ".csv":
            yield from tables.csv_records(path, columns)
        elif kind == ".parquet":
            yield from tables.parquet_records(path)
        elif tables.is_json_array(path):
            yield from tables.array_records(path)
        else:
            try:
                _refuse_whole(path)
                for line, _, raw in raw_lines(path):
                    yield line, raw
            except DataError as error:  # of the whole file, or of a line over the limit
                yield int((error.where or ":0").rpartition(":")[2]), error
    except OSError as error:
        raise _unreadable(path, error) from error


def _refuse_whole(path: Path) -> None:
    """Raise DataError where no line of the file can be a row; one error says more than each's."""
    with path.open("rb") as file:
        head = file.read(4096)
    tables.refuse_encoding(head, f"{path}:1", may_have_mark=True)  # a mark spoils one line only
    tables.refuse_layout(head, f"{path}:1")


def _unreadable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"cannot read {path}: {error.strerror or error}",
        kind="file_missing",
        hint="paths in the run file are relative to the folder that it lies in",
    )


def raw_lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """The non-blank lines of a file: 1-based number, offset of its first byte, bytes with line end.

    Raises UsageError (`file_missing`) where the file cannot be opened, and DataError at a line over
    the limit of one row.
    """
    start, limit = 0, tables.MAX_ROW_BYTES
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(iter(partial(file.readline, limit), b""), start=1):
                if len(raw) == limit:
                    raise tables.too_long(f"{path}:{number}")
                if not raw.isspace():
                    yield number, start, raw
                start += len(raw)
    except OSError as error:
        raise _unreadable(path, error) from error


def with_system(row: Row, system: str | None) -> Row:
    """The row with `system` as its first turn, unless it has a system turn or no conversation."""
    if system is None or not row.turns or any(turn.role == "system" for turn in row.turns):
        return row
    return replace(row, turns=(Turn("system", system), *row.turns))


def parse_line(
    raw: bytes, *, index: int, line: int, where: str, columns: Columns | None = None
) -> Row:
    """Turn one line of a file into a row. Raises DataError with `where`."""
    value = _object(raw, where, first=line == 1)
    return parse_row(value, index=index, line=line, where=where, columns=columns)


def _object(raw: bytes, where: str, *, first: bool) -> Mapping[str, Any]:
    if first:
        tables.refuse_encoding(raw, where)
        tables.refuse_layout(raw, where)
    try:
        text = raw.decode("utf-8").strip(" \t\r\n")
        value = _DECODER.decode(text)
        broken = _SURROGATE.search(text) and _has_lone_surrogate(value)
    except UnicodeDecodeError as error:
        raise tables.not_utf8(error, where) from error
    except ValueError as error:
        what = "the line holds NUL bytes" if b"\x00" in raw else _not_json(error)
        hint = _json_hint(raw) if isinstance(error, json.JSONDecodeError) else _MEND
        raise DataError(what, where=where, hint=hint) from error
    except RecursionError as error:
        raise DataError(
            "nested too deeply to be a row", where=where, hint="a row is a few levels deep"
        ) from error
    if broken:
        raise DataError(
            "a text holds half of a surrogate pair, which is no character",
            where=where,
            hint="write the character whole, or remove the \\uD800 to \\uDFFF escape",
        )
    if not isinstance(value, dict):
        raise DataError(
            f"a {kind_of(value)} where a row was expected", where=where, hint=f"expected {SHAPES}"
        )
    return value


_MEND = "mend the line, then run the same command again"


def _not_json(error: ValueError) -> str:
    """What the parser met; its own line number counts inside one line of the file, so it goes."""
    if isinstance(error, json.JSONDecodeError):
        said = error.msg[0].lower() + error.msg[1:].removesuffix(" at")
        return f"not JSON: {said}, at column {error.colno}"
    return f"not JSON: {error}"


def _json_hint(raw: bytes) -> str:
    """The likely cause of a line that is no JSON."""
    text = raw.strip()
    if b"\x00" in raw:
        return "write or copy the file again: it is damaged, or was never text in UTF-8"
    if re.search(rb"\}\s*\r\s*\{", text):
        return (
            "rows end in a carriage return alone; end them in newlines: tr '\\r' '\\n' < FILE > NEW"
        )
    if text.endswith(b","):
        return "rows are not separated by commas: one JSON object a line, and nothing after it"
    if text.startswith((b"{'", b"{u'")):
        return "JSON has double quotes; this looks like a printed Python dict: use json.dumps"
    if text.startswith(b"{") and not text.endswith(b"}"):
        return "the object does not end on its line: one JSON object a line, line breaks as \\n"
    return 'one JSON object a line (JSON Lines); quotes inside a text are written \\"'


def _has_lone_surrogate(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
