"""Data files that are no JSON Lines: CSV, Parquet and JSON arrays, read as a stream of records.

Each yields the 1-based line on which a record begins (of Parquet, which has no lines, the record's
number) and the record as an object of our keys' kinds, or the error that stands in its place.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from tunegate.errors import DataError, UsageError
from tunegate.worker.forms import KEYS

Records = Iterator[tuple[int, Mapping[str, Any] | DataError]]

MAX_ROW_BYTES = 16 * 2**20
"""A longer record is refused: it is no row, and would have to be held in memory whole."""

CHUNK = 2**16
"""Characters of a JSON array that are read at a time."""

_BOM = b"\xef\xbb\xbf"
_UTF16 = re.compile(rb"\xff\xfe|\xfe\xff|[^\x00]\x00[^\x00]\x00|\x00[^\x00]\x00[^\x00]")
"""How UTF-16 begins: with its mark, or with two characters of which one byte is zero."""

_NESTED = ("messages", "conversations", "history", "tools", "check")
"""Keys whose value is a list or an object; a CSV cell holds it as JSON text."""

_NEVER_ABSENT = ("prompt", "completion", "instruction", "output", "text")
"""Keys whose empty CSV cell is an empty text; of any other, it says that there is no value."""


def is_json_array(path: Path) -> bool:
    """Whether the file is one JSON array; a `.json` file may hold JSON Lines too."""
    if path.suffix.lower() != ".json":
        return False
    with path.open("rb") as file:
        return file.read(4096).lstrip().startswith((b"[", b"\xef\xbb\xbf["))


def refuse_encoding(head: bytes, where: str, *, may_have_mark: bool = False) -> None:
    """Raise DataError where a file's first bytes are those of another encoding than UTF-8."""
    if _UTF16.match(head):
        raise DataError(
            "the file is UTF-16, not UTF-8",
            where=where,
            hint="save it as UTF-8 without a mark: iconv -f UTF-16 -t UTF-8 FILE > NEW",
        )
    if head.startswith(_BOM) and not may_have_mark:
        raise DataError(
            "the file begins with a byte-order mark, which other JSON readers refuse",
            where=where,
            hint="save it as UTF-8 without a byte-order mark",
        )


def not_utf8(error: UnicodeDecodeError, where: str) -> DataError:
    """The error of a line that is not UTF-8."""
    return DataError(
        f"not UTF-8: byte 0x{error.object[error.start]:02x}, the line's {error.start + 1:,}th",
        where=where,
        hint="save the file as UTF-8; if it was saved on Windows: "
        "iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW",
    )


def refuse_layout(head: bytes, where: str) -> None:
    """Raise DataError where a file begins as JSON over several lines, which is no JSON Lines."""
    if head.partition(b"\n")[0].strip() in (b"{", b"["):
        raise DataError(
            "the file is JSON over several lines, and JSON Lines has one object a line",
            where=where,
            hint="a list of rows, and nothing around it, is read from a file named .json; "
            "rows one a line from one named .jsonl",
        )


def too_long(where: str) -> DataError:
    """The error of a record over the limit."""
    return DataError(
        f"a row of more than {MAX_ROW_BYTES // 2**20} MiB",
        where=where,
        hint="one row a line; see whether the file lost its line ends",
    )


def csv_records(path: Path, columns: Mapping[str, str] | None) -> Records:
    """The records of a CSV file with a header, comma-separated, quoted by RFC 4180.

    A byte-order mark is skipped, since Excel writes one. A quoted field may hold line ends.
    """
    csv.field_size_limit(MAX_ROW_BYTES)
    ours = {theirs: key for key, theirs in (columns or {}).items()}
    begin = 1
    try:
        with path.open("rb") as file:
            reader = csv.reader(_decoded(file, path), strict=True)
            header = _header(next(reader, []), path, {*KEYS, *ours})
            begin = reader.line_num + 1
            for cells in reader:
                if cells:
                    yield begin, _cells(header, cells, f"{path}:{begin}", ours)
                begin = reader.line_num + 1
    except csv.Error as error:
        yield (
            begin,
            DataError(
                f"not CSV: {error}", where=f"{path}:{begin}", hint="quote a field by doubled quotes"
            ),
        )
    except DataError as error:
        yield begin, error


def _decoded(file: Any, path: Path) -> Iterator[str]:
    for number, raw in enumerate(iter(lambda: file.readline(MAX_ROW_BYTES), b""), start=1):
        if number == 1:
            refuse_encoding(raw, f"{path}:1", may_have_mark=True)
            raw = raw.removeprefix(_BOM)
        if len(raw) == MAX_ROW_BYTES:
            raise too_long(f"{path}:{number}")
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise not_utf8(error, f"{path}:{number}") from error


def _header(names: Sequence[str], path: Path, known: Set[str]) -> Sequence[str]:
    where = f"{path}:1"
    if not names:
        raise DataError(
            "a CSV file without a header", where=where, hint="name the columns in line 1"
        )
    names = [name.strip() for name in names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or "" in names:
        named = twice and twice[0]
        what = f"the column {named!r} stands twice" if named else "a nameless column"
        raise DataError(f"{what} in the header", where=where, hint="give each column a name")
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise DataError(
            f"the header {names[0]!r} has no commas", where=where, hint="separate fields by commas"
        )
    if not known & set(names):
        shown = ", ".join(repr(name[:40]) for name in names[:10])
        raise DataError(
            f"the header names no column that means something; it names {shown}",
            where=where,
            hint="line 1 names the columns, such as prompt,completion; "
            "other names are told by data.columns in the run file",
        )
    return names


def _cells(
    header: Sequence[str], cells: Sequence[str], where: str, ours: Mapping[str, str]
) -> Mapping[str, Any] | DataError:
    if len(cells) != len(header):
        return DataError(
            f"{len(cells)} fields where the header has {len(header)}",
            where=where,
            hint="quote fields that hold commas, quotes or line ends",
        )
    out: dict[str, Any] = {}
    for name, cell in zip(header, cells, strict=True):
        key = ours.get(name, name)
        if key in _NESTED and cell[:1] in ("[", "{"):
            try:
                out[name] = json.loads(cell)
            except (ValueError, RecursionError) as error:
                return DataError(
                    f"the cell {name!r} is no JSON: {error}",
                    where=where,
                    hint="a cell of this column holds a list or an object as JSON",
                )
        elif cell or key in _NEVER_ABSENT or name in ours:
            out[name] = cell if cell or key in _NEVER_ABSENT else None
    return out


def array_records(path: Path) -> Records:
    """The elements of a file that is one JSON array, without holding the file."""
    line, number = 1, 0
    try:
        with path.open("rb") as start:
            refuse_encoding(start.read(4), f"{path}:1")
        with path.open("r", encoding="utf-8", newline="") as file:
            text = _Window(file, path)
            text.skip("[")
            while not text.at_end("]"):
                if number:
                    text.skip(",")
                    if text.at_end("]"):
                        raise text.wrong("a comma before the end of the array")
                number += 1
                line = text.begin_line()
                yield line, text.element()
            text.nothing_follows()
    except UnicodeDecodeError as error:
        found = DataError(
            f"not UTF-8: {error.reason}",
            where=f"{path}:{line}",
            hint="save the file as UTF-8; the place is in this row or soon after it",
        )
        yield line, found
    except DataError as error:
        yield line, error


class _Window:
    """A stretch of a long text that moves on: what is read is dropped, and its lines counted."""

    def __init__(self, file: Any, path: Path) -> None:
        self.file, self.path = file, path
        self.text, self.at, self.line = "", 0, 1
        self.is_whole = False
        self.decoder = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=no_number)

    def wrong(self, what: str) -> DataError:
        return DataError(
            f"not a JSON array: {what}",
            where=f"{self.path}:{self.line + self.text.count(chr(10), 0, self.at)}",
            hint="a .json file is one array of rows, or one row a line",
        )

    def _more(self, size: int) -> bool:
        """Read on; False at the file's end."""
        got = self.file.read(size)
        self.line += self.text.count("\n", 0, self.at)
        self.text, self.at = self.text[self.at :] + got, 0
        self.is_whole = not got
        return bool(got)

    def _space(self) -> None:
        """Move past white space."""
        while True:
            rest = len(self.text) - len(self.text[self.at :].lstrip(" \t\r\n"))
            self.at = rest
            if self.at < len(self.text) or not self._more(CHUNK):
                return

    def at_end(self, mark: str) -> bool:
        self._space()
        return self.text[self.at : self.at + 1] == mark

    def begin_line(self) -> int:
        self._space()
        self.line += self.text.count("\n", 0, self.at)
        self.text, self.at = self.text[self.at :], 0
        return self.line

    def skip(self, mark: str) -> None:
        if not self.at_end(mark):
            self._not_cut_short()
            found = self.text[self.at : self.at + 20]
            raise self.wrong(f"{found!r} where {mark!r} was expected")
        self.at += 1

    def _not_cut_short(self) -> None:
        if self.at == len(self.text):
            raise DataError(
                "the file ends inside its array: it is cut short",
                where=f"{self.path}:{self.line + self.text.count(chr(10), 0, self.at)}",
                hint="write or copy the file again; a whole one ends with ]",
            )

    def element(self) -> Mapping[str, Any] | DataError:
        self._space()
        self._not_cut_short()
        if self.text[self.at : self.at + 1] != "{":
            raise self.wrong(f"{self.text[self.at : self.at + 20]!r} where a row was expected")
        size = CHUNK
        while True:
            try:
                value, self.at = self.decoder.raw_decode(self.text, self.at)
                return dict(value)
            except json.JSONDecodeError as error:
                if len(self.text) - self.at > MAX_ROW_BYTES:
                    raise too_long(f"{self.path}:{self.line}") from error
                if not self._more(size):
                    line = self.line + error.lineno - 1
                    raise DataError(
                        f"not JSON: {error.msg}",
                        where=f"{self.path}:{line}",
                        hint="mend the row; what follows it cannot be read",
                    ) from error
                size *= 2
            except RecursionError:
                raise self.wrong("nested too deeply to be a row") from None
            except ValueError as error:
                raise self.wrong(str(error)) from error

    def nothing_follows(self) -> None:
        self.skip("]")
        self._space()
        if self.at < len(self.text):
            raise self.wrong(f"{self.text[self.at : self.at + 20]!r} after its end")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of the pairs. Raises ValueError where a key stands twice."""
    out = dict(pairs)
    if len(out) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return out


def no_number(name: str) -> Any:
    """Refuse NaN and Infinity, which JSON does not have. Raises ValueError."""
    raise ValueError(f"{name} is no JSON number; write null, or leave the key out")


def parquet_records(path: Path) -> Records:
    """The records of a Parquet file, a batch at a time; a null value is an absent key."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise UsageError(
            f"reading {path.name} needs pyarrow, which is not installed",
            kind="extra_missing",
            hint="pip install 'tunegate[parquet]', or save the rows as JSON Lines",
        ) from error
    number = 0
    path.open("rb").close()  # a file that is not there is told as such, not as a broken one
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=512):
                for record in batch.to_pylist():
                    number += 1
                    yield number, _without_nulls(record)
    except (ArrowException, OSError) as error:
        raise DataError(
            f"not a whole Parquet file: {str(error).splitlines()[0]}",
            where=f"{path}:{number + 1}",
            hint="write or copy the file again: it is cut short, damaged or of another kind",
        ) from error


def _without_nulls(value: Any) -> Any:
    """A value without null members: a column of structs has every key in every row."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
