"""record: whatever is there is in it, and the text holds no figure that the payload lacks."""

from __future__ import annotations

import re
from typing import Any

import pytest
from samples import FACTS, LABELS, frozen

from tunegate import curves
from tunegate.compare import compare
from tunegate.decide import decide
from tunegate.quote import quote
from tunegate.record import markdown, record
from tunegate.research import research
from tunegate.types import Json, Offer, Status, Verdict

OFFER = Offer("local", "2 CPU cores", "0", "USD", "own machine", "2026-11-30", 16.0, 40.0)
WIRE = {
    "steps": 23,
    "rows": 20,
    "exact": 20,
    "stopped": 20,
    "first_loss": 1.5,
    "last_loss": 0.02,
    "step_s_median": 1.2,
    "save_s": 0.4,
}
RECEIPT = {
    "planned_steps": 100,
    "steps": 100,
    "first_loss": 1.4127,
    "last_loss": 0.0313,
    "rows_seen": 800,
    "tokens": 90_000,
    "answer_tokens": 9_000,
    "adapter": {"path": "adapter", "sha256": "a" * 64, "bytes": 19_600_000, "changed": True},
    "best": {"step": 85, "validation_loss": 0.0871},
    "effect": {"probes": 8, "changed": 8},
    "train_s": 171.0,
    "peak_memory_gib": 1.93,
    "step_s_median": 1.31,
    "device": "2 CPU cores",
}
METRICS = [
    {"step": n, "t_s": 1.3 * n, "loss": 1.5 * 0.95**n, "grad_norm": 1.0, "tokens": 900, "rows": 8}
    for n in range(1, 101)
] + [{"step": 100, "t_s": 135.0, "validation_loss": 0.0871}]


def evaluated(run: Json) -> Json:
    """The report of 30 rows: raw right on a third, tuned on nine tenths, teacher on two thirds."""
    gold: list[Json] = []
    columns: dict[str, dict[str, Json]] = {"raw": {}, "tuned": {}, "teacher": {}}
    for n in range(30):
        label = LABELS[n % 3]
        gold.append({"id": f"test:{n}", "slice": "test", "answer": label, "text": f"message {n}"})
        for column, right in (("raw", n < 10), ("tuned", n < 27), ("teacher", n < 20)):
            said = label if right else LABELS[(n + 1) % 3]
            columns[column][f"test:{n}"] = {"id": f"test:{n}", "output": said, "finish": "stop"}
    return compare(columns, gold, run)


def full() -> Json:
    """A record of a run that went through every stage."""
    run = frozen({"train": {"learning_rate": 0.004}})
    answer = {"answer": "the sweep of June", "source": "notes/sweep.md"}
    report = evaluated(run)
    lineage = [{"run": "triage", "data_digest": "d", "settings_digest": "s"}]
    return record(
        run,
        research=research(run, FACTS, answers={"train.learning_rate": answer}),
        verdicts=[Verdict("mask_exact", Status.PASS, "400 of 400 rows | exact")],
        wire=WIRE,
        quote=quote(run, WIRE, OFFER.to_json()),
        release={"decision": "release", "level": 0, "approver": "policy", "why": "it is free"},
        receipt=RECEIPT,
        curves=curves.read(METRICS),
        report=report,
        decision=decide(report, lineage),
        times={"wire": 41.26, "train": 171.0},
        cost={"money": "0", "currency": "USD"},
        attempts=[{"number": 1, "outcome": "disk_full"}, {"number": 2, "outcome": "trained"}],
        code={"commit": "c" * 40, "dirty": True},
    )


def test_every_stage_is_in_the_record() -> None:
    payload = full()
    assert payload["gates"]["research"]["answers"][0]["source"] == "notes/sweep.md"
    assert payload["evaluation"]["slices"]["test"]["columns"]["tuned"]["strict"]["right"] == 27
    assert payload["decision"]["rule"]
    assert payload["training"]["receipt"]["best"]["step"] == 85
    assert payload["cost"]["quote_error"] == pytest.approx(171.0 / 152.8 - 1, abs=0.01)
    assert {draft["kind"] for draft in payload["drafts"]} >= {"measurement", "result", "failure"}


def test_the_text_says_what_a_reader_must_know() -> None:
    text = markdown(full())
    assert text.startswith("# triage\n")
    assert "90.0" in text and "(0.95" not in text
    for needed in ("mask_exact", "learning_rate: the sweep of June", "disk_full", "notes/sweep.md"):
        assert needed in text
    assert "with uncommitted changes" in text
    assert "`attempts/2/adapter`" in text and "`adapter`" not in text
    assert "memory in GiB: weights" in text and "sum" in text
    assert "None" not in text
    # A bar in a summary must not open a column of its own.
    assert "400 of 400 rows \\| exact" in text


def numbers(text: str) -> set[str]:
    """Figures of a text as written: runs of digits with their decimal point."""
    return set(re.findall(r"\d+(?:\.\d+)?", text.replace(",", "")))


def figures(value: Any) -> set[str]:
    """Every form in which the text may write a number of the payload."""
    if isinstance(value, dict):
        return set().union(*(figures(v) | figures(k) for k, v in value.items()))
    if isinstance(value, list):
        return set().union(*map(figures, value)) if value else set()
    if isinstance(value, str):
        return numbers(value)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return set()
    forms = (f"{value:.4g}", f"{value:g}", f"{value}", f"{100 * value:.1f}", f"{100 * value:g}")
    more = (f"{value:.3f}", f"{60 * value:.1f}", f"{100 * (1 + value):.0f}")
    return set().union(*(numbers(form) for form in (*forms, *more)))


def test_no_figure_of_the_text_is_missing_from_the_payload() -> None:
    payload = full()
    # p below 0.001 is written as a bound.
    invented = numbers(markdown(payload)) - figures(payload) - {"0.001"}
    assert invented == set()


def test_a_figure_that_was_typed_would_be_found() -> None:
    payload = full()
    assert "77.7" in numbers(markdown(payload) + "77.7") - figures(payload)


def test_texts_from_outside_are_escaped() -> None:
    payload = full()
    evil = "<script>alert()</script> | `x`"
    payload["gates"]["research"]["answers"][0] |= {"answer": evil, "source": evil}
    payload["gates"]["waived"] = {"leak_check": evil}
    payload["release"] |= {"why": evil, "approver": evil}
    payload["evaluation"]["warnings"] = [{"message": evil}]
    payload["decision"]["because"] = [evil]
    payload["gates"]["checks"][0]["summary"] = evil
    text = markdown(payload)
    assert "\\<script\\>" in text
    assert not re.search(r"(?<!\\)<(?!\u00a00.001)", text)


CRASHED = {"attempts": [{"number": 1, "outcome": "out_of_memory"}]}


@pytest.mark.parametrize("known", [{}, {"receipt": RECEIPT}, {"wire": WIRE}, CRASHED])
def test_a_run_that_ended_early_has_a_record_too(known: dict[str, Any]) -> None:
    payload = record(frozen(), **known)
    text = markdown(payload)
    assert "None" not in text
    assert payload["evaluation"] is None
    assert ("out_of_memory" in text) == ("attempts" in known)
