"""Verdicts on the wire test and the receipt, levels of release."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tunegate import gate
from tunegate.types import Status

WIRE: dict[str, Any] = {
    "rows": 20, "first_loss": 3.0, "last_loss": 0.05, "exact": 20, "stopped": 20, "steps": 30,
    "step_s_median": 1.0, "save_s": 0.1, "peak_memory_gib": 2.0,
}  # fmt: skip
RECEIPT: dict[str, Any] = {
    "planned_steps": 100, "steps": 100, "losses_finite": True, "grad_norm_max": 2.0,
    "adapter": {"changed": True, "bytes": 20_000_000, "mtime": 1000.0},
    "effect": {"probes": 8, "changed": 8},
}  # fmt: skip
PLAN: dict[str, Any] = {"money_ceiling": "0", "currency": "USD", "hours_ceiling": 0.5, "waived": {}}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"last_loss": 0.31}, "fell from 3.000 to 0.310 only"),
        ({"last_loss": float("nan")}, "not a number"),
        ({"exact": 18}, "18 of 20 rows are answered exactly"),
        ({"stopped": 19}, "1 of 20 answers do not stop"),
    ],
)
def test_the_wire_test_fails_on_each_fault(change: dict[str, Any], says: str) -> None:
    verdict = gate.judge_wire({**WIRE, **change})
    assert verdict.status is Status.FAIL
    assert any(says in finding.message for finding in verdict.findings)


def test_easy_data_that_starts_low_is_learned_all_the_same() -> None:
    easy = {**WIRE, "first_loss": 0.15}
    assert gate.judge_wire({**easy, "last_loss": 0.018}).status is Status.PASS
    assert gate.judge_wire({**easy, "last_loss": 0.03}).status is Status.FAIL


def test_the_template_is_suspected_only_where_the_loss_was_learned() -> None:
    (only,) = gate.judge_wire({**WIRE, "exact": 15}).findings
    assert only.change is not None and "template" in only.change
    both = gate.judge_wire({**WIRE, "exact": 15, "last_loss": 0.6}).findings
    assert [finding.change for finding in both][1] is None


def test_the_wire_test_passes_at_its_limits() -> None:
    assert gate.judge_wire({**WIRE, "exact": 19, "last_loss": 0.3}).status is Status.PASS


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"steps": 99}, "99 of 100 planned steps"),
        ({"steps": 0, "planned_steps": 0}, "0 of 0 planned steps"),
        ({"losses_finite": False}, "no finite losses"),
        ({"grad_norm_max": 0.0}, "never rose above zero"),
        ({"grad_norm_max": None}, "never rose above zero"),
        ({"adapter": {**RECEIPT["adapter"], "changed": False}}, "those it started with"),
        ({"adapter": {**RECEIPT["adapter"], "bytes": 443}}, "no adapter file"),
        ({"adapter": None}, "no adapter file"),
        ({"effect": {"probes": 8, "changed": 0}}, "answers every probe as the base does"),
    ],
)
def test_a_receipt_must_prove_each_thing(change: dict[str, Any], says: str) -> None:
    problems = gate.receipt_problems({**RECEIPT, **change})
    assert any(says in problem for problem in problems)


def test_a_good_receipt_has_no_problems_and_none_has_one() -> None:
    assert gate.receipt_problems(RECEIPT) == []
    assert gate.receipt_problems(None) == [
        "no receipt: the trainer ended without saying what it did"
    ]


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({}, 0),
        ({"money_ceiling": "4.99"}, 1),
        ({"money_ceiling": "5"}, 1),
        ({"money_ceiling": "5.01"}, 2),
        ({"money_ceiling": "1", "hours_ceiling": 2.1}, 2),
        ({"hours_ceiling": 40.0}, 0),
        ({"waived": {"leak_check": "they are paraphrases"}}, 1),
    ],
)
def test_the_level_follows_money_hours_and_waivers(change: dict[str, Any], level: int) -> None:
    assert gate.required_level({**PLAN, **change})[0] == level


def test_a_release_expires_unless_its_run_began() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    release = {"decision": "release", "plan_digest": "d", "not_after": now.isoformat()}
    assert gate.release_problems(release, plan_digest="d", now=now) == []
    late = now + timedelta(seconds=1)
    assert gate.release_problems(release, plan_digest="d", now=late)
    assert gate.release_problems(release, plan_digest="d", now=late, spent=[1]) == []
    assert gate.release_problems(release, plan_digest="other", now=now)
    assert gate.release_problems({**release, "decision": "refuse"}, plan_digest="d", now=now)


def test_an_open_question_never_opens_a_gate() -> None:
    verdicts = {"mask_exact": {"status": "cannot_tell", "summary": "no tokenizer"}}
    found = gate.gate_problems(
        research={"verdict": "pass", "problems": []},
        checks={"verdicts": verdicts},
        wire={"verdicts": {"wire": {"status": "pass", "summary": ""}}},
        quote={"verdict": "fail", "problems": ["it takes 3 h, more than limits.hours"]},
        waived={},
    )
    assert found == [
        "mask_exact cannot_tell: no tokenizer",
        "quote: it takes 3 h, more than limits.hours",
    ]
    assert gate.gate_problems(research=None, checks=None, wire=None, quote=None, waived={}) == [
        "research was not run", "check was not run", "wire was not run",
    ]  # fmt: skip


def test_changed_parts_are_named() -> None:
    assert gate.changed_parts({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}, "d": 4}) == [
        "a.c",
        "d",
    ]


def test_a_release_that_was_given_in_the_future_does_not_hold() -> None:
    """The clock was set back by years: the release must not last for years."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    given = now + timedelta(days=700)
    release = {"decision": "release", "plan_digest": "d"}
    release["not_after"] = (given + gate.RELEASE_LIFE).isoformat()
    found = gate.release_problems(release, plan_digest="d", now=now)
    assert len(found) == 1 and "which the clock has not reached" in found[0]
    assert gate.release_problems(release, plan_digest="d", now=now, spent=[1]) == []
    almost = given - timedelta(minutes=1)  # clocks are corrected by a little
    assert gate.release_problems(release, plan_digest="d", now=almost) == []
