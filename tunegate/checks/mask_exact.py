"""The loss lies on the intended answers and their end, and on nothing else, in every row.

A pass proves, for every row that the framework trains, through the batches that the framework
itself builds: each run of tokens that carry loss decodes to one intended answer and a stop token
behind it, byte for byte; it stands where that answer stands and not on a copy elsewhere; every
answer of the row that is meant to be trained has its run; labels equal the inputs under them. The
intent is read from the row, never from the encoder that training uses.

Of an assistant turn with tool calls, whose layout is the template's own, the run holds the turn's
text, the name of each call and its arguments, every one with its value.

Beside the answer a run may hold a space before it that the template merges into its first token, a
newline behind the stop token, and an empty think block where serving's prompt ends with one too.

It does not prove that the answers are right, that the prompt before them is the one that serving
sends (render_parity), or that the loss is computed on these labels (wire test, receipt).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from tunegate.checks import MAX_FINDINGS, MAX_SAMPLES, CheckInputs
from tunegate.checks._called import ends_once, unsaid
from tunegate.checks._faults import WHAT, change
from tunegate.checks._pass import Seen, observe_one, unable
from tunegate.checks._scaffold import composed, thinking_off
from tunegate.types import Finding, Json, Status, Verdict
from tunegate.worker.feed import label_line

WHERE = "host"
ORDER = 10

TRAILING = (b"", b"\n")
"""May follow the stop token inside the loss: LLaMA-Factory ends each label with a newline."""

LEADING = (b"", b" ")
"""May precede the answer inside the loss: a space that the template merges into the first token."""

NO_THINKING = b"<think>\n\n</think>\n\n"
"""An empty think block may precede the answer where serving's prompt ends with it too."""

NOT_CHECKED = (
    "validation rows: they choose the checkpoint and carry no gradient",
    "whether the answers are right",
    "whether the trainer computes its loss on these labels",
)

GAP = " … ".encode()
"""Between two stretches of shown text."""

TEXT_LIMIT = 240
"""Characters of decoded text that an observation keeps of one row."""

SPAN_END = 360
"""Characters kept of the beginning and of the end of a stretch of a sample."""

MAX_RUNS_SHOWN = 4
"""Trained stretches that a sample shows."""


def observe(inputs: CheckInputs) -> Json:
    """Look at every example of the framework's batches."""
    return observe_one(inputs, watch(inputs))


def watch(inputs: CheckInputs) -> Watch:
    """This check's part of a shared pass."""
    return Watch(inputs)


class Watch:
    """Compares the labels of each row with the row's own answers."""

    def __init__(self, inputs: CheckInputs) -> None:
        self.intent: str = inputs.frozen["settings"]["train"]["loss"]
        self.tokenizer = inputs.tokenizer
        stops = {self.tokenizer.piece(token) for token in inputs.frozen["tokenizer"]["stop_ids"]}
        self.stops = tuple(sorted(stops - {b""}))
        self.thinking_off = thinking_off(inputs.serving_template)
        self.counts = {"rows": 0, "tokens": 0, "supervised_tokens": 0, "whole_rows": 0}
        self.problems: dict[str, int] = {}
        self.rows: list[Json] = []
        self.samples: list[Json] = []
        self.labels = hashlib.sha256()

    def see(self, rows: Sequence[Seen]) -> None:
        for seen in rows:
            self.labels.update(label_line(seen.example))
            if seen.example.dropped is not None:
                continue
            runs = seen.supervised()
            supervised = sum(end - start for start, end in runs)
            self.counts["rows"] += 1
            self.counts["tokens"] += len(seen.example.input_ids)
            self.counts["supervised_tokens"] += supervised
            self.counts["whole_rows"] += supervised == len(seen.example.input_ids)
            problem = self._problem(seen, runs, supervised)
            if problem is not None:
                self.problems[problem["problem"]] = self.problems.get(problem["problem"], 0) + 1
                if len(self.rows) < MAX_FINDINGS:
                    self.rows.append(self._described(seen, runs, problem))
            elif len(self.samples) < MAX_SAMPLES:
                shown = {"spans": _spans(seen, runs)}
                self.samples.append(self._described(seen, runs, shown))

    def result(self, account: Json) -> Json:
        return {
            "intent": self.intent,
            **self.counts,
            "dropped": account["dropped"],
            "problems": self.problems,
            "rows_wrong": self.rows,
            "labels_sha256": self.labels.hexdigest(),
            "samples": self.samples,
            "thinking_off": self.thinking_off,
            "pad_is_stop": self.tokenizer.pad_id is not None
            and self.tokenizer.piece(self.tokenizer.pad_id) in self.stops,
        }

    def _described(self, seen: Seen, runs: Sequence[tuple[int, int]], problem: Json) -> Json:
        expected = sum(len(self.tokenizer.encode(turn.said)) + 1 for _, turn in seen.answers)
        return {
            "line": seen.row.line,
            "tokens": len(seen.example.input_ids),
            "supervised_tokens": sum(end - start for start, end in runs),
            "expected_tokens": expected if seen.answers else None,
            "supervised_text": _shown(GAP.join(seen.decode(start, end) for start, end in runs)),
            "expected_text": _shown(GAP.join(turn.said.encode() for _, turn in seen.answers)),
            "raw_text": seen.row.text is not None,
            **problem,
        }

    def _problem(self, seen: Seen, runs: Sequence[tuple[int, int]], supervised: int) -> Json | None:
        ids, labels = seen.example.input_ids, seen.example.labels
        if len(ids) != len(labels):
            return {"problem": "lengths", "labels": len(labels)}
        for start, end in runs:
            if labels[start:end] != ids[start:end]:
                at = next(n for n in range(start, end) if labels[n] != ids[n])
                return {"problem": "label_is_not_input", "at": at}
        whole = supervised == len(ids)
        if self.intent == "all":
            return None if whole and ids else {"problem": "not_everything"}
        if not runs:
            return {"problem": "no_loss"}
        if not seen.answers:
            return {"problem": "no_known_answer"}
        if whole:
            return {"problem": "everything"}
        return self._compare(seen, runs)

    def _compare(self, seen: Seen, runs: Sequence[tuple[int, int]]) -> Json | None:
        answers = [turn.content.encode() for _, turn in seen.answers]
        served = [text.encode() for text in seen.prompts("serving")]
        if len(runs) != len(answers):
            return self._uneven(seen, runs, answers)
        for number, ((start, end), answer) in enumerate(zip(runs, answers, strict=True)):
            text = seen.decode(start, end)
            leading = [*LEADING, NO_THINKING] if served[number].endswith(NO_THINKING) else LEADING
            position, turn = seen.answers[number]
            if turn.tool_calls:
                lead = b"" if ends_once(text, turn, self.stops, TRAILING) else None
                missing = unsaid(text, turn)
                if missing is not None:
                    return {"problem": "call_unsaid", "turn": position + 1, "detail": missing}
            else:
                lead = _lead(text, answer, self.stops, leading)
            if lead is None:
                return {"turn": position + 1, **self._classified(text, answer, seen)}
            at = len(seen.text) - len(seen.decode(start, len(seen.example.input_ids)))
            if not _stands_right(seen, number, at, len(lead), runs, answers):
                return {"problem": "misplaced", "turn": position + 1}
        return None

    def _classified(self, text: bytes, answer: bytes, seen: Seen) -> Json:
        """Which of the known faults makes `text` differ from the answer and its end."""
        before, found, after = text.partition(answer)
        if answer not in seen.text and answer.strip() not in seen.text:
            normalised = composed(answer.decode()) in seen.text
            return {"problem": "answer_normalised" if normalised else "answer_absent"}
        if found and before:
            return {"problem": "prompt_in_loss", "detail": _shown(before)}
        if found and not after:
            return {"problem": "end_not_trained"}
        if found:
            return {"problem": "more_after_answer", "detail": _shown(after)}
        for stop in self.stops:
            whole = answer + stop
            if text and whole.endswith(text):
                return {"problem": "start_not_trained", "detail": _shown(whole[: -len(text)])}
        if text and answer.startswith(text):
            return {"problem": "tail_not_trained", "detail": _shown(answer[len(text) :])}
        return {"problem": "other_text"}

    def _uneven(
        self, seen: Seen, runs: Sequence[tuple[int, int]], answers: Sequence[bytes]
    ) -> Json:
        texts = [seen.decode(start, end) for start, end in runs]
        strange = [text for text in texts if not any(answer in text for answer in answers)]
        if strange and len(runs) > len(answers):
            return {"problem": "prompt_in_loss", "detail": _shown(GAP.join(strange))}
        left = list(texts)
        for (position, _), answer in zip(seen.answers, answers, strict=True):
            found = next((text for text in left if answer in text), None)
            if found is None:
                return {"problem": "turn_not_trained", "turn": position + 1}
            left.remove(found)
        return {"problem": "other_text"}


def _lead(
    text: bytes, answer: bytes, stops: Sequence[bytes], leading: Sequence[bytes]
) -> bytes | None:
    """What precedes the answer inside a right run; None where the run is not right.

    A template that trims the answer is accepted: serving's history is trimmed the same way.
    """
    for intended in (answer, answer.strip()):
        for lead in leading:
            for stop in stops:
                core = lead + intended + stop
                if text.startswith(core) and text[len(core) :] in TRAILING:
                    return lead
    return None


def _stands_right(
    seen: Seen,
    number: int,
    at: int,
    lead: int,
    runs: Sequence[tuple[int, int]],
    answers: Sequence[bytes],
) -> bool:
    """Whether the run that begins at byte `at` is the answer itself and not a copy of its text.

    Exact where the row begins with the prompt of either template; else the turns before the answer
    must all stand before it, in order, and its text must not come again after the last run.
    """
    for which in ("training", "serving"):
        text = seen.prompts(which)[number]
        for prompt in (text.encode(), composed(text)):
            if seen.text.startswith(prompt):
                return len(prompt) in (at, at + lead)
    first = seen.answers[number - 1][0] + 1 if number else 0
    cursor = len(seen.decode(0, runs[number - 1][1])) if number else 0
    for turn in seen.row.turns[first : seen.answers[number][0]]:
        content = turn.content.strip().encode()
        found = seen.text.find(content, cursor, at)
        if found < 0:
            return False
        cursor = found + len(content)
    rest = seen.text[len(seen.decode(0, runs[number][1])) :]
    return number + 1 < len(runs) or not answers[number].strip() or answers[number] not in rest


def _spans(seen: Seen, runs: Sequence[tuple[int, int]]) -> list[Json]:
    """The row's text in order, as stretches {"text", "trained"}; long stretches lose their middle.

    What follows the last run shown of a conversation of many turns is left out.
    """
    spans: list[Json] = []
    at = 0
    for start, end in runs[:MAX_RUNS_SHOWN]:
        spans.append({"text": _ends(seen.decode(at, start)), "trained": False})
        spans.append({"text": _ends(seen.decode(start, end)), "trained": True})
        at = end
    if len(runs) > MAX_RUNS_SHOWN:
        rest = GAP.decode()
    else:
        rest = _ends(seen.decode(at, len(seen.example.input_ids)))
    spans.append({"text": rest, "trained": False})
    return [span for span in spans if span["text"]]


def _ends(text: bytes) -> str:
    shown = text.decode("utf-8", errors="replace")
    if len(shown) <= 2 * SPAN_END:
        return shown
    return shown[:SPAN_END] + GAP.decode() + shown[-SPAN_END:]


def _shown(text: bytes) -> str:
    shown = text.decode("utf-8", errors="replace")
    return shown if len(shown) <= TEXT_LIMIT else shown[: TEXT_LIMIT - 1] + "…"


def judge(observation: Json, frozen: Json) -> Verdict:
    """Fails on any row whose loss is not exactly the answers and their end."""
    stuck = unable("mask_exact", observation, not_checked=NOT_CHECKED)
    if stuck is not None:
        return stuck
    rows, wrong = observation["rows"], sum(observation["problems"].values())
    numbers = {
        **{key: observation[key] for key in ("rows", "tokens", "supervised_tokens", "problems")},
        "rows_wrong": wrong,
    }
    share = observation["supervised_tokens"] / max(1, observation["tokens"])
    numbers["supervised_share"] = round(share, 4)
    file = observation["file"]
    findings = tuple(_finding(item, file, observation) for item in observation["rows_wrong"])
    common: dict[str, Any] = {
        "check": "mask_exact",
        "numbers": numbers,
        "samples": tuple(observation["samples"]),
        "not_checked": NOT_CHECKED,
    }
    if rows == 0:
        none = Finding("no row is trained", where=file, change="see where length_audit lost them")
        return Verdict(status=Status.FAIL, summary="no row is trained", findings=(none,), **common)
    if wrong:
        summary = f"{wrong:,} of {rows:,} rows train something else than their answers"
        hint = findings[0].change
        return Verdict(status=Status.FAIL, summary=summary, findings=findings, hint=hint, **common)
    if observation["intent"] == "all":
        warning = Finding(
            f"everything carries loss, as `train: {{loss: all}}` declares: "
            f"{numbers['supervised_tokens']:,} tokens, prompts included",
            where="run.yaml: train.loss",
            change="write `loss: answer` unless the model is meant to learn the prompts too",
        )
        summary = f"all tokens of {rows:,} rows carry loss, as declared"
        return Verdict(status=Status.PASS, summary=summary, warnings=(warning,), **common)
    summary = (
        f"{rows:,} rows: the loss is exactly the answers and their end "
        f"({100 * share:.1f} % of the tokens)"
    )
    return Verdict(status=Status.PASS, summary=summary, **common)


def _finding(item: Json, file: str, observation: Json) -> Finding:
    expected = item["expected_tokens"]
    counts = f"{item['supervised_tokens']} of {item['tokens']} tokens carry loss"
    if expected is not None:
        counts += f", the answer and its end are {expected}"
    what = WHAT[item["problem"]].format(
        detail=repr(item.get("detail", "")), turn=item.get("turn", "?"), labels=item.get("labels")
    )
    message = f"{what}: {counts}"
    if item["supervised_text"]:
        message += f"; they read {item['supervised_text']!r}"
    if item["expected_text"]:
        message += f", meant is {item['expected_text']!r}"
    return Finding(message, where=f"{file}:{item['line']}", change=change(item, observation))
