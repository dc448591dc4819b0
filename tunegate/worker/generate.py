"""Greedy answers to many requests: the prefix that all share once, then a token a row a step.

A job has one model and any number of tasks; a task is a file of requests and the file that its
answers are appended to. Ids that are answered already are skipped, so a job that was cut goes on.
It forms the same batches as if it had not been cut, since the last bits of a sum depend on what is
computed with it, and of two tokens that are all but equally likely they choose one.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunegate.errors import UsageError
from tunegate.types import Json, Turn
from tunegate.worker import pack
from tunegate.worker.attention import KeyValues
from tunegate.worker.constrain import Constraint, Processor, forced
from tunegate.worker.emit import Emit
from tunegate.worker.encode import prompt_ids
from tunegate.worker.feed import serving
from tunegate.worker.model import Base, load_merged

if TYPE_CHECKING:
    from torch import Tensor

    from tunegate.worker.template import Template
    from tunegate.worker.tokens import Tokenizer

PROMPT_TOKENS = 8192
"""Most prompt tokens, shared ones apart, that one batch computes at once."""


@dataclass
class Answer:
    """One request and what came out."""

    id: str
    prompt: list[int]
    tokens: list[int] = field(default_factory=list)
    """Without the stop token."""
    finish: str | None = None
    """`stop` or `length`; None while it is being written."""
    state: Any = None
    """Of the grammar, in constrained decoding."""

    @property
    def generated(self) -> int:
        """Tokens that were written, the stop token with them."""
        return len(self.tokens) + (self.finish == "stop")


def run(job: Json, emit: Emit) -> None:
    """Answer every request of every task of a `generate` job."""
    frozen = job["frozen"]
    base_dir = Path(job.get("base_dir") or frozen["base"]["dir"])
    adapter = Path(job["adapter_dir"]) if job.get("adapter_dir") else None
    tasks = job.get("tasks") or [job]
    waiting = [(task, list(_requests(task))) for task in tasks]
    total = sum(len(requests) for _, requests in waiting)
    emit.progress("load", 0, 1)
    base = load_merged(base_dir, adapter, precision=_precision(job))
    if base.plain:
        emit.log(f"requests are padded, not packed: {base.plain}")
    tokenizer, template = serving(frozen)
    title = job.get("title") or "generate"
    count = 0
    emit.progress(title, count, total)
    free: dict[tuple[int, ...], list[int]] = {}
    # Only what is taken over is worth its place in the file.
    keeps_ids = any(task.get("constrained") for task in tasks)
    for task, requests in waiting:
        out = Path(task["out"])
        done = _answered(out)
        answers = [
            Answer(str(r["id"]), _prompt(r, tokenizer=tokenizer, template=template))
            for r in requests
        ]
        count += sum(answer.id in done for answer in answers)
        writer = Writer(
            base,
            stop_ids=frozen["tokenizer"]["stop_ids"],
            max_new_tokens=int(task["max_new_tokens"]),
            constraint=_constraint(task, base, base_dir, frozen["tokenizer"]["stop_ids"]),
        )
        ready = [answer for answer in answers if _taken_over(answer, free, writer)]
        lines = [_line(answer, tokenizer) for answer in ready if answer.id not in done]
        count += _append(out, lines)
        pending = [answer for answer in answers if answer.finish is None]
        prefix = pack.shared_prefix([answer.prompt for answer in answers])
        batch_size = int(job.get("batch_size") or frozen["settings"]["eval"]["batch_size"])
        for batch in writer.answer(pending, prefix=prefix, batch_size=batch_size, done=set(done)):
            new = [answer for answer in batch if answer.id not in done]
            count += _append(out, [_line(a, tokenizer, ids=keeps_ids) for a in new])
            emit.progress(title, count, total)
        if writer.constraint is None and keeps_ids:
            free |= _stopped(answers, done)
    emit.log(f"{title}: {total} requests answered")


def _taken_over(answer: Answer, free: Mapping[tuple[int, ...], list[int]], writer: Writer) -> bool:
    """Take over the free answer to the same prompt where the grammar allows it as it is.

    Greedy decoding under the grammar would choose the same tokens: each was the likeliest of all,
    so it is the likeliest of those allowed.
    """
    tokens = free.get(tuple(answer.prompt))
    if tokens is None or writer.constraint is None or len(tokens) > writer.max_new_tokens:
        return False
    if not writer.constraint.accepts(tokens):
        return False
    answer.tokens, answer.finish = list(tokens), "stop"
    return True


def _stopped(
    answers: Sequence[Answer], done: Mapping[str, Json]
) -> dict[tuple[int, ...], list[int]]:
    """Prompt -> tokens of the answers that ended by themselves, now or before the job was cut."""
    found = {tuple(a.prompt): a.tokens for a in answers if a.finish == "stop"}
    for answer in answers:
        line = done.get(answer.id)
        if line is not None and line["finish"] == "stop" and "ids" in line:
            found[tuple(answer.prompt)] = line["ids"]
    return found


class Writer:
    """Writes answers with one model under one set of limits."""

    def __init__(
        self,
        base: Base,
        *,
        stop_ids: Iterable[int],
        max_new_tokens: int,
        constraint: Constraint | None = None,
    ) -> None:
        self.base = base
        self.stop_ids = frozenset(stop_ids)
        self.max_new_tokens = max_new_tokens
        self.constraint = constraint

    def answer(
        self,
        answers: Sequence[Answer],
        *,
        prefix: int,
        batch_size: int,
        done: Set[str] = frozenset(),
    ) -> Iterator[list[Answer]]:
        """Fill in the answers, a batch at a time; all prompts share their first `prefix` tokens.

        A batch all of whose ids are `done` is passed over.
        """
        import torch

        with torch.inference_mode():
            front = None
            is_open = any(answer.id not in done for answer in answers)
            if prefix and is_open and self.base.plain is None:
                front = self._front(answers[0].prompt[:prefix])
            for batch in _batches(answers, prefix=prefix, batch_size=batch_size):
                if all(answer.id in done for answer in batch):
                    continue
                if self.base.plain is None:
                    self._packed(batch, prefix=prefix, front=front)
                else:
                    self._padded(batch)
                yield batch

    def _front(self, prefix: list[int]) -> list[tuple[Tensor, Tensor]]:
        """Keys and values [K, P, D] of the shared prefix, a pair a layer."""
        cache = self._cache(None, capacity=len(prefix))
        self._forward([prefix], cached=[0], cache=cache, base_length=0)
        size = len(prefix)
        return [(e[0][:, 0, :size], e[1][:, 0, :size]) for e in cache.own if e is not None]

    def _cache(self, front: list[tuple[Tensor, Tensor]] | None, *, capacity: int) -> KeyValues:
        layers = self.base.model.config.num_hidden_layers
        # One slot more than is needed takes what padding writes.
        return KeyValues(front, layers=layers, capacity=capacity + 1)

    def _forward(
        self, feed: list[list[int]], *, cached: list[int], cache: KeyValues, base_length: int
    ) -> Tensor:
        """Run new tokens of each row; returns logits [B, V] after the last one of each."""
        import torch

        device: Any = self.base.device
        ids, positions, layout = pack.lay(feed, cached=cached, base=base_length)
        slots = torch.tensor(cached)[:, None] + torch.arange(layout.width)
        slots = slots.clamp(max=cache.capacity - 1)
        rows = torch.arange(len(feed))[:, None] * cache.capacity
        cache.slots = (rows + slots).flatten().to(device)
        cache.reach = min(max(cached) + layout.width, cache.capacity)
        layout = layout.to(device)
        layout.blocked = layout.blocked[..., : cache.reach]
        layout.cache = cache
        last = torch.tensor([len(new) for new in feed]).cumsum(0) - 1
        out = self.base.model(
            input_ids=ids.to(device), position_ids=positions.to(device), layout=layout,
            logits_to_keep=last.to(device), use_cache=False,
        )  # fmt: skip
        logits: Tensor = out.logits[0]
        return logits

    def _packed(
        self, batch: list[Answer], *, prefix: int, front: list[tuple[Tensor, Tensor]] | None
    ) -> None:
        import torch

        feed = [self._begin(answer)[prefix:] for answer in batch]
        room = max(len(answer.prompt) for answer in batch) - prefix + self.max_new_tokens
        cache = self._cache(front, capacity=room)
        cached = [0] * len(batch)
        alive = [answer for answer in batch if answer.finish is None]
        if len(alive) < len(batch):  # the grammar alone filled max_new_tokens
            feed = [new for new, answer in zip(feed, batch, strict=True) if answer.finish is None]
            cached = [0] * len(alive)
        while alive:
            logits = self._forward(feed, cached=cached, cache=cache, base_length=prefix)
            cached = [old + len(new) for old, new in zip(cached, feed, strict=True)]
            chosen = self._choose(logits, alive)
            feed = [self._take(answer, token) for answer, token in zip(alive, chosen, strict=True)]
            left = [row for row, answer in enumerate(alive) if answer.finish is None]
            if 0 < len(left) < len(alive):
                cache.keep(torch.tensor(left, device=logits.device))
            if len(left) < len(alive):
                alive = [alive[row] for row in left]
                feed = [feed[row] for row in left]
                cached = [cached[row] for row in left]

    def _begin(self, answer: Answer) -> list[int]:
        """The tokens to run first: the prompt, and what the grammar forces after it."""
        if self.constraint is None:
            return answer.prompt
        answer.state = self.constraint.begin()
        return answer.prompt + self._extend(answer, forced(answer.state))

    def _choose(self, logits: Tensor, alive: Sequence[Answer]) -> list[int]:
        if self.constraint is not None:
            logits = self.constraint.mask(logits, [answer.state for answer in alive])
        chosen: list[int] = logits.argmax(dim=-1).tolist()
        return chosen

    def _take(self, answer: Answer, token: int) -> list[int]:
        """Give an answer its next token; returns the tokens to run for it."""
        if token in self.stop_ids:
            answer.finish = "stop"
            return []
        new = [token]
        if answer.state is not None:
            answer.state.consume_token(token)
            new += forced(answer.state)
        return self._extend(answer, new)

    def _extend(self, answer: Answer, new: list[int]) -> list[int]:
        new = new[: self.max_new_tokens - len(answer.tokens)]
        answer.tokens += new
        if answer.state is not None and answer.state.is_stopped():
            answer.finish = "stop"  # only the stop token is left to write
        elif len(answer.tokens) >= self.max_new_tokens:
            answer.finish = "length"
        return new

    def _padded(self, batch: list[Answer]) -> None:
        """Through transformers' own generate, for attention that cannot be packed."""
        import torch
        from transformers import GenerationConfig, LogitsProcessorList

        width = max(len(answer.prompt) for answer in batch)
        pad = min(self.stop_ids)
        ids = torch.tensor([[pad] * (width - len(a.prompt)) + a.prompt for a in batch])
        mask = torch.tensor([[0] * (width - len(a.prompt)) + [1] * len(a.prompt) for a in batch])
        rules = [Processor(self.constraint, len(batch))] if self.constraint else []
        device: Any = self.base.device
        out = self.base.model.generate(
            input_ids=ids.to(device), attention_mask=mask.to(device),
            logits_processor=LogitsProcessorList(rules),
            generation_config=GenerationConfig(
                do_sample=False, max_new_tokens=self.max_new_tokens, use_cache=True,
                eos_token_id=sorted(self.stop_ids), pad_token_id=pad,
            ),
        )  # fmt: skip
        for answer, tokens in zip(batch, out[:, width:].tolist(), strict=True):
            end = next((at for at, t in enumerate(tokens) if t in self.stop_ids), None)
            answer.tokens = tokens[:end]
            answer.finish = "length" if end is None else "stop"


def _batches(answers: Sequence[Answer], *, prefix: int, batch_size: int) -> Iterator[list[Answer]]:
    """Answers of like prompt length together, under both limits."""
    batch: list[Answer] = []
    tokens = 0
    for answer in sorted(answers, key=lambda a: (-len(a.prompt), a.id)):
        own = len(answer.prompt) - prefix
        if batch and (len(batch) == batch_size or tokens + own > PROMPT_TOKENS):
            yield batch
            batch, tokens = [], 0
        batch.append(answer)
        tokens += own
    if batch:
        yield batch


def _precision(job: Json) -> str:
    """That of the training, so that the base's weights are rounded as the adapter met them."""
    found: str = job.get("precision") or job["frozen"]["settings"]["train"]["precision"]
    return "bf16" if found == "bf16" else "fp32"


def _requests(task: Json) -> Iterator[Json]:
    with Path(task["requests"]).open(encoding="utf-8") as handle:
        for number, line in enumerate(handle, start=1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise UsageError(
                    f"no JSON object: {error}", where=f"{task['requests']}:{number}"
                ) from error


def _prompt(request: Json, *, tokenizer: Tokenizer, template: Template) -> list[int]:
    turns = [Turn.from_json(turn) for turn in request["turns"]]
    tools = request.get("tools", ())
    return prompt_ids(turns, tokenizer=tokenizer, template=template, tools=tools)


def _constraint(
    task: Json, base: Base, base_dir: Path, stop_ids: Sequence[int]
) -> Constraint | None:
    if not task.get("constrained"):
        return None
    if not task.get("schema"):
        raise UsageError("constrained decoding needs a schema", hint="set task.schema")
    vocab = base.model.get_input_embeddings().weight.shape[0]
    return Constraint(task["schema"], base_dir=base_dir, vocab_size=vocab, stop_ids=stop_ids)


def _answered(out: Path) -> dict[str, Json]:
    """Id -> line of what the file answers; a line that a crash has torn is cut off first."""
    if not out.is_file():
        return {}
    data = out.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        os.truncate(out, len(whole))
    found = {}
    for text in whole.split(b"\n"):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            line = json.loads(text)
            found[str(line["id"])] = line
    return found


def _line(answer: Answer, tokenizer: Any, *, ids: bool = False) -> Json:
    line = {
        "id": answer.id,
        "output": tokenizer.decode(answer.tokens),
        "finish": answer.finish,
        "tokens": answer.generated,
        "prompt_tokens": len(answer.prompt),
    }
    return {**line, "ids": answer.tokens} if ids else line


def _append(out: Path, lines: Sequence[Json]) -> int:
    """Append the lines and wait for the disk; returns how many they are."""
    if not lines:
        return 0
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as handle:
        handle.write("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        handle.flush()
        os.fsync(handle.fileno())
    return len(lines)
