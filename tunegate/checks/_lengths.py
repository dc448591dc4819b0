"""Rows that are not trained on and must still fit: validation within the limit, and what evaluation
sends, with room for its answer, within the model's context.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from tunegate.checks import MAX_FINDINGS, CheckInputs
from tunegate.checks._pass import described
from tunegate.errors import DataError, TunegateError
from tunegate.types import Finding, Json, Row
from tunegate.worker.encode import encode_rows, prompt_text
from tunegate.worker.rows import columns_of, read_rows, with_system

CHUNK_ROWS = 1_024


class Held:
    """Lengths of the rows of validation, test and slices, and those that do not fit."""

    def __init__(self, inputs: CheckInputs) -> None:
        settings = inputs.frozen["settings"]
        self.inputs = inputs
        self.evaluation: Json = settings.get("eval") or {}
        self.context: int | None = inputs.frozen["base"].get("context")
        self.loss: str = settings["train"]["loss"]
        self.max_length: int | None = settings["train"].get("max_length")
        self.longest: dict[str, int] = {}
        chosen = {choice["key"] for choice in inputs.frozen.get("choices") or ()}
        self.is_chosen = "train.max_length" in chosen
        """Whether the limit is ours, made for the training rows, and not the run file's."""
        self.count = self.long = self.validated = 0
        self.rows_long: list[Json] = []
        self.unfit: list[Json] = []

    def observe(self) -> Json:
        """Look at every row; an error ends the look and is kept."""
        error: Json | None = None
        files = {name: file["path"] for name, file in self.inputs.frozen["data"].items()}
        for name in files:
            if name in ("train", "teacher"):
                continue
            try:
                if name == "validation":
                    self._validation(files[name])
                else:
                    self._asked(name, files[name])
            except TunegateError as found:
                error = error or described(found, self.inputs.path(name), files[name])
        if self.long and self.long == self.validated:  # nothing would be left to validate on
            self.count += self.long
            self.unfit = [*self.rows_long, *self.unfit][:MAX_FINDINGS]
            self.rows_long = []
        return {
            "error": error,
            "longest": self.longest,
            "rows_long": self.rows_long,
            "unfit": self.count,
            "rows_unfit": self.unfit,
        }

    def _validation(self, file: str) -> None:
        limits = [limit for limit in (self.max_length, self.context) if limit]
        limit, named = min(limits, default=None), "train.max_length"
        if limit is not None and limit != self.max_length:
            named = "the model's context"
        rows = read_rows(
            self.inputs.path("validation"),
            system=self.inputs.system,
            columns=columns_of(self.inputs.frozen, "validation"),
        )
        while chunk := list(islice(rows, CHUNK_ROWS)):
            examples = encode_rows(
                chunk,
                tokenizer=self.inputs.tokenizer,
                template=self.inputs.training_template,
                loss=self.loss,
            )
            for row, example in zip(chunk, examples, strict=True):
                tokens = len(example.input_ids)
                self.validated += 1
                self._count("validation", file, row, tokens, limit, f"{named} of {limit}")

    def _asked(self, name: str, file: str) -> None:
        kinds = self.evaluation.get("slices") or {}
        kind = (kinds.get(name.removeprefix("slice:")) or {}).get("kind")
        columns = columns_of(self.inputs.frozen, name)
        for rows in self._chunks(read_rows(self.inputs.path(name), columns=columns)):
            texts, asked, room = [], [], []
            for row in rows:
                by_rule = kind == "rule" or (kind is None and "check" in row.meta)
                text = self._prompt(row, None if by_rule else self.inputs.system, file)
                if text is not None:
                    key = "rule_max_new_tokens" if by_rule else "max_new_tokens"
                    texts.append(text)
                    asked.append(row)
                    room.append(int(self.evaluation.get(key) or 0))
            encoded = self.inputs.tokenizer.encode_batch(texts)
            for row, ids, new in zip(asked, encoded, room, strict=True):
                limit = None if self.context is None else self.context - new
                what = f"the model's context of {self.context} less {new} for the answer"
                self._count(name, file, row, len(ids), limit, what)

    def _prompt(self, row: Row, system: str | None, file: str) -> str | None:
        """What evaluation sends for a row; None, and the row is noted, where nothing can be."""
        whole = with_system(row, system)
        turns = whole.prompt if row.answer is not None else whole.turns
        if not turns:
            return None  # data_lint names the row
        try:
            return prompt_text(turns, template=self.inputs.serving_template, tools=row.tools)
        except DataError as error:
            self._note(file, row, f"the template refuses it: {error.message}")
            return None

    def _chunks(self, rows: Iterable[Row]) -> Iterator[list[Row]]:
        source = iter(rows)
        while chunk := list(islice(source, CHUNK_ROWS)):
            yield chunk

    def _count(
        self, name: str, file: str, row: Row, tokens: int, limit: int | None, what: str
    ) -> None:
        self.longest[name] = max(tokens, self.longest.get(name, 0))
        if limit is not None and tokens > limit:
            message = f"{tokens:,} tokens do not fit {what}"
            if name == "validation" and self.is_chosen:
                self.long += 1
                if len(self.rows_long) < MAX_FINDINGS:
                    self.rows_long.append({"where": f"{file}:{row.line}", "message": message})
            else:
                self._note(file, row, message)

    def _note(self, file: str, row: Row, message: str) -> None:
        self.count += 1
        if len(self.unfit) < MAX_FINDINGS:
            self.unfit.append({"where": f"{file}:{row.line}", "message": message})


def unfit_rows(held: Json, kind: str, *, longest_trained: int) -> Iterator[Finding]:
    """One finding for each row that does not fit (`rows_unfit`), or that validation leaves out
    because of a limit that we chose (`rows_long`).
    """
    longest = max(longest_trained, held["longest"].get("validation", 0))
    for item in held[kind]:
        change = "shorten the row, or take it out"
        if "train.max_length" in item["message"]:
            change = f"set train.max_length to {longest} or more, or shorten the row"
        yield Finding(item["message"], where=item["where"], change=change)
