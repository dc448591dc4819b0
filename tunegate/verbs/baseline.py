"""The raw column: the base model with the prompt, examples and decoding that suit it best."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from tunegate import metrics
from tunegate.errors import EvalError
from tunegate.types import Json, Row
from tunegate.verbs import shots
from tunegate.verbs.answers import (
    finish,
    generate,
    is_done,
    keep_only,
    reference,
    request,
    requests,
    task,
)
from tunegate.verbs.run import Run
from tunegate.worker.rows import columns_of, read_rows


def fill_raw(run: Run) -> None:
    """Choose the prompt on validation rows, then answer every evaluation row with it."""
    read = ("frozen.json#evaluation",)
    if is_done(run, "raw", read):
        return
    settings = run.frozen["settings"]["eval"]
    keep_only(run, "raw", run.store.digest("frozen.json#evaluation"))
    selection = _select(run)
    chosen = selection["chosen"]
    candidate = next(c for c in settings["raw"]["prompts"] if c["name"] == chosen["prompt"])
    examples = shots.pick(_rows(run, "train"), chosen["shots"], run.frozen["settings"]["task"])
    by_class, by_rule = requests(run, candidate, examples)
    tasks = [
        task(run, "raw", by_class, constrained=chosen["constrained"]),
        task(run, "raw-rule", by_rule, out="raw", new_tokens=settings["rule_max_new_tokens"]),
    ]
    seconds = generate(run, "raw", tasks, adapter=None)
    wanted = [item["id"] for item in by_class + by_rule]
    payload = {**selection, "seconds": round(seconds + selection["seconds"], 1)}
    finish(run, "raw", wanted, payload, read)


def _select(run: Run) -> Json:
    """The prompt, number of worked examples and decoding with the best validation accuracy."""
    raw = run.frozen["settings"]["eval"]["raw"]
    rows = _rows(run, "validation")
    rows = rows[: raw["validation_rows"] or len(rows)]
    examples = _rows(run, "train")
    tasks, found = [], []
    for prompt, count, constrained in product(raw["prompts"], raw["shots"], raw["constrained"]):
        name = f"{prompt['name']}-{count}shot{'-schema' if constrained else ''}"
        shown = shots.pick(examples, count, run.frozen["settings"]["task"])
        items = [
            request(f"validation:{row.index}", row, shots.prompt(row, prompt["text"], shown))
            for row in rows
        ]
        out = f"raw.selection/{name}"
        tasks.append(task(run, f"select-{name}", items, out=out, constrained=constrained))
        found.append(
            {"prompt": prompt["name"], "shots": count, "constrained": constrained, "file": out}
        )
    seconds = generate(run, "raw-select", tasks, adapter=None)
    gold_rows = {f"validation:{row.index}": row for row in rows}
    for item in found:
        item.update(_score(run, f"eval/{item['file']}.jsonl", gold_rows))
    best = max(found, key=lambda c: (c["strict"], c["tolerant"], not c["constrained"], -c["shots"]))
    return {"chosen": best, "candidates": found, "seconds": seconds}


def _score(run: Run, file: str, gold_rows: Mapping[str, Row]) -> Json:
    """Strict and tolerant accuracy of one candidate on the validation rows."""
    task = run.frozen["settings"]["task"]
    metric = metrics.load("label" if task["labels"] else "exact")
    outputs = {row["id"]: row["output"] for row in run.store.read_jsonl(file)}
    if set(outputs) != set(gold_rows):
        raise EvalError(f"{file} holds {len(outputs)} of {len(gold_rows)} validation rows")
    scores = [
        metric.score(outputs[i], {"answer": reference(row, run)}, task)
        for i, row in gold_rows.items()
    ]
    count = len(scores)
    return {
        "strict": sum(bool(score["strict"]) for score in scores) / count,
        "tolerant": sum(bool(score["tolerant"]) for score in scores) / count,
        "rows": count,
    }


def _rows(run: Run, split: str) -> list[Row]:
    path = run.source_dir / run.frozen["data"][split]["path"]
    return list(read_rows(path, columns=columns_of(run.frozen, split)))
