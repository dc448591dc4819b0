"""curves: each trouble is seen where it is, and a healthy run is not accused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunegate import curves

Rows = list[dict[str, Any]]


def run(
    losses: list[float | None],
    *,
    validation: dict[int, float] | None = None,
    step_s: float = 3.0,
    gaps: dict[int, float] | None = None,
) -> Rows:
    """Rows of a run with one step a loss; validations take 20 s, `gaps` are extra seconds."""
    rows: Rows = []
    clock = 0.0
    for step, loss in enumerate(losses, start=1):
        clock += step_s + (gaps or {}).get(step, 0.0)
        rows.append(
            {"step": step, "t_s": clock, "loss": loss, "grad_norm": 1.0, "tokens": 900, "rows": 8}
        )
        if validation and step in validation:
            clock += 20.0
            rows.append({"step": step, "t_s": clock, "validation_loss": validation[step]})
    return rows


def falling(steps: int) -> list[float | None]:
    return [2.0 * 0.97**step for step in range(steps)]


def test_a_healthy_run() -> None:
    found = curves.read(run(falling(40), validation={10: 1.2, 20: 0.8, 30: 0.5, 40: 0.5}))
    assert found["validation_minimum"] == {"step": 30, "loss": 0.5}
    assert found["chosen"]["step"] == 30
    assert found["steps"] == 40
    assert found["step_s_median"] == 3.0
    assert (found["tokens_per_s"], found["rows_per_s"]) == (300.0, pytest.approx(2.67))
    assert not found["diverged"] and not found["overfit"] and not found["stalls"]
    assert found["notes"] == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, None, 0.0])
def test_a_loss_that_is_no_number_or_hides_one_is_divergence(bad: float | None) -> None:
    losses = falling(20)
    losses[11] = bad
    assert curves.read(run(losses))["diverged_at"] == 12


def test_a_loss_far_above_the_first_is_divergence_and_one_hard_batch_is_not() -> None:
    spike = falling(20)
    spike[9] = 9.0
    assert not curves.read(run(spike))["diverged"]
    gone = [*falling(10), *[9.0] * 10]
    assert curves.read(run(gone))["diverged_at"] == 12


def test_a_rise_during_warm_up_is_not_divergence() -> None:
    losses = [1.0, 2.0, 2.0, 2.0, 1.0, 0.9, 0.8]
    assert curves.read(run(losses))["diverged"]
    assert not curves.read(run(losses), warmup_steps=4)["diverged"]


def test_a_validation_loss_that_is_no_number_is_noted_and_never_chosen() -> None:
    found = curves.read(run(falling(20), validation={10: 0.5, 20: math.nan}))
    assert found["chosen"]["step"] == 10
    assert found["validation"] == [{"step": 10, "loss": 0.5}]
    assert "no number at step 20" in " ".join(found["notes"])


def test_overfitting_is_rising_validation_while_training_falls() -> None:
    found = curves.read(run(falling(40), validation={10: 0.9, 20: 0.5, 30: 0.6, 40: 0.7}))
    assert found["overfit"]
    assert found["chosen"]["step"] == 20
    flat = [2.0] * 40
    assert not curves.read(run(flat, validation={10: 0.9, 20: 0.5, 30: 0.6, 40: 0.7}))["overfit"]


def test_a_minimum_at_the_end_asks_for_more_steps() -> None:
    found = curves.read(run(falling(20), validation={10: 0.9, 20: 0.5}))
    assert "more steps" in found["notes"][0]


def test_a_stall_is_told_from_validation() -> None:
    found = curves.read(run(falling(20), validation={10: 0.5}, gaps={15: 60.0}))
    assert found["stalls"] == [{"after_step": 14, "seconds": 63.0, "median_s": 3.0}]


def test_short_gaps_of_fast_steps_are_noise() -> None:
    assert curves.read(run(falling(20), step_s=0.01, gaps={15: 0.5}))["stalls"] == []


def test_a_resumed_run_counts_each_step_once_and_its_clock_may_restart() -> None:
    first = run(falling(12), validation={10: 0.9})
    second = [{**row, "step": row["step"] + 10} for row in run([0.4] * 10, validation={10: 0.3})]
    found = curves.read([*first, *second])
    assert found["steps"] == 20
    assert found["last_loss"] == 0.4
    assert [point["step"] for point in found["validation"]] == [10, 20]
    assert found["stalls"] == []


def test_zero_gradients_are_noted() -> None:
    rows = [{**row, "grad_norm": 0.0} for row in run(falling(3))]
    assert "gradient was zero at 3 steps" in " ".join(curves.read(rows)["notes"])


def test_nothing_is_chosen_without_validation() -> None:
    found = curves.read([])
    assert found["chosen"] is None and found["validation_minimum"] is None
    assert found["tokens_per_s"] is None


@given(st.dictionaries(st.integers(1, 30), st.floats(0.001, 10), min_size=1))
def test_the_chosen_step_has_the_lowest_validation_loss(validation: dict[int, float]) -> None:
    found = curves.read(run(falling(30), validation=validation))
    assert found["chosen"]["loss"] == min(validation.values())
    assert validation[found["chosen"]["step"]] == found["chosen"]["loss"]
