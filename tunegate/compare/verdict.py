"""The verdict: one sentence, what moved, and what did not.

A tuned model looks better before it is better, since format is the easiest thing to learn. So the
sentence tells a gain in accuracy from a gain in form, and the second list hides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from tunegate.compare.lookup import other_slices, pair, table
from tunegate.compare.wording import (
    accuracy,
    counted,
    enumerated,
    gap,
    interval,
    p_value,
    percent,
    points,
)
from tunegate.types import Json


def verdict(report: Json) -> Json:
    """The verdict on a report: {kind, sentence, moved, not_moved}.

    `kind` is gain, format_only, no_gain, worse or unmeasured.
    """
    tuned, raw = table(report, "tuned"), table(report, "raw")
    if tuned is None or raw is None:
        return {
            "kind": "unmeasured",
            "sentence": _unmeasured(report, tuned, raw),
            "moved": [],
            "not_moved": [],
        }
    strict, tolerant = pair(report, "raw"), pair(report, "raw", reading="tolerant")
    assert strict is not None and tolerant is not None  # both columns are there
    kind = _kind(strict, tolerant)
    head = {
        "gain": _gain,
        "format_only": _format_only,
        "no_gain": _no_gain,
        "worse": _worse,
    }[kind](report, tuned, raw)
    moved, not_moved = _movements(report, tuned, raw)
    return {
        "kind": kind,
        "sentence": head + _teacher_clause(report) + ".",
        "moved": moved,
        "not_moved": not_moved,
    }


def _kind(strict: Json, tolerant: Json) -> str:
    if not strict["significant"]:
        return "no_gain"
    if strict["difference"] < 0:
        return "worse"
    # Better only when read strictly: the class was there before, in another form.
    return "gain" if tolerant["significant"] and tolerant["difference"] > 0 else "format_only"


def _unmeasured(report: Json, tuned: Json | None, raw: Json | None) -> str:
    if tuned is None and raw is None:
        return "Nothing is measured yet: neither the base nor the tuned model was evaluated."
    name, there = ("tuned model", raw) if tuned is None else ("base with its best prompt", tuned)
    other = "base" if tuned is None else "tuned model"
    assert there is not None
    accuracy = there["strict"]["accuracy"]
    return (
        f"No gain can be told, since the {name} was not evaluated; the {other} is right in "
        f"{percent(accuracy['rate'])} of {accuracy['n']} {report['main']} rows."
    )


def _gain(report: Json, tuned: Json, raw: Json) -> str:
    found = pair(report, "raw")
    assert found is not None
    return (
        f"On {found['n']} {report['main']} rows the tuned model is right in {accuracy(tuned)}, the "
        f"base with its best prompt in {accuracy(raw)}: a gain of "
        f"{points(found['difference'], sign=False)} points "
        f"({interval(found['low'], found['high'])})"
    )


def _format_only(report: Json, tuned: Json, raw: Json) -> str:
    found = pair(report, "raw", reading="tolerant")
    assert found is not None
    return (
        f"What was gained is form, not judgement: strict accuracy went from {accuracy(raw)} to "
        f"{accuracy(tuned)}, but read tolerantly it is {accuracy(tuned, 'tolerant')} where the "
        f"base had {accuracy(raw, 'tolerant')} ({p_value(found['p'])})"
    )


def _no_gain(report: Json, tuned: Json, raw: Json) -> str:
    found = pair(report, "raw")
    assert found is not None
    return (
        f"No gain is shown: the tuned model is right in {accuracy(tuned)} of {found['n']} "
        f"{report['main']} rows, the base with its best prompt in {accuracy(raw)}, and a "
        f"difference of {gap(found)} may be chance"
    )


def _worse(report: Json, tuned: Json, raw: Json) -> str:
    found = pair(report, "raw")
    assert found is not None
    return (
        f"Training made it worse: the tuned model is right in {accuracy(tuned)} of {found['n']} "
        f"{report['main']} rows, the base with its best prompt in {accuracy(raw)}, "
        f"a change of {gap(found)}"
    )


def _teacher_clause(report: Json) -> str:
    if report["gold"]["teacher_defines_gold"]:
        return "; the teacher's answers are the gold here, so it is no yardstick of its own"
    found = pair(report, "teacher")
    if found is None:
        return "; no teacher was evaluated"
    if not found["significant"]:
        return f"; no difference to the teacher is shown, {gap(found)}"
    side = "above" if found["difference"] > 0 else "short of"
    amount = points(abs(found["difference"]), sign=False)
    return f"; it is {amount} points {side} the teacher ({p_value(found['p'])})"


def _movements(report: Json, tuned: Json, raw: Json) -> tuple[list[str], list[str]]:
    moved: list[str] = []
    not_moved: list[str] = []
    for has_moved, sentence in (
        *_readings(report, tuned, raw),
        *_rates(tuned, raw),
        *_classes(tuned, raw),
        *_fields(tuned, raw),
        *_slices(report),
    ):
        (moved if has_moved else not_moved).append(sentence)
    return moved, not_moved


def _readings(report: Json, tuned: Json, raw: Json) -> Iterator[tuple[bool, str]]:
    found = pair(report, "raw", reading="tolerant")
    strict = pair(report, "raw")
    assert found is not None and strict is not None
    if (found["only_a"], found["only_b"]) == (strict["only_a"], strict["only_b"]):
        return  # the headline says it
    yield (
        found["significant"] and found["difference"] > 0,
        f"Accuracy read tolerantly, form aside: {accuracy(raw, 'tolerant')} to "
        f"{accuracy(tuned, 'tolerant')}, {gap(found)}.",
    )


def _rates(tuned: Json, raw: Json) -> Iterator[tuple[bool, str]]:
    """Intervals that do not touch count as moved; those of one column's rows are not paired."""
    pairs = [("Schema adherence", tuned["strict"]["schema"], raw["strict"]["schema"])]
    if tuned["strict"]["escape"] and raw["strict"]["escape"]:
        for part in ("recall", "precision"):
            after, before = tuned["strict"]["escape"][part], raw["strict"]["escape"][part]
            pairs.append((f"{part.capitalize()} of the escape class", after, before))
    for name, after, before in pairs:
        if after is None or before is None or after["rate"] is None or before["rate"] is None:
            continue
        if after["rate"] == before["rate"] == 1:
            continue  # nothing was left to gain
        yield (
            after["low"] > before["high"],
            f"{name}: {percent(before['rate'])} to {percent(after['rate'])} "
            f"({counted(before)}, then {counted(after)}).",
        )


def _classes(tuned: Json, raw: Json) -> Iterator[tuple[bool, str]]:
    after, before = tuned["strict"]["classes"], raw["strict"]["classes"]
    if not after or not before:
        return
    # A class that the slice has no rows of is in a column's table only where the column named it.
    present = {label: counts for label, counts in after.items() if counts["n"]}
    gained = {label for label in present if after[label]["right"] > before[label]["right"]}
    stuck = sorted(
        (counts["right"] - before[label]["right"], label)
        for label, counts in present.items()
        if label not in gained and counts["right"] < counts["n"]
    )
    named = [
        f"{label} ({counted(present[label]['recall'])}, base {before[label]['right']})"
        for _, label in stuck
    ]
    if named:
        yield False, f"No more rows right than the base in {enumerated(named)}."
    yield bool(gained), f"More rows right than the base in {len(gained)} of {len(present)} classes."


def _fields(tuned: Json, raw: Json) -> Iterator[tuple[bool, str]]:
    """Where the answer has fields: F1, the empty answers with how often they were given, fields."""
    after, before = tuned["strict"]["fields"], raw["strict"]["fields"]
    if not after or not before or before["f1"]["value"] is None or after["f1"]["value"] is None:
        return
    yield (
        after["f1"]["low"] > before["f1"]["high"],
        f"F1 over all fields: {percent(before['f1']['value'])} to {percent(after['f1']['value'])} "
        f"({before['all']['right']} of {before['all']['gold']} values right, then "
        f"{after['all']['right']}; {before['all']['hallucinated']} hallucinated, then "
        f"{after['all']['hallucinated']}).",
    )
    empty, was = after["empty"], before["empty"]
    if empty["gold"]:
        # A model that falls silent has every empty answer right, so those given count as well.
        yield (
            empty["recall"]["low"] > was["recall"]["high"]
            and (empty["precision"]["rate"] or 0) >= (was["precision"]["rate"] or 0),
            f"Empty answers right: {counted(was['recall'])}, then {counted(empty['recall'])}; "
            f"given in {was['said']} rows, then in {empty['said']}.",
        )
    present = {name: counts for name, counts in after["fields"].items() if counts["gold"]}
    gained = {
        name
        for name, counts in present.items()
        if counts["right"] > before["fields"][name]["right"]
    }
    stuck = [
        f"{name} ({counted(counts['recall'])}, base {before['fields'][name]['right']})"
        for name, counts in present.items()
        if name not in gained and counts["right"] < counts["gold"]
    ]
    if stuck:
        yield False, f"No more values right than the base in {enumerated(stuck)}."
    yield (
        bool(gained),
        f"More values right than the base in {len(gained)} of {len(present)} fields.",
    )


def _slices(report: Json) -> Iterator[tuple[bool, str]]:
    for name in other_slices(report):
        found, after, before = (
            pair(report, "raw", slice_name=name),
            table(report, "tuned", name),
            table(report, "raw", name),
        )
        if found is None or after is None or before is None:
            continue
        figures = f"{accuracy(before)} to {accuracy(after)}, {gap(found)}"
        if not found["significant"]:
            yield False, f"Slice {name}: {figures}; no difference is shown."
        elif found["difference"] > 0:
            yield True, f"Slice {name}: {figures}."
        else:
            yield False, f"Slice {name} got worse: {figures}."
