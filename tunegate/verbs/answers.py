"""Questions to a model and its answers, kept so that a second call goes on from the first."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tunegate import drive, platforms
from tunegate.errors import DataError, EvalError
from tunegate.store import digest_of, write_atomic
from tunegate.types import Json, Row, Turn
from tunegate.verbs import shots
from tunegate.verbs.prepare import train_job, worker_frozen
from tunegate.verbs.run import Run, cache_dir
from tunegate.worker.encode import answer_text
from tunegate.worker.feed import serving
from tunegate.worker.rows import columns_of, read_rows
from tunegate.worker.template import Template
from tunegate.worker.tokens import Tokenizer

TITLES = {
    "raw-select": "choose the base's prompt",
    "raw": "answers of the base",
    "tuned": "answers of the tuned model",
}
"""What a generate job is called while it runs."""


def gold(run: Run) -> list[Json]:
    """Every row that is scored: {"id", "slice", "answer" | "check", "kind", "text"}. Ids are
    unique.
    """
    out: list[Json] = []
    seen: dict[str, str] = {}
    for name, row, identity in eval_rows(run):
        if identity in seen:
            raise DataError(
                f"the row id {identity!r} stands in {seen[identity]} and in {name}",
                hint="give every evaluation row an id of its own",
            )
        seen[identity] = name
        asked = next((turn.content for turn in reversed(row.prompt) if turn.role == "user"), "")
        item: Json = {"id": identity, "slice": name, "text": asked}
        item.update({key: row.meta[key] for key in ("kind", "check") if key in row.meta})
        if row.answer is not None:
            item["answer"] = reference(row, run)
        out.append(item)
    return out


def reference(row: Row, run: Run) -> str:
    """The reference answer as the model would write it, tool calls too."""
    position = row.answer_at
    if position is None or not row.turns[position].tool_calls:
        return row.answer or ""
    tokenizer, template = _rendering(run)
    return answer_text(row, tokenizer=tokenizer, template=template)


@lru_cache(maxsize=1)
def _rendering(run: Run) -> tuple[Tokenizer, Template]:
    """The tokenizer and the template of a run, read once for all of its rows."""
    return serving(worker_frozen(run))


def eval_rows(run: Run) -> Iterator[tuple[str, Row, str]]:
    """(slice, row, id) of the test file and every slice, in file order."""
    files = run.frozen["data"]
    for key in ["test", *(name for name in files if name.startswith("slice:"))]:
        name = key.removeprefix("slice:")
        path = run.source_dir / files[key]["path"]
        for row in read_rows(path, columns=columns_of(run.frozen, key)):
            own = row.meta.get("id")
            yield name, row, f"{name}:{row.index}" if own is None else str(own)


def _is_rule(run: Run, name: str) -> bool:
    slices = run.frozen["settings"]["eval"]["slices"]
    return name != "test" and slices[name]["kind"] == "rule"


def requests(
    run: Run, candidate: Json | None, examples: Sequence[Row]
) -> tuple[list[Json], list[Json]]:
    """Requests for rows scored by class, and for rows scored by rule.

    Rows by class get the candidate's system prompt and worked examples (None: the serving prompt
    alone). Rows by rule ask something else altogether, so they get no prompt of ours.
    """
    system = candidate["text"] if candidate else run.frozen["prompt"]["system"]
    by_class, by_rule = [], []
    for name, row, identity in eval_rows(run):
        if _is_rule(run, name):
            by_rule.append(request(identity, row, row.prompt))
        else:
            by_class.append(request(identity, row, shots.prompt(row, system, examples)))
    return by_class, by_rule


def request(identity: str, row: Row, turns: Sequence[Turn]) -> Json:
    """One request of a task: what is asked in the row's place, with the row's tools."""
    out: Json = {"id": identity, "turns": [turn.to_json() for turn in turns]}
    return {**out, "tools": list(row.tools)} if row.tools else out


def task(
    run: Run,
    name: str,
    items: list[Json],
    *,
    out: str | None = None,
    new_tokens: int | None = None,
    constrained: bool = False,
) -> Json:
    """One task of a generate job: a file of requests, and the file that its answers go to.

    `out` is the answers' file below eval/ (left out: `name`); `new_tokens` bounds an answer (left
    out: the run's own bound); `constrained` forces the task's schema.
    """
    source = run.store.path(f"eval/jobs/{name}.requests.jsonl")
    write_atomic(source, "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items))
    return {
        "name": name,
        "ids": [item["id"] for item in items],
        "requests": str(source),
        "out": str(run.store.path(f"eval/{out or name}.jsonl")),
        "max_new_tokens": new_tokens or run.frozen["settings"]["eval"]["max_new_tokens"],
        "constrained": constrained,
        "schema": run.frozen["settings"]["task"]["schema"] if constrained else None,
    }


def generate(run: Run, name: str, tasks: list[Json], *, adapter: Path | None) -> float:
    """Run the tasks in one worker process where any is open. Returns the seconds that it took.

    A task that is done goes along: the worker passes over it, but may take its answers over.
    """
    if not any(_is_open(item) for item in tasks):
        return 0.0
    frozen = worker_frozen(run)
    job_dir = run.store.path(f"eval/jobs/{name}")
    job = {
        **train_job(run, frozen),
        "kind": "generate",
        "attempt_dir": str(job_dir),
        "adapter_dir": str(adapter) if adapter else None,
        "batch_size": frozen["settings"]["eval"]["batch_size"],
        "title": TITLES[name],
        "tasks": [{k: v for k, v in item.items() if k != "ids"} for item in tasks],
    }
    began = time.monotonic()
    host = platforms.load("local")
    drive.run(host, job_dir, job, python=run.python, cache_dir=cache_dir(), show=run.show)
    return round(time.monotonic() - began, 1)


def _is_open(item: Json) -> bool:
    have = {row["id"] for row in drive.read_outputs(Path(item["out"]))}
    return not set(item["ids"]) <= have


def keep_only(run: Run, column: str, key: Any) -> None:
    """Move answers aside that were given under other inputs than `key`."""
    digest = digest_of(key)
    path = run.store.path(f"eval/{column}.key")
    old = path.read_text().strip() if path.is_file() else None
    if old != digest:
        for name in (f"eval/{column}.jsonl", f"eval/{column}.selection", f"eval/{column}.json"):
            if run.store.path(name).exists():
                run.store.retire(name, old or "unknown")
        write_atomic(path, digest + "\n")


def finish(
    run: Run, column: str, wanted: Sequence[str], payload: Json, read: Sequence[str]
) -> None:
    """Write the column's stage file once every row is answered exactly once."""
    rows = run.store.read_jsonl(f"eval/{column}.jsonl")
    have = [row["id"] for row in rows]
    missing = sorted(set(wanted) - set(have))
    if missing:
        raise EvalError(
            f"column {column} lacks {len(missing)} of {len(wanted)} rows, first {missing[0]}",
            hint=f"tunegate eval {run.argument} --column {column} goes on",
        )
    body = {"rows": len(wanted), "answers_sha256": answers_sha256(rows), **payload}
    run.store.write(f"eval/{column}.json", body, read=read, made=run.made("eval"))


def answers_sha256(rows: Iterable[Json]) -> str:
    """Digest of a column's answers, whatever the order in which they came."""
    return digest_of({row["id"]: [row["output"], row["finish"]] for row in rows})


def is_done(run: Run, column: str, read: Sequence[str]) -> bool:
    """Whether the column's stage file stands and was made from the inputs of now."""
    name = f"eval/{column}.json"
    if not run.store.exists(name):
        return False
    old = run.store.read(name)
    return all(run.store.digest(source) == old["read"].get(source) for source in read)
