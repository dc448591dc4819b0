"""A whole run of toy size: a Llama of about a million weights, a task of four classes, a run file.

The model is made on the spot. Its weights are first trained a little on the task with its classes
exchanged, since an adapter on a random model learns next to nothing.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from toys import make_tokenizer_dir, write_rows

CLASSES = ("order_status", "return_item", "invoice", "none_of_these")
_WORDS = {
    "order_status": (
        "where is my parcel",
        "when does it come",
        "tracking stands still",
        "still not here",
    ),
    "return_item": ("send it back", "do not want it", "return the boots", "how do I return"),
    "invoice": ("need an invoice", "receipt please", "bill for my boss", "invoice with VAT"),
    "none_of_these": ("nice shop", "what is the weather", "job for my son", "hello there"),
}
_ENDS = ("", " please", " thanks", "!", " ?", " now", " for Ada", " today", " again", " in Oslo")
SYSTEM = "Sort the message. Reply with JSON."
SCHEMA = {
    "type": "object",
    "properties": {"intent": {"enum": list(CLASSES)}},
    "required": ["intent"],
    "additionalProperties": False,
}


def toy_rows(count: int, *, seed: int, prefix: str) -> list[dict[str, Any]]:
    """`count` rows in prompt/completion form, classes in turn, no text twice."""
    source = random.Random(seed)
    rows: list[dict[str, Any]] = []
    seen = set()
    while len(rows) < count:
        label = CLASSES[len(rows) % len(CLASSES)]
        number = f"{seed}{source.randrange(10_000):04d}"  # so no two seeds share a text
        text = f"{source.choice(_WORDS[label])} {number}{source.choice(_ENDS)}"
        if text not in seen:
            seen.add(text)
            answer = json.dumps({"intent": label})
            rows.append({"id": f"{prefix}-{len(rows)}", "prompt": text, "completion": answer})
    return rows


def make_base(path: Path, *, seed: int = 0, steps: int = 150) -> Path:
    """A tiny Llama base folder: config, tokenizer, template, safetensors."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    make_tokenizer_dir(path)
    tokenizer = AutoTokenizer.from_pretrained(path)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=96, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=2048,
        bos_token_id=None, eos_token_id=tokenizer.eos_token_id, tie_word_embeddings=True,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    _warm_up(model, tokenizer, seed=seed, steps=steps)
    model.save_pretrained(path)
    return path


def _warm_up(model: Any, tokenizer: Any, *, seed: int, steps: int) -> None:
    """Full training on the toy task with each class's name exchanged for the next one's.

    So the base knows the words and the form, and is wrong about every class.
    """
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        texts = []
        for number, row in enumerate(toy_rows(8, seed=seed + 1000 + step, prefix="warm")):
            wrong = CLASSES[(number + 1) % len(CLASSES)]
            turns = [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": row["prompt"]},
                {"role": "assistant", "content": json.dumps({"intent": wrong})},
            ]
            texts.append(tokenizer.apply_chat_template(turns, tokenize=False))
        batch = tokenizer(texts, return_tensors="pt", padding=True)
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        loss = model(**batch, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def make_run(
    folder: Path,
    base: Path,
    *,
    train_rows: int = 64,
    answers: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A run folder with all that it needs; `changes` are merged into the run file.

    `answers` are given to gate 1 beside those that a run of toy size always needs.
    """
    write_rows(folder / "train.jsonl", toy_rows(train_rows, seed=1, prefix="train"))
    write_rows(folder / "validation.jsonl", toy_rows(20, seed=2, prefix="validation"))
    test = toy_rows(24, seed=3, prefix="test")
    write_rows(folder / "test.jsonl", test)
    rules = [{"id": "general-0", "prompt": "say hello", "check": {"contains": ["hello"]}},
             {"id": "general-1", "prompt": "say yes", "check": {"contains": ["yes"]}}]  # fmt: skip
    write_rows(folder / "general.jsonl", rules)
    teacher = [{"id": row["id"], "output": row["completion"]} for row in test]
    teacher += [{"id": row["id"], "output": "hello, yes"} for row in rules]
    write_rows(folder / "teacher.jsonl", teacher)
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    (folder / "system.txt").write_text(SYSTEM + "\n")
    spec: dict[str, Any] = {
        "name": "toy",
        "task": {
            "answer": "json",
            "schema": "schema.json",
            "class": "/intent",
            "escape": "none_of_these",
        },
        "data": {"train": "train.jsonl", "validation": "validation.jsonl"},
        "prompt": {"system": "system.txt"},
        "base": {"model": str(base)},
        "train": {"epochs": 3, "learning_rate": 5e-3, "precision": "fp32"},
        "eval": {
            "test": "test.jsonl",
            "slices": {"general": "general.jsonl"},
            "raw": {"shots": [0, 2]},
            "teacher": {"predictions": "teacher.jsonl"},
        },
        "research": {
            "answers": {
                "train.learning_rate": {"answer": "a toy model needs more", "source": "this test"},
                "eval.test.rows": {"answer": "nothing is judged here", "source": "this test"},
                **(answers or {}),
            }
        },
        "limits": {"minutes_at_risk": 1},
    }
    for key, value in changes.items():
        spec[key] = {**spec.get(key, {}), **value} if isinstance(value, dict) else value
    # JSON is YAML, so a run file can be written without a YAML library.
    file = folder / "run.yaml"
    file.write_text(json.dumps(spec, indent=1))
    return file
