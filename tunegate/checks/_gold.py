"""Rows that evaluation scores: one id each over test and slices, one teacher answer to each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tunegate.types import Finding, Json, Row

MAX_LISTED = 10


class Gold:
    """Collects the ids of scored rows, then those of the recorded answers."""

    def __init__(self, *, teacher: str | None) -> None:
        """`teacher` is the file of recorded answers, where there is one."""
        self.places: dict[str, str] = {}
        """File and line of the first row of each id."""
        self.shared: list[Json] = []
        self.counts: Counter[str] = Counter()
        self._answered: dict[str, int] = {}
        self.twice: list[Json] = []
        self._teacher = teacher

    def add(self, split: str, file: str, row: Row) -> None:
        """A row of test or of a slice."""
        identity = identity_of(split, row)
        place = f"{file}:{row.line}"
        first = self.places.setdefault(identity, place)
        if first != place and not first.startswith(f"{file}:"):  # within a file: told as same_id
            self.counts["shared"] += 1
            if len(self.shared) < MAX_LISTED:
                self.shared.append({"id": identity, "where": place, "first": first})

    def answered(self, row: Row) -> None:
        """A recorded answer of the teacher."""
        name = row.meta.get("id")
        if name is None:
            self.counts["nameless"] += 1
            return
        first = self._answered.setdefault(str(name), row.line)
        if first != row.line:
            self.counts["twice"] += 1
            if len(self.twice) < MAX_LISTED:
                self.twice.append({"id": str(name), "line": row.line, "first": first})

    def to_json(self) -> Json:
        missing = [name for name in self.places if name not in self._answered]
        return {
            "rows": len(self.places),
            "counts": dict(self.counts),
            "shared": self.shared,
            "teacher": None
            if self._teacher is None
            else {
                "file": self._teacher,
                "missing": len(missing),
                "first_missing": missing[:MAX_LISTED],
                "unknown": sum(name not in self.places for name in self._answered),
                "twice": self.twice,
            },
        }


def identity_of(split: str, row: Row) -> str:
    """The id that evaluation gives a row: its own, or the slice's name and the row's number."""
    own = row.meta.get("id")
    return f"{split.removeprefix('slice:')}:{row.index}" if own is None else str(own)


def gold_errors(gold: Json) -> Iterator[Finding]:
    """What would stop evaluation: ids that two files share, answers that the teacher lacks."""
    for item in gold["shared"]:
        yield Finding(
            f"the id {item['id']!r} stands in {item['first']} too",
            where=item["where"],
            change="give every row of test and slices an id of its own",
        )
    teacher, counts = gold["teacher"], gold["counts"]
    if teacher is None:
        return
    if teacher["missing"]:
        shown = ", ".join(repr(name) for name in teacher["first_missing"])
        yield Finding(
            f"the teacher's file lacks {teacher['missing']:,} of {gold['rows']:,} rows: {shown}",
            where=teacher["file"],
            change="add an answer for each row of test and slices, or leave eval.teacher out",
        )
    for item in teacher["twice"]:
        yield Finding(
            f"the id {item['id']!r} is answered in line {item['first']} too",
            where=f"{teacher['file']}:{item['line']}",
            change="keep one answer for each row",
        )
    if counts.get("nameless"):
        yield Finding(
            f"{counts['nameless']:,} recorded answers have no id",
            where=teacher["file"],
            change="name the row that each belongs to",
        )


def gold_warnings(gold: Json) -> Iterator[Finding]:
    """What is odd about the recorded answers and stops nothing."""
    teacher = gold["teacher"]
    if teacher is not None and teacher["unknown"]:
        message = f"{teacher['unknown']:,} recorded answers belong to no row of test or slices"
        yield Finding(message, teacher["file"])
