"""quote: hours, money and the checkpoint interval, from measurements only."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import frozen

from tunegate.quote import quote
from tunegate.types import Json, Offer

FREE = Offer("local", "2 CPU cores", "0", "USD", "own machine", "2026-11-30", 16.0, 40.0).to_json()
PAID = {**FREE, "price_per_h": "2.00", "currency": "CNY", "source": "price list"}
WIRE = {"step_s_median": 1.2, "save_s": 0.4, "peak_memory_gib": 1.9}
RUN = frozen({"limits": {"money": "5 CNY", "hours": 3}})


def test_the_parts_add_up_to_the_hours() -> None:
    found = quote(RUN, WIRE, FREE)
    seconds = {part["name"]: part["seconds"] for part in found["hours"]["parts"]}
    # 100 steps; validation after 20, 40, 50, 60, 80 and 100: 100 rows at a third of 0.15 s each.
    assert seconds["steps"] == 120.0
    assert seconds["validation"] == 30.0
    assert found["hours"]["value"] == pytest.approx(sum(seconds.values()) / 3600, abs=1e-4)
    assert found["hours"]["with_margin"] == pytest.approx(1.5 * found["hours"]["value"], abs=1e-4)
    assert found["hours"]["basis"] == "wire: median step 1.2 s at batch 8"
    assert found["verdict"] == "pass"


def test_one_s_own_machine_costs_nothing_whatever_the_limit() -> None:
    money = quote(RUN, WIRE, FREE)["money"]
    assert Decimal(money["value"]) == Decimal(money["ceiling"]) == 0


def test_money_is_price_times_hours_rounded_up() -> None:
    found = quote(RUN, {**WIRE, "step_s_median": 20.0}, PAID)
    exact = Decimal("2.00") * Decimal(str(found["hours"]["value"]))
    assert exact <= Decimal(found["money"]["value"]) < exact + Decimal("0.01")
    assert found["money"]["ceiling"] == "5"


@pytest.mark.parametrize(
    "wire", [None, {}, {"step_s_median": None}, {"step_s_median": 0.0}, {**WIRE, "tiny": True}]
)
def test_without_a_measurement_nothing_is_told(wire: dict[str, Any] | None) -> None:
    found = quote(RUN, wire, FREE)
    assert found["verdict"] == "cannot_tell"
    assert found["basis"].startswith("unknown")
    assert found["hours"] is None and found["money"] is None


def test_a_measurement_at_another_batch_is_scaled_and_says_so() -> None:
    found = quote(RUN, {**WIRE, "batch_size": 4}, FREE)
    assert found["steps"]["step_s"] == pytest.approx(2.4)
    assert "batch 4, scaled to 8" in found["basis"]


@given(
    step=st.floats(0.01, 120), save=st.floats(0.0, 60), minutes=st.floats(0.1, 120),
)  # fmt: skip
def test_no_crash_costs_more_than_was_allowed(step: float, save: float, minutes: float) -> None:
    run = _with_risk(minutes)
    found = quote(run, {"step_s_median": step, "save_s": save}, FREE)
    every = found["checkpoint"]["every_s"]
    assert every >= step - 0.001
    if found["checkpoint"]["kept"]:
        assert every + save + step <= 60 * minutes + 0.001
    else:
        # Not even a save after every step keeps the limit, and that is a problem, not a surprise.
        assert 2 * step + save > 60 * minutes - 0.001
        assert any("minutes_at_risk" in problem for problem in found["problems"])
    assert found["crash"]["expected_minutes"] <= found["crash"]["worst_minutes"] + 0.01


def test_the_limit_binds_where_the_optimum_is_longer() -> None:
    found = quote(_with_risk(2.0), {**WIRE, "save_s": 5.0}, FREE)
    assert found["checkpoint"]["every_s"] == pytest.approx(120 - 5 - 1.2)
    assert "at risk" in found["checkpoint"]["reason"]


def test_the_optimum_binds_where_it_is_shorter() -> None:
    found = quote(_with_risk(60.0), WIRE, FREE)
    assert found["checkpoint"]["every_s"] == pytest.approx((2 * 0.4 * 86_400) ** 0.5, abs=0.01)
    assert "Young" in found["checkpoint"]["reason"]


@pytest.mark.parametrize(
    ("wire", "offer", "named"),
    [
        ({**WIRE, "step_s_median": 90.0}, FREE, "limits.hours"),
        ({**WIRE, "step_s_median": 60.0}, {**PAID, "price_per_h": "20"}, "limits.money"),
        ({**WIRE, "peak_memory_gib": 15.0}, FREE, "memory"),
        ({**WIRE, "checkpoint_bytes": 9e9}, FREE, "disk"),
        ({**WIRE, "save_s": 700.0}, FREE, "minutes_at_risk"),
    ],
)
def test_what_does_not_fit_is_named(wire: Json, offer: Json, named: str) -> None:
    found = quote(RUN, wire, offer)
    assert found["verdict"] == "fail"
    assert any(named in problem for problem in found["problems"])


def test_a_session_limit_counts() -> None:
    slow = {**WIRE, "step_s_median": 40.0}
    assert quote(RUN, slow, FREE, session_hours=9.0)["verdict"] == "pass"
    assert "session" in quote(RUN, slow, FREE, session_hours=1.0)["problems"][0]


def _with_risk(minutes: float) -> Json:
    settings = RUN["settings"]
    limits = {**settings["limits"], "minutes_at_risk": minutes}
    return {**RUN, "settings": {**settings, "limits": limits}}
