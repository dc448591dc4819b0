"""The rules of decision, in order. Each says whether it fires, in one sentence with the numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tunegate.compare.lookup import other_slices, pair, table, teacher_gain
from tunegate.compare.wording import accuracy, counted, enumerated, gap, interval, percent, points
from tunegate.types import Json


@dataclass(frozen=True)
class Facts:
    """What the rules look at."""

    report: Json
    limits: Mapping[str, float]
    knob_turns: int
    data_versions: int
    validation: Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Rule:
    """One rule: a name, where it leads, and what it says."""

    name: str
    next: str
    when: str
    """When it fires, for docs/decisions.md; thresholds by name."""
    test: Callable[[Facts], tuple[bool, str]]
    """(fired, one sentence with the numbers)."""


def _unmeasured(facts: Facts) -> tuple[bool, str]:
    absent = [name for name in ("raw", "tuned") if table(facts.report, name) is None]
    if absent:
        return True, f"Nothing can be compared: {enumerated(absent)} was not evaluated."
    same = facts.report["same_outputs"]
    if same["same"] == same["n"]:
        return True, (
            f"All {same['n']} outputs of the tuned column are the base's: find out whether the "
            "adapter was applied before believing any figure."
        )
    return False, "The base and the tuned model answered every row, and not the same."


def _truncated(facts: Facts) -> tuple[bool, str]:
    cut = {
        column: found["truncated"]
        for column in ("tuned", "raw", "teacher")
        if (found := table(facts.report, column)) is not None
        and (found["truncated"]["rate"] or 0.0) > facts.limits["truncated"]
    }
    # A base that rambles is cut whatever the limit, so its cuts count only where they may be the
    # whole gain: shown strictly, and not once the first answer in the text counts.
    for column in ("tuned", "raw"):
        if column in cut and (column == "tuned" or _gain_is_strict_only(facts)):
            return True, (
                f"{counted(cut[column])} outputs of {column} were cut by the length limit "
                f"({percent(cut[column]['rate'])}): raise eval.max_new_tokens and evaluate again."
            )
    if cut:
        named = [f"{counted(item)} of {column}" for column, item in cut.items()]
        return False, (
            f"Outputs of the tuned model end by themselves; {enumerated(named)} were cut, which "
            "is a caution and does not take the comparison away."
        )
    return False, "Outputs end by themselves."


def _gain_is_strict_only(facts: Facts) -> bool:
    shown = [
        found["significant"] and found["difference"] > 0
        for reading in ("strict", "tolerant")
        if (found := pair(facts.report, "raw", reading=reading)) is not None
    ]
    return shown == [True, False]


def _too_few(facts: Facts) -> tuple[bool, str]:
    found = pair(facts.report, "raw")
    if found is None:
        return False, "There is no pair of columns to compare."
    wanted = facts.limits["smallest_change"]
    if not found["significant"] and found["difference"] >= wanted:
        return True, (
            f"A gain of {points(found['difference'], sign=False)} points would matter, but "
            f"{found['n']} rows cannot show it ({gap(found)}): add test rows, then evaluate again."
        )
    return False, f"{found['n']} rows suffice for the difference found, {gap(found)}."


def _worse(facts: Facts) -> tuple[bool, str]:
    found = pair(facts.report, "raw")
    fired = found is not None and found["significant"] and found["difference"] < 0
    if found is not None and fired:
        return True, (
            f"The tuned model is worse than the base: {gap(found)}. Something in the data or the "
            "pipeline teaches the wrong thing; more training would teach more of it."
        )
    return False, "The tuned model is not worse than the base."


def _gain(facts: Facts) -> tuple[bool, str]:
    """Whether a gain that matters is shown, and one sentence about it."""
    found = pair(facts.report, "raw")
    if found is None:
        return False, "There is no pair of columns to compare."
    wanted = facts.limits["smallest_change"]
    if found["significant"] and found["difference"] >= wanted:
        return True, f"The gain over the base is shown: {gap(found)}."
    least = f"{points(wanted, sign=False)} points"
    if found["significant"] and found["difference"] > 0:
        return False, (
            f"A gain over the base is shown, but below the smallest change that matters, {least}: "
            f"{gap(found)}."
        )
    return False, f"No gain of {least} or more over the base is shown: {gap(found)}."


def _base_suffices(facts: Facts) -> tuple[bool, str]:
    raw, target = table(facts.report, "raw"), facts.limits["target_accuracy"]
    shown, why = _gain(facts)
    if raw is None or pair(facts.report, "raw") is None or shown:
        return False, why
    rate, teacher = raw["strict"]["accuracy"]["rate"], teacher_gain(facts.report)
    wanted = facts.limits["smallest_change"]
    reached = f"{why} The base is right in {accuracy(raw)}"
    if rate >= target:
        return True, (
            f"{reached}, and the target is {percent(target)}: the base with its best prompt "
            "already does it: serve that."
        )
    if teacher is not None and not (teacher["significant"] and teacher["difference"] > 0):
        more = " More test rows may show it to be." if teacher["difference"] > wanted else ""
        return True, (
            f"{reached}, and the teacher is not shown to be better, {gap(teacher)}: what it is "
            "shown to do, the base with its best prompt already does; serve that, if "
            f"{accuracy(raw)} is enough.{more}"
        )
    return False, f"The base alone is short of the target of {percent(target)}: {accuracy(raw)}."


def _no_gain(facts: Facts) -> tuple[bool, str]:
    found, (shown, why) = pair(facts.report, "raw"), _gain(facts)
    if found is None or shown:
        return False, why
    if found["significant"]:
        return True, why
    return True, f"{why} The data may not hold what the task asks for."


def _loss(kind: str) -> Callable[[Facts], tuple[bool, str]]:
    def test(facts: Facts) -> tuple[bool, str]:
        lost = []
        names = [
            name
            for name in other_slices(facts.report)
            if (facts.report["slices"][name]["kind"] == "rule") == (kind == "rule")
        ]
        for name in names:
            found = pair(facts.report, "raw", slice_name=name)
            if found is not None and found["significant"] and found["difference"] < 0:
                lost.append(f"{name} by {gap(found)}")
        cure = (
            "Mix general rows into the training data, or train for fewer epochs."
            if kind == "rule"
            else "Add training rows of that sort."
        )
        if lost:
            return True, f"Tuning lost what the base could do: {enumerated(lost)}. {cure}"
        return False, (
            f"No loss is shown on {enumerated(names)}." if names else "There is no such slice."
        )

    return test


def _closed(facts: Facts, reading: str) -> tuple[bool, str]:
    """Whether the gap to the yardstick is closed, in one reading."""
    tuned = table(facts.report, "tuned")
    found = pair(facts.report, "teacher", reading=reading)
    if tuned is None:
        return False, "The tuned model was not evaluated."
    teacher = teacher_gain(facts.report, reading)
    margin = facts.limits["teacher_margin"]
    if found is not None and _is_yardstick(teacher, margin):
        closed = found["low"] >= -margin
        return closed, (
            f"The gap to the teacher is {'' if closed else 'not '}closed within "
            f"{points(margin, sign=False)} points: {gap(found)}."
        )
    target, rate = facts.limits["target_accuracy"], tuned[reading]["accuracy"]
    closed = rate["low"] >= target
    return closed, (
        f"{_no_yardstick(facts, teacher)}; accuracy {accuracy(tuned, reading)} "
        f"({interval(rate['low'], rate['high'])}) is {'' if closed else 'not '}wholly above the "
        f"target of {percent(target)}."
    )


def _is_yardstick(teacher: Json | None, margin: float) -> bool:
    """The teacher is shown to be better than the base, and by more than the margin.

    Within the margin of a teacher that leads by less, the base is there already.
    """
    return teacher is not None and teacher["significant"] and teacher["difference"] > margin


def _no_yardstick(facts: Facts, teacher: Json | None) -> str:
    if facts.report["gold"]["teacher_defines_gold"]:
        return "The teacher's answers are the gold, so it is no yardstick"
    if teacher is None:
        return "There is no teacher to reach"
    margin = points(facts.limits["teacher_margin"], sign=False)
    return (
        f"The teacher is no yardstick: it is not shown to lead the base by more than {margin} "
        f"points, {gap(teacher)}"
    )


def _gap_closed(facts: Facts) -> tuple[bool, str]:
    return _closed(facts, "strict")


def _format_lags(facts: Facts) -> tuple[bool, str]:
    tuned = table(facts.report, "tuned")
    closed, why = _closed(facts, "tolerant")
    if tuned is None or not closed:
        return False, f"Form aside, accuracy is still short. {why}"
    schema = tuned["strict"]["schema"]
    lags = tuned["gap"] > facts.limits["format_gap"] or (
        schema is not None and schema["rate"] < 1 - facts.limits["format_gap"]
    )
    form = "" if schema is None else f", schema adherence {percent(schema['rate'])}"
    figures = f"{accuracy(tuned)} strictly, {accuracy(tuned, 'tolerant')} tolerantly{form}"
    if lags:
        return True, f"The answers are right and their form lags: {figures}."
    return False, f"The form is learned: {figures}."


def _still_falling(facts: Facts) -> tuple[bool, str]:
    if len(facts.validation) < 2:
        return False, "The validation loss was not measured twice."
    (_, before), (step, last) = facts.validation[-2:]
    fall = (before - last) / before if before > 0 else 0.0
    falling = last <= min(loss for _, loss in facts.validation)
    falling = falling and fall >= facts.limits["still_falling"]
    if falling and _closed(facts, "strict")[0]:
        return False, (
            f"The validation loss was still falling at the last step, {step}, and what was asked "
            "for is reached without training longer."
        )
    if falling and facts.knob_turns == 0:
        return True, (
            f"The validation loss was still falling at the last step, {step}, by {percent(fall)} "
            "in its last interval: train longer, and change nothing else."
        )
    if falling:
        return False, (
            f"The validation loss was still falling at step {step}, but {facts.knob_turns} knob "
            "turns were made since the data last changed: a second is refused."
        )
    return False, f"The validation loss had levelled off by step {step}."


def _short(facts: Facts) -> tuple[bool, str]:
    return True, f"{_closed(facts, 'strict')[1]} Accuracy that is short is almost always the data."


RULES: tuple[Rule, ...] = (
    Rule(
        "unmeasured",
        "fix_eval",
        "the raw or the tuned column was not evaluated, or every output of the tuned "
        "column equals the base's",
        _unmeasured,
    ),
    Rule(
        "truncated",
        "fix_eval",
        "more than `truncated` of the tuned outputs were cut by the length limit; the "
        "base's cuts count only where the gain disappears once answers are read "
        "tolerantly",
        _truncated,
    ),
    Rule(
        "worse",
        "stop",
        "the tuned model is worse than the base, and the paired test shows it",
        _worse,
    ),
    Rule(
        "too_few_rows",
        "fix_eval",
        "the tuned model leads by `smallest_change` or more, and the paired test cannot "
        "show it on so few rows",
        _too_few,
    ),
    Rule(
        "base_suffices",
        "stop",
        "no gain of `smallest_change` is shown, and the base with its best prompt reaches "
        "`target_accuracy`, or a teacher was run and is not shown to be better than the "
        "base",
        _base_suffices,
    ),
    Rule(
        "no_gain",
        "data",
        "no gain of `smallest_change` or more over the base is shown",
        _no_gain,
    ),
    Rule(
        "general_loss",
        "data",
        "on a slice that is scored by rule (general ability) the tuned model is worse "
        "than the base, and the paired test shows it",
        _loss("rule"),
    ),
    Rule(
        "slice_loss",
        "data",
        "the same on a slice of the task itself, such as adversarial rows",
        _loss("class"),
    ),
    Rule(
        "gap_closed",
        "serve",
        "the interval of the difference to the teacher lies above minus `teacher_margin`; "
        "where the teacher is no yardstick, the interval of the accuracy lies above "
        "`target_accuracy`",
        _gap_closed,
    ),
    Rule(
        "format_lags",
        "preference",
        "the gap is closed once answers are read tolerantly, and the strict accuracy is "
        "more than `format_gap` below the tolerant one, or more than that share of the "
        "answers do not fit the schema",
        _format_lags,
    ),
    Rule(
        "still_falling",
        "one_knob",
        "the goal is not reached, the validation loss fell by `still_falling` or more in "
        "its last interval and is at its lowest, and no knob was turned since the data "
        "last changed",
        _still_falling,
    ),
    Rule(
        "accuracy_short",
        "data",
        "nothing above fires",
        _short,
    ),
)
"""In order; the last one always fires."""
