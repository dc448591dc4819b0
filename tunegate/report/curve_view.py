"""The loss curves as places on a canvas of 1000 by 1000, y downwards, loss on a log scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tunegate.types import Json

SIZE = 1000
WINDOW_SHARE = 0.06
"""Width of the running mean of the training loss, as a share of the run."""
STEPS_SHOWN = 400
"""Points of the raw curve; longer runs are thinned out, the running mean is not."""


def curve_view(rows: Sequence[Mapping[str, Any]], receipt: Mapping[str, Any] | None) -> Json | None:
    """Paths, points, ticks and marks; None where no loss was logged."""
    train = _series(rows, "loss")
    validation = _series(rows, "validation_loss")
    if not train:
        return None
    losses = [loss for _, loss in (*train, *validation)]
    low, high = _bounds(losses)
    last = max(step for step, _ in (*train, *validation))

    def place(point: tuple[int, float]) -> tuple[float, float]:
        step, loss = point
        part = (math.log(max(loss, low)) - math.log(low)) / (math.log(high) - math.log(low))
        return SIZE * step / last, SIZE * (1 - min(1.0, part))

    minimum = min(validation, key=lambda point: (point[1], point[0])) if validation else None
    best = ((receipt or {}).get("best") or {}).get("step")
    chosen = next((point for point in validation if point[0] == best), None)
    smooth = _smooth(train)
    return {
        "train": _path([place(point) for point in _thin(train)]),
        "smooth": _path([place(point) for point in _thin(smooth)]),
        "validation": _path([place(point) for point in validation]),
        "points": [_mark(point, place(point)) for point in validation],
        "minimum": _mark(minimum, place(minimum)) if minimum else None,
        "chosen": _mark(chosen, place(chosen)) if chosen else None,
        "y_ticks": [
            {"at": place((0, tick))[1] / SIZE * 100, "label": f"{tick:g}"}
            for tick in _ticks(low, high)
        ],
        "x_ticks": [{"at": 100 * step / last, "label": str(step)} for step in _steps(last)],
        "first": train[0],
        "last": train[-1],
        "steps": last,
    }


def _series(rows: Sequence[Mapping[str, Any]], key: str) -> list[tuple[int, float]]:
    """(step, loss) in order; of a step that a resumed run repeats, the later row counts."""
    found = {
        int(row["step"]): float(row[key])
        for row in rows
        if row.get(key) is not None and math.isfinite(row[key]) and row[key] > 0
    }
    return sorted(found.items())


def _bounds(losses: Sequence[float]) -> tuple[float, float]:
    low, high = min(losses), max(losses)
    if high / low < 1.5:
        low, high = low / 1.3, high * 1.3
    return low / 1.08, high * 1.08


def _smooth(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Mean over a window round each step; at the ends the window is what there is of it."""
    half = max(1, round(WINDOW_SHARE * len(points) / 2))
    sums = [0.0]
    for _, loss in points:
        sums.append(sums[-1] + loss)
    out = []
    for index, (step, _) in enumerate(points):
        reach = min(half, index, len(points) - 1 - index)
        start, end = index - reach, index + reach + 1
        out.append((step, (sums[end] - sums[start]) / (end - start)))
    return out


def _thin(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    every = max(1, math.ceil(len(points) / STEPS_SHOWN))
    return [*points[::every], points[-1]] if every > 1 else list(points)


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "".join(f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(places))


def _mark(point: tuple[int, float], at: tuple[float, float]) -> Json:
    return {
        "step": point[0],
        "loss": point[1],
        "x": at[0] / SIZE * 100,
        "y": at[1] / SIZE * 100,
    }


def _ticks(low: float, high: float) -> list[float]:
    """1-2-5 numbers between the bounds; only powers of ten where there would be too many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [m * 10.0**d for d in decades for m in (1, 2, 5)]
    inside = [round(tick, 12) for tick in every if low <= tick <= high]
    if len(inside) > 7:
        inside = [tick for tick in inside if abs(math.log10(tick) - round(math.log10(tick))) < 1e-9]
    return inside


def _steps(last: int) -> list[int]:
    rough = max(1.0, last / 5)
    power = 10 ** math.floor(math.log10(rough))
    size = max(1, int(next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough)))
    return list(range(0, last + 1, size))
