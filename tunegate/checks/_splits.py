"""What data_lint counts in one split: roles, repeats, lengths, columns, labels in questions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from heapq import heappush, heappushpop
from itertools import pairwise

from tunegate.checks._characters import normal, odd, visible
from tunegate.checks._firsts import Firsts
from tunegate.checks._private import SECRET, private
from tunegate.checks._rules import wrong_rule
from tunegate.checks._targets import Targets
from tunegate.types import Json, Row, Turn
from tunegate.worker.forms import KEYS

MAX_LISTED = 20
"""Rows that one kind of problem lists in one split."""

CONTROL = re.compile(r"<\|[a-zA-Z_][\w ]{0,30}\|>|</?s>|<(?:start|end)_of_turn>|\[/?INST\]")
"""Control tokens of common chat templates, as text inside a message."""

MIN_SYSTEM_CHARACTERS = 20
"""A shorter system prompt may stand in a question by chance."""

OUTLIER_TIMES, OUTLIER_CHARACTERS = 10, 4_000
"""A row is long where it has this many times the median's characters, and this many at least."""


class Split:
    """Counts over the rows of one split, in memory that does not grow with them."""

    def __init__(
        self,
        name: str,
        *,
        task: Json,
        system: str | None,
        kind: str | None = None,
        control: re.Pattern[str] | None = None,
    ) -> None:
        """`kind` of a slice: scored by `class` or by `rule`; left out, each row says it. `control`
        finds the tokenizer's own control tokens.
        """
        self.name = name
        self.kind = kind if name.startswith("slice:") else "class"
        self.control = control
        self.task = task
        self.system = system
        self.trained = name in ("train", "validation")
        """Whether loss lies on every weighted answer; elsewhere the last one is compared with."""
        self.targets = Targets(task)
        self.rows = 0
        self.problems: dict[str, list[Json]] = {}
        self.counts: Counter[str] = Counter()
        self.systems: set[int] = set()
        self.rows_with_system = 0
        self.lengths: Counter[int] = Counter()
        self.longest: list[tuple[int, int]] = []
        self._first, self._whole, self._ids = Firsts(), Firsts(), Firsts()
        self._columns: dict[str, tuple[str, bool, int]] = {}
        self._questions: set[int] = set()
        self._answers: set[int] = set()

    def problem(self, kind: str, line: int, detail: str = "") -> None:
        """Note one row, the first `MAX_LISTED` of a kind with their lines."""
        self.counts[kind] += 1
        listed = self.problems.setdefault(kind, [])
        if len(listed) < MAX_LISTED:
            listed.append({"line": line, "detail": detail})

    def add(self, row: Row) -> None:
        """Count one row."""
        self.rows += 1
        if row.text is not None:
            self.problem("raw_text", row.line)
        self._identity(row)
        by_rule = self.kind == "rule" or (self.kind is None and "check" in row.meta)
        if by_rule:
            wrong = wrong_rule(row.meta.get("check"))
            if wrong is not None:
                self.problem("rule", row.line, wrong)
        elif not row.turns and not self.trained:
            self.problem("no_answer", row.line, "the row ends without an answer")
        if row.turns:
            self._roles(row, answered=not by_rule)
            self._system(row)
        elif row.text is not None:
            self._private(row.text, row.line, "the text")
        self._texts(row)

    def _roles(self, row: Row, *, answered: bool) -> None:
        problem = order_problem([turn.role for turn in row.turns])
        if problem is not None:
            self.problem("roles", row.line, problem)
        elif answered and row.turns[-1].role != "assistant":
            self.problem("no_answer", row.line, "the row ends without an answer")
        elif answered and row.answer_at is None:
            self.problem("no_answer", row.line, "no assistant turn carries weight")
        for number, turn in enumerate(row.turns, start=1):
            self._characters(turn, row.line, f"turn {number}")

    def _private(self, text: str, line: int, place: str) -> None:
        for kind, shown in private(text):
            self.counts[kind] += 1
            self.problem(
                "secret" if kind in SECRET else "personal", line, f"{place}: {kind} {shown}"
            )

    def _characters(self, turn: Turn, line: int, place: str) -> None:
        text = turn.said
        self._private(text, line, place)
        if not visible(text).strip():
            self.problem(f"empty_{turn.role}", line, place)
        own = self.control.search(text) if self.control is not None else None
        if own is not None:
            self.problem("control_token", line, own.group())
        elif "<" in text or "[" in text:
            found = CONTROL.search(text)
            if found is not None:
                self.problem("foreign_token", line, found.group())
        if "\x00" in text:
            self.problem("nul", line, place)
        wrong = odd(text)
        if wrong is not None:
            self.problem("odd_character", line, wrong)
        if "\r" in text:
            self.problem("carriage_return", line, place)
        elif "\n" in text:
            self.counts["plain_newline"] += 1

    def _system(self, row: Row) -> None:
        for turn in row.turns:
            if turn.role == "system":
                self.rows_with_system += 1
                if len(self.systems) < MAX_LISTED:
                    self.systems.add(hash(turn.content))
                if self.system is not None and turn.content != self.system:
                    self.problem("system", row.line, _difference(turn.content, self.system))
            elif turn.role == "user" and self._repeats_system(turn.content):
                self.problem("system_in_user", row.line)

    def _repeats_system(self, text: str) -> bool:
        own = (self.system or "").strip()
        return len(own) >= MIN_SYSTEM_CHARACTERS and own in text

    def _texts(self, row: Row) -> None:
        question = "\n".join(t.content for t in row.turns if t.role in ("user", "tool"))
        answer = row.answer if row.turns else row.text
        length = len(row.text or "") or sum(len(turn.content) for turn in row.turns)
        self.lengths[length] += 1
        if len(self.longest) < MAX_LISTED:
            heappush(self.longest, (length, row.line))
        else:
            heappushpop(self.longest, (length, row.line))
        label = self._answers_of(row, answer)
        if label is not None and says(question, label):
            self.counts["label_in_question"] += 1
        self._repeats(row, question, answer, label)

    def _answers_of(self, row: Row, last: str | None) -> str | None:
        """Look at the answers that are trained or compared with. Returns the last one's label."""
        if not row.turns:
            return None
        # A call on the way to the answer is no answer of the task; as the last word it is one.
        answers = [
            turn.said
            for position, turn in enumerate(row.turns)
            if turn.role == "assistant"
            and turn.weight
            and (not turn.tool_calls or position == row.answer_at)
        ]
        if not self.trained:
            answers = []
        if self.name != "train" and last is not None and last not in answers[-1:]:
            answers.append(last)  # what an output is compared with
        label = None
        for answer in answers:
            self.counts["answers"] += 1
            self.counts["padded_answers"] += answer != answer.strip()
            if answer.strip():
                wrong, label = self.targets.add(answer)
                if wrong is not None:
                    self.problem("target", row.line, wrong)
        return label

    def _repeats(self, row: Row, question: str, answer: str | None, label: str | None) -> None:
        if len(self._questions) < 2:
            self._questions.add(hash(question))
        if answer is not None and len(self._answers) < 2:
            self._answers.add(hash(answer))
        if not question and row.text is None:
            return
        before = row.prompt if row.answer is not None else row.turns
        said = tuple((turn.role, normal(turn.content)) for turn in before if turn.role != "system")
        key = hash(said or normal(row.text or ""))
        shown = None if answer is None else self.targets.canonical(answer)
        first, _ = self._whole.first(hash((key, shown)), row.line)
        if first != row.line:
            self.problem("repeated", row.line, f"line {first}")
            return
        line, other = self._first.first(key, row.line, label)
        if label is not None and other is not None and other != label:
            self.problem("conflict", row.line, f"{label!r} here and {other!r} in line {line}")

    def _identity(self, row: Row) -> None:
        name = row.meta.get("id")
        if name is not None:
            first, _ = self._ids.first(hash(str(name)), row.line)
            if first != row.line:
                self.problem("same_id", row.line, f"{name!r} as in line {first}")
        for key, value in row.meta.items():
            if key == "id":
                continue
            text = repr(value)[:200]
            known, constant, times = self._columns.get(key, (text, True, 0))
            self._columns[key] = (known, constant and known == text, times + 1)

    def close(self) -> None:
        """Forget which rows were seen."""
        for firsts in (self._first, self._whole, self._ids):
            firsts.close()

    def to_json(self) -> Json:
        return {
            "rows": self.rows,
            "problems": self.problems,
            "counts": dict(self.counts),
            "targets": self.targets.to_json(),
            "one_question": len(self._questions) == 1 and self.rows > 1,
            "one_answer": len(self._answers) == 1 and self.rows > 1,
            "constant_columns": [
                key
                for key, (_, constant, times) in self._columns.items()
                if constant and times == self.rows and self.rows > 1
            ],
            "misspelled": list(self._misspelled()),
            "long_rows": list(self._long()),
            "systems": len(self.systems),
            "rows_with_system": self.rows_with_system,
        }

    def _misspelled(self) -> Iterator[list[str]]:
        """Keys that nearly are one which means something, and that one."""
        for key in self._columns:
            near = get_close_matches(key, KEYS, n=1, cutoff=0.8)
            if near and near[0] not in (key, "id", "text", "check") and len(key) > 3:
                yield [key, near[0]]

    def _long(self) -> Iterator[Json]:
        half, passed = self.rows / 2, 0
        for median in sorted(self.lengths):
            passed += self.lengths[median]
            if passed >= half:
                break
        else:
            return
        for length, line in sorted(self.longest, reverse=True):
            if length > OUTLIER_CHARACTERS and length > OUTLIER_TIMES * median:
                yield {"line": line, "characters": length, "median": median}


def order_problem(roles: list[str]) -> str | None:
    """What is wrong with an order of roles: an optional system turn first, then user and assistant
    in turn; tool turns follow an assistant turn and are followed by one.
    """
    rest = roles[1:] if roles[:1] == ["system"] else roles
    if "system" in rest:
        return "a system turn that is not the first"
    if not rest:
        return "no turn but the system's"
    if rest[0] != "user":
        return f"the conversation begins with {rest[0]}"
    for before, after in pairwise(rest):
        if after not in _MAY_FOLLOW[before]:
            return f"{after} after {before}"
    return None


_MAY_FOLLOW: Mapping[str, tuple[str, ...]] = {
    "user": ("assistant",),
    "assistant": ("user", "tool"),
    "tool": ("assistant", "tool"),
}


def says(question: str, label: str) -> bool:
    """Whether a question holds the words of a label, in its order and next to each other."""
    said, folded = spoken(label), question.casefold()
    if not all(word in folded for word in said.split()):  # most questions, and much cheaper
        return False
    return said in _in_words(folded)


@lru_cache(maxsize=1_024)
def spoken(text: str) -> str:
    """A text as words: a label is said in a question with spaces for underscores."""
    return _in_words(text.casefold())


def _in_words(folded: str) -> str:
    return f" {' '.join(_SPOKEN.findall(folded))} "


_SPOKEN = re.compile(r"[^\W_]+")


def control_pattern(texts: Iterable[str]) -> re.Pattern[str] | None:
    """Finds a tokenizer's added tokens in a text, those of mere space apart."""
    kept = sorted({text for text in texts if text.strip()}, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, kept))) if kept else None


def _difference(one: str, other: str) -> str:
    """The first place where two texts differ, with what stands there."""
    if one.replace("\r\n", "\n").rstrip() == other.rstrip():
        return "differs only in line ends, or in space at its end"
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    at = min(len(one), len(other)) if at is None else at
    here, there = _around(one, at), _around(other, at)
    return f"differs at character {at + 1}: {here!r} in the row, {there!r} in the file"


def _around(text: str, at: int) -> str:
    return text[max(0, at - 10) : at + 30]
