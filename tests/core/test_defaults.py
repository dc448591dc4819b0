"""defaults: every rule against the facts it was drawn from, and against odd inputs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import FACTS, SMOLLM2

from tunegate import defaults
from tunegate.errors import UsageError
from tunegate.types import Choice

SIZES = st.integers(1_000_000, 400_000_000_000)


def rate(parameters: int, *, rank: int = 16, batch: int = 8) -> Choice:
    return defaults.choose_learning_rate(
        FACTS, method="lora", parameters=parameters, rank=rank, batch_size=batch
    )


def test_the_bundled_model_gets_the_rate_that_was_measured_on_it() -> None:
    choice = rate(SMOLLM2["parameters"])
    assert choice.value == 0.001
    assert "SmolLM2-135M" in str(choice.source)


def test_the_guides_sizes_get_the_guides_rate() -> None:
    assert rate(8_000_000_000).value == 0.0002


@given(SIZES, SIZES, st.integers(1, 1024), st.integers(1, 512))
def test_a_larger_model_never_gets_a_higher_rate(a: int, b: int, rank: int, batch: int) -> None:
    small, large = sorted((a, b))
    rates = [rate(size, rank=rank, batch=batch).value for size in (small, large)]
    assert rates[0] >= rates[1] > 0


@given(SIZES, st.integers(1, 512))
def test_the_chosen_rate_lies_in_the_rows_band(parameters: int, batch: int) -> None:
    row = defaults.learning_rate_row(FACTS, method="lora", parameters=parameters, batch_size=batch)
    assert row["low"] <= rate(parameters, batch=batch).value <= row["high"]


def test_a_high_rank_lowers_the_rate_and_says_so() -> None:
    assert rate(8_000_000_000, rank=64).value == rate(8_000_000_000).value
    high = rate(8_000_000_000, rank=256)
    assert high.value == rate(8_000_000_000).value / 4
    assert "rank 256" in high.reason


def test_a_method_without_rates_is_refused() -> None:
    with pytest.raises(UsageError, match="galore"):
        defaults.choose_learning_rate(FACTS, method="galore", parameters=1, rank=1, batch_size=1)


@pytest.mark.parametrize(
    ("rows", "expected"), [(400, 8), (73, 8), (72, 4), (20, 2), (18, 1), (1, 1)]
)
def test_the_batch_leaves_enough_steps(rows: int, expected: int) -> None:
    choice = defaults.choose_batch_size(FACTS, rows=rows, epochs=2)
    assert choice.value == expected


@given(st.integers(1, 5000), st.integers(1, 64), st.floats(0.1, 5))
def test_steps_cover_every_row(rows: int, batch: int, epochs: float) -> None:
    steps = defaults.total_steps(rows=rows, batch_size=batch, epochs=epochs)
    assert steps * batch >= rows * epochs - 1e-6
    assert steps >= 1


def test_warmup_is_five_of_ninety_steps() -> None:
    assert defaults.choose_warmup_steps(FACTS, total_steps=90).value == 5


@given(st.integers(1, 20_000))
def test_warmup_stays_in_its_band(steps: int) -> None:
    value = defaults.choose_warmup_steps(FACTS, total_steps=steps).value
    assert 0 <= value / steps < 0.3
    assert steps < 4 or value >= 1


@given(rows=st.integers(1, 5000), batch=st.integers(1, 32), validation=st.integers(1, 5000))
def test_validation_costs_at_most_a_third_unless_it_is_the_end_of_an_epoch(
    rows: int, batch: int, validation: int
) -> None:
    steps = defaults.total_steps(rows=rows, batch_size=batch, epochs=2)
    every = defaults.choose_eval_every_steps(
        FACTS, rows=rows, batch_size=batch, total_steps=steps, validation_rows=validation
    ).value
    passes = defaults.validation_steps(rows=rows, batch_size=batch, total_steps=steps, every=every)
    epoch = math.ceil(rows / batch)
    assert {epoch, steps} <= set(passes)
    assert len(passes) <= 8
    # A third of a training row's cost for each validation row.
    assert every == epoch or len(passes) * validation / 3 <= 0.34 * batch * steps


def test_validations_are_spread_evenly() -> None:
    choice = defaults.choose_eval_every_steps(
        FACTS, rows=400, batch_size=8, total_steps=100, validation_rows=100
    )
    assert choice.value == 20
    assert "third" in choice.reason


def test_validation_comes_four_times_an_epoch_where_it_is_cheap() -> None:
    choice = defaults.choose_eval_every_steps(
        FACTS, rows=800, batch_size=8, total_steps=200, validation_rows=20
    )
    assert choice.value == 25


@given(st.integers(1, 10_000), st.integers(16, 8192))
def test_max_length_cuts_nothing_within_the_context(longest: int, context: int) -> None:
    choice = defaults.choose_max_length(longest_tokens=longest, context=context)
    assert choice.value <= context
    if longest <= context:
        assert longest <= choice.value < longest + 8
    else:
        assert "is cut" in choice.reason


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ({"kind": "cpu", "bf16_native": False}, "fp32"),
        ({"kind": "cpu"}, "fp32"),
        ({"kind": "cpu", "bf16_native": True}, "bf16"),
        ({"kind": "cuda", "capability": 7.5}, "fp16"),
        ({"kind": "cuda", "capability": [8, 9]}, "bf16"),
        ({"kind": "cuda", "capability": "12.0"}, "bf16"),
        ({"kind": "cuda"}, "fp16"),
        ({"kind": "mps"}, "fp32"),
        ({"kind": "abacus"}, "fp32"),
    ],
)
def test_precision_follows_the_device(device: dict[str, object], expected: str) -> None:
    assert defaults.choose_precision(FACTS, device=device).value == expected


def test_targets_are_all_linear_modules_but_heads_and_routers() -> None:
    modules = {"lm_head": 1, "down_proj": 2, "gate": 2, "zeta": 2, "q_proj": 2}
    choice = defaults.choose_targets(FACTS, linear_modules=modules)
    assert choice.value == ["q_proj", "down_proj", "zeta"]


@given(st.integers(0, 4000))
def test_answers_have_room(p99: int) -> None:
    value = defaults.choose_max_new_tokens(FACTS, p99_answer_tokens=p99).value
    assert value >= max(24, math.ceil(1.3 * p99) + 1)
    assert value % 8 == 0


def test_the_protocol_is_two_epochs_at_rank_16() -> None:
    chosen = {choice.key: choice.value for choice in defaults.choose_protocol(FACTS)}
    assert chosen["train.epochs"] == 2
    assert chosen["train.lora.rank"] == 16
    assert chosen["train.schedule"] == "linear"
    assert defaults.choose_alpha(FACTS, rank=16).value == 32
