"""The outcomes of a set as text: one line a case, then recall by family, then false alarms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.planted.cases import FAMILIES

if TYPE_CHECKING:
    from bench.planted.run import Outcome


def show(outcomes: Sequence[Outcome]) -> str:
    """The whole table."""
    bugs = [outcome for outcome in outcomes if outcome.is_bug]
    controls = [outcome for outcome in outcomes if not outcome.is_bug]
    lines = [f"{'id':<40} {'family':<11} {'expected':<9} outcome"]
    lines += [_line(outcome) for outcome in [*bugs, *controls]]
    lines += ["", f"{'family':<11} caught  other reason  missed  bugs"]
    for family in (*FAMILIES, "all"):
        part = [bug for bug in bugs if family in (bug.family, "all")]
        if part:
            caught = sum(bug.is_caught for bug in part)
            missed = sum(not bug.is_refused for bug in part)
            other = len(part) - caught - missed
            lines.append(f"{family:<11} {caught:>6} {other:>13} {missed:>7} {len(part):>5}")
    caught, alarms = sum(bug.is_caught for bug in bugs), [c for c in controls if c.stage]
    lines += ["", _share("recall", caught, len(bugs))]
    lines.append(_share("false alarms", len(alarms), len(controls)))
    return "\n".join(lines)


def _share(name: str, part: int, whole: int) -> str:
    share = f" ({part / whole:.1%})" if whole else ""
    return f"{name}: {part} of {whole}{share}"


def _line(outcome: Outcome) -> str:
    by = f"{outcome.stage}: {outcome.kind}" if outcome.stage else "nothing refused it"
    if outcome.checks:
        by += f" ({', '.join(outcome.checks)})"
    if outcome.stage and not outcome.is_refused:
        verdict = "FAULT OF THE TOOL"
    elif not outcome.is_bug:
        verdict = "FALSE ALARM" if outcome.stage else "passed"
    elif outcome.is_caught:
        verdict = "caught"
    else:
        verdict = "refused for another reason" if outcome.stage else "MISSED"
    expected = outcome.expected if outcome.is_bug else "none"
    return f"{outcome.id:<40} {outcome.family:<11} {expected:<9} {verdict}; {by}"
