"""Rows laid end to end that see each other, positions that run on, labels lost in the packing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.rehearsals import copy_of, judged, said  # noqa: E402
from tunegate.checks._plain import load_plain, rows_of  # noqa: E402
from tunegate.types import IGNORED, Status  # noqa: E402
from tunegate.worker.rehearse import Rehearsal  # noqa: E402


def with_first(rehearsed: Any, folder: Path, **changes: Any) -> Rehearsal:
    """The rehearsal of a trainer that logged something else in its first step."""
    own = copy_of(rehearsed[1], folder)
    path = own.straight / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0].update(changes)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return own


def loss_end_to_end(rehearsal: Rehearsal, *, restart: bool, apart: bool) -> float:
    """The loss of the first step's rows in one sequence, as a careless packing computes it.

    `restart`: positions begin anew with each row; `apart`: a row sees itself alone.
    """
    rows = rows_of(rehearsal.job, "train")
    first = [rows[index] for index in rehearsal.steps(rehearsal.straight)[0]["row_ids"]]
    ids = torch.tensor([[token for row in first for token in row.input_ids]])
    owner = torch.tensor([n for n, row in enumerate(first) for _ in row.input_ids])
    places = [place for row in first for place in range(len(row.input_ids))]
    positions = torch.tensor([places]) if restart else torch.arange(ids.shape[1])[None]
    sees = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
    if apart:
        sees &= owner[:, None] == owner[None]
    mask = torch.zeros(sees.shape).masked_fill(~sees, float("-inf"))[None, None]
    model = load_plain(rehearsal.base_dir)
    with torch.inference_mode():
        logits = model(
            input_ids=ids.to(model.device),
            position_ids=positions.to(model.device),
            attention_mask=mask.to(model.device),
        ).logits.cpu()
    labels = torch.tensor(
        [label if place else IGNORED for row in first for place, label in enumerate(row.labels)]
    )
    return float(torch.nn.functional.cross_entropy(logits[0, :-1], labels[1:]))


def test_rows_kept_apart_pass(rehearsed):
    verdict = judged("pack_check", *rehearsed)
    assert verdict.status is Status.PASS, said(verdict)


def test_packing_that_keeps_rows_apart_passes(rehearsed, tmp_path):
    loss = loss_end_to_end(rehearsed[1], restart=True, apart=True)
    verdict = judged("pack_check", rehearsed[0], with_first(rehearsed, tmp_path / "r", loss=loss))
    assert verdict.status is Status.PASS, said(verdict)


def test_positions_that_run_on_change_nothing_for_a_relative_encoding(rehearsed, tmp_path):
    """Rotary positions are relative: with true isolation a shift of the whole row is no fault."""
    loss = loss_end_to_end(rehearsed[1], restart=False, apart=True)
    verdict = judged("pack_check", rehearsed[0], with_first(rehearsed, tmp_path / "r", loss=loss))
    assert verdict.status is Status.PASS, said(verdict)


@pytest.mark.parametrize("restart", [True, False])
def test_rows_that_see_each_other_are_seen(rehearsed, tmp_path, restart):
    loss = loss_end_to_end(rehearsed[1], restart=restart, apart=False)
    verdict = judged("pack_check", rehearsed[0], with_first(rehearsed, tmp_path / "r", loss=loss))
    assert verdict.status is Status.FAIL
    assert "rows see each other" in said(verdict)


def test_labels_lost_in_the_packing_are_seen(rehearsed, tmp_path):
    trained = rehearsed[1].steps(rehearsed[1].straight)[0]["answer_tokens"]
    own = with_first(rehearsed, tmp_path / "r", answer_tokens=trained - 1)
    verdict = judged("pack_check", rehearsed[0], own)
    assert verdict.status is Status.FAIL
    assert f"step 1 trained {trained - 1} answer tokens, its rows have {trained}" in said(verdict)


def test_a_loss_that_is_no_number_is_seen(rehearsed, tmp_path):
    own = with_first(rehearsed, tmp_path / "r", loss=float("nan"))
    assert judged("pack_check", rehearsed[0], own).status is Status.FAIL
