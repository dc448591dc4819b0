"""docs/results.md: what committed records of real runs say. No figure on the page is typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "results"
SOURCE = "docs/results/*.json (kept by docs/keep_result.py)"

Json = dict[str, Any]


def render() -> str:
    """The page's text."""
    lines = [
        "# Results",
        "",
        "Each table comes from the `record.json` of one run, with the command and the commit that "
        "made it. Brackets hold 95 % intervals. One run with one seed is not a benchmark.",
        "",
    ]
    for file in sorted(RESULTS.glob("*.json")):
        lines += _run(json.loads(file.read_text(encoding="utf-8")))
    return "\n".join(lines)


def _run(result: Json) -> list[str]:
    record = result["record"]
    receipt = record["training"]["receipt"]
    packages = ", ".join(f"{name} {version}" for name, version in receipt["environment"].items())
    return [
        f"## {record['name']}",
        "",
        f"{record['evaluation']['verdict']['sentence']}",
        "",
        *_columns(record["evaluation"]),
        "",
        *_differences(record["evaluation"]),
        "",
        *_fields(record["evaluation"]),
        f"- base: {record['base']['model']} {record['base']['revision']}",
        f"- data: {_rows(record['data'])}",
        f"- training: {receipt['steps']} steps, {receipt['train_s']:.0f} s, "
        f"peak memory {receipt['peak_memory_gib']:.1f} GiB, on {receipt['device']}",
        f"- time: {_times(record['times_s'])}",
        f"- command: `{result['command']}`, commit `{record['made']['commit'][:12]}`, "
        f"{record['made']['at'][:10]}",
        f"- versions: {packages}",
        "",
    ]


def _rows(data: Json) -> str:
    return ", ".join(f"{name} {file['rows']} rows" for name, file in data.items())


def _times(times: Json) -> str:
    return ", ".join(
        f"{name.removesuffix('_s')} {seconds:.0f} s" for name, seconds in times.items()
    )


def _columns(evaluation: Json) -> list[str]:
    lines = [
        "| slice | column | strict | tolerant | fits the schema | escape recall | cut off |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, part in evaluation["slices"].items():
        for column, table in part["columns"].items():
            if table is not None:
                cells = [
                    _rate(table[key]) for key in ("strict", "tolerant", "schema", "escape_recall")
                ]
                cells.append(_rate(table["truncated"], interval=False))
                lines.append(f"| {name} ({part['n']}) | {column} | {' | '.join(cells)} |")
        majority = part["majority"]
        if majority is not None:
            guess = f"always `{majority['class']}`"
            lines.append(f"| {name} ({part['n']}) | {guess} | {_rate(majority)} | | | | |")
    return lines


def _fields(evaluation: Json) -> list[str]:
    """By field, for the main slice of a task whose answers have fields."""
    columns = evaluation["slices"][evaluation["main"]]["columns"]
    tables = {
        name: table["fields"]
        for name, table in columns.items()
        if table is not None and table.get("fields")
    }
    if not tables:
        return []
    lines = [
        "| field | column | in answers | given | right | wrong | missed | hallucinated | F1 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    names = sorted({name for table in tables.values() for name in table["fields"]})
    rows = [(name, {c: t["fields"].get(name) for c, t in tables.items()}) for name in names]
    rows.append(("all fields", {c: t["all"] for c, t in tables.items()}))
    rows.append(("empty answer (rows)", {c: t["empty"] for c, t in tables.items()}))
    for name, by_column in rows:
        for column, counts in by_column.items():
            if counts is not None:
                keys = ("gold", "said", "right", "wrong", "missed", "hallucinated")
                cells = [str(counts[key]) for key in keys]
                cells.append("" if counts["f1"] is None else f"{100 * counts['f1']:.1f} %")
                lines.append(f"| {name} | {column} | {' | '.join(cells)} |")
    return [*lines, ""]


def _rate(rate: Json | None, *, interval: bool = True) -> str:
    if rate is None or rate["rate"] is None:
        return ""
    text = f"{100 * rate['rate']:.1f} %"
    if interval and rate.get("low") is not None:
        text += f" [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]"
    return text


def _differences(evaluation: Json) -> list[str]:
    lines = ["| slice | difference | points | p (paired, exact) |", "|---|---|---|---|"]
    for pair in evaluation["differences"]:
        points = (
            f"{100 * pair['difference']:+.1f} [{100 * pair['low']:+.1f}, {100 * pair['high']:+.1f}]"
        )
        lines.append(
            f"| {pair['slice']} | {pair['a']} - {pair['b']} | {points} | {pair['p']:.2g} |"
        )
    return lines
