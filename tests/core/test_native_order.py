"""The pure parts of the native trainer: batches, schedule, shared prefix, packs, digests."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunegate import frameworks
from tunegate.errors import ChangedSinceRelease, PluginError
from tunegate.types import IGNORED, Example
from tunegate.worker.feed import Order, labels_sha256, verify_labels
from tunegate.worker.pack import shared_prefix, split
from tunegate.worker.step import answer_tokens, learning_rate
from tunegate.worker.wire import _class_of, _evenly

ORDERS = st.builds(
    Order, rows=st.integers(1, 60), batch_size=st.integers(1, 12), seed=st.integers(0, 9)
)


@given(ORDERS, st.integers(0, 3))
def test_an_epoch_draws_every_row_once(order: Order, epoch: int) -> None:
    first = epoch * order.steps_per_epoch + 1
    steps = range(first, first + order.steps_per_epoch)
    drawn = Counter(row for step in steps for row in order.batch(step))
    assert drawn == Counter(range(order.rows))
    assert [order.ends_epoch(step) for step in steps] == [False] * (len(steps) - 1) + [True]


@given(ORDERS, st.integers(1, 100))
def test_a_batch_depends_on_its_step_alone(order: Order, step: int) -> None:
    """So that a resumed run needs to know the step only; other draws change nothing."""
    before = order.batch(step)
    random.random()
    assert order.batch(step) == before
    assert len(before) <= order.batch_size


def test_epochs_differ() -> None:
    order = Order(rows=40, batch_size=40, seed=0)
    assert order.batch(1) != order.batch(2) != list(range(40))
    assert order.batch(1) != Order(rows=40, batch_size=40, seed=1).batch(1)


def test_planned_steps_are_what_freeze_computes() -> None:
    from tunegate.defaults import total_steps

    for rows in (1, 7, 8, 9, 100):
        for epochs in (0.5, 1, 2, 2.5):
            order = Order(rows=rows, batch_size=8, seed=0)
            expected = total_steps(rows=rows, batch_size=8, epochs=epochs)
            assert order.total_steps({"epochs": epochs, "total_steps": expected}) == expected
            assert order.total_steps({"epochs": epochs}) == expected
    # Rows that were dropped make a run shorter, never a third epoch.
    assert Order(rows=4, batch_size=2, seed=0).total_steps({"epochs": 2, "total_steps": 6}) == 4


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant"])
def test_schedules(schedule: str) -> None:
    rates = [
        learning_rate(step, peak=1.0, schedule=schedule, warmup=4, total=20)
        for step in range(1, 21)
    ]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0] and max(rates) == 1.0
    assert all(earlier >= later for earlier, later in itertools.pairwise(rates[3:]))
    assert rates[-1] > 0, "the last step trains too"
    assert (rates[-1] < 0.1) == (schedule != "constant")


def test_no_warmup_starts_at_the_peak() -> None:
    assert learning_rate(1, peak=2.0, schedule="linear", warmup=0, total=10) == 2.0


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=6))
def test_the_shared_prefix_is_the_longest_that_leaves_a_token(rows: list[list[int]]) -> None:
    size = shared_prefix(rows)
    limit = min(len(row) for row in rows) - 1 if len(rows) > 1 else 0
    fitting = [n for n in range(limit + 1) if len({tuple(row[:n]) for row in rows}) == 1]
    assert size == max(fitting, default=0)


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 5)), min_size=1, max_size=20),
    st.booleans(),
)
def test_packs_keep_order_and_limits(sizes: list[tuple[int, int]], share: bool) -> None:
    examples = [
        Example(
            i, [1] * (own + 3), [IGNORED] * (own + 3 - min(answers, own)) + [1] * min(answers, own)
        )
        for i, (own, answers) in enumerate(sizes)
    ]
    packs = split(examples, share=share, logits=8, tokens=40)
    assert [e.index for p in packs for e in p] == list(range(len(sizes)))
    for part in packs:
        prefix = shared_prefix([e.input_ids for e in examples]) if share else 0
        laid = prefix + sum(len(e.input_ids) - prefix for e in part)
        trained = sum(label != IGNORED for e in part for label in e.labels)
        assert len(part) == 1 or (laid <= 40 and trained <= 8)


def test_the_first_token_is_no_answer_token() -> None:
    assert answer_tokens([Example(0, [5, 6, 7], [5, IGNORED, 7])]) == 1


def test_labels_are_verified() -> None:
    good = [Example(0, [1, 2], [IGNORED, 2]), Example(1, [1, 3], [IGNORED] * 2, dropped="too long")]
    verify_labels({}, good)
    verify_labels({"labels_sha256": labels_sha256(good)}, good)
    other = [Example(0, [1, 2], [1, 2]), good[1]]
    with pytest.raises(ChangedSinceRelease, match="not those that the checks saw"):
        verify_labels({"labels_sha256": labels_sha256(good)}, other)
    for labels in ([IGNORED, IGNORED], [1, IGNORED]):  # a first token is predicted from nothing
        with pytest.raises(ChangedSinceRelease, match="row 7"):
            verify_labels({}, [Example(7, [1, 2], labels)])


@pytest.mark.parametrize(
    ("answer", "task", "expected"),
    [
        ('{"intent": "a"}', {"answer": "json", "class": "/intent"}, "a"),
        ('{"x": [{"y": 3}]}', {"answer": "json", "class": "/x/0/y"}, "3"),
        ("no json", {"answer": "json", "class": "/intent"}, ""),
        ('{"other": 1}', {"answer": "json", "class": "/intent"}, ""),
        ("refund", {"answer": "label", "class": None}, "refund"),
        ("a long text", {"answer": "text", "class": None}, ""),
    ],
)
def test_the_class_of_an_answer(answer: str, task: dict[str, str], expected: str) -> None:
    assert _class_of(answer, task) == expected


def test_rows_are_spread_evenly() -> None:
    assert _evenly(list("abcdefgh"), 4) == list("aceg")
    assert _evenly(list("ab"), 4) == list("ab")


def test_an_unknown_framework_names_the_known_ones() -> None:
    with pytest.raises(PluginError, match="native") as caught:
        frameworks.load("nativ")
    assert caught.value.hint == "did you mean native?"
