"""The table of stages, and where a run stands, computed from the digests in its files.

Pure: the verbs gather `Seen` facts from the run folder and this module draws the conclusion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where one stage stands."""

    DONE = "done"
    MISSING = "missing"
    STALE = "stale"
    """Its inputs have changed since it was written."""
    CLOSED = "closed"
    """It ran, and what it found keeps the gate closed."""
    PARTLY = "partly"
    """It began and was interrupted; the next call goes on."""


@dataclass(frozen=True)
class Stage:
    """One row of the table."""

    name: str
    writes: str
    """File whose digest stands for the stage."""
    reads: tuple[str, ...]
    """Files, or sections of frozen.json, that it reads."""
    command: str
    about: str


_FROZEN = "frozen.json"
_TRAINING = "frozen.json#training"
_EVALUATION = "frozen.json#evaluation"
_CHECKS = "evidence/checks.json"
_WIRE = "evidence/wire.json"
_DRY_RUN = "evidence/dry_run.json"
_EVIDENCE = (_FROZEN, "research.json", _CHECKS, _WIRE, _DRY_RUN, "quote.json")

STAGES: tuple[Stage, ...] = (
    Stage("freeze", _FROZEN, (), "freeze", "inputs pinned by digest"),
    Stage("research", "research.json", (_FROZEN,), "research", "gate 1: settings and reasons"),
    Stage("check", _CHECKS, (_TRAINING, _EVALUATION), "check", "gate 2: every row looked at"),
    Stage("wire", _WIRE, (_TRAINING,), "wire", "gate 2: 20 rows by heart, saved, reloaded"),
    Stage("baseline", "eval/raw.json", (_EVALUATION,), "eval --column raw", "the base at its best"),
    Stage("dry_run", _DRY_RUN, (_FROZEN, _WIRE), "train --dry-run", "all short of the launch"),
    Stage("quote", "quote.json", (_FROZEN, _WIRE), "quote", "hours, money, checkpoint interval"),
    Stage("release", "release.json", _EVIDENCE, "release", "gate 3: a person, or policy"),
    Stage("train", "trained.json", (_TRAINING,), "train", "the training itself"),
    Stage(
        "eval",
        "report.json",
        (_EVALUATION, "trained.json", "eval/raw.json"),
        "eval",
        "three columns",
    ),
    Stage("decide", "decision.json", ("report.json",), "decide", "what to do next, by rule"),
    Stage(
        "record",
        "record.json",
        ("decision.json", "report.json", "trained.json"),
        "record",
        "the run, its scores and its cost",
    ),
)


@dataclass(frozen=True)
class Seen:
    """What the run folder holds for one stage."""

    digest: str | None = None
    """None where the file is missing."""
    read: Mapping[str, str | None] | None = None
    """Digests of its inputs when it was written."""
    is_open: bool = True
    """False where its content keeps the gate closed."""
    partly: bool = False
    """True where it began: an attempt without a receipt, a column with some rows."""


def states(seen: Mapping[str, Seen], current: Mapping[str, str | None]) -> dict[str, State]:
    """State of every stage. `current` maps each readable name to its digest now."""
    found: dict[str, State] = {}
    for stage in STAGES:
        fact = seen.get(stage.name, Seen())
        if fact.digest is None:
            found[stage.name] = State.PARTLY if fact.partly else State.MISSING
        elif _is_stale(stage, fact, current) or _built_on_stale(stage, found):
            found[stage.name] = State.STALE
        else:
            found[stage.name] = State.DONE if fact.is_open else State.CLOSED
    return found


def _is_stale(stage: Stage, fact: Seen, current: Mapping[str, str | None]) -> bool:
    read = fact.read or {}
    return any(read.get(name) != current.get(name) for name in stage.reads)


def _built_on_stale(stage: Stage, found: Mapping[str, State]) -> bool:
    """A file is also stale when a file it read is itself stale."""
    made_by = {other.writes: other.name for other in STAGES}
    sources = [made_by[name] for name in stage.reads if name in made_by]
    return any(found[source] in (State.STALE, State.MISSING) for source in sources)


def next_stage(found: Mapping[str, State]) -> Stage | None:
    """The first stage that is not done; None when the run is complete."""
    for stage in STAGES:
        if found[stage.name] is not State.DONE:
            return stage
    return None


def next_commands(found: Mapping[str, State], run: str) -> list[str]:
    """Commands that are allowed now, best first."""
    stage = next_stage(found)
    if stage is None:
        return [f"tunegate report {run}"]
    if found[stage.name] is State.CLOSED:
        return [f"tunegate {stage.command} {run}", f"tunegate status {run}"]
    return [f"tunegate go {run}", f"tunegate {stage.command} {run}"]
