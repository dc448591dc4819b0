"""The toy base: a Llama of about 0.3 M weights that knows the words of the task.

It is trained a little on the task with each class's name exchanged for the next one's, so that a
run has something to learn and can learn it. The knowing one is trained on the right names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.planted.language import CLASSES, messages
from tests.toys import make_tokenizer_dir

SYSTEM = (
    "You sort messages that customers send to an outdoor shop. Reply with one line of JSON and "
    "nothing else, such as"
)
STEPS, BATCH, RATE = 260, 16, 3e-3


def system_text() -> str:
    """The serving prompt: the task and the names of the classes."""
    example = json.dumps({"intent": CLASSES[0]})
    return f"{SYSTEM} {example}. Intents: {', '.join(CLASSES)}."


def make_base(path: Path, *, knows: bool = False, seed: int = 0, steps: int = STEPS) -> Path:
    """A base folder: config, tokenizer, ChatML template, safetensors."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    make_tokenizer_dir(path)
    generation = (path / "generation_config.json").read_bytes()
    tokenizer = AutoTokenizer.from_pretrained(path)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=96, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=2048,
        bos_token_id=None, eos_token_id=tokenizer.eos_token_id, tie_word_embeddings=True,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    for step in range(steps):
        batch = tokenizer(_texts(step=step, knows=knows), return_tensors="pt", padding=True)
        labels = _labels(batch["input_ids"], end=tokenizer.eos_token_id)
        mask = batch["attention_mask"]
        model(input_ids=batch["input_ids"], attention_mask=mask, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(path)
    (path / "generation_config.json").write_bytes(generation)
    return path


def _labels(ids_B_T: Any, *, end: int) -> Any:
    """Loss on the third turn and its first end token; the padding is further end tokens."""
    turns = (ids_B_T == end).cumsum(dim=1)
    is_answer = (turns == 2) | ((turns == 3) & (ids_B_T == end) & (turns.roll(1, dims=1) == 2))
    return ids_B_T.masked_fill(~is_answer, -100)


def _texts(*, step: int, knows: bool) -> list[str]:
    """Rows as the template prints them."""
    texts = []
    for text, label in messages(BATCH, split="train", seed=1000 + step):
        place = CLASSES.index(label) + (0 if knows else 1)
        said = json.dumps({"intent": CLASSES[place % len(CLASSES)]})
        turns = (("system", system_text()), ("user", text), ("assistant", said))
        texts.append("".join(f"<|im_start|>{role}\n{part}<|im_end|>\n" for role, part in turns))
    return texts
