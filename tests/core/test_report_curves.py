"""The parts of the page alone: curves as places on a canvas, values as texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests import eval_run
from tunegate.report import wording as words
from tunegate.report.curve_view import curve_view
from tunegate.types import Json


def test_the_curve_marks_the_minimum_and_the_checkpoint() -> None:
    view = curve_view(eval_run.metrics_rows(), {"best": {"step": 102}})
    assert view is not None
    assert (view["minimum"]["step"], view["chosen"]["step"]) == (85, 102)
    places = [value for point in view["points"] for value in (point["x"], point["y"])]
    assert all(0 <= value <= 100 for value in places)
    lowest = max(view["points"], key=lambda point: point["y"])
    assert lowest["step"] == 85  # y runs downwards
    assert view["x_ticks"][0] == {"at": 0.0, "label": "0"}
    assert [tick["label"] for tick in view["y_ticks"]] == ["0.05", "0.1", "0.2", "0.5", "1"]


@pytest.mark.parametrize(
    "rows",
    [
        [{"step": 1, "loss": 0.5}],
        [{"step": 1, "loss": 0.5}, {"step": 1, "loss": 0.4}],
        [{"step": s, "loss": 0.3} for s in range(1, 5)],
        [{"step": 1, "loss": float("nan")}, {"step": 2, "loss": 1.0}, {"step": 3, "loss": 0.0}],
        [{"step": s, "loss": 10.0 ** -(s % 7)} for s in range(1, 3000)],
    ],
)
def test_odd_curves_are_drawn(rows: list[Json]) -> None:
    view = curve_view(rows, None)
    assert view is not None
    numbers = [float(item) for item in re.findall(r"-?[\d.]+", view["train"] + view["smooth"])]
    assert all(0 <= item <= 1000 for item in numbers)
    assert len(view["train"].split("L")) <= 402


def test_no_curve_without_losses() -> None:
    assert curve_view([], None) is None
    assert curve_view([{"step": 1, "loss": float("inf")}], {}) is None


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        (words.duration, 0.42, "0.4 s"),
        (words.duration, 59.6, "1 min"),
        (words.duration, 214.2, "3 min 34 s"),
        (words.duration, 3900, "1 h 5 min"),
        (words.duration, None, "–"),
        (words.plain, 0.8958, "89.6"),
        (words.plain, None, "–"),
        (words.points, -0.0001, "0.0"),
        (words.points, -0.062, "−6.2"),
        (words.percent, 1.0, "100.0 %"),
        (words.number, 134515008, "134 515 008"),
        (words.value, True, "yes"),
        (words.value, 0.0002, "0.0002"),
        (words.value, ["q_proj", "v_proj"], "q_proj, v_proj"),
        (words.value, None, "none"),
        (words.value, {"a": [1]}, '{"a": [1]}'),
        (words.bare_p, 0.00001, "< 0.001"),
        (words.bare_p, 0.0342, "0.034"),
        (words.when, "2026-11-30T19:51:00+00:00", "30 November 2026, 19:51 UTC"),
        (words.when, "yesterday", "yesterday"),
        (words.short, "ab" * 32, "abababababab"),
    ],
)
def test_values_are_written(function: Callable[[Any], str], given: Any, expected: str) -> None:
    assert function(given).replace("\u202f", " ").replace("\u00a0", " ") == expected
