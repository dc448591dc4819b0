"""Training, evaluation and serving show the model the same tokens before an answer, in every row.

A pass proves, by token ids:
- for every trained row and every answer in it, the training tokens begin with exactly what serving
  sends for the same turns (the serving template, the frozen prompt file, the generation prompt),
  and the answer follows at once;
- for every validation, test and slice row, what evaluation sends (`encode.prompt_ids`, the function
  that generation uses) equals the plain rendering and tokenising of the same turns;
- there is no second begin-of-text token;
- the template adds no text of its own in place of a system turn that the row lacks.

It does not prove that a server uses this template: that is asked of the running server. A row that
is a raw text without a conversation cannot be compared, and fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from tunegate.checks import MAX_FINDINGS, MAX_SAMPLES, CheckInputs
from tunegate.checks._pass import CHUNK_ROWS, Seen, described, observe_one, unable
from tunegate.checks._scaffold import (
    SERVE_UNTHINKING,
    composed,
    own_words,
    replaced_turn,
    thinking_off,
)
from tunegate.errors import DataError
from tunegate.types import Finding, Json, Row, Status, Verdict
from tunegate.worker.encode import prompt_ids
from tunegate.worker.rows import columns_of, read_rows

WHERE = "host"
ORDER = 30

NOT_CHECKED = (
    "the template and tokenizer of a server that is already running",
    "the text after an answer, which serving never sends",
)

MAX_NAMED_WORDS = 5
"""Words of a template's own that go without a warning: names of roles and sections."""

BEFORE, AFTER = 12, 40
"""Tokens and bytes shown around a difference."""


def observe(inputs: CheckInputs) -> Json:
    """Compare the renderings of every row."""
    return observe_one(inputs, watch(inputs))


def watch(inputs: CheckInputs) -> Watch:
    """This check's part of a shared pass."""
    return Watch(inputs)


class Watch:
    """Compares training tokens with serving's, and evaluation's prompts with plain rendering."""

    def __init__(self, inputs: CheckInputs) -> None:
        self.inputs = inputs
        self.tokenizer = inputs.tokenizer
        self.bos = self.tokenizer.bos_id
        self.rows = self.answers = self.wrong = 0
        self.problems: dict[str, int] = {}
        self.rows_wrong: list[Json] = []
        self.samples: list[Json] = []
        self.without_system: list[int] = []
        self.rows_without_system = 0

    def see(self, rows: Sequence[Seen]) -> None:
        kept = [seen for seen in rows if seen.example.dropped is None]
        prompts = [seen.prompts("serving") for seen in kept]
        served = iter(self.tokenizer.encode_batch([text for texts in prompts for text in texts]))
        for seen, texts in zip(kept, prompts, strict=True):
            self.rows += 1
            self.answers += len(texts)
            self._system(seen.row)
            problem = self._problem(seen, [next(served) for _ in texts])
            if problem is not None:
                self._add(problem, seen.row.line, self.inputs.frozen["data"]["train"]["path"])
            elif len(self.samples) < MAX_SAMPLES and texts:
                self.samples.append({"line": seen.row.line, "prompt": texts[-1][-400:]})

    def _add(self, problem: Json, line: int, file: str) -> None:
        self.wrong += 1
        self.problems[problem["problem"]] = self.problems.get(problem["problem"], 0) + 1
        if len(self.rows_wrong) < MAX_FINDINGS:
            self.rows_wrong.append({"line": line, "file": file, **problem})

    def _system(self, row: Row) -> None:
        if row.turns and row.turns[0].role != "system":
            self.rows_without_system += 1
            if len(self.without_system) < MAX_FINDINGS:
                self.without_system.append(row.line)

    def _problem(self, seen: Seen, served: Sequence[list[int]]) -> Json | None:
        ids = seen.example.input_ids
        if not seen.answers:
            return {"problem": "no_conversation", "training": self._text(ids[:BEFORE])}
        if self._doubled(ids):
            return {"problem": "two_bos", "token": self._text(ids[:1])}
        for (position, turn), prompt in zip(seen.answers, served, strict=True):
            size = len(prompt)
            if ids[:size] != prompt:
                return {
                    "problem": "differs",
                    "turn": position + 1,
                    "raw_text": seen.row.text is not None,
                    **self._first(ids, prompt),
                }
            answer = turn.content.encode()
            rest = seen.decode(size, size + len(answer) + AFTER)
            if not rest.startswith(
                (answer, answer.strip(), b" " + answer.strip(), composed(turn.content))
            ):
                return {
                    "problem": "text_between",
                    "turn": position + 1,
                    "text": rest[:AFTER].decode("utf-8", errors="replace"),
                }
        return None

    def _doubled(self, ids: Sequence[int]) -> bool:
        return self.bos is not None and list(ids[:2]) == [self.bos, self.bos]

    def _first(self, ids: Sequence[int], prompt: Sequence[int]) -> Json:
        """The first token at which the two differ, with the text around it."""
        both = range(min(len(ids), len(prompt)))
        at = next((n for n in both if ids[n] != prompt[n]), min(len(ids), len(prompt)))
        return {
            "token": at,
            "training": self._text(ids[max(0, at - BEFORE) : at + BEFORE]),
            "serving": self._text(prompt[max(0, at - BEFORE) : at + BEFORE]),
            "training_token": self._text(ids[at : at + 1]),
            "serving_token": self._text(prompt[at : at + 1]),
            "training_tokens": len(ids),
            "serving_tokens": len(prompt),
        }

    def _text(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids)

    def result(self, account: Json) -> Json:
        evaluated, unread = self._evaluation()
        template = self.inputs.serving_template
        return {
            "rows": self.rows,
            "answers": self.answers,
            "evaluated": evaluated,
            "unread": unread,
            "wrong": self.wrong,
            "problems": self.problems,
            "rows_wrong": self.rows_wrong,
            "samples": self.samples,
            "reads_clock": template.reads_clock or self.inputs.training_template.reads_clock,
            "own_words": own_words(template, self.tokenizer),
            "default_system": replaced_turn(template, self.tokenizer),
            "rows_without_system": self.rows_without_system,
            "without_system_lines": self.without_system,
            "thinking_off": thinking_off(template),
            "own_training_template": self.inputs.frozen["template"].get("training_source")
            is not None,
        }

    def _evaluation(self) -> tuple[dict[str, int], list[Json]]:
        """Rows of each evaluation split compared, and splits that could not be read to the end."""
        counts: dict[str, int] = {}
        unread: list[Json] = []
        for split in self.inputs.frozen["data"]:
            if split in ("train", "teacher"):
                continue
            counts[split] = 0
            file = self.inputs.frozen["data"][split]["path"]
            try:
                columns = columns_of(self.inputs.frozen, split)
                path, system = self.inputs.path(split), self.inputs.system
                rows = read_rows(path, system=system, columns=columns)
                while chunk := list(islice(rows, CHUNK_ROWS)):
                    counts[split] += len(chunk)
                    self._evaluated([row for row in chunk if row.prompt], file)
            except DataError as error:
                told = described(error, self.inputs.path(split), file)
                unread.append({"split": split, **told})
        return counts, unread

    def _evaluated(self, rows: Sequence[Row], file: str) -> None:
        template = self.inputs.serving_template
        texts = [
            template.render(row.prompt, add_generation_prompt=True, tools=row.tools) for row in rows
        ]
        encoder = self.tokenizer.encoder
        plain = encoder.encode_batch_fast(texts, add_special_tokens=False)
        for row, encoding in zip(rows, plain, strict=True):
            sent = prompt_ids(
                row.prompt, tokenizer=self.tokenizer, template=template, tools=row.tools
            )
            if sent != encoding.ids:
                found = self._first(sent, encoding.ids)
                self._add({"problem": "evaluation", **found}, row.line, file)
            elif self._doubled(sent):
                self._add({"problem": "two_bos", "token": self._text(sent[:1])}, row.line, file)


def judge(observation: Json, frozen: Json) -> Verdict:
    """Fails on any difference, a second begin-of-text token, or a system turn out of nowhere."""
    stuck = unable("render_parity", observation, not_checked=NOT_CHECKED)
    if stuck is not None:
        return stuck
    findings = [_finding(item, observation) for item in observation["rows_wrong"]]
    findings += _default_system(observation)
    common: dict[str, Any] = {
        "check": "render_parity",
        "numbers": {
            key: observation[key]
            for key in ("rows", "answers", "evaluated", "wrong", "problems", "rows_without_system")
        },
        "samples": tuple(observation["samples"]),
        "not_checked": NOT_CHECKED,
        "warnings": tuple(_warnings(observation)),
    }
    if observation["unread"]:
        first = observation["unread"][0]
        found = Finding(first["message"], where=first["where"], change="see data_lint")
        summary = f"the rows of {first['split']} cannot all be read"
        return Verdict(
            status=Status.FAIL if findings else Status.CANNOT_TELL,
            summary=summary,
            findings=(*findings, found)[:MAX_FINDINGS],
            **common,
        )
    rows = observation["rows"]
    if rows == 0:
        findings.append(Finding("no row is trained", where=observation["file"]))
    if findings:
        summary = f"{observation['wrong']:,} rows differ between training, evaluation and serving"
        if observation["wrong"] == 0:
            summary = findings[0].message
        return Verdict(
            status=Status.FAIL,
            summary=summary,
            findings=tuple(findings[:MAX_FINDINGS]),
            hint=findings[0].change,
            **common,
        )
    others = sum(observation["evaluated"].values())
    summary = (
        f"{observation['answers']:,} answers in {rows:,} training rows follow the very tokens that "
        f"serving sends; {others:,} evaluation rows are sent alike"
    )
    return Verdict(status=Status.PASS, summary=summary, **common)


def _default_system(observation: Json) -> Iterator[Finding]:
    text = observation["default_system"]
    if text is None or not observation["rows_without_system"]:
        return
    line = observation["without_system_lines"][0]
    yield Finding(
        f"the row has no system turn and the template puts one in: {text!r}; "
        f"{observation['rows_without_system']:,} rows are like it",
        where=f"{observation['file']}:{line}",
        change="name a prompt file as prompt.system; put that line into it if it is meant",
    )


def _warnings(observation: Json) -> Iterator[Finding]:
    if observation["reads_clock"]:
        yield Finding(
            "the chat template prints today's date: training and serving differ from day to day",
            change="fix the date: in prompt.chat_template_kwargs where the template asks for a "
            "date_string, else in the template",
        )
    words = observation["own_words"]
    if len(words.split()) > MAX_NAMED_WORDS:
        yield Finding(f"the chat template adds text of its own to every prompt: {words!r}")


def _finding(item: Json, observation: Json) -> Finding:
    where = f"{item['file']}:{item['line']}"
    if item["problem"] == "no_conversation":
        return Finding(
            f"the row is raw text without a conversation ({item['training']!r}…), so serving, "
            "which sends a chat prompt, never shows the model what it was trained on",
            where,
            'write the row as "messages" or as "prompt" and "completion"',
        )
    if item["problem"] == "two_bos":
        return Finding(
            f"the text begins with two {item['token']!r}: the template prints one and the "
            "tokenizer adds another",
            where,
            "encode rendered text without special tokens",
        )
    if item["problem"] == "text_between":
        block = observation["thinking_off"]
        change = "let serving's generation prompt end where the answer begins"
        if block is not None and item["text"].startswith(block):
            change = SERVE_UNTHINKING
        return Finding(
            f"after the prompt that serving sends, turn {item['turn']} goes on with "
            f"{item['text']!r} and not with the answer",
            where,
            change,
        )
    one, other = (
        ("evaluation", "serving") if item["problem"] == "evaluation" else ("training", "serving")
    )
    change = "render both with the same template and prompt file"
    if item.get("raw_text"):
        change = 'remove the "text" column, so that the row is rendered as serving renders it'
    elif observation["own_training_template"]:
        change = "remove train.chat_template, so that training renders as serving does"
    return Finding(
        f"{one} and {other} differ at token {item['token']}: {item['training_token']!r} against "
        f"{item['serving_token']!r}; {one} reads {item['training']!r}, {other} {item['serving']!r}",
        where,
        change,
    )
