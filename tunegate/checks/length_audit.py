"""Every row of the training file is accounted for: trained whole, or lost for a named reason.

A pass proves that the framework's batches hold each row of the file once, that no answer lost a
token to the length limit, and that the rows left out are at most one in two hundred of the file,
each listed with its reason. An answer counts as cut where its text is not wholly among the tokens
that are trained, whatever the framework reports. It proves as well that every validation row is
within the length limit of the run file (a limit that Tunegate chose may leave some out, which are
told), and that every row of test and slices, rendered as evaluation sends it and with room for the
longest answer, is within the model's context.

It does not prove that the trainer draws every row in every epoch (the receipt counts rows), nor
that prompts with worked examples, with which the base is tried, fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tunegate.checks import MAX_FINDINGS, CheckInputs
from tunegate.checks._lengths import Held, unfit_rows
from tunegate.checks._pass import Seen, observe_one, unable
from tunegate.types import Finding, Json, Status, Verdict

WHERE = "host"
ORDER = 40

MAX_LOST_SHARE = 0.005
"""Largest share of rows that may be left out; each of them is listed."""

NOT_CHECKED = (
    "whether every epoch draws every row: the receipt counts them",
    "prompts with worked examples, with which the base model is tried",
)


def observe(inputs: CheckInputs) -> Json:
    """Count rows and lengths over the framework's batches."""
    return observe_one(inputs, watch(inputs))


def watch(inputs: CheckInputs) -> Watch:
    """This check's part of a shared pass."""
    return Watch(inputs)


class Watch:
    """Counts lengths, cut rows and cut answers."""

    def __init__(self, inputs: CheckInputs) -> None:
        self.held = Held(inputs)
        self.frozen_rows = inputs.frozen["data"]["train"].get("rows")
        self.max_length = inputs.frozen["settings"]["train"].get("max_length")
        self.lengths: Counter[int] = Counter()
        self.answer_lengths: Counter[int] = Counter()
        self.cut = self.cut_tokens = self.cut_answers = 0
        self.rows_cut: list[Json] = []

    def see(self, rows: Sequence[Seen]) -> None:
        for seen in rows:
            tokens = len(seen.example.input_ids)
            self.lengths[tokens + seen.example.cut] += 1
            if seen.example.dropped is not None:
                continue
            self.answer_lengths[sum(end - start for start, end in seen.supervised())] += 1
            lost = self._lost_answer(seen)
            if seen.example.cut or lost:
                self.cut += 1
                self.cut_tokens += seen.example.cut
                self.cut_answers += lost is not None
                if len(self.rows_cut) < MAX_FINDINGS:
                    self.rows_cut.append(
                        {
                            "line": seen.row.line,
                            "tokens": tokens,
                            "cut": seen.example.cut,
                            "lost": lost,
                        }
                    )

    def _lost_answer(self, seen: Seen) -> str | None:
        """The end of the answer that the trained tokens lack; None where it is whole."""
        for _, turn in seen.answers:
            answer = turn.content.strip().encode()
            if answer not in seen.text:
                return answer[-60:].decode("utf-8", errors="replace")
        return None

    def result(self, account: Json) -> Json:
        return {
            **account,
            "held": self.held.observe(),
            "frozen_rows": self.frozen_rows,
            "max_length": self.max_length,
            "tokens": _quantiles(self.lengths),
            "answer_tokens": _quantiles(self.answer_lengths),
            "total_tokens": sum(length * times for length, times in self.lengths.items()),
            "cut": self.cut,
            "cut_tokens": self.cut_tokens,
            "cut_answers": self.cut_answers,
            "rows_cut": self.rows_cut,
        }


def _quantiles(lengths: Counter[int]) -> Json:
    """Smallest, median, 95th and 99th percentile and largest of a histogram of lengths."""
    total = sum(lengths.values())
    marks = {"min": 0.0, "p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    out: Json = dict.fromkeys(marks, 0)
    passed = 0
    left = list(marks)
    for length in sorted(lengths):
        passed += lengths[length]
        while left and passed >= max(1, marks[left[0]] * total):
            out[left.pop(0)] = length
    return out


def judge(observation: Json, frozen: Json) -> Verdict:
    """Fails on a cut answer, a row seen twice, or more lost rows than `MAX_LOST_SHARE`."""
    held = observation["held"]
    stuck = unable("length_audit", observation, not_checked=NOT_CHECKED) or unable(
        "length_audit", held, not_checked=NOT_CHECKED
    )
    if stuck is not None:
        return stuck
    observation = {**observation, "context": frozen.get("base", {}).get("context")}
    rows = observation["rows_in_file"]
    lost = observation["missing"] + observation["dropped"]
    kept = observation["rows_seen"] - observation["dropped"]
    keys = ("dropped_by_reason", "missing", "cut", "cut_answers", "tokens", "answer_tokens")
    numbers = {
        "rows_in_file": rows,
        "kept": kept,
        "lost": lost,
        "lost_lines": sorted(
            [*observation["missing_lines"], *(item["line"] for item in observation["dropped_rows"])]
        ),
        "longest_held": held["longest"],
        "unfit": held["unfit"],
        **{key: observation[key] for key in (*keys, "total_tokens", "max_length")},
    }
    findings = list(_failures(observation, rows, lost, kept))[:MAX_FINDINGS]
    common: dict[str, Any] = {
        "check": "length_audit",
        "numbers": numbers,
        "not_checked": NOT_CHECKED,
        "warnings": tuple(_told(observation))[:MAX_FINDINGS] if not findings else (),
    }
    if findings:
        summary = (
            f"{rows:,} rows in, {kept:,} kept, {lost:,} lost, "
            f"{observation['cut_answers']:,} answers cut"
        )
        if held["unfit"]:
            summary += f"; {held['unfit']:,} rows of other splits do not fit"
        return Verdict(
            status=Status.FAIL,
            summary=summary,
            findings=tuple(findings),
            hint=findings[0].change,
            **common,
        )
    longest = observation["tokens"]["max"]
    summary = (
        f"{rows:,} rows in, {kept:,} kept whole, {lost:,} lost; the longest has {longest:,} tokens"
    )
    return Verdict(status=Status.PASS, summary=summary, **common)


def _failures(observation: Json, rows: int, lost: int, kept: int) -> Iterator[Finding]:
    file = observation["file"]
    for item in observation["rows_cut"]:
        if item["lost"] is not None:
            yield Finding(
                f"the answer is cut: {item['tokens']} tokens are trained, {item['cut']} cut, "
                f"and its end {item['lost']!r} is not among them",
                where=f"{file}:{item['line']}",
                change=_longer(observation),
            )
    if kept == 0:
        yield Finding("no row is left to train on", where=file, change=_longer(observation))
    if lost > MAX_LOST_SHARE * rows:
        yield Finding(
            f"{lost:,} of {rows:,} rows {'is' if lost == 1 else 'are'} lost, more than "
            f"{100 * MAX_LOST_SHARE:g} %",
            where=file,
            change=_longer(observation),
        )
        yield from _losses(observation)
    for line in observation["twice_lines"]:
        yield Finding(
            "the row is in the batches more than once, perhaps in place of a lost one",
            where=f"{file}:{line}",
            change="let the trainer take each row once an epoch",
        )
    if observation["unknown"]:
        yield Finding(
            f"{observation['unknown']:,} examples belong to no row of the file",
            where=file,
            change="let the framework number examples by the row that they come from",
        )
    frozen_rows = observation["frozen_rows"]
    if frozen_rows is not None and frozen_rows != rows:
        yield Finding(
            f"the file has {rows:,} rows and had {frozen_rows:,} when it was frozen",
            where=file,
            change="freeze the run again",
        )
    longest = observation["tokens"]["max"]
    yield from unfit_rows(observation["held"], "rows_unfit", longest_trained=longest)


def _told(observation: Json) -> Iterator[Finding]:
    yield from _losses(observation)
    longest = observation["tokens"]["max"]
    yield from unfit_rows(observation["held"], "rows_long", longest_trained=longest)


def _losses(observation: Json) -> Iterator[Finding]:
    """One finding for each lost row, and one for each row whose prompt alone was cut."""
    file = observation["file"]
    for line in observation["missing_lines"]:
        yield Finding(
            "the row is in the file and in no batch, and no reason is given",
            where=f"{file}:{line}",
            change="find out why the framework leaves it out",
        )
    for item in observation["dropped_rows"]:
        yield Finding(
            f"left out: {item['reason']}",
            where=f"{file}:{item['line']}",
            change=_longer(observation) if "longer" in item["reason"] else "mend the row",
        )
    for item in observation["rows_cut"]:
        if item["lost"] is None:
            yield Finding(
                f"{item['cut']} tokens of the prompt are cut; the answer is whole",
                where=f"{file}:{item['line']}",
                change=_longer(observation),
            )


def _longer(observation: Json) -> str:
    longest, context = observation["tokens"]["max"], observation["context"]
    if context is not None and longest > context:
        limit = observation["max_length"]
        below = limit is not None and limit < context
        return (
            f"shorten the row or take it out: it has up to {longest:,} tokens, and the base model "
            f"reads {context:,}" + (f" (train.max_length may be {context})" if below else "")
        )
    return f"set train.max_length to {longest} or more, or shorten the row"
