"""memory: the arithmetic against counts that were measured, and the order of things."""

from __future__ import annotations

import math
import re

import pytest
from samples import frozen

from tunegate import memory

QWEN3_8B = {
    "parameters": 8_190_735_360,
    "layers": 36,
    "hidden": 4096,
    "vocab": 151_936,
    "linear_modules": {
        **dict.fromkeys(
            ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"), 36
        ),
        "lm_head": 1,
    },
}


def test_adapter_of_the_bundled_model_has_as_many_weights_as_peft_makes() -> None:
    assert memory.adapter_parameters(frozen()) == pytest.approx(4_884_480, rel=0.001)


def test_adapter_of_an_untied_model() -> None:
    # Sides of one block: q, o 4096+4096 each; k, v 4096+1024; gate, up, down 4096+12288.
    sides = 2 * 8192 + 2 * 5120 + 3 * 16_384
    assert memory.adapter_parameters(frozen(base=QWEN3_8B)) == pytest.approx(
        16 * 36 * sides, rel=0.001
    )


def test_fewer_targets_make_a_smaller_adapter() -> None:
    some = frozen({"train": {"lora": {"targets": ["q_proj", "v_proj"]}}})
    assert 0 < memory.adapter_parameters(some) < memory.adapter_parameters(frozen())


@pytest.mark.parametrize(("precision", "gib"), [("fp32", 30.5), ("bf16", 15.3), ("fp16", 15.3)])
def test_weights_of_an_8b_model(precision: str, gib: float) -> None:
    run = frozen({"train": {"precision": precision}}, base=QWEN3_8B)
    weights = memory.estimate(run)["lines"][0]
    assert weights["gib"] == pytest.approx(gib, abs=0.1)


def test_an_8b_adapter_run_in_bf16_fits_24_gib() -> None:
    run = frozen({"train": {"precision": "bf16", "batch_size": 2}}, base=QWEN3_8B)
    gpu = {"device_kind": "cuda"}
    assert memory.estimate(run, gpu, available_gib=24.0)["fits"] is True
    assert memory.estimate(run, gpu, available_gib=16.0)["fits"] is False


def test_what_was_measured_replaces_the_sum() -> None:
    found = memory.estimate(frozen(), {"peak_memory_gib": 1.9}, available_gib=2.0)
    assert found["measured_gib"] == 1.9
    assert found["total_gib"] == pytest.approx(1.9 * 1.25, abs=0.01)
    assert found["sum_gib"] != found["measured_gib"]
    assert found["fits"] is False
    assert "measured" in found["basis"]


def test_the_sum_is_the_sum_of_its_lines() -> None:
    found = memory.estimate(frozen())
    assert found["sum_gib"] == pytest.approx(sum(line["gib"] for line in found["lines"]), abs=0.01)
    assert found["fits"] is None


@pytest.mark.parametrize(
    ("precision", "peak_gib"),
    # Resident memory of one optimizer step on the eight longest triage rows, 921 tokens as laid.
    [("fp32", 2.92), ("bf16", 2.27)],
)
def test_the_sum_is_near_what_the_bundled_model_took(precision: str, peak_gib: float) -> None:
    run = frozen({"train": {"precision": precision}})
    found = memory.estimate(run, {"pack_tokens": 921, "peak_memory_gib": peak_gib})
    assert found["ratio"] == pytest.approx(peak_gib / found["sum_gib"], abs=0.01)
    assert found["ratio"] == pytest.approx(1, abs=0.1)


def test_each_line_is_the_product_that_it_shows() -> None:
    for line in memory.estimate(frozen(), {"pack_tokens": 700})["lines"]:
        if line["name"] == "runtime":
            continue
        arithmetic = re.sub(r"\(.*?\)", "", line["formula"]).replace(",", "")
        factors = [float(number) for number in re.findall(r"(?:^|x )([\d.]+)", arithmetic)]
        assert len(factors) >= 2
        assert line["gib"] == pytest.approx(math.prod(factors) / memory.GIB, abs=0.0006)


def test_weights_take_four_two_one_and_half_a_byte() -> None:
    sizes = memory.estimate(frozen())["weights_at_gib"]
    parameters = frozen()["base"]["parameters"]
    assert list(sizes.values()) == [
        pytest.approx(parameters * size / memory.GIB, abs=0.001) for size in (4, 2, 1, 0.5)
    ]


def test_a_tiny_stand_in_measures_no_memory() -> None:
    found = memory.estimate(frozen(), {"peak_memory_gib": 0.4, "tiny": True})
    assert found["measured_gib"] is None and found["ratio"] is None
    assert found["total_gib"] > found["sum_gib"] > 0.4


def test_rows_that_share_their_prompt_keep_fewer_activations() -> None:
    def activations(seen: dict[str, int]) -> float:
        lines = memory.estimate(frozen(), seen)["lines"]
        return next(line["gib"] for line in lines if line["name"] == "activations")

    assert activations({"pack_tokens": 300}) < activations({})


def test_the_table_says_what_the_numbers_are() -> None:
    shown = memory.table(memory.estimate(frozen(), {"peak_memory_gib": 1.9}, available_gib=7.6))
    text = "\n".join(shown)
    for word in ("weights", "adapter", "gradients", "optimizer", "activations", "logits", "sum"):
        assert word in text
    assert "1.900 GiB  peak of the wire test" in text and "of 7.6 GiB there" in text
