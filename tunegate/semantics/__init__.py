"""Questions about how a framework behaves when a setting is not written. One question a file.

A question file holds constants: `QUESTION`, `AXIS` (the neutral setting it is about), `WHY` it
matters, `PROVED_BY` (the check that shows the truth on the run's own data; None where none does
yet) and `VALUES` (the answers that may be given and what each means; empty where any text may be).
Each framework answers in its `SEMANTICS` table, keyed by the names of these files. What a table
does not answer is unknown, and unknown is `cannot_tell`, never "the same".
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata

from tunegate.errors import PluginError
from tunegate.types import Answer, Json, Status
from tunegate.versions import in_range

ENTRY_POINTS = "tunegate.semantics"
"""Group in which an installed package may offer further question modules."""


@dataclass(frozen=True)
class Question:
    """One question file."""

    name: str
    question: str
    axis: str
    why: str
    proved_by: str | None
    values: Mapping[str, str]


@dataclass(frozen=True)
class Difference:
    """Two frameworks' answers to one question."""

    question: str
    axis: str
    here: str | None
    there: str | None
    status: Status
    """PASS: the same. FAIL: they differ. CANNOT_TELL: at least one answer is unknown."""
    reason: str
    proved_by: str | None

    def to_json(self) -> Json:
        return {**asdict(self), "status": str(self.status)}


def names() -> list[str]:
    """Names of the question files, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> Question:
    """The question of one file. Raises PluginError with the known names for an unknown one."""
    if name in names():
        module = importlib.import_module(f"{__name__}.{name}")
    else:
        found = [e for e in metadata.entry_points(group=ENTRY_POINTS) if e.name == name]
        if not found:
            raise PluginError(
                f"no question is called `{name}`", hint=f"known: {', '.join(names())}"
            )
        module = found[0].load()
    try:
        return Question(
            name, module.QUESTION, module.AXIS, module.WHY, module.PROVED_BY, module.VALUES
        )
    except AttributeError as exc:
        raise PluginError(f"question file `{name}`: {exc}") from exc


def questions() -> list[Question]:
    """Every question, in the order of their names."""
    return [load(name) for name in names()]


def differ(
    question: Question,
    *,
    here: Answer | None,
    there: Answer | None,
    here_version: str | None = None,
    there_version: str | None = None,
) -> Difference:
    """Compare two answers. An answer for other versions than the one in use counts as unknown.

    A version that is not given is not held against the answer's range.
    """
    doubts = [*_doubts("here", here, here_version), *_doubts("there", there, there_version)]
    if doubts or here is None or there is None:
        status, reason = Status.CANNOT_TELL, "; ".join(doubts)
    elif here.value == there.value:
        status, reason = Status.PASS, "the same"
    else:
        status = Status.FAIL
        reason = f"here {_meaning(question, here)}; there {_meaning(question, there)}"
    return Difference(
        question=question.name,
        axis=question.axis,
        here=here.value if here else None,
        there=there.value if there else None,
        status=status,
        reason=reason,
        proved_by=question.proved_by,
    )


def differences(
    asked: Iterable[Question],
    *,
    here: Mapping[str, Answer],
    there: Mapping[str, Answer],
    here_version: str | None = None,
    there_version: str | None = None,
) -> list[Difference]:
    """Every question on which two tables do not certainly agree."""
    compared = (
        differ(
            question,
            here=here.get(question.name),
            there=there.get(question.name),
            here_version=here_version,
            there_version=there_version,
        )
        for question in asked
    )
    return [d for d in compared if d.status is not Status.PASS]


def unanswered(asked: Iterable[Question], table: Mapping[str, Answer]) -> list[str]:
    """Faults of a table: questions without an answer, answers outside a question's values."""
    faults = []
    for question in asked:
        answer = table.get(question.name)
        if answer is None:
            faults.append(f"{question.name}: no answer")
        elif question.values and answer.value not in question.values:
            known = ", ".join(question.values)
            faults.append(f"{question.name}: `{answer.value}` is none of {known}")
    return faults


def _doubts(side: str, answer: Answer | None, version: str | None) -> list[str]:
    if answer is None:
        return [f"{side}: unknown"]
    if version is not None and in_range(version, answer.versions) is not True:
        return [f"{side}: answered for {answer.versions}, not for {version}"]
    return []


def _meaning(question: Question, answer: Answer) -> str:
    return question.values.get(answer.value, answer.value)
