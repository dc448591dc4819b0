"""A first loss that is not that of its rows, a batch that depends on how it is split, an anchor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.rehearsals import copy_of, judged, said  # noqa: E402
from tunegate.checks._plain import load_plain, mean_of, plain_losses, rows_of  # noqa: E402
from tunegate.types import Example, Status  # noqa: E402
from tunegate.worker.rehearse import Rehearsal  # noqa: E402


def first(rehearsed: Any) -> tuple[list[int], list[Example]]:
    rows = rows_of(rehearsed[1].job, "train")
    picked = rehearsed[1].steps(rehearsed[1].straight)[0]["row_ids"]
    return picked, [rows[index] for index in picked]


def split(rehearsed: Any, folder: Path, **changes: Any) -> Rehearsal:
    """The rehearsal of a trainer whose split batches log something else."""
    own = copy_of(rehearsed[1], folder)
    path = own.row_by_row / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for key, factor in changes.items():
        lines[0][key] *= factor
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return own


def test_the_loss_of_the_rows_passes(rehearsed):
    verdict = judged("loss_anchor", *rehearsed)
    assert verdict.status is Status.PASS, said(verdict)
    assert "2 steps row by row compared" in verdict.summary
    assert any("anchor" in text for text in verdict.not_checked)


def test_a_mask_lost_on_the_way_to_the_loss_is_seen(rehearsed):
    picked, rows = first(rehearsed)
    whole = [Example(row.index, row.input_ids, list(row.input_ids)) for row in rows]
    loss = mean_of(plain_losses(load_plain(rehearsed[1].base_dir), whole))
    verdict = judged("loss_anchor", *rehearsed, first_step={"rows": picked, "loss": loss})
    assert verdict.status is Status.FAIL
    assert "the framework's first loss is" in said(verdict)


def test_a_mean_over_rows_in_place_of_tokens_is_seen(rehearsed):
    picked, rows = first(rehearsed)
    uneven = rows[0].labels.index(next(t for t in rows[0].labels if t != -100))
    short = Example(rows[0].index, rows[0].input_ids[: uneven + 1], rows[0].labels[: uneven + 1])
    losses = list(plain_losses(load_plain(rehearsed[1].base_dir), [short, *rows[1:]]))
    of_rows = sum(row.summed / row.tokens for row in losses) / len(losses)
    assert abs(of_rows - mean_of(losses)) > 0.02 * of_rows  # the two differ on these rows
    verdict = judged("loss_anchor", *rehearsed, first_step={"rows": picked, "loss": of_rows})
    assert verdict.status is Status.FAIL


@pytest.mark.parametrize("key", ["loss", "grad_norm"])
def test_a_batch_that_depends_on_its_parts_is_seen(rehearsed, tmp_path, key):
    verdict = judged("loss_anchor", rehearsed[0], split(rehearsed, tmp_path / "r", **{key: 1.3}))
    assert verdict.status is Status.FAIL
    assert f"step 1: {key}" in said(verdict) and "row by row" in said(verdict)


def anchor(rehearsed: Any, *, factor: float, other_rows: bool = False) -> list[dict[str, Any]]:
    return [
        {
            "step": step,
            "row_ids": [1, 2],
            "anchor_row_ids": [1, 3] if other_rows else [2, 1],
            "loss": 2.0 / step,
            "anchor_loss": 2.0 / step * factor,
        }
        for step in (1, 2)
    ]


def test_steps_that_follow_the_anchor_pass(rehearsed):
    verdict = judged("loss_anchor", *rehearsed, anchor=anchor(rehearsed, factor=1.03))
    assert verdict.status is Status.PASS, said(verdict)
    assert not any("anchor" in text for text in verdict.not_checked)


def test_steps_that_leave_the_anchor_are_seen(rehearsed):
    verdict = judged("loss_anchor", *rehearsed, anchor=anchor(rehearsed, factor=1.2))
    assert verdict.status is Status.FAIL
    assert "the anchor's on the same rows" in said(verdict)


def test_an_anchor_that_trained_other_rows_is_told_and_not_judged(rehearsed):
    told = anchor(rehearsed, factor=1.2, other_rows=True)
    verdict = judged("loss_anchor", *rehearsed, anchor=told)
    assert verdict.status is Status.PASS
    assert "not compared" in verdict.warnings[0].message
