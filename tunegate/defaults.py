"""Settings that the run file leaves open, each chosen by a rule of `facts/`, with its reason.

Pure. `facts` is `facts.load_all()`: tables by name. Every function returns a `Choice` (or several)
whose `key` is the dotted path in the resolved settings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from tunegate.errors import UsageError
from tunegate.types import Choice, Json

Facts = Mapping[str, Json]

_ORDER = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_PLAIN = {
    "train.epochs": "epochs",
    "train.lora.rank": "rank",
    "train.lora.dropout": "dropout",
    "train.schedule": "schedule",
    "train.weight_decay": "weight_decay",
    "train.max_grad_norm": "max_grad_norm",
    "train.seed": "seed",
    "train.loss": "loss",
    "eval.decoding": "decoding",
}


def choose_protocol(facts: Facts) -> tuple[Choice, ...]:
    """The settings of a first run that depend on nothing: epochs, rank, schedule, seed, ..."""
    table = facts["protocol"]
    return tuple(_choice(key, table[name]["value"], table[name]) for key, name in _PLAIN.items())


def choose_alpha(facts: Facts, *, rank: int) -> Choice:
    """Scale of the adapter."""
    entry = facts["protocol"]["alpha_per_rank"]
    return _choice("train.lora.alpha", rank * entry["value"], entry)


def learning_rate_row(facts: Facts, *, method: str, parameters: int, batch_size: int) -> Json:
    """The row of the table for this size and batch: `value`, `low`, `high`, `reason`, `source`.

    A batch above the table's largest takes the row of the largest. Raises UsageError for a method
    that the table does not know.
    """
    rows = [row for row in facts["learning_rates"]["rows"] if row["method"] == method]
    if not rows:
        known = sorted({row["method"] for row in facts["learning_rates"]["rows"]})
        raise UsageError(
            f"no learning rates are known for the method `{method}`",
            hint=f"set train.learning_rate; known methods: {', '.join(known)}",
        )
    sized = [r for r in rows if r["parameters_below"] is None or parameters < r["parameters_below"]]
    smallest = min(r["parameters_below"] or math.inf for r in sized)
    band = [r for r in sized if (r["parameters_below"] or math.inf) == smallest]
    band.sort(key=lambda r: int(r["batch_at_most"]))
    fitting = [r for r in band if batch_size <= r["batch_at_most"]]
    row: Json = (fitting or band[-1:])[0]
    return row


def rank_factor(facts: Facts, *, rank: int) -> float:
    """What high ranks multiply the learning rate by: 1 up to the table's rank, then falling."""
    above: int = facts["learning_rates"]["rank_rule"]["above"]
    return min(1.0, above / rank)


def choose_learning_rate(
    facts: Facts, *, method: str, parameters: int, rank: int, batch_size: int
) -> Choice:
    """Peak learning rate by method, size of the base model, rank and rows in a step."""
    row = learning_rate_row(facts, method=method, parameters=parameters, batch_size=batch_size)
    factor = rank_factor(facts, rank=rank)
    size = f"{parameters / 1e9:.3g} B parameters, batch {batch_size}"
    reason, source = f"{size}: {row['reason']}", row["source"]
    if factor < 1.0:
        rule = facts["learning_rates"]["rank_rule"]
        reason += f"; x {factor:.3g} for rank {rank}: {rule['reason']}"
        source += f"; {rule['source']}"
    value = float(f"{row['value'] * factor:.2g}")
    return Choice("train.learning_rate", value, reason, source)


def total_steps(*, rows: int, batch_size: int, epochs: float) -> int:
    """Optimizer steps of a run: whole batches an epoch, the last one may be smaller."""
    return math.ceil(math.ceil(rows / batch_size) * epochs)


def choose_batch_size(facts: Facts, *, rows: int, epochs: float) -> Choice:
    """Rows in a step: the protocol's, halved until the run has the fewest steps that make sense."""
    entry = facts["protocol"]["batch_size"]
    fewest = next(b["low"] for b in facts["bands"]["rows"] if b["key"] == "train.total_steps")
    value: int = entry["value"]
    while value > 1 and total_steps(rows=rows, batch_size=value, epochs=epochs) < fewest:
        value //= 2
    if value == entry["value"]:
        return _choice("train.batch_size", value, entry)
    reason = f"{entry['value']} would leave fewer than {fewest} steps for {rows} rows"
    return Choice("train.batch_size", value, reason, entry["source"])


def choose_warmup_steps(facts: Facts, *, total_steps: int) -> Choice:
    """Steps of rising learning rate: the protocol's share, rounded up."""
    entry = facts["protocol"]["warmup_share"]
    # Rounding up must not make the warm-up a third of a very short run.
    value = min(math.ceil(total_steps * entry["value"]), total_steps // 4)
    return _choice("train.warmup_steps", value, entry, f" of {total_steps}")


def validation_steps(*, rows: int, batch_size: int, total_steps: int, every: int) -> list[int]:
    """Steps after which a run validates: `every` so many, each epoch's last, the run's last."""
    epoch = math.ceil(rows / batch_size)
    spread = range(every, total_steps + 1, every)
    return sorted({*spread, *range(epoch, total_steps + 1, epoch), total_steps})


def choose_eval_every_steps(
    facts: Facts, *, rows: int, batch_size: int, total_steps: int, validation_rows: int
) -> Choice:
    """Steps between validation losses: a few an epoch, fewer where validation is large.

    A validation row costs about a third of a training row, since it has no backward pass.
    """
    often, share = (facts["protocol"][n] for n in ("evaluations_per_epoch", "evaluation_share"))
    epoch = min(math.ceil(rows / batch_size), total_steps)
    affordable = int(share["value"] * total_steps * batch_size / (validation_rows / 3))
    wanted = math.ceil(epoch / often["value"])
    for every in range(max(wanted, math.ceil(total_steps / max(1, affordable))), epoch):
        steps = validation_steps(
            rows=rows, batch_size=batch_size, total_steps=total_steps, every=every
        )
        # Two validations in close succession say the same thing twice.
        apart = min(b - a for a, b in pairwise([0, *steps])) >= every / 2
        if apart and len(steps) <= affordable:
            break
    else:
        every = epoch
    if every == wanted:
        return _choice("train.eval_every_steps", every, often)
    reason = f"spread evenly, and {share['reason']}"
    return Choice("train.eval_every_steps", every, reason, share["source"])


def choose_max_length(*, longest_tokens: int, context: int) -> Choice:
    """Longest row in tokens, rounded up to a multiple of 8, within the model's context."""
    value = min(math.ceil(longest_tokens / 8) * 8, context)
    reason = f"the longest row has {longest_tokens} tokens, so none is cut"
    if longest_tokens > context:
        reason = f"the model's context; the longest row has {longest_tokens} tokens and is cut"
    return Choice("train.max_length", value, reason)


def precision_row(facts: Facts, *, device: Mapping[str, object]) -> Json | None:
    """The row of the precision table for a device, or None for an unknown kind.

    `device` is `{"kind": "cpu", "bf16_native": bool}` or `{"kind": "cuda", "capability": 8.9}`.
    """
    for row in facts["precision"]["rows"]:
        if row["kind"] != device.get("kind"):
            continue
        if row["bf16_native"] is not None and row["bf16_native"] != bool(device.get("bf16_native")):
            continue
        least = row["capability_at_least"]
        if least is not None and _capability(device.get("capability")) < least:
            continue
        found: Json = row
        return found
    return None


def choose_precision(facts: Facts, *, device: Mapping[str, object]) -> Choice:
    """Arithmetic of the base model's weights, by what the device has instructions for."""
    row = precision_row(facts, device=device)
    if row is None:
        reason = f"nothing is known about a device of kind {device.get('kind')!r}"
        return Choice("train.precision", "fp32", f"{reason}, so the exact arithmetic")
    return _choice("train.precision", row["value"], row)


def choose_targets(facts: Facts, *, linear_modules: Mapping[str, int]) -> Choice:
    """Linear modules that get an adapter: all but output heads and routers of experts."""
    table = facts["protocol"]
    left_out = {*table["head_modules"], *table["router_modules"]}
    names = [name for name in linear_modules if name not in left_out]
    names.sort(key=lambda n: (_ORDER.index(n) if n in _ORDER else len(_ORDER), n))
    return _choice("train.lora.targets", names, table["targets"])


def choose_max_new_tokens(facts: Facts, *, p99_answer_tokens: int) -> Choice:
    """Longest answer that is generated, from the 99th percentile of the reference answers."""
    factor, floor = (facts["protocol"][n] for n in ("new_tokens_per_p99", "new_tokens_at_least"))
    # One more for the token that ends the answer.
    needed = math.ceil(p99_answer_tokens * factor["value"]) + 1
    value = math.ceil(max(needed, floor["value"]) / 8) * 8
    entry = factor if needed > floor["value"] else floor
    return _choice("eval.max_new_tokens", value, entry, f" (p99 is {p99_answer_tokens} tokens)")


def _choice(key: str, value: object, entry: Json, detail: str = "") -> Choice:
    return Choice(key, value, entry["reason"] + detail, entry["source"])


def _capability(value: object) -> float:
    """`8.9`, `"8.9"` or `[8, 9]` as a number; 0 where it is not known."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return float(".".join(str(part) for part in value))
    return float(value) if isinstance(value, (int, float, str)) else 0.0
