"""A row to the ids and labels that a trainer is fed, and a conversation to the ids that are served.

Where to cut. A server tokenises the prompt text alone and the model goes on from there, so a row is
encoded as the prompt's ids followed by the answer's ids, and not as one text: at a boundary without
a special token the two can differ (`:` + ` yes` against `: yes`), and only the first is what the
model will meet. For the same reason the answer and its terminator are one piece: the model writes
both. What a template puts after the terminator (often a newline) carries no loss.

A later turn's prompt starts with the text so far. A template that rewrites earlier turns has no
single sequence that shows each answer what serving shows it, so such a row is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from tunegate.errors import DataError
from tunegate.types import IGNORED, Example, Json, Row, Turn
from tunegate.worker.template import Template
from tunegate.worker.tokens import Tokenizer, turn_end_id

CHUNK_ROWS = 2_048
"""Rows that are tokenised together: enough to keep both cores busy, little enough to stream."""

LOSSES = ("answer", "all")


@dataclass(frozen=True)
class Segment:
    """A stretch of a row's text that is tokenised on its own."""

    text: str
    answer_at: int | None = None
    """Of an answer: where the intended text begins in `text`; None for text without loss."""
    answer_end: int = 0
    """Of an answer: where the intended text ends in `text`."""
    has_calls: bool = False
    """Of an answer with tool calls, which the template writes its own way: all of `text` up to its
    last stop token is intended.
    """


def prompt_text(turns: Sequence[Turn], *, template: Template, tools: Sequence[Json] = ()) -> str:
    """What a server renders for a request: the turns and the opening of the answer."""
    return template.render(turns, add_generation_prompt=True, tools=tools)


def prompt_ids(
    turns: Sequence[Turn], *, tokenizer: Tokenizer, template: Template, tools: Sequence[Json] = ()
) -> list[int]:
    """What a server feeds the model for a request. Length is the prompt's tokens."""
    return tokenizer.encode(prompt_text(turns, template=template, tools=tools))


def answer_text(row: Row, *, tokenizer: Tokenizer, template: Template) -> str:
    """The row's last answer as the model writes it, without the stop token.

    It is the turn's content, but for a turn with tool calls, which a template prints its own way.
    """
    position = row.answer_at
    if position is None or not row.turns[position].tool_calls:
        return row.answer or ""
    stops = _stops(tokenizer, template).values()
    plan = segments(row, template=template, stops=stops)
    text = [part.text for part in plan if part.answer_at is not None][-1]
    end = turn_end_id(tokenizer, template)
    return text if end is None else text.rpartition(tokenizer.decode([end]))[0]


def encode_row(
    row: Row,
    *,
    tokenizer: Tokenizer,
    template: Template,
    loss: str = "answer",
    max_length: int | None = None,
) -> Example:
    """One row as the trainer sees it; see `encode_rows`."""
    return next(
        encode_rows([row], tokenizer=tokenizer, template=template, loss=loss, max_length=max_length)
    )


def encode_rows(
    rows: Iterable[Row],
    *,
    tokenizer: Tokenizer,
    template: Template,
    loss: str = "answer",
    max_length: int | None = None,
) -> Iterator[Example]:
    """Rows as the trainer sees them, in order, a row each; labels lie on each weighted assistant
    turn and its terminator, or with `loss="all"` on everything.

    A row with a text column is trained whole, with the end token after it, as every trainer does
    with such a column. A row longer than `max_length` tokens is left out, never cut: its `dropped`
    says so and its ids stay whole. Raises DataError, its `where` being the line number, for a row
    that the template cannot turn into prompt, answer and terminator.
    """
    if loss not in LOSSES:
        raise DataError(f"loss is {loss!r}; it is one of {', '.join(LOSSES)}")
    stops = _stops(tokenizer, template)
    source = iter(rows)
    while chunk := list(islice(source, CHUNK_ROWS)):
        plans = [
            () if row.text is not None else segments(row, template=template, stops=stops.values())
            for row in chunk
        ]
        encoded = tokenizer.encode_parts([[segment.text for segment in plan] for plan in plans])
        for row, plan, parts in zip(chunk, plans, encoded, strict=True):
            if row.text is not None:
                ids = _raw_ids(row.text, tokenizer)
                labels = list(ids)
            else:
                ids, labels = _join(row, plan, parts, stops)
                labels = list(ids) if loss == "all" else labels
            yield Example(row.index, ids, labels, dropped=_too_long(len(ids), max_length))


def _stops(tokenizer: Tokenizer, template: Template) -> dict[int, str]:
    """The tokens that end an answer in training, with their texts."""
    ends = (tokenizer.eos_id, turn_end_id(tokenizer, template))
    return {end: tokenizer.decode([end]) for end in ends if end is not None}


def _too_long(tokens: int, max_length: int | None) -> str | None:
    if max_length is None or tokens <= max_length:
        return None
    return f"longer than max_length, {max_length} tokens"


def _raw_ids(text: str, tokenizer: Tokenizer) -> list[int]:
    ids = tokenizer.encode_raw(text)
    end = tokenizer.eos_id
    return ids if end is None or ids[-1:] == [end] else [*ids, end]


def segments(row: Row, *, template: Template, stops: Collection[str]) -> tuple[Segment, ...]:
    """The row's text in the stretches that serving would tokenise apart. Raises DataError.

    An answer ends with the first of the `stops` behind it. What follows belongs to the next prompt,
    where a template may print something else (early Llama 3 opens an answer after every row).
    """
    turns = row.turns
    out: list[Segment] = []
    done = rest = ""
    for position, turn in enumerate(turns):
        if turn.role != "assistant" or turn.weight == 0:
            continue
        before = _rendered(row, position, template=template, opens=True)
        if not before.startswith(done):
            raise _refused(
                row,
                f"the chat template rewrites the turns before turn {position + 1}",
                "make it one row an answer, or give the earlier answers the weight 0",
            )
        whole = _rendered(row, position + 1, template=template, opens=False)
        if not whole.startswith(before):
            raise _refused(
                row,
                "the prompt that serving renders is not the beginning of the training text",
                "take a template whose generation prompt opens the answer as training does",
            )
        out.append(Segment(before[len(done) :]))
        text, start, end = _answer(row, whole[len(before) :], turn.content)
        cut = _end(text, end, stops, last=bool(turn.tool_calls))
        out.append(Segment(text[:cut], start, end, has_calls=bool(turn.tool_calls)))
        done, rest = before + text[:cut], text[cut:]
    if not out:
        raise _refused(row, "no assistant turn carries loss", "give the row an answer")
    return (*out, Segment(rest)) if rest else tuple(out)


def _rendered(row: Row, size: int, *, template: Template, opens: bool) -> str:
    """The first `size` turns as text, with the opening of an answer where one comes next."""
    try:
        return template.render(row.turns[:size], add_generation_prompt=opens, tools=row.tools)
    except DataError as error:
        raise _refused(row, error.message, error.hint) from error


def _end(text: str, start: int, stops: Collection[str], *, last: bool) -> int:
    """Where the first stop after `start` ends, or the last: arguments of calls may hold some."""
    find = str.rfind if last else str.find
    ends = [find(text, stop, start) + len(stop) for stop in stops if stop in text[start:]]
    return (max if last else min)(ends, default=len(text))


def _answer(row: Row, text: str, content: str) -> tuple[str, int, int]:
    """The rendered answer, and where the intended text begins and ends in it."""
    for intended in (content, content.strip()):
        start = text.find(intended)
        if start >= 0:
            return text, start, start + len(intended)
    raise _refused(
        row,
        "the chat template changes the answer's text",
        "write the answer as the template prints it, or use a template that prints it unchanged",
    )


def _join(
    row: Row,
    plan: Sequence[Segment],
    parts: Sequence[list[int]],
    stops: Mapping[int, str],
) -> tuple[list[int], list[int]]:
    """Ids and labels, both of length T, of one row from the ids of its segments."""
    ids: list[int] = []
    labels: list[int] = []
    for segment, part in zip(plan, parts, strict=True):
        ids += part
        if segment.answer_at is None:
            labels += [IGNORED] * len(part)
            continue
        end = _supervised(part, segment, stops)
        if end is None:
            raise _refused(
                row,
                "the chat template ends the answer with no stop token: nothing teaches to stop",
                "use a template that ends an assistant turn with the turn's end token",
            )
        labels += part[:end]
        labels += [IGNORED] * (len(part) - end)
    return ids, labels


def _supervised(ids: Sequence[int], segment: Segment, stops: Mapping[int, str]) -> int | None:
    """How many of an answer's ids carry loss: up to the first stop token after the intended text.

    A stop token that the intended text itself contains does not end it.
    """
    if segment.has_calls:
        return next((n + 1 for n in range(len(ids) - 1, -1, -1) if ids[n] in stops), None)
    intended = segment.text[: segment.answer_end]
    inside = sum(intended.count(text) for text in stops.values())
    for position, token in enumerate(ids):
        if token in stops:
            if inside == 0:
                return position + 1
            inside -= 1
    return None


def _refused(row: Row, message: str, hint: str | None) -> DataError:
    return DataError(message, where=f"line {row.line}", hint=hint)
