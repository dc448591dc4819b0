"""record.json -> record.md: short, complete, and no figure that the payload does not hold. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tunegate.compare.wording import NONE, gap, interval, percent
from tunegate.report.wording import cell
from tunegate.types import Json


def markdown(payload: Json) -> str:
    """The record as Markdown, ending in a line break."""
    lines = [
        f"# {cell(payload['name'])}",
        "",
        _headline(payload),
        *_evaluation(payload["evaluation"]),
        *_decision(payload["decision"]),
        *_training(payload),
        *_gates(payload),
        *_inputs(payload),
    ]
    return "\n".join(lines) + "\n"


def _headline(payload: Json) -> str:
    evaluation = payload["evaluation"]
    if evaluation is not None:
        return cell(evaluation["verdict"]["sentence"])
    receipt = payload["training"]["receipt"]
    if receipt is not None:
        return f"Trained {receipt['steps']} of {receipt['planned_steps']} steps; not evaluated."
    return "Not trained."


def _evaluation(evaluation: Json | None) -> Iterator[str]:
    if evaluation is None:
        return
    columns = [name for name, about in evaluation["columns"].items() if about is not None]
    yield from ("", "## Evaluation", "")
    yield f"| slice | rows | {' | '.join(columns)} |"
    yield "|" + "---|" * (2 + len(columns))
    for name, part in evaluation["slices"].items():
        cells = [_cell(part["columns"].get(column)) for column in columns]
        yield f"| {cell(name)} | {part['n']} | {' | '.join(cells)} |"
    yield ""
    share = f"{100 * evaluation['confidence']:g}"
    yield f"Strict accuracy with its {share} % interval."
    for item in evaluation["differences"]:
        yield f"- {cell(item['slice'])}: tuned against {item['b']} {gap(item)}"
    for warning in evaluation["warnings"]:
        yield f"- {cell(warning['message'])}"


def _cell(column: Json | None) -> str:
    if column is None:
        return NONE
    rate = column["strict"]
    if rate["rate"] is None:
        return NONE
    return f"{percent(rate['rate'])} ({interval(rate['low'], rate['high'])})"


def _decision(decision: Json | None) -> Iterator[str]:
    if decision is None:
        return
    yield from ("", "## Decision", "")
    yield f"Next: **{decision['next']}** (rule `{decision['rule']}`)."
    for reason in decision["because"]:
        yield f"- {cell(reason)}"


def _training(payload: Json) -> Iterator[str]:
    train, receipt = payload["settings"]["train"], payload["training"]["receipt"]
    yield from ("", "## Training", "")
    yield (
        f"{train['framework']}, {train['epochs']:g} epochs, batch {train['batch_size']}, "
        f"learning rate {train['learning_rate']:g} {train['schedule']}, "
        f"rank {train['lora']['rank']}, {train['precision']}."
    )
    if receipt is not None:
        yield from _receipt(receipt)
    curves = payload["training"]["curves"]
    for note in (curves or {}).get("notes") or []:
        yield f"- {cell(note)}"
    for stall in (curves or {}).get("stalls") or []:
        yield f"- stalled {stall['seconds']} s after step {stall['after_step']}"
    attempts = payload["training"]["attempts"]
    if any(attempt["outcome"] != "trained" for attempt in attempts):
        for attempt in attempts:
            yield f"- attempt {attempt['number']}: {attempt['outcome']}"
    yield from _cost(payload)


def _receipt(receipt: Json) -> Iterator[str]:
    best = receipt["best"] or {}
    facts = [
        f"{receipt['steps']} of {receipt['planned_steps']} steps",
        f"loss {_number(receipt['first_loss'])} to {_number(receipt['last_loss'])}",
        f"best validation loss {_number(best.get('validation_loss'))} at step {best.get('step')}",
    ]
    yield f"- {', '.join(facts)}"
    adapter = receipt["adapter"]
    if adapter:
        yield f"- adapter `{adapter['path']}`, {adapter['bytes']:,} bytes, `{adapter['sha256']}`"
    yield (
        f"- {_number(receipt['train_s'])} s on {receipt['device']}, "
        f"{_number(receipt['step_s_median'])} s a step, "
        f"{_number(receipt['peak_memory_gib'])} GiB at its peak"
    )


def _cost(payload: Json) -> Iterator[str]:
    cost, quote, times = payload["cost"], payload["quote"], payload["times_s"]
    if cost.get("money") is not None:
        yield f"- cost {cost['money']} {cost['currency']}"
    if quote is not None:
        error, money = cost["quote_error"], f"{quote['money']} {quote['currency']}"
        took = f"; it took {100 * (1 + error):.0f} % of that time" if error is not None else ""
        yield f"- quoted {60 * quote['hours']:.1f} min and {money}{took}"
        yield from _memory(quote["memory"])
    if times:
        spent = ", ".join(f"{name} {seconds:g}" for name, seconds in times.items())
        yield f"- seconds by stage: {spent}"


def _memory(memory: Json) -> Iterator[str]:
    parts = ", ".join(f"{line['name']} {line['gib']:.3f}" for line in memory["lines"])
    measured = memory["measured_gib"]
    told = (
        "" if measured is None else f"; the wire test measured {measured:.2f} ({memory['ratio']} x)"
    )
    yield f"- memory in GiB: {parts}; sum {memory['sum_gib']:.2f}{told}"


def _gates(payload: Json) -> Iterator[str]:
    gates, release = payload["gates"], payload["release"]
    yield from ("", "## Gates", "", "| check | result | what was seen |", "|---|---|---|")
    research, wire = gates["research"], gates["wire"]
    if research is not None:
        shown = 100 * research["smallest_detectable_difference"]
        yield f"| research | {research['verdict']} | differences from {shown:.1f} points show |"
    for line in gates["checks"]:
        yield f"| {line['check']} | {line['status']} | {cell(line['summary'])} |"
    if wire is not None and all(line["check"] != "wire" for line in gates["checks"]):
        yield (
            f"| wire | measured | {wire['exact']} of {wire['rows']} exact, {wire['stopped']} "
            f"stopped, loss {_number(wire['first_loss'])} to {_number(wire['last_loss'])} |"
        )
    yield ""
    for answer in (research or {}).get("answers") or []:
        yield f"- {answer['id']}: {cell(answer['answer'])} ({cell(answer['source'])})"
    for name, reason in gates["waived"].items():
        yield f"- waived {name}: {cell(reason)}"
    if release is not None:
        yield (
            f"- {release['decision']} at level {release['level']} by {cell(release['approver'])}: "
            f"{cell(release['why'])}"
        )


def _inputs(payload: Json) -> Iterator[str]:
    base, code = payload["base"], payload["code"]
    yield from ("", "## Inputs", "")
    yield f"- base {base['model']} at {base['revision'] or 'its content'}"
    if code is not None and code.get("commit"):
        yield f"- code {code['commit']}{' with uncommitted changes' if code.get('dirty') else ''}"
    for name, file in payload["data"].items():
        yield f"- {name}: {file['rows']} rows, `{file['sha256']}`"
    for name, digest in payload["inputs"].items():
        yield f"- digest of {name}: `{digest}`"


def _number(value: Any) -> str:
    return NONE if value is None else f"{value:.4g}"
