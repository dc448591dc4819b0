"""The three columns: the base with its best prompt, the tuned model, the teacher.

The best prompt is chosen on validation rows; test rows are read once a column. Every answer is appended
as it comes and a second call goes on where the first stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tunegate import compare, drive, metrics, platforms
from tunegate.drive import Show, no_show
from tunegate.errors import DataError, EvalError, UsageError
from tunegate.store import digest_of, write_atomic
from tunegate.types import Json, Row, Turn
from tunegate.verbs import shots
from tunegate.verbs.prepare import ensure_frozen, train_job, worker_frozen
from tunegate.verbs.run import Result, Run, cache_dir, show_path
from tunegate.verbs.train import need_trainer
from tunegate.worker.rows import read_rows

COLUMNS = ("raw", "tuned", "teacher")


def eval(run: str | Path, *, column: str | None = None, show: Show = no_show) -> Result:
    """Fill the columns and compare them; with `column`, fill only that one."""
    if column is not None and column not in COLUMNS:
        raise UsageError(f"no column is called {column!r}", hint="columns: " + ", ".join(COLUMNS))
    opened = Run(run, show=show)
    with opened.store.lock("eval"):
        ensure_frozen(opened)
        for name in [column] if column else COLUMNS:
            fill(opened, name)
        if column is not None:
            content = opened.store.read(f"eval/{column}.json")
            return Result(
                "eval",
                opened.argument,
                f"column {column}: {content['rows']} rows answered",
                {"column": column, "rows": content["rows"], "chosen": content.get("chosen")},
                opened.next(),
            )
        report = run_compare(opened)
    return Result(
        "eval",
        opened.argument,
        report["headline"],
        {"report": show_path(opened.store.path("report.json")), "columns": _short(report)},
        opened.next(),
    )


def _short(report: Json) -> Json:
    return {
        name: {"accuracy": column["slices"]["test"]["accuracy"]}
        for name, column in report["columns"].items()
        if column is not None
    }


def fill(run: Run, column: str) -> None:
    """Answer every row of a column that is not answered yet."""
    if column == "teacher":
        if run.frozen["settings"]["eval"]["teacher"] is not None:
            _teacher(run)
        return
    need_trainer()
    {"raw": _raw, "tuned": _tuned}[column](run)


def gold(run: Run) -> list[Json]:
    """Every row that is scored: {"id", "slice", "answer" | "check", "kind", "text"}. Ids are unique."""
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
            item["answer"] = row.answer
        out.append(item)
    return out


def eval_rows(run: Run) -> Iterator[tuple[str, Row, str]]:
    """(slice, row, id) of the test file and every slice, in file order."""
    files = run.frozen["data"]
    for key in ["test", *(name for name in files if name.startswith("slice:"))]:
        name = key.removeprefix("slice:")
        path = run.source_dir / files[key]["path"]
        for row in read_rows(path):
            yield name, row, str(row.meta.get("id") or f"{name}:{row.index}")


def _is_rule(run: Run, name: str) -> bool:
    slices = run.frozen["settings"]["eval"]["slices"]
    return name != "test" and slices[name]["kind"] == "rule"


def requests(run: Run, candidate: Json | None, examples: Sequence[Row]) -> tuple[list[Json], list[Json]]:
    """Requests for rows scored by class, and for rows scored by rule.

    Rows by class get the candidate's system prompt and worked examples (None: the serving prompt alone).
    Rows by rule ask something else altogether, so they get no prompt of ours.
    """
    system = candidate["text"] if candidate else run.frozen["prompt"]["system"]
    by_class, by_rule = [], []
    for name, row, identity in eval_rows(run):
        if _is_rule(run, name):
            by_rule.append({"id": identity, "turns": _turns(row.prompt)})
        else:
            by_class.append({"id": identity, "turns": _turns(shots.prompt(row, system, examples))})
    return by_class, by_rule


def _turns(turns: Sequence[Turn]) -> list[Json]:
    return [{"role": turn.role, "content": turn.content} for turn in turns]


def _task(
    run: Run, name: str, items: list[Json], out: str, *, new_tokens: int, constrained: bool
) -> Json:
    """One task of a generate job: a file of requests and the file that its answers go to."""
    source = run.store.path(f"eval/jobs/{name}.requests.jsonl")
    import json

    write_atomic(source, "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items))
    return {
        "name": name,
        "requests": str(source),
        "out": str(run.store.path(out)),
        "max_new_tokens": new_tokens,
        "constrained": constrained,
        "schema": run.frozen["settings"]["task"]["schema"] if constrained else None,
    }


def _generate(run: Run, name: str, tasks: list[Json], *, adapter: Path | None) -> float:
    """Run the tasks in one worker process. Returns the seconds that it took."""
    frozen = worker_frozen(run)
    job = {
        **train_job(run, frozen),
        "kind": "generate",
        "attempt_dir": str(run.store.path(f"eval/jobs/{name}")),
        "base_dir": frozen["base"]["dir"],
        "adapter_dir": str(adapter) if adapter else None,
        "batch_size": frozen["settings"]["eval"]["batch_size"],
        "title": name,
        "tasks": tasks,
    }
    began = time.monotonic()
    drive.run(
        platforms.load("local"),
        run.store.path(f"eval/jobs/{name}"),
        job,
        python=run.python,
        cache_dir=cache_dir(),
        show=run.show,
    )
    return round(time.monotonic() - began, 1)


def _keep_only(run: Run, column: str, key: Any) -> None:
    """Move answers aside that were given under other inputs than `key`."""
    digest = digest_of(key)
    path = run.store.path(f"eval/{column}.key")
    old = path.read_text().strip() if path.is_file() else None
    if old != digest:
        for name in (f"eval/{column}.jsonl", f"eval/{column}.selection", f"eval/{column}.json"):
            if run.store.path(name).exists():
                run.store.retire(name, old or "unknown")
        write_atomic(path, digest + "\n")


def _finish(run: Run, column: str, wanted: Sequence[str], payload: Json, read: Sequence[str]) -> None:
    """Write the column's stage file once every row is answered exactly once."""
    rows = run.store.read_jsonl(f"eval/{column}.jsonl")
    have = [row["id"] for row in rows]
    missing = sorted(set(wanted) - set(have))
    if missing:
        raise EvalError(
            f"column {column} lacks {len(missing)} of {len(wanted)} rows, first {missing[0]}",
            hint=f"tunegate eval {run.argument} --column {column} goes on",
        )
    answers = {row["id"]: [row["output"], row["finish"]] for row in rows}
    body = {"rows": len(wanted), "answers_sha256": digest_of(answers), **payload}
    run.store.write(f"eval/{column}.json", body, read=read, made=run.made("eval"))


def _done(run: Run, column: str, read: Sequence[str]) -> bool:
    name = f"eval/{column}.json"
    if not run.store.exists(name):
        return False
    old = run.store.read(name)
    return all(run.store.digest(source) == old["read"].get(source) for source in read)


def _raw(run: Run) -> None:
    read = ("frozen.json#evaluation",)
    if _done(run, "raw", read):
        return
    settings = run.frozen["settings"]["eval"]
    _keep_only(run, "raw", run.store.digest("frozen.json#evaluation"))
    selection = _select(run)
    chosen = selection["chosen"]
    candidate = next(c for c in settings["raw"]["prompts"] if c["name"] == chosen["prompt"])
    examples = shots.pick(_train_rows(run), chosen["shots"], run.frozen["settings"]["task"])
    by_class, by_rule = requests(run, candidate, examples)
    tasks = [
        _task(run, "raw", by_class, "eval/raw.jsonl",
              new_tokens=settings["max_new_tokens"], constrained=chosen["constrained"]),
        _task(run, "raw-rule", by_rule, "eval/raw.jsonl",
              new_tokens=settings["rule_max_new_tokens"], constrained=False),
    ]  # fmt: skip
    seconds = _generate(run, "raw", [t for t in tasks if t], adapter=None)
    wanted = [item["id"] for item in by_class + by_rule]
    _finish(run, "raw", wanted, {"chosen": chosen, "candidates": selection["candidates"],
                                 "seconds": seconds + selection["seconds"]}, read)  # fmt: skip


def _select(run: Run) -> Json:
    """The prompt, number of worked examples and decoding with the best validation accuracy."""
    raw = run.frozen["settings"]["eval"]["raw"]
    rows = list(read_rows(run.source_dir / run.frozen["data"]["validation"]["path"]))
    if raw["validation_rows"]:
        rows = rows[: raw["validation_rows"]]
    tasks, found = [], []
    for prompt in raw["prompts"]:
        for count in raw["shots"]:
            for constrained in raw["constrained"]:
                name = f"{prompt['name']}-{count}shot{'-schema' if constrained else ''}"
                examples = shots.pick(_train_rows(run), count, run.frozen["settings"]["task"])
                items = [
                    {"id": f"validation:{row.index}", "turns": _turns(shots.prompt(row, prompt["text"], examples))}
                    for row in rows
                ]
                tasks.append(
                    _task(run, f"select-{name}", items, f"eval/raw.selection/{name}.jsonl",
                          new_tokens=run.frozen["settings"]["eval"]["max_new_tokens"], constrained=constrained)
                )  # fmt: skip
                found.append({"prompt": prompt["name"], "shots": count, "constrained": constrained, "name": name})
    seconds = _generate(run, "raw-select", tasks, adapter=None)
    gold_rows = {f"validation:{row.index}": row for row in rows}
    for item in found:
        item.update(_score(run, f"eval/raw.selection/{item['name']}.jsonl", gold_rows))
    best = max(found, key=lambda c: (c["strict"], c["tolerant"], not c["constrained"], -c["shots"]))
    return {"chosen": best, "candidates": found, "seconds": seconds}


def _score(run: Run, file: str, gold_rows: Mapping[str, Row]) -> Json:
    """Strict and tolerant accuracy of one candidate on the validation rows."""
    task = run.frozen["settings"]["task"]
    metric = metrics.load("label" if task["labels"] else "exact")
    outputs = {row["id"]: row["output"] for row in run.store.read_jsonl(file)}
    if set(outputs) != set(gold_rows):
        raise EvalError(f"{file} holds {len(outputs)} of {len(gold_rows)} validation rows")
    scores = [metric.score(outputs[i], {"answer": row.answer or ""}, task) for i, row in gold_rows.items()]
    count = len(scores)
    return {
        "strict": sum(bool(score["strict"]) for score in scores) / count,
        "tolerant": sum(bool(score["tolerant"]) for score in scores) / count,
        "rows": count,
    }


def _train_rows(run: Run) -> list[Row]:
    return list(read_rows(run.source_dir / run.frozen["data"]["train"]["path"]))


def _tuned(run: Run) -> None:
    read = ("frozen.json#evaluation", "trained.json")
    if not run.store.exists("trained.json"):
        raise UsageError("nothing is trained yet", hint=f"tunegate train {run.argument}")
    if _done(run, "tuned", read):
        return
    trained = run.store.read("trained.json")
    settings = run.frozen["settings"]["eval"]
    _keep_only(run, "tuned", [run.store.digest("frozen.json#evaluation"), trained["adapter"]["sha256"]])
    by_class, by_rule = requests(run, None, ())
    tasks = [
        _task(run, "tuned", by_class, "eval/tuned.jsonl",
              new_tokens=settings["max_new_tokens"], constrained=False),
        _task(run, "tuned-rule", by_rule, "eval/tuned.jsonl",
              new_tokens=settings["rule_max_new_tokens"], constrained=False),
    ]  # fmt: skip
    adapter = run.store.path(trained["adapter"]["path"])
    seconds = _generate(run, "tuned", tasks, adapter=adapter if adapter.is_dir() else adapter.parent)
    wanted = [item["id"] for item in by_class + by_rule]
    _finish(run, "tuned", wanted, {"adapter_sha256": trained["adapter"]["sha256"], "seconds": seconds}, read)


def _teacher(run: Run) -> None:
    """Take the teacher's recorded answers for the rows that are scored."""
    read = ("frozen.json#evaluation",)
    if _done(run, "teacher", read):
        return
    import json

    path = run.source_dir / run.frozen["data"]["teacher"]["path"]
    recorded = {str(row.meta.get("id")): row.answer or "" for row in read_rows(path)}
    wanted = [item["id"] for item in gold(run)]
    lines = [
        json.dumps({"id": i, "output": recorded[i], "finish": "stop", "tokens": None}, ensure_ascii=False)
        for i in wanted
        if i in recorded
    ]
    run.store.write_text("eval/teacher.jsonl", "".join(line + "\n" for line in lines))
    missing = [i for i in wanted if i not in recorded]
    if missing:
        raise EvalError(
            f"the teacher's file has no answer for {len(missing)} of {len(wanted)} rows, first {missing[0]}",
            where=str(path),
            hint="add the rows, or leave eval.teacher out of the run file",
        )
    _finish(run, "teacher", wanted, {"seconds": 0}, read)


def run_compare(run: Run) -> Json:
    """Score and compare the columns: report.json."""
    columns: dict[str, dict[str, Json] | None] = {}
    about: dict[str, Json] = {}
    for name in COLUMNS:
        if not run.store.exists(f"eval/{name}.json"):
            columns[name] = None
            continue
        columns[name] = compare.index_rows(run.store.read_jsonl(f"eval/{name}.jsonl"), column=name)
        content = run.store.read(f"eval/{name}.json")
        chosen = content.get("chosen") or {}
        about[name] = {key: chosen[key] for key in ("prompt", "shots", "constrained") if key in chosen}
        about[name]["seconds"] = content["seconds"]
        if "candidates" in content:
            about[name]["candidates"] = content["candidates"]
    teacher = run.frozen["settings"]["eval"]["teacher"] or {}
    notes = {"columns": about, "teacher_defines_gold": teacher.get("defines_gold", False)}
    payload = compare.compare(columns, gold(run), run.frozen, notes=notes)
    return run.store.write(
        "report.json",
        payload,
        read=("frozen.json#evaluation", "trained.json", "eval/raw.json"),
        made=run.made("eval"),
    )
