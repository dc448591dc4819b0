"""versions.in_range: what a range means, and when it cannot be told."""

from __future__ import annotations

import pytest

from tunegate.versions import in_range


@pytest.mark.parametrize(
    ("version", "versions", "expected"),
    [
        ("2.13.0+cpu", ">=2.11,<3", True),
        ("2.9.1", ">=2.11", False),  # 9 is less than 11: numbers, not text
        ("5.24.0", "<=5.17.0", False),
        ("1.16.0", "==1.16.0", True),
        ("4.0.0b36", ">=4.0", False),
        ("4.1.0b36", ">=4.0", True),
        ("2026.10.9", "", True),
        (None, ">=1", None),
        ("main", ">=1", None),
        ("1.0", "somewhere", None),
    ],
)
def test_in_range(version: str | None, versions: str, expected: bool | None) -> None:
    assert in_range(version, versions) is expected
