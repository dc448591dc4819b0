"""Memory of a training run, in lines to check by hand, beside what was measured. Pure."""

from __future__ import annotations

from tunegate.types import Json

BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "int8": 1.0, "int4": 0.5}
"""Bytes a weight takes."""

WEIGHTS_AT = {"32 bits": 4.0, "16 bits": 2.0, "8 bits": 1.0, "4 bits": 0.5}
"""What the base's weights would take at other precisions, in bytes each, to show beside them."""

ACTIVATION_BYTES = {
    "cpu": {"fp32": 128, "bf16": 100, "fp16": 100},
    "gpu": {"fp32": 88, "bf16": 44, "fp16": 44},
}
"""Bytes kept for backward, for each token, layer and unit of width, without recomputation.

Measured. CPU: SmolLM2-135M, 921 tokens, 2.1 MiB a token in fp32 and 1.7 in bf16, where norms and
attention scores stay in fp32, with what the C allocator keeps for itself. H200 in bf16: 1.2 MiB a
token for 28 layers of 1024 (44 bytes) and 4.6 MiB for 32 of 4096 (37 bytes); fp32 is twice that.
"""

LOGIT_BYTES = 12
"""Of each logit: its value, its logarithm and its gradient, in fp32."""

HEADROOM = {"cpu": 0.25, "gpu": 0.10}
"""Kept free for the allocator and for rows longer than those measured.

On a CPU freed blocks of uneven size are not all used again: in the demo's training of 102 steps the
peak was 1.24 times that of the wire test before it (3.11 and 2.51 GiB).
"""

RUNTIME_GIB = {"cpu": 0.45, "gpu": 0.0}
"""Interpreter, libraries and rows; on a GPU they lie elsewhere and are not counted."""

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

    `measured` is the wire test's observation. Its `peak_memory_gib` replaces the sum, since it was
    taken on this model and these rows, and `ratio` says how far apart the two are; its
    `pack_tokens` are the tokens of the largest forward pass, which are fewer than the batch's where
    rows share their prompt. A tiny stand-in model (`tiny`) has measured the tokens and no memory.
    `available_gib` is the memory of the offer.
    """
    seen = measured or {}
    device = "gpu" if seen.get("device_kind") == "cuda" else "cpu"
    lines, adapter = _lines(frozen, seen.get("pack_tokens"), device)
    summed = sum(line["gib"] for line in lines)
    peak = None if seen.get("tiny") else seen.get("peak_memory_gib")
    need = peak if peak is not None else summed
    total = need * (1 + HEADROOM[device])
    basis = "measured by the wire test" if peak is not None else "sum of the lines"
    return {
        "lines": lines,
        "weights_at_gib": {
            name: round(frozen["base"]["parameters"] * size / GIB, 3)
            for name, size in WEIGHTS_AT.items()
        },
        "sum_gib": round(summed, 2),
        "measured_gib": peak,
        "ratio": round(peak / summed, 2) if peak is not None else None,
        "headroom_gib": round(need * HEADROOM[device], 2),
        "headroom": f"{HEADROOM[device]:.0%} of what was {basis}"
        if peak is not None
        else f"{HEADROOM[device]:.0%} of the sum",
        "total_gib": round(total, 2),
        "available_gib": available_gib,
        "fits": None if available_gib is None else total <= available_gib,
        "basis": basis,
        "adapter_parameters": adapter,
    }


def _lines(frozen: Json, pack_tokens: int | None, device: str) -> tuple[list[Json], int]:
    """The lines, and the weights of the adapter."""
    train, base, data = frozen["settings"]["train"], frozen["base"], frozen["data"]["train"]
    width, layers, batch = base["hidden"], base["layers"], train["batch_size"]
    size, kept = BYTES[train["precision"]], ACTIVATION_BYTES[device][train["precision"]]
    adapter = adapter_parameters(frozen)
    longest = min(train["max_length"], data.get("tokens_max") or train["max_length"])
    tokens = pack_tokens or batch * longest
    whose = "measured tokens" if pack_tokens else f"tokens ({batch} rows of {longest})"
    answers = batch * (data.get("answer_tokens_max") or train["max_length"])
    lines = [
        _line("weights", base["parameters"] * size, f"{base['parameters']:,} x {size:g} bytes"),
        _line("adapter", adapter * 4, f"{adapter:,} x 4 bytes (fp32 whatever the base has)"),
        _line("gradients", adapter * 4, f"{adapter:,} x 4 bytes"),
        _line("optimizer", adapter * 8, f"{adapter:,} x 8 bytes (Adam: two fp32 moments)"),
        _line(
            "activations",
            tokens * layers * width * kept,
            f"{tokens:,} {whose} x {layers} layers x {width} wide x {kept} bytes",
        ),
        _line(
            "logits",
            answers * base["vocab"] * LOGIT_BYTES,
            f"{answers:,} answer tokens x {base['vocab']:,} x {LOGIT_BYTES} bytes "
            "(value, logarithm, gradient)",
        ),
    ]
    if RUNTIME_GIB[device]:
        lines.append(
            {
                "name": "runtime",
                "gib": RUNTIME_GIB[device],
                "formula": "interpreter, libraries and rows",
            }
        )
    return lines, adapter


def table(found: Json) -> list[str]:
    """The arithmetic as lines of text: parts, sum, measured, total."""
    rows = [(line["name"], line["gib"], line["formula"]) for line in found["lines"]]
    rows.append(("sum", found["sum_gib"], ""))
    if found["measured_gib"] is not None:
        against = f"peak of the wire test, {found['ratio']:.2f} x the sum"
        rows.append(("measured", found["measured_gib"], against))
    rows.append(("headroom", found["headroom_gib"], found["headroom"]))
    there = "" if found["available_gib"] is None else f"of {found['available_gib']:g} GiB there"
    rows.append(("to plan with", found["total_gib"], there))
    return [f"  {name:<13}{gib:>8.3f} GiB  {text}".rstrip() for name, gib, text in rows]


def _line(name: str, size_bytes: float, formula: str) -> Json:
    return {"name": name, "gib": round(size_bytes / GIB, 3), "formula": formula}
