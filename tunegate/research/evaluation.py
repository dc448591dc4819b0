"""Can the test set show the gain that is hoped for? Pure.

Two columns answer the same rows, so the test is McNemar's and only rows on which the columns differ
count. The formula is Connor's (1987), with the discordance stated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist

from tunegate.research.answers import Questions
from tunegate.types import Json, Status


def rows_needed(difference: float, *, discordance: float, power: float, alpha: float) -> float:
    """Paired rows that show a `difference` in accuracy (0 to 1], two-sided at `alpha`.

    `discordance` is the share of rows on which exactly one column is right; it is at least the
    difference.
    """
    differing = max(discordance, difference)
    z_alpha, z_beta = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)
    spread = math.sqrt(max(0.0, differing - difference**2))
    return ((z_alpha * math.sqrt(differing) + z_beta * spread) / difference) ** 2


def smallest_difference(rows: int, *, discordance: float, power: float, alpha: float) -> float:
    """The smallest difference in accuracy that `rows` paired rows show; 1.0 where none is shown."""

    def is_shown(difference: float) -> bool:
        needed = rows_needed(difference, discordance=discordance, power=power, alpha=alpha)
        return needed <= rows

    if not is_shown(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if is_shown(middle) else (middle, high)
    return high


def evaluation(
    frozen: Json, facts: Mapping[str, Json], questions: Questions
) -> tuple[Json, list[str], list[str]]:
    """The evaluation contract, the problems that no answer can mend, and warnings.

    `frozen["data"]["test"]["by_class"]` (class -> rows) is used where it is there.
    """
    rule = facts["bands"]["evaluation"]
    settings, test = frozen["settings"]["eval"], frozen["data"]["test"]
    rows, by_class = test["rows"], test.get("by_class")
    power, alpha, discordance = rule["power"], rule["alpha"], rule["discordance"]
    shown = smallest_difference(rows, discordance=discordance, power=power, alpha=alpha)
    verdict = Status.PASS
    if shown > rule["largest_useful_difference"]:
        why = f"{rows} test rows show differences from {100 * shown:.0f} points only"
        question = f"why is that enough, given that {rule['reason']}?"
        if not questions.ask("eval.test.rows", question=question, why=why, source=rule["source"]):
            verdict = Status.FAIL
    problems, warnings = _contract(settings), _warnings(settings, by_class, shown, rule)
    if problems:
        verdict = Status.FAIL
    return (
        {
            "n_test": rows,
            "by_class": by_class,
            "n_per_class_min": min(by_class.values()) if by_class else None,
            "slices": {
                name.removeprefix("slice:"): file["rows"]
                for name, file in frozen["data"].items()
                if name.startswith("slice:")
            },
            "baselines": [
                "majority class",
                "raw with its best prompt",
                *(["teacher"] if settings["teacher"] else []),
            ],
            "majority_share": max(by_class.values()) / rows if by_class else None,
            "decoding": settings["decoding"],
            "smallest_detectable_difference": round(shown, 4),
            "assumed": {"power": power, "alpha": alpha, "discordance": discordance},
            "by_discordance": _by_discordance(rows, power=power, alpha=alpha),
            "method": "McNemar's test on paired rows, sample size after Connor (1987)",
            "source": rule["source"],
            "verdict": str(verdict),
        },
        problems,
        warnings,
    )


def _by_discordance(rows: int, *, power: float, alpha: float) -> list[Json]:
    """The same under other shares of differing rows, since the share is an assumption."""
    lines = []
    for share in (0.1, 0.2, 0.3, 0.5):
        shown = smallest_difference(rows, discordance=share, power=power, alpha=alpha)
        lines.append({"discordance": share, "difference": round(shown, 4)})
    return lines


def _contract(settings: Json) -> list[str]:
    problems = []
    if settings["decoding"] != "greedy":
        problems.append(f"eval.decoding: {settings['decoding']} samples; scores would wobble")
    if not settings["raw"]["prompts"]:
        problems.append("eval.raw.prompts: no prompted baseline, so a gain cannot be judged")
    return problems


def _warnings(
    settings: Json, by_class: Mapping[str, int] | None, shown: float, rule: Json
) -> list[str]:
    warnings = []
    wanted = settings.get("smallest_change")
    if wanted is not None and shown > wanted:
        warnings.append(
            f"differences under {100 * shown:.1f} points will not be certain, while "
            f"eval.smallest_change asks for {100 * wanted:.1f}"
        )
    if settings["teacher"] is None:
        warnings.append("eval.teacher: no teacher column, so the gap left to close is unknown")
    elif settings["teacher"].get("defines_gold"):
        warnings.append("eval.teacher: it defines the reference answers, so its score says nothing")
    few = [n for n, c in (by_class or {}).items() if c < rule["rows_per_class_at_least"]]
    if few:
        warnings.append(
            f"classes with fewer than {rule['rows_per_class_at_least']} test rows: {', '.join(few)}"
        )
    return warnings
