"""Rules that watch a running training."""

from __future__ import annotations

import math

import pytest

from tunegate import alarms
from tunegate.alarms import Act

PEAK = 1e-3


def plan(step: int) -> float:
    return PEAK * min(step / 4, 1.0)


def rows(count: int = 30, **changed):
    """Metric rows of a healthy run; `changed` maps a key to {step: value}."""
    out = []
    for step in range(1, count + 1):
        row = {
            "step": step,
            "t_s": step * 1.0,
            "loss": 2.0 * 0.95**step,
            "grad_norm": 1.0,
            "learning_rate": plan(step),
        }
        for key, values in changed.items():
            if step in values:
                row[key] = values[step]
        out.append(row)
    return out


def fired(seen):
    found = alarms.of_metrics(seen, warmup_steps=4, planned_rate=plan, peak_rate=PEAK)
    return {alarm.rule: alarm for alarm in found}


def test_a_healthy_run_is_quiet():
    assert fired(rows()) == {}
    assert fired([]) == {}


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
@pytest.mark.parametrize("key", ["loss", "grad_norm"])
def test_a_value_that_is_no_number_stops_the_run(key, value):
    alarm = fired(rows(**{key: {7: value}}))["not_finite"]
    assert (alarm.act, alarm.step) == (Act.STOP, 7)
    assert f"{key} is {value}" in alarm.seen


def test_a_loss_of_exactly_zero_stops_the_run():
    alarm = fired(rows(loss={3: 0.0}))["loss_zero"]
    assert (alarm.act, alarm.step) == (Act.STOP, 3)
    assert not fired(rows(loss={30: 1e-7}))


def test_one_step_without_gradient_is_no_alarm_and_two_are():
    assert fired(rows(grad_norm={1: 0.0})) == {}
    assert fired(rows(grad_norm={5: 0.0, 9: 0.0})) == {}
    assert fired(rows(grad_norm={5: 0.0, 6: 0.0}))["gradient_zero"].step == 6


def test_one_hard_batch_is_no_divergence_and_a_rise_is():
    assert fired(rows(loss={12: 9.0})) == {}
    risen = dict.fromkeys(range(15, 31), 4.0)
    alarm = fired(rows(loss=risen))["loss_risen"]
    assert alarm.act is Act.STOP and 15 <= alarm.step <= 19


def test_easy_data_that_starts_low_is_no_divergence():
    assert fired(rows(loss={step: 0.03 + 0.001 * (step % 3) for step in range(1, 31)})) == {}


def test_a_rise_within_the_warm_up_is_no_divergence():
    seen = rows(loss=dict.fromkeys(range(2, 5), 3.5))
    assert "loss_risen" not in fired(seen)


def test_a_schedule_that_is_not_the_plan_stops_the_run():
    alarm = fired(rows(learning_rate={9: 0.5 * PEAK}))["rate_off_plan"]
    assert alarm.step == 9
    assert fired(rows(learning_rate={9: 0.97 * PEAK})) == {}
    assert "rate_off_plan" in fired(rows(learning_rate={9: math.nan}))


def test_validation_rows_carry_no_training_loss():
    seen = [*rows(), {"step": 30, "t_s": 31.0, "validation_loss": 0.0}]
    assert fired(seen) == {}


def test_silence_waits_for_slow_steps():
    assert alarms.of_silence(quiet_s=599, step_s=None) is None
    assert alarms.of_silence(quiet_s=601, step_s=1.0).act is Act.STOP
    assert alarms.of_silence(quiet_s=900, step_s=200.0) is None
    assert alarms.of_silence(quiet_s=1001, step_s=200.0) is not None


def test_a_slow_step_is_told():
    assert alarms.of_speed(step_s=6.0, expected_step_s=1.0).act is Act.TELL
    assert alarms.of_speed(step_s=4.0, expected_step_s=1.0) is None
    assert alarms.of_speed(step_s=None, expected_step_s=1.0) is None


def test_a_late_checkpoint_is_told():
    assert alarms.of_checkpoints(age_s=1000, every_s=300).act is Act.TELL
    assert alarms.of_checkpoints(age_s=800, every_s=300) is None
