"""What freezing needs to know of a row file: hash, rows, longest row, answer lengths, classes.

Rows are streamed, so that memory does not grow with the file.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tunegate import metrics
from tunegate.compare.wording import many
from tunegate.drive import Progress
from tunegate.errors import DataError, Problem
from tunegate.freeze import FileFacts
from tunegate.store import sha256_file
from tunegate.types import IGNORED, Json, Row
from tunegate.verbs.run import Run
from tunegate.worker.encode import encode_rows
from tunegate.worker.rows import Columns, read_rows, scan_rows
from tunegate.worker.template import Template
from tunegate.worker.tokens import Tokenizer

MAX_PROBLEMS = 20

PROGRESS_ROWS = 20_000
"""Rows between two signs of life while a file is read."""


@dataclass
class Reader:
    """Reads row files for their facts: hash, rows, longest row, answer lengths, classes."""

    run: Run
    tokenizer: Tokenizer
    template: Template
    system: str | None
    task: Json
    known: Mapping[str, Json]
    kinds: dict[str, str] = field(default_factory=dict)

    def facts(self, name: str, path: str) -> FileFacts:
        file = self.run.source_dir / path
        digest, size = sha256_file(file), file.stat().st_size
        old = self.known.get(name)
        if old is not None and old["sha256"] == digest:
            if name.startswith("slice:"):
                self.kinds[name[6:]] = "class" if old["answer_tokens_max"] else "rule"
            return FileFacts(**{**old, "path": path})
        self.run.show(Progress(f"reading {file.name}"))
        named = self.run.spec.data.columns
        columns: Columns | None = None
        if named and name != "teacher":
            columns = {str(key): column for key, column in named.items()}
        count, by_rule = self._looked_through(name, file, columns)
        if name.startswith("slice:"):
            self.kinds[name[6:]] = "rule" if by_rule else "class"
        if name == "teacher" or by_rule:
            return FileFacts(path, digest, size, count)
        rows = read_rows(file, system=self.system, columns=columns)
        return self._counted(FileFacts(path, digest, size, count), rows)

    def _looked_through(self, name: str, file: Path, columns: Columns | None) -> tuple[int, bool]:
        """How many rows the file has, and whether all are scored by rule. Raises DataError that
        names every row that cannot be read, up to a limit.
        """
        count, by_rule = 0, True
        problems: list[DataError] = []
        for item in scan_rows(file, columns=columns):
            if isinstance(item, DataError):
                problems.append(item)
                if len(problems) == MAX_PROBLEMS:
                    break
                continue
            count += 1
            by_rule = by_rule and "check" in item.meta
            if name == "teacher":
                _is_answer(file, item)
            if count % PROGRESS_ROWS == 0:
                self.run.show(Progress(f"reading {file.name}", count, None, f"{count:,} rows"))
        if len(problems) == 1:
            raise problems[0]
        if problems and len({problem.message for problem in problems}) == 1:
            first = problems[0]
            more = f"{many(len(problems), 'row')}{' or more' * (len(problems) == MAX_PROBLEMS)}"
            raise DataError(f"{first.message} (so in {more})", where=first.where, hint=first.hint)
        if problems:
            more = " or more" if len(problems) == MAX_PROBLEMS else ""
            hints = [problem.hint for problem in problems if problem.hint]
            raise DataError(
                f"{many(len(problems), 'row')}{more} of {file.name} cannot be read",
                where=problems[0].where,
                problems=[Problem(problem.message, problem.where) for problem in problems],
                hint=hints[0] if hints else "mend the rows, then run the same command again",
            )
        if not count:
            raise DataError(
                f"{file.name} has no rows", where=str(file), hint="docs/data.md shows the forms"
            )
        return count, by_rule

    def _counted(self, file: FileFacts, rows: Iterable[Row]) -> FileFacts:
        """The facts of a file whose rows are trained or answered. Holds no row."""
        longest = 0
        answers: Counter[int] = Counter()
        classes = _Classes(self.task)
        examples = encode_rows(
            classes.seeing(rows),
            tokenizer=self.tokenizer,
            template=self.template,
            loss=self.run.spec.train.loss or "answer",
        )
        try:
            for number, example in enumerate(examples, start=1):
                longest = max(longest, len(example.input_ids))
                answers[sum(label != IGNORED for label in example.labels)] += 1
                if number % PROGRESS_ROWS == 0:
                    self.run.show(Progress(f"counting tokens of {file.path}", number, file.rows))
        except DataError as error:
            place = (error.where or "").replace("line ", "")
            where = (
                f"{self.run.source_dir / file.path}:{place}"
                if place
                else str(self.run.source_dir / file.path)
            )
            raise DataError(error.message, where=where, hint=error.hint) from error
        return FileFacts(
            path=file.path,
            sha256=file.sha256,
            bytes=file.bytes,
            rows=file.rows,
            tokens_max=longest,
            answer_tokens_max=max(answers),
            answer_tokens_p99=_at_rank(answers, int(0.99 * answers.total())),
            by_class=classes.counts(),
        )


def _is_answer(file: Path, row: Row) -> None:
    """A teacher's rows hold answers only; rows with questions are some other file."""
    if row.prompt or row.answer is None or row.meta.get("id") is None:
        raise DataError(
            "a teacher's row is its `id` and its `output`, and nothing else",
            where=f"{file}:{row.line}",
            hint='{"id": "test-1", "output": "..."}; without any, leave eval.teacher out',
        )


def _at_rank(counts: Counter[int], rank: int) -> int:
    """The value at the 0-based `rank` of all counted values in order; the last one beyond."""
    passed = 0
    for value in sorted(counts):
        passed += counts[value]
        if passed > rank:
            break
    return value


class _Classes:
    """Counts the rows of each class as they go by."""

    def __init__(self, task: Json) -> None:
        self.task = task
        self.golds: Counter[str] = Counter()
        self.label = metrics.load("label") if task["labels"] else None

    def seeing(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            text = row.answer
            if self.label is not None and text is not None:
                # An answer without a readable class is data_lint's to report, with its line.
                with contextlib.suppress(DataError):
                    gold = self.label.score(text, {"answer": text}, self.task)["gold"]
                    self.golds[str(gold)] += 1
            yield row

    def counts(self) -> dict[str, int] | None:
        return dict(sorted(self.golds.items())) if self.label is not None else None
