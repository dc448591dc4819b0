"""Real tokenizers, templates and the attention of three families: the native trainer's loss and
gradients, and its answers, are those of transformers and PEFT on one row at a time."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from families import make_family  # noqa: E402

from tunegate.types import IGNORED, Example, Row, Turn  # noqa: E402
from tunegate.worker import pack  # noqa: E402
from tunegate.worker.encode import encode_rows  # noqa: E402
from tunegate.worker.generate import Answer, Writer  # noqa: E402
from tunegate.worker.model import attach_lora, load_base  # noqa: E402
from tunegate.worker.step import mean_loss, summed_loss  # noqa: E402
from tunegate.worker.template import load_template  # noqa: E402
from tunegate.worker.tokens import load_tokenizer  # noqa: E402

SYSTEM = "Answer the customers of a shop for outdoor goods, in one line, without a greeting."
TEXTS = (
    ("Where is my order 4711?", "On its way: 🙂 two days."),
    ("Boots pinch.\r\n\r\n   Size 43 — may I swap them for 44, and who pays the post?", "Yes."),
    ("Do you ship to Norway 🇳🇴 and the Faroes?", "We do, within 7 days, customs paid by us."),
    ("bill", "Sent to\n  ada@example.org"),
)
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LORA = {"rank": 4, "alpha": 8, "dropout": 0.0, "targets": TARGETS}
LIMIT = 12


@dataclass(frozen=True)
class Family:
    folder: Path
    examples: list[Example]

    @property
    def prompts(self) -> list[list[int]]:
        starts = [next(n for n, t in enumerate(e.labels) if t != IGNORED) for e in self.examples]
        return [e.input_ids[:n] for e, n in zip(self.examples, starts, strict=True)]


@pytest.fixture(scope="module", params=["qwen3", "gemma3", "llama3"])
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Family:
    folder = tmp_path_factory.mktemp("base") / request.param
    # With a head of its own a random model wanders; with a tied one it repeats a token for ever.
    more = {"final_logit_softcapping": 30.0} if request.param == "gemma3" else {}
    make_family(request.param, folder, seed=5, tie_word_embeddings=False, **more)
    tokenizer = load_tokenizer(folder)
    template = load_template(folder, special_tokens=tokenizer.special_tokens)
    rows = [
        Row(
            index=number,
            line=number + 1,
            turns=(Turn("system", SYSTEM), Turn("user", asked), Turn("assistant", answered)),
        )
        for number, (asked, answered) in enumerate(TEXTS)
    ]
    return Family(folder, list(encode_rows(rows, tokenizer=tokenizer, template=template)))


def by_peft(folder: Path) -> Any:
    """The base and a fresh adapter as transformers and PEFT alone make them."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    config = LoraConfig(r=4, lora_alpha=8, target_modules=TARGETS, task_type="CAUSAL_LM")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PEFT asks transformers for what is named otherwise now
        return get_peft_model(model, config).eval()


def adapters(model: Any) -> dict[str, Any]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def one_at_a_time(model: Any, examples: Sequence[Example]) -> list[Any]:
    """Each row's summed loss through the model's own forward, labels and all."""
    out = []
    for example in examples:
        labels = torch.tensor([example.labels])
        found = model(input_ids=torch.tensor([example.input_ids]), labels=labels)
        out.append(found.loss * (labels[:, 1:] != IGNORED).sum())
    return out


def test_loss_and_gradients(family: Family) -> None:
    native = load_base(family.folder)
    assert (native.plain is not None) is (family.folder.name == "gemma3")
    attach_lora(native, LORA, seed=3, name="x", revision=None)
    plain = by_peft(family.folder)
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, weight in adapters(native.model).items():
            # B starts at zero, and A would then get no gradient.
            weight.normal_(0.0, 0.1, generator=generator)
            adapters(plain)[name].copy_(weight)
    expected = one_at_a_time(plain, family.examples)
    sum(expected).backward()
    for example, loss in zip(family.examples, expected, strict=True):
        with torch.no_grad():
            alone = summed_loss(native, [example], share=True).item()
        assert alone == pytest.approx(loss.item(), rel=1e-4)
    summed_loss(native, family.examples, share=True).backward()
    wanted = adapters(plain)
    for name, weight in adapters(native.model).items():
        off = float((weight.grad - wanted[name].grad).norm() / wanted[name].grad.norm())
        assert off < 1e-4, name
    tokens = sum(label != IGNORED for e in family.examples for label in e.labels[1:])
    mean = sum(loss.item() for loss in expected) / tokens
    assert mean_loss(native, family.examples) == pytest.approx(mean, rel=1e-4)


def greedy(model: Any, prompt: list[int]) -> list[int]:
    """One token at a time from the whole text so far: no cache, no padding, no generate()."""
    written: list[int] = []
    with torch.inference_mode():
        while len(written) < LIMIT:
            ids = torch.tensor([prompt + written])
            written.append(int(model(input_ids=ids, logits_to_keep=1).logits[0, -1].argmax()))
    return written


def test_greedy_answers(family: Family) -> None:
    """Prompts of uneven length in one batch, past the window, whatever the base samples by."""
    prompts = family.prompts
    assert len({len(prompt) for prompt in prompts}) == len(prompts)
    plain = load_base(family.folder, packed=False).model
    free = [greedy(plain, prompt) for prompt in prompts]
    # The fourth token of one answer ends answers, so that rows leave the batch at uneven times.
    stop = free[0][3]
    answers = [Answer(str(number), prompt) for number, prompt in enumerate(prompts)]
    writer = Writer(load_base(family.folder), stop_ids=[stop], max_new_tokens=LIMIT)
    list(writer.answer(answers, prefix=pack.shared_prefix(prompts), batch_size=3))
    for answer, written in zip(answers, free, strict=True):
        end = written.index(stop) if stop in written else LIMIT
        assert answer.tokens == written[:end]
        assert answer.finish == ("length" if end == LIMIT else "stop")
    assert len({len(answer.tokens) for answer in answers}) > 1
