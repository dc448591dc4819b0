"""Intervals and tests against published and independently known values."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunegate.compare.statistics import macro_f1, mcnemar, paired_difference, rate, wilson

counts = st.integers(0, 60)


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [
        # Newcombe 1998, Statistics in Medicine 17, 857-872, table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_published_intervals(right: int, n: int, low: float, high: float) -> None:
    assert wilson(right, n, confidence=0.95) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_its_formula_and_holds_the_rate(pair: tuple[int, int]) -> None:
    right, n = pair
    z, share = 1.959963984540054, right / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = wilson(right, n, confidence=0.95)
    assert (low, high) == pytest.approx((max(0, middle - half), min(1, middle + half)), abs=1e-9)
    assert 0 <= low <= share <= high <= 1


def test_a_rate_of_nothing_is_null() -> None:
    assert rate(0, 0, confidence=0.95) == {
        "right": 0,
        "n": 0,
        "rate": None,
        "low": None,
        "high": None,
    }


@pytest.mark.parametrize(
    ("cells", "difference", "low", "high"),
    [
        # Altman et al., Statistics with Confidence, 2nd edition (2000), page 52.
        ((14, 5, 0, 22), 0.122, 0.011, 0.226),
        # Fagerland, Lydersen and Laake 2014, Statistics in Medicine 33, 2850-2875, table II.
        ((1, 1, 7, 12), -0.286, -0.507, -0.026),
        # Two culture media for tubercle bacilli, as StatsDirect's manual works it out.
        ((20, 12, 2, 16), 0.2, 0.056156, 0.329207),
    ],
)
def test_paired_difference_gives_the_published_intervals(
    cells: tuple[int, int, int, int], difference: float, low: float, high: float
) -> None:
    assert paired_difference(*cells, confidence=0.95) == pytest.approx(
        (difference, low, high), abs=6e-4
    )


def test_mcnemar_is_the_sign_test_on_the_rows_that_differ() -> None:
    assert mcnemar(12, 2) == pytest.approx(0.012939453125)  # StatsDirect's manual: 0.0129
    assert mcnemar(7, 1) == pytest.approx(2 * (1 + 8) / 2**8)
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(5, 5) == pytest.approx(1.0)


@given(counts, counts, counts, counts)
def test_a_paired_difference_turns_its_sign_with_the_columns(
    a: int, b: int, c: int, d: int
) -> None:
    if a + b + c + d == 0:
        return
    difference, low, high = paired_difference(a, b, c, d, confidence=0.95)
    assert -1 <= low <= difference + 1e-12 and difference - 1e-12 <= high <= 1
    other = paired_difference(a, c, b, d, confidence=0.95)
    assert other == pytest.approx((-difference, -high, -low), abs=1e-12)
    assert mcnemar(b, c) == pytest.approx(mcnemar(c, b))


def test_the_paired_interval_covers_what_it_promises() -> None:
    rng = random.Random(5)
    covered = 0
    for _ in range(400):
        cells = [0, 0, 0, 0]
        for cell in rng.choices(range(4), weights=(0.5, 0.25, 0.1, 0.15), k=80):
            cells[cell] += 1
        _, low, high = paired_difference(*cells, confidence=0.95)
        covered += low <= 0.15 <= high
    assert 0.92 <= covered / 400 <= 0.985


def test_macro_f1_counts_every_class_the_same() -> None:
    gold = ["a"] * 8 + ["b"] * 2
    said = ["a"] * 8 + ["a", "b"]
    found = macro_f1(gold, said, confidence=0.95)
    assert found["value"] == pytest.approx((16 / 17 + 2 / 3) / 2)
    assert found["low"] < found["value"] < found["high"]
    assert found == macro_f1(gold, said, confidence=0.95)  # the seed is fixed


def test_macro_f1_counts_answers_outside_the_classes_as_misses() -> None:
    found = macro_f1(["a", "a", "b"], ["a", "(unreadable)", "b"], confidence=0.95)
    assert found["value"] == pytest.approx((2 / 3 + 1) / 2)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcx")), min_size=1, max_size=30)
)
def test_macro_f1_agrees_with_its_definition(rows: list[tuple[str, str]]) -> None:
    gold, said = [g for g, _ in rows], [s for _, s in rows]
    f1 = []
    for label in sorted(set(gold)):
        hits = sum(g == s == label for g, s in rows)
        f1.append(2 * hits / (gold.count(label) + said.count(label)))
    found = macro_f1(gold, said, confidence=0.9)
    assert found["value"] == pytest.approx(sum(f1) / len(f1))
    assert 0 <= found["low"] <= found["value"] <= found["high"] <= 1
