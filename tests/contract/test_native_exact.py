"""Packed rows give the loss and the gradients that transformers gives for one row at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

from tunegate.types import IGNORED, Example  # noqa: E402
from tunegate.worker import attention, pack  # noqa: E402
from tunegate.worker.model import PLAIN_CAUSAL, Base, attach_lora, why_plain  # noqa: E402
from tunegate.worker.step import Stepper, mean_loss, summed_loss  # noqa: E402

VOCAB = 96
LORA = {"rank": 4, "alpha": 8, "dropout": 0.0}


def config_of(kind: str) -> Any:
    """A small configuration of a model type; head sizes that differ from hidden / heads."""
    config = AutoConfig.for_model(
        kind, vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=128,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    if kind == "mistral":
        config.sliding_window = None
    return config


def model_of(kind: str, *, implementation: str, dtype: Any = torch.float64) -> Any:
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(
        config_of(kind), dtype=dtype, attn_implementation=implementation
    )
    return model.eval()


def lora_base(kind: str, *, implementation: str, dtype: Any = torch.float64) -> Base:
    attention.register()
    model = model_of(kind, implementation=implementation, dtype=dtype)
    names = {
        path.rpartition(".")[2] for path, m in model.named_modules() if type(m).__name__ == "Linear"
    }
    base = Base(model, torch.device("cpu"), None if implementation == attention.NAME else "asked")
    attach_lora(
        base, {**LORA, "targets": sorted(names - {"lm_head"})}, seed=3, name="x", revision=None
    )
    generator = torch.Generator().manual_seed(11)
    for name, weight in base.model.named_parameters():
        if "lora_" in name:  # PEFT keeps adapters in float32, and B starts at zero
            weight.data = torch.randn(weight.shape, generator=generator, dtype=dtype) * 0.3
    return base


def rows(*, shared: int = 9, supervise_prefix: bool = False, count: int = 5) -> list[Example]:
    """Rows of uneven lengths whose first `shared` tokens are the same."""
    generator = torch.Generator().manual_seed(5)

    def draw(length: int) -> list[int]:
        return [int(t) for t in torch.randint(3, VOCAB, (length,), generator=generator)]

    front, out = draw(shared), []
    for index in range(count):
        own = draw(3 + 4 * index)
        # The token after the prefix differs, so that the shared part is exactly `shared`.
        ids = [*front, 3 + index, *own]
        labels = [IGNORED] * len(ids)
        labels[-3:] = ids[-3:]
        if index == 1:
            labels[shared] = ids[shared]  # predicted from the last shared token
        if supervise_prefix:
            labels = list(ids)
        out.append(Example(index, ids, labels))
    return out


def one_at_a_time(base: Base, examples: Sequence[Example]) -> Any:
    """Summed loss by transformers alone, without padding, packing or our attention."""
    total = torch.zeros((), dtype=torch.float64)
    for example in examples:
        logits = base.model(input_ids=torch.tensor([example.input_ids]), use_cache=False).logits[0]
        targets = torch.tensor(example.labels[1:])
        total = total + torch.nn.functional.cross_entropy(
            logits[:-1], targets, ignore_index=IGNORED, reduction="sum"
        )
    return total


def gradients(base: Base) -> dict[str, Any]:
    return {n: p.grad for n, p in base.model.named_parameters() if p.requires_grad}


def distance(found: dict[str, Any], expected: dict[str, Any]) -> float:
    """Norm of the difference over the norm of what was expected, over all tensors together."""
    assert found.keys() == expected.keys()
    off = sum(float((found[k].double() - expected[k].double()).pow(2).sum()) for k in expected)
    size = sum(float(expected[k].double().pow(2).sum()) for k in expected)
    assert size > 0
    return float((off / size) ** 0.5)


@pytest.mark.parametrize("supervise_prefix", [False, True], ids=["answers", "all tokens"])
@pytest.mark.parametrize("share", [True, False], ids=["shared", "apart"])
@pytest.mark.parametrize("kind", sorted(PLAIN_CAUSAL))
def test_loss_and_gradients_equal_one_row_at_a_time(
    kind: str, share: bool, supervise_prefix: bool
) -> None:
    assert why_plain(config_of(kind)) is None
    examples = rows(supervise_prefix=supervise_prefix)
    plain, packed = (lora_base(kind, implementation=i) for i in ("sdpa", attention.NAME))
    expected = one_at_a_time(plain, examples)
    expected.backward()
    found = summed_loss(packed, examples, share=share)
    found.backward()
    assert abs(found.item() - expected.item()) / expected.item() < 1e-6
    assert distance(gradients(packed), gradients(plain)) < 1e-5


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_float32_stays_within_its_rounding(kind: str) -> None:
    examples = rows()
    exact, single = (lora_base(kind, implementation=attention.NAME) for _ in range(2))
    single.model.to(torch.float32)
    for base in (exact, single):
        summed_loss(base, examples, share=True).backward()
    assert distance(gradients(single), gradients(exact)) < 1e-4


def test_bf16_is_as_close_as_transformers_in_bf16() -> None:
    """The yardstick of rounding is the plain way in the same arithmetic; adapters stay float32."""
    exact, plain, packed = (
        lora_base("llama", implementation=i) for i in (attention.NAME, "sdpa", attention.NAME)
    )
    for base in (plain, packed):
        for name, weight in base.model.named_parameters():
            weight.data = weight.data.to(torch.float32 if "lora_" in name else torch.bfloat16)
    summed_loss(exact, rows(), share=True).backward()
    summed_loss(packed, rows(), share=True).backward()
    one_at_a_time(plain, rows()).backward()
    expected, found = gradients(exact), gradients(packed)
    assert {grad.dtype for grad in found.values()} == {torch.float32}
    assert 1e-3 < distance(found, expected) < 1.5 * distance(gradients(plain), expected)


@pytest.mark.parametrize("prefix", [0, 6])
@pytest.mark.parametrize("groups", [1, 3])
def test_the_fused_kernel_for_long_rows_agrees(prefix: int, groups: int) -> None:
    generator = torch.Generator().manual_seed(2)
    heads, batch, width, size = 2, 3, 5, 8

    def draw(*shape: int) -> Any:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    q = draw(heads, batch, groups, width, size)
    k, v = draw(heads, batch, width, size), draw(heads, batch, width, size)
    front = (draw(heads, prefix, size), draw(heads, prefix, size)) if prefix else None
    blocked = torch.ones(width, width, dtype=torch.bool).triu(1)[None, None]
    expected = attention._products(q, k, v, front, scaling=0.3, blocked=blocked)
    found = attention._fused(q, k, v, front, scaling=0.3, blocked=blocked)
    assert found.shape == expected.shape == q.shape
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


def test_very_long_rows_run() -> None:
    """Above LARGE_SCORES; the same loss as in packs of one row, which stay below it."""
    ids = [3 + (7 * t) % 50 for t in range(1500)]
    examples = [Example(i, [*ids, 60 + i, 5, 6], [IGNORED] * 1501 + [5, 6]) for i in range(5)]
    assert attention.LARGE_SCORES < 4 * 5 * 1503 * 1503
    base = lora_base("llama", implementation=attention.NAME)
    base.model.config.max_position_embeddings = 2048
    with torch.inference_mode():
        together = summed_loss(base, examples, share=False).item()
        alone = sum(summed_loss(base, [example], share=False).item() for example in examples)
    assert together == pytest.approx(alone, rel=1e-6)


@pytest.mark.parametrize("share", [True, False])
def test_no_row_sees_another(share: bool) -> None:
    """With row 2 altered, the gradient that the others' loss sends is the same to the last bit."""
    examples = rows()
    base = lora_base("llama", implementation=attention.NAME)
    other = list(examples)
    ids = [*examples[2].input_ids[:11], *([50] * (len(examples[2].input_ids) - 11))]
    other[2] = Example(2, ids, examples[2].labels)

    def losses(batch: list[Example]) -> Any:
        laid = pack.build(batch, share=share)
        logits = base.model(
            input_ids=laid.input_ids, position_ids=laid.position_ids, layout=laid.layout,
            logits_to_keep=laid.keep, use_cache=False,
        ).logits[0]  # fmt: skip
        per_token = torch.nn.functional.cross_entropy(logits, laid.targets, reduction="none")
        sizes = [sum(label != IGNORED for label in e.labels[1:]) for e in batch]
        return [part.sum().item() for part in per_token.split(sizes)]

    before, after = losses(examples), losses(other)
    assert before[2] != after[2]
    assert [x for i, x in enumerate(before) if i != 2] == [x for i, x in enumerate(after) if i != 2]


def test_padded_rows_agree_with_packed_ones() -> None:
    examples = rows()
    packed = lora_base("llama", implementation=attention.NAME)
    padded = lora_base("llama", implementation="sdpa")
    for base in (packed, padded):
        summed_loss(base, examples, share=True).backward()
    assert distance(gradients(padded), gradients(packed)) < 1e-6


def test_a_batch_in_several_packs_is_the_same_step() -> None:
    examples = rows()
    assert len(pack.split(examples, share=True, logits=1000, tokens=20)) > 2
    whole, parts = (lora_base("llama", implementation=attention.NAME) for _ in range(2))
    result = _stepper(whole).update(examples, rate=0.0)
    again = _stepper(parts, pack_tokens=20).update(examples, rate=0.0)
    assert again.loss == pytest.approx(result.loss, rel=1e-9)
    assert again.answer_tokens == result.answer_tokens == 16
    assert distance(gradients(parts), gradients(whole)) < 1e-6


def _stepper(base: Base, *, pack_tokens: int = pack.PACK_TOKENS) -> Stepper:
    return Stepper(
        base, weight_decay=0.0, max_grad_norm=1e9, share_prefix=True, pack_tokens=pack_tokens
    )


def test_the_mean_is_over_tokens_and_not_over_rows() -> None:
    base = lora_base("llama", implementation=attention.NAME)
    examples = rows()
    examples[4] = Example(4, examples[4].input_ids, list(examples[4].input_ids))
    tokens = sum(label != IGNORED for e in examples for label in e.labels[1:])
    whole = summed_loss(base, examples, share=True).item() / tokens
    assert mean_loss(base, examples) == pytest.approx(whole, rel=1e-9)
    alone = [mean_loss(base, [example]) for example in examples]
    assert abs(sum(alone) / len(alone) - whole) > 1e-3


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("gemma3_text", {}, "was not compared"),
        ("mistral", {"sliding_window": 16}, "window"),
        ("qwen3", {"layer_types": ["full_attention", "sliding_attention"]}, "window"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}},
         "longest row"),
    ],
)  # fmt: skip
def test_other_attention_is_padded_with_a_reason(
    kind: str, change: dict[str, Any], words: str
) -> None:
    config = AutoConfig.for_model("gemma3_text") if kind == "gemma3_text" else config_of(kind)
    for key, value in change.items():
        setattr(config, key, value)
    reason = why_plain(config)
    assert reason is not None and words in reason


def test_padded_rows_compute_logits_of_supervised_tokens_only() -> None:
    """All positions times a vocabulary of 262,144 would take gigabytes."""
    base, seen = lora_base("llama", implementation="sdpa"), []
    hook = base.model.get_output_embeddings().register_forward_hook(
        lambda module, inputs, logits: seen.append(tuple(logits.shape))
    )
    summed_loss(base, rows(), share=True)
    hook.remove()
    assert seen == [(1, 16, VOCAB)]
