"""Every answer's loss ends on a token that serving stops on, in every row.

A pass proves, for every row that the framework trains and does not cut: the last token of each run
that carries loss is in the frozen set of stop ids (a newline behind it is allowed, see mask_exact),
so the model is taught to stop where the server stops; and, where the loss is on answers alone, that
no stop id stands before that, at which the server would cut the answer. Where the pad token is the
same id as the stop token it proves that the framework masks padding by position and not by id.

It does not prove that another server's stop list holds the id; it warns where the base's own files
do not declare it, which is what other servers read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tunegate.checks import MAX_FINDINGS, MAX_SAMPLES, CheckInputs
from tunegate.checks._pass import Seen, observe_one, unable
from tunegate.types import IGNORED, Finding, Json, Status, Verdict
from tunegate.worker.tokens import declared_stop_ids

WHERE = "host"
ORDER = 20

TRAILING = (b"\n",)
"""Bytes that may carry loss behind the stop token."""

NOT_CHECKED = (
    "stop lists of servers other than the base's own files",
    "rows that the length limit cut: length_audit counts them",
)


def observe(inputs: CheckInputs) -> Json:
    """Look at the end of every supervised run."""
    return observe_one(inputs, watch(inputs))


def watch(inputs: CheckInputs) -> Watch:
    """This check's part of a shared pass."""
    return Watch(inputs)


class Watch:
    """Collects the ids on which supervised runs end."""

    def __init__(self, inputs: CheckInputs) -> None:
        self.tokenizer = inputs.tokenizer
        self.stops = set(inputs.frozen["tokenizer"]["stop_ids"])
        base_dir = Path(inputs.frozen["base"]["dir"])
        self.declared = declared_stop_ids(base_dir, tokenizer=self.tokenizer)
        self.answers_only = inputs.frozen["settings"]["train"]["loss"] == "answer"
        self.rows = self.cut = self.wrong = 0
        self.ends: dict[int, int] = {}
        self.rows_wrong: list[Json] = []
        self.samples: list[Json] = []

    def see(self, rows: Sequence[Seen]) -> None:
        for seen in rows:
            if seen.example.dropped is not None:
                continue
            if seen.example.cut:
                self.cut += 1
                continue
            self.rows += 1
            problem = self._problem(seen)
            if problem is not None:
                self.wrong += 1
                if len(self.rows_wrong) < MAX_FINDINGS:
                    self.rows_wrong.append({"line": seen.row.line, **problem})
            elif len(self.samples) < MAX_SAMPLES:
                last = seen.supervised()[-1]
                tail = self._text(seen.example.input_ids[max(last[0], last[1] - 6) : last[1]])
                self.samples.append({"line": seen.row.line, "ends": tail})

    def result(self, account: Json) -> Json:
        text = {str(token): self._text([token]) for token in self.stops | self.declared}
        return {
            "rows": self.rows,
            "cut": self.cut,
            "wrong": self.wrong,
            "rows_wrong": self.rows_wrong,
            "samples": self.samples,
            "ends": {str(token): count for token, count in sorted(self.ends.items())},
            "stop_ids": sorted(self.stops),
            "declared_ids": sorted(self.declared),
            "texts": {**text, **{str(token): self._text([token]) for token in self.ends}},
            "pad_id": self.tokenizer.pad_id,
        }

    def _text(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode([token for token in ids if token >= 0])

    def _problem(self, seen: Seen) -> Json | None:
        ids, labels = seen.example.input_ids, seen.example.labels
        runs = seen.supervised()
        if not runs:
            return {"problem": "no_loss"}
        for start, end in runs:
            last = end - 1
            while last > start and self.tokenizer.piece(labels[last]) in TRAILING:
                last -= 1
            token = labels[last]
            if token in self.stops:
                early = self._early(labels, start, last) if self.answers_only else None
                if early is not None:
                    return early
                self.ends[token] = self.ends.get(token, 0) + 1
                continue
            follows = ids[end] if end < len(ids) and labels[end] == IGNORED else None
            return {
                "problem": "stop_masked" if follows in self.stops else "no_stop",
                "token": token,
                "token_text": self._text([token]),
                "follows": follows,
                "tail": self._text(ids[max(start, end - 6) : end]),
            }
        return None

    def _early(self, labels: Sequence[int], start: int, last: int) -> Json | None:
        """A stop id before the end of a run; None where there is none."""
        if self.stops.isdisjoint(labels[start:last]):
            return None
        at = next(n for n in range(start, last) if labels[n] in self.stops)
        return {
            "problem": "early_stop",
            "token": labels[at],
            "token_text": self._text([labels[at]]),
            "follows": None,
            "tail": self._text(labels[max(start, at - 6) : min(at + 6, last)]),
        }


def judge(observation: Json, frozen: Json) -> Verdict:
    """Fails on any uncut row whose loss does not end on a stop id."""
    stuck = unable("stop_token", observation, not_checked=NOT_CHECKED)
    if stuck is not None:
        return stuck
    file, rows = observation["file"], observation["rows"]
    findings = [_finding(item, observation) for item in observation["rows_wrong"]]
    undeclared = [
        int(token) for token in observation["ends"] if int(token) not in observation["declared_ids"]
    ]
    common: dict[str, Any] = {
        "check": "stop_token",
        "numbers": {key: observation[key] for key in ("rows", "cut", "wrong", "ends", "stop_ids")},
        "samples": tuple(observation["samples"]),
        "not_checked": NOT_CHECKED,
        "warnings": tuple(_undeclared(token, observation) for token in undeclared),
    }
    if not observation["stop_ids"]:
        findings = [
            Finding(
                "the base has no stop token at all",
                where=frozen["base"].get("model"),
                change="name it as eos_token_id in generation_config.json",
            )
        ]
    elif rows == 0:
        findings = [Finding("no whole row is trained", where=file, change="see length_audit")]
    if findings:
        summary = f"{observation['wrong']:,} of {rows:,} rows do not end on the stop token alone"
        return Verdict(
            status=Status.FAIL,
            summary=summary,
            findings=tuple(findings),
            hint=findings[0].change,
            **common,
        )
    names = ", ".join(repr(observation["texts"][token]) for token in observation["ends"])
    summary = f"all {rows:,} rows end their loss on {names}, where serving stops"
    return Verdict(status=Status.PASS, summary=summary, **common)


def _finding(item: Json, observation: Json) -> Finding:
    where = f"{observation['file']}:{item['line']}"
    stops = ", ".join(repr(observation["texts"][str(token)]) for token in observation["stop_ids"])
    if item["problem"] == "no_loss":
        return Finding("no token carries loss, so no stop is taught", where, "see mask_exact")
    if item["problem"] == "early_stop":
        what = f"{item['token_text']!r} stands inside the answer (…{item['tail']!r})"
        return Finding(f"{what}; serving stops there", where, "take the stop token out of it")
    what = f"the loss ends on {item['token_text']!r} (…{item['tail']!r}); serving stops on {stops}"
    if item["problem"] == "no_stop":
        return Finding(what, where, "end each answer with the stop token, inside its labels")
    if item["follows"] == observation["pad_id"]:
        return Finding(
            f"{what}, which follows but carries no loss: it is the pad token as well",
            where,
            "mask padding by position or length, or give the tokenizer a pad token of its own",
        )
    return Finding(f"{what}, which follows but carries no loss", where, "put it inside the labels")


def _undeclared(token: int, observation: Json) -> Finding:
    text = observation["texts"][str(token)]
    return Finding(
        f"answers end on {text!r} ({token}), which the base's files do not name as a stop token",
        where="generation_config.json",
        change=f"add {token} to eos_token_id there before another server loads the model",
    )
