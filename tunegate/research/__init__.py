"""Gate 1: what will really run, whether it lies where such runs work, and what is still unknown.

Pure: the verbs hand in the frozen run, the tables of `facts/` and the run file's answers. A run
whose settings were all chosen by rule raises no question, so it passes without a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tunegate.research import anchor as anchors
from tunegate.research.answers import Questions
from tunegate.research.bands import bands, precision
from tunegate.research.coverage import coverage
from tunegate.research.evaluation import evaluation
from tunegate.research.issues import known_issues, versions
from tunegate.research.settings import effective
from tunegate.types import Json, Status

difference = anchors.difference


def research(
    frozen: Json,
    facts: Mapping[str, Json],
    *,
    anchor: Json | None = None,
    answers: Mapping[str, Mapping[str, Any]] | None = None,
    allow: Mapping[str, str] | None = None,
    tables: anchors.Tables | None = None,
    device: Mapping[str, object] | None = None,
) -> Json:
    """The payload of research.json.

    `facts` is `facts.load_all()`; `anchor` the frozen run to be comparable with; `answers` the run
    file's `research.answers` ({id: {"answer", "source"}}); `allow` its `research.allow` ({axis:
    reason}); `tables` the SEMANTICS of the frameworks of both runs; `device` that of the platform
    ({"kind": "cpu", "bf16_native": bool}), where it is known.

    Keys: effective, bands, precision, coverage, evaluation, known_issues, versions, anchor,
    questions, warnings, problems (one line each; empty where the gate is open), verdict.
    """
    questions = Questions(answers)
    in_band = bands(frozen, facts, questions)
    arithmetic = precision(frozen, facts, device, questions)
    reached, unreached = coverage(frozen, facts, questions)
    contract, unfit, warnings = evaluation(frozen, facts, questions)
    installed, conflicts = versions(frozen, facts, questions)
    issues = known_issues(frozen, facts, questions)
    compared = anchors.difference(frozen, anchor, allow=allow, tables=tables) if anchor else None
    differing = anchors.problems(compared) if compared else []
    if reached["not_targeted"]:
        names = ", ".join(reached["not_targeted"])
        warnings.append(f"train.lora.targets: linear modules without an adapter: {names}")
    warnings += [f"research.answers.{name}: no such question is asked" for name in questions.unused]
    unused = compared["unused"] if compared else list(allow or {})
    warnings += [f"research.allow.{axis}: there is no such difference" for axis in unused]
    return {
        "effective": effective(frozen),
        "bands": in_band,
        "precision": arithmetic,
        "coverage": reached,
        "evaluation": contract,
        "known_issues": issues,
        "versions": installed,
        "anchor": compared,
        "questions": questions.asked,
        "warnings": warnings,
        "problems": [*unreached, *unfit, *conflicts, *questions.problems, *differing],
        "verdict": str(_verdict(questions, [*unreached, *unfit], installed, conflicts, compared)),
    }


def _verdict(
    questions: Questions,
    faults: list[str],
    installed: list[Json],
    conflicts: list[str],
    compared: Json | None,
) -> Status:
    """FAIL where something is wrong, CANNOT_TELL where something is only unknown."""
    seen = {line["verdict"] for line in installed}
    if compared is not None:
        seen.add(compared["verdict"])
    is_open = any(question["open"] for question in questions.asked)
    if faults or is_open or Status.FAIL in seen:
        return Status.FAIL
    if conflicts or Status.CANNOT_TELL in seen:
        return Status.CANNOT_TELL
    return Status.PASS
