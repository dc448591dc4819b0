"""One pass over the framework's batches that several checks share, each row beside its example."""

from __future__ import annotations

import os
import pickle
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from tunegate.checks import CheckInputs, Told, untold
from tunegate.errors import DataError, TunegateError, boundary
from tunegate.types import IGNORED, Example, Finding, Json, Row, Status, Turn, Verdict
from tunegate.worker.rows import (
    Columns,
    columns_of,
    is_lines,
    parse_line,
    raw_lines,
    read_rows,
    with_system,
)
from tunegate.worker.template import Template

CHUNK_ROWS = 1_024

MAX_LISTED = 1_000
"""Lines of missing or dropped rows that are listed; half a percent of 200,000 rows."""


class Seen:
    """One training row and what the trainer is fed for it."""

    __slots__ = ("_answers", "_prompts", "_runs", "_templates", "_text", "example", "pieces", "row")

    def __init__(
        self,
        row: Row,
        example: Example,
        *,
        pieces: Sequence[bytes],
        templates: Mapping[str, Template],
    ) -> None:
        self.row = row
        self.example = example
        self.pieces = pieces
        self._templates = templates
        self._text: bytes | None = None
        self._prompts: dict[str, list[str]] = {}
        self._answers: list[tuple[int, Turn]] | None = None
        self._runs: list[tuple[int, int]] | None = None

    @property
    def text(self) -> bytes:
        """The bytes of all ids."""
        if self._text is None:
            self._text = self.decode(0, len(self.example.input_ids))
        return self._text

    def decode(self, start: int, end: int) -> bytes:
        """The bytes of ids [start, end); an id outside the vocabulary has none."""
        ids = self.example.input_ids[start:end]
        try:
            return b"".join(map(self.pieces.__getitem__, ids))
        except IndexError:
            size = len(self.pieces)
            return b"".join(self.pieces[token] for token in ids if 0 <= token < size)

    @property
    def answers(self) -> list[tuple[int, Turn]]:
        """Position and turn of each assistant turn that is meant to carry loss."""
        if self._answers is None:
            self._answers = [
                (position, turn)
                for position, turn in enumerate(self.row.turns)
                if turn.role == "assistant" and turn.weight > 0
            ]
        return self._answers

    def prompts(self, which: str) -> list[str]:
        """The text before each answer, generation prompt included, by the `serving` or `training`
        template. Raises DataError where the template refuses the conversation.
        """
        template = self._templates[which]
        if template is self._templates["serving"]:  # usually both are one
            which = "serving"
        if which not in self._prompts:
            turns, tools = self.row.turns, self.row.tools
            self._prompts[which] = [
                template.render(turns[:position], add_generation_prompt=True, tools=tools)
                for position, _ in self.answers
            ]
        return self._prompts[which]

    def supervised(self) -> list[tuple[int, int]]:
        """Runs [start, end) of positions that carry loss."""
        if self._runs is not None:
            return self._runs
        labels = self.example.labels
        end = len(labels)
        while end and labels[end - 1] == IGNORED:
            end -= 1
        start = labels[:end].count(IGNORED)
        if labels[:start].count(IGNORED) == start:  # the usual row: nothing, then one answer
            runs = [(start, end)] if start < end else []
        else:
            runs = list(_runs(labels))
        self._runs = runs
        return runs


def _runs(labels: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Stretches [start, end) of labels that carry loss."""
    start: int | None = None
    for position, label in enumerate(labels):
        if label == IGNORED:
            if start is not None:
                yield start, position
            start = None
        elif start is None:
            start = position
    if start is not None:
        yield start, len(labels)


class Watcher(Protocol):
    """A check's part of the pass. A dropped row is seen too."""

    def see(self, rows: Sequence[Seen]) -> None: ...

    def result(self, account: Json) -> Json: ...


def observe_one(inputs: CheckInputs, watcher: Watcher) -> Json:
    """The observation of one check that watches the batches."""
    return watch_batches(inputs, {"": watcher})[""]


def watch_batches(
    inputs: CheckInputs, watchers: Mapping[str, Watcher], *, told: Told = untold
) -> dict[str, Json]:
    """Show every example of the framework's batches, with its row, to each watcher.

    Where the batches cannot be built, or a watcher cannot go on, the observation holds the error.
    """
    account = _Account(inputs)
    errors: dict[str, Json] = {}
    try:
        seen = 0
        for chunk in account.chunks():
            seen += len(chunk)
            told(seen, ", ".join(watchers))
            for name, watcher in watchers.items():
                if name in errors:
                    continue
                try:
                    watcher.see(chunk)
                except DataError as error:
                    errors[name] = described(error, account.rows.path, account.label)
    except TunegateError as error:
        failed = described(error, account.rows.path, account.label)
        errors = {name: errors.get(name, failed) for name in watchers}
    rows = account.to_json()
    account.rows.close()
    return {
        name: {"error": errors.get(name), "file": account.label, **watcher.result(rows)}
        for name, watcher in watchers.items()
    }


def described(error: TunegateError, path: Path, label: str) -> Json:
    """An error as evidence keeps it: its place under the file's name in the run (`label`)."""
    where = (error.where or "").replace(str(path), label)
    if where.startswith("line "):  # from an encoder, which knows no file
        where = f"{label}:{where.removeprefix('line ')}"
    return {**error.to_json(), "where": where or None}


class _Account:
    """Which rows the file has and which of them the batches held."""

    def __init__(self, inputs: CheckInputs) -> None:
        self.inputs = inputs
        self.label: str = inputs.frozen["data"]["train"]["path"]
        self.rows = RowFile(
            inputs.path("train"), system=inputs.system, columns=columns_of(inputs.frozen, "train")
        )
        self.times = bytearray()
        self.unknown = 0
        self.dropped: dict[str, int] = {}
        self.dropped_rows: list[Json] = []

    def chunks(self) -> Iterator[list[Seen]]:
        inputs = self.inputs
        chunk: list[Seen] = []
        pieces = inputs.tokenizer.pieces
        templates = {"serving": inputs.serving_template, "training": inputs.training_template}
        with boundary(DataError, "building the framework's batches"):
            for batch in inputs.framework.batches(inputs.job):
                for example in batch:
                    row = self._count(example)
                    if row is not None:
                        chunk.append(Seen(row, example, pieces=pieces, templates=templates))
                if len(chunk) >= CHUNK_ROWS:
                    yield chunk
                    chunk = []
        yield chunk

    def _count(self, example: Example) -> Row | None:
        row = self.rows.get(example.index)
        if row is None:
            self.unknown += 1
            return None
        short = example.index + 1 - len(self.times)
        if short > 0:
            self.times.extend(bytes(short))
        self.times[example.index] = min(255, self.times[example.index] + 1)
        if example.dropped is not None:
            self.dropped[example.dropped] = self.dropped.get(example.dropped, 0) + 1
            if len(self.dropped_rows) < MAX_LISTED:
                self.dropped_rows.append({"line": row.line, "reason": example.dropped})
        return row

    def to_json(self) -> Json:
        try:
            total = self.rows.count()
        except TunegateError:  # told by whoever reads the rows; here it only ends the count
            total = self.rows.known
        missing = [n for n in range(total) if n >= len(self.times) or self.times[n] == 0]
        twice = [n for n, times in enumerate(self.times) if times > 1]
        return {
            "rows_in_file": total,
            "rows_seen": sum(1 for times in self.times if times),
            "missing": len(missing),
            "missing_lines": [self.rows.line(n) for n in missing[:MAX_LISTED]],
            "twice": len(twice),
            "twice_lines": [self.rows.line(n) for n in twice[:MAX_LISTED]],
            "unknown": self.unknown,
            "dropped": sum(self.dropped.values()),
            "dropped_by_reason": self.dropped,
            "dropped_rows": self.dropped_rows,
        }


class RowFile:
    """The rows of a file by index; read in order it is a stream, out of order it seeks.

    Keeps 16 bytes a row: where each starts and on which line. Rows of a file that is no JSON Lines
    are put down in a temporary file as they go by, and sought there.
    """

    def __init__(self, path: Path, *, system: str | None, columns: Columns | None = None) -> None:
        self.path = path
        self.system = system
        self.columns = columns
        self._spool: BinaryIO | None = None
        self._starts = array("Q")
        self._lines = array("Q")
        self._source = self._scan()
        self._back: BinaryIO | None = None

    @property
    def known(self) -> int:
        return len(self._starts)

    def line(self, index: int) -> int:
        """1-based line of a row that has been read."""
        return self._lines[index]

    def get(self, index: int) -> Row | None:
        """The row; None where the file has no such row. Raises DataError at a bad line."""
        if 0 <= index < self.known:
            return self._again(index)
        while index >= self.known:
            row = next(self._source, None)
            if row is None:
                return None
            if row.index == index:
                return row
        return None

    def count(self) -> int:
        """Rows in the file, reading to its end."""
        for _ in self._source:
            pass
        return self.known

    def close(self) -> None:
        if self._back is not None:
            self._back.close()
            self._back = None
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _scan(self) -> Iterator[Row]:
        if not is_lines(self.path):
            yield from self._spooled()
            return
        for line, start, raw in raw_lines(self.path):
            row = self._parse(raw, index=self.known, line=line)
            self._starts.append(start)
            self._lines.append(line)
            yield row

    def _spooled(self) -> Iterator[Row]:
        spool = self._spool = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - see close
        for row in read_rows(self.path, system=self.system, columns=self.columns):
            self._starts.append(spool.seek(0, os.SEEK_END))
            self._lines.append(row.line)
            pickle.dump(row, spool)
            yield row

    def _again(self, index: int) -> Row:
        if self._spool is not None:
            self._spool.seek(self._starts[index])
            row: Row = pickle.load(self._spool)
            return row
        if self._back is None:
            self._back = self.path.open("rb")
        self._back.seek(self._starts[index])
        return self._parse(self._back.readline(), index=index, line=self._lines[index])

    def _parse(self, raw: bytes, *, index: int, line: int) -> Row:
        row = parse_line(
            raw, index=index, line=line, where=f"{self.path}:{line}", columns=self.columns
        )
        return with_system(row, self.system)


def unable(check: str, observation: Json, *, not_checked: tuple[str, ...]) -> Verdict | None:
    """`cannot_tell` where the observation ended in an error; None where it did not."""
    error = observation.get("error")
    if error is None:
        return None
    return Verdict(
        check=check,
        status=Status.CANNOT_TELL,
        summary=f"could not find out: {error['message']}",
        findings=(Finding(error["message"], where=error["where"], change=error["hint"]),),
        not_checked=not_checked,
        hint=error["hint"],
    )
