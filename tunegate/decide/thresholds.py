"""The numbers that the rules of decision compare with: one table, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tunegate.errors import UsageError

THRESHOLDS: Mapping[str, tuple[float, str]] = {
    "smallest_change": (
        0.02,
        "The smallest difference that matters to the person, `eval.smallest_change`.",
    ),
    "teacher_margin": (
        0.05,
        "House default: the gap is closed when no more than five points below can be true.",
    ),
    "target_accuracy": (
        0.90,
        "House default, used where no teacher is a yardstick: none was run, it made the gold, or "
        "it is not shown to lead the base by more than teacher_margin.",
    ),
    "format_gap": (
        0.02,
        "House default: a strict-tolerant gap above two points has to be explained.",
    ),
    "truncated": (
        0.01,
        "House default: above one output in a hundred cut, a column is not graded fairly.",
    ),
    "still_falling": (
        0.05,
        "House default: the validation loss fell by a twentieth in its last interval.",
    ),
    "patience": (3, "After three failures on the same goal: stop and research."),
}
"""Name, default and reason. `eval.decision` of the frozen settings overrides them by name."""


def limits_of(own: Mapping[str, Any]) -> dict[str, float]:
    """Thresholds by name: the defaults, overridden by the run file's own.

    Raises:
        UsageError: a threshold that does not exist or is not a number.
    """
    out = {name: value for name, (value, _) in THRESHOLDS.items()}
    for name, value in own.items():
        if name not in THRESHOLDS:
            raise UsageError(
                f"eval.decision has no threshold {name!r}", hint=f"known: {', '.join(THRESHOLDS)}"
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"eval.decision.{name} must be a number, not {value!r}")
        out[name] = value
    return out
