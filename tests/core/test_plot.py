"""Braille curves and the picture that `tunegate watch` draws."""

from __future__ import annotations

import io

from rich.console import Console

from tunegate.surfaces.live import figures, picture
from tunegate.surfaces.plot import braille

BLANK = chr(0x2800)


def test_a_falling_line_goes_from_top_left_to_bottom_right() -> None:
    points = [[x, 1 - x / 8] for x in range(8)]
    lines = braille(points, width=4, height=2, x_max=8, low=0, high=1)
    assert [len(line) for line in lines] == [4, 4]
    assert lines[0][0] != BLANK and lines[1][3] != BLANK
    assert lines[0][3] == BLANK and lines[1][0] == BLANK


def test_points_outside_and_a_flat_line_stay_inside() -> None:
    lines = braille([[-5, 9], [99, -9]], width=3, height=2, x_max=10, low=0, high=1)
    assert lines[0][0] != BLANK and lines[1][2] != BLANK
    assert braille([[0, 2.0], [9, 2.0]], width=3, height=1, x_max=9, low=2.0, high=2.0)[0] != ""


SNAPSHOT = {
    "state": "running", "job": "attempt 2", "phase": "train", "done": 30, "total": 60,
    "eta_s": 75.0, "rows_per_s": 4.0, "step": 30, "steps": 60, "loss": 0.5, "validation_loss": 0.6,
    "best": {"step": 20, "loss": 0.55}, "tokens_per_s": 812.3, "notes": [],
    "curve": {"loss": [[1, 2.0], [30, 0.5]], "validation": [[20, 0.55], [30, 0.6]]},
    "checkpoint": {"step": 30, "age_s": 90.0, "minutes_allowed": 10},
    "spend": {"money": "0", "ceiling": "0", "currency": "USD", "hours_ceiling": 3},
    "memory_gib": 1.5, "silent": True, "silent_s": 300.0,
}  # fmt: skip


def test_the_picture_says_what_is_known() -> None:
    out = io.StringIO()
    Console(file=out, width=100).print(picture(SNAPSHOT))
    text = out.getvalue()
    for said in ("attempt 2: train  50 %", "30 of 60", "1:15 of this phase", "812 tokens/s",
                 "1.5 min at risk of 10 allowed", "best 0.5500 at step 20", "1.50 GiB",
                 "silent for 300 s", "2.000", "0.500"):  # fmt: skip
        assert said in text, text


def test_what_is_not_known_is_left_out() -> None:
    assert figures({"state": "between", "job": None}) == []
    out = io.StringIO()
    Console(file=out, width=100).print(picture({"state": "between", "job": None}))
    assert "between two jobs" in out.getvalue()
