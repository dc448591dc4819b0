"""The three columns: the base with its best prompt, the tuned model, the teacher.

The best prompt is chosen on validation rows; test rows are read once a column. Every answer is
appended as it comes and a second call goes on where the first stopped.
"""

from __future__ import annotations

import json
from pathlib import Path

from tunegate import compare
from tunegate.compare.wording import many
from tunegate.drive import Show, no_show
from tunegate.errors import EvalError, UsageError
from tunegate.store import sha256_file
from tunegate.types import Json
from tunegate.verbs.answers import (
    answers_sha256,
    finish,
    generate,
    gold,
    is_done,
    keep_only,
    requests,
    task,
)
from tunegate.verbs.baseline import fill_raw
from tunegate.verbs.prepare import ensure_frozen
from tunegate.verbs.run import Result, Run, show_path
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
        if column != "raw":
            opened.require("check", "train")
        for name in [column] if column else COLUMNS:
            fill(opened, name)
        if column is not None:
            content = opened.store.read(f"eval/{column}.json")
            return Result(
                "eval",
                opened.argument,
                f"column {column}: {many(content['rows'], 'row')} answered",
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
    """Accuracy of each column on the main slice, with its interval."""
    columns = report["slices"][report["main"]]["columns"]
    return {name: c["strict"]["accuracy"] for name, c in columns.items() if c is not None}


def fill(run: Run, column: str) -> None:
    """Answer every row of a column that is not answered yet."""
    if column == "teacher":
        if run.frozen["settings"]["eval"]["teacher"] is not None:
            _teacher(run)
        return
    need_trainer()
    {"raw": fill_raw, "tuned": _tuned}[column](run)


def _tuned(run: Run) -> None:
    read = ("frozen.json#evaluation", "trained.json")
    if not run.store.exists("trained.json"):
        raise UsageError("nothing is trained yet", hint=f"tunegate train {run.argument}")
    if is_done(run, "tuned", read):
        return
    trained = run.store.read("trained.json")
    settings = run.frozen["settings"]["eval"]
    keep_only(
        run, "tuned", [run.store.digest("frozen.json#evaluation"), trained["adapter"]["sha256"]]
    )
    by_class, by_rule = requests(run, None, ())
    tasks = [
        task(run, "tuned", by_class),
        task(run, "tuned-rule", by_rule, out="tuned", new_tokens=settings["rule_max_new_tokens"]),
    ]
    adapter = run.store.path(trained["adapter"]["path"])
    weights = adapter / "adapter_model.safetensors"
    if not weights.is_file() or sha256_file(weights) != trained["adapter"]["sha256"]:
        raise EvalError(
            "the adapter on disk is not the one that the receipt names",
            kind="columns_differ",
            where=str(weights),
            hint=f"tunegate train {run.argument} trains it again",
        )
    seconds = generate(run, "tuned", tasks, adapter=adapter)
    wanted = [item["id"] for item in by_class + by_rule]
    finish(
        run,
        "tuned",
        wanted,
        {"adapter_sha256": trained["adapter"]["sha256"], "seconds": seconds},
        read,
    )


def _teacher(run: Run) -> None:
    """Take the teacher's recorded answers for the rows that are scored."""
    read = ("frozen.json#evaluation",)
    if is_done(run, "teacher", read):
        return
    path = run.source_dir / run.frozen["data"]["teacher"]["path"]
    recorded = {str(row.meta.get("id")): row.answer or "" for row in read_rows(path)}
    wanted = [item["id"] for item in gold(run)]
    lines = [
        json.dumps(
            {"id": i, "output": recorded[i], "finish": "stop", "tokens": None}, ensure_ascii=False
        )
        for i in wanted
        if i in recorded
    ]
    run.store.write_text("eval/teacher.jsonl", "".join(line + "\n" for line in lines))
    missing = [i for i in wanted if i not in recorded]
    if missing:
        raise EvalError(
            f"the teacher's file lacks {len(missing)} of {len(wanted)} rows, first {missing[0]}",
            where=str(path),
            hint="add the rows, or leave eval.teacher out of the run file",
        )
    finish(run, "teacher", wanted, {"seconds": 0}, read)


def _refuse_other_answers(run: Run, name: str, rows: dict[str, Json], content: Json) -> None:
    if answers_sha256(rows.values()) != content["answers_sha256"]:
        raise EvalError(
            f"the answers of column {name} are not those that were generated",
            kind="columns_differ",
            where=str(run.store.path(f"eval/{name}.jsonl")),
            hint=f"delete eval/{name}.* and run tunegate eval {run.argument} again",
        )


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
        _refuse_other_answers(run, name, columns[name] or {}, content)
        chosen = content.get("chosen") or {}
        about[name] = {
            key: chosen[key] for key in ("prompt", "shots", "constrained") if key in chosen
        }
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
