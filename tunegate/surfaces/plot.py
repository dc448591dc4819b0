"""A curve as lines of Braille, two dots across and four down in a character."""

from __future__ import annotations

from collections.abc import Sequence

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a Braille character by row and column of its dots (Unicode 17, block U+2800)."""


def braille(
    points: Sequence[Sequence[float]], *, width: int, height: int, x_max: float,
    low: float, high: float,
) -> list[str]:  # fmt: skip
    """`height` lines of `width` characters; (x, y) with x in [0, x_max] and y in [low, high].

    What lies outside is put on the edge.
    """
    cells = [[0] * width for _ in range(height)]
    span = (high - low) or 1.0
    for x, y in points:
        column = _within(x / (x_max or 1.0), 2 * width)
        row = _within((high - y) / span, 4 * height)
        cells[row // 4][column // 2] |= _DOTS[row % 4][column % 2]
    return ["".join(chr(0x2800 + bits) for bits in line) for line in cells]


def _within(share: float, count: int) -> int:
    return min(count - 1, max(0, int(share * count)))
