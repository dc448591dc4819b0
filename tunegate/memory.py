"""Memory of a training run, in lines to check by hand, beside what was measured. Pure."""

from __future__ import annotations

from tunegate.types import Json

BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "int8": 1.0, "int4": 0.5}
"""Bytes a weight takes."""

ACTIVATIONS = 20
"""Values kept for backward, for each token, layer and unit of width, without recomputation.

Measured on an H200 in bf16: 1.2 MiB a token for 28 layers of 1024 (22 values) and 4.6 MiB for 32 of
4096 (18 values).
"""

HEADROOM = 0.10
"""Kept free for the allocator and for rows longer than those measured."""

RUNTIME_GIB = 0.5
"""Interpreter and libraries."""

GIB = 2**30


def adapter_parameters(frozen: Json) -> int:
    """Weights of the adapter, from the model's header alone.

    Every linear module of a block has the model's width on one side, so its two sides sum to the
    width plus weights / width; an adapter of rank r has r values for each unit of both sides. Where
    only some modules are targeted, they count as average ones.
    """
    base, lora = frozen["base"], frozen["settings"]["train"]["lora"]
    modules, width = base["linear_modules"], base["hidden"]
    heads = [name for name in modules if name in ("lm_head", "embed_out", "output_layer")]
    blocks = {name: count for name, count in modules.items() if name not in heads}
    embeddings = base["vocab"] * width * (2 if heads else 1)
    weights = max(0, base["parameters"] - embeddings)
    sides = sum(blocks.values()) * width + weights / width
    targeted = sum(count for name, count in blocks.items() if name in lora["targets"])
    share = targeted / sum(blocks.values()) if blocks else 0.0
    values: float = lora["rank"] * sides * share
    return round(values)


def estimate(
    frozen: Json, measured: Json | None = None, *, available_gib: float | None = None
) -> Json:
    """Lines {"name", "gib", "formula"}, their sum, what was measured, and the total to plan with.

    `measured` is the wire test's observation; its `peak_memory_gib` replaces the sum, since it was
    taken on this model and these rows. `available_gib` is the memory of the offer.
    """
    train, base, data = frozen["settings"]["train"], frozen["base"], frozen["data"]["train"]
    width, layers, batch = base["hidden"], base["layers"], train["batch_size"]
    size = BYTES[train["precision"]]
    adapter = adapter_parameters(frozen)
    tokens = batch * min(train["max_length"], data.get("tokens_max") or train["max_length"])
    answers = batch * (data.get("answer_tokens_max") or train["max_length"])
    lines = [
        _line("weights", base["parameters"] * size, f"{base['parameters']:,} x {size:g} bytes"),
        _line("adapter", adapter * 4, f"{adapter:,} x 4 bytes"),
        _line("gradients", adapter * 4, f"{adapter:,} x 4 bytes"),
        _line("optimizer", adapter * 8, f"{adapter:,} x 8 bytes (two moments)"),
        _line(
            "activations",
            tokens * layers * width * ACTIVATIONS * size,
            f"{tokens:,} tokens x {layers} layers x {width} x {ACTIVATIONS} x {size:g} bytes",
        ),
        _line(
            "logits",
            answers * base["vocab"] * 8,
            f"{answers:,} answer tokens x {base['vocab']:,} x 8 bytes (values and gradients)",
        ),
        {"name": "runtime", "gib": RUNTIME_GIB, "formula": "interpreter and libraries"},
    ]
    summed = sum(line["gib"] for line in lines)
    peak = (measured or {}).get("peak_memory_gib")
    need = peak if peak is not None else summed
    total = need * (1 + HEADROOM)
    return {
        "lines": lines,
        "sum_gib": round(summed, 2),
        "measured_gib": peak,
        "headroom_gib": round(need * HEADROOM, 2),
        "total_gib": round(total, 2),
        "available_gib": available_gib,
        "fits": None if available_gib is None else total <= available_gib,
        "basis": "measured by the wire test" if peak is not None else "sum of the lines",
        "adapter_parameters": adapter,
    }


def _line(name: str, size_bytes: float, formula: str) -> Json:
    return {"name": name, "gib": round(size_bytes / GIB, 3), "formula": formula}
