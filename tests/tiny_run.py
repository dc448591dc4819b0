"""A job for the native trainer on a random model of a few thousand weights, made on the spot.

make_base(folder, kind=...)     a base with weights, tokenizer and template
make_job(folder, base, ...)     rows, a frozen payload and the job that trains on them
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toys import chat, make_tokenizer_dir, write_rows

LABELS = ("order_status", "return_item", "none_of_these")
SYSTEM = "You sort messages that customers send. Reply with one line of JSON."
SCHEMA = {
    "type": "object",
    "properties": {"intent": {"enum": list(LABELS)}},
    "required": ["intent"],
    "additionalProperties": False,
}
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def make_base(folder: Path, *, kind: str = "llama", seed: int = 0, **config: Any) -> Path:
    """A folder as transformers saves it: random weights, spread as a trained embedding is."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    make_tokenizer_dir(folder)
    described = json.loads((folder / "config.json").read_text())
    vocab = len(json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"])
    settings = {
        "vocab_size": vocab, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
        "max_position_embeddings": 512, "tie_word_embeddings": True, "initializer_range": 0.18,
        "eos_token_id": described["eos_token_id"], "bos_token_id": None,
        "pad_token_id": described["eos_token_id"],
    }  # fmt: skip
    generation = (folder / "generation_config.json").read_bytes()
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**settings, **config}))
    model.get_input_embeddings().weight.data.normal_(0.0, 1.0)
    model.save_pretrained(folder)
    (folder / "generation_config.json").write_bytes(generation)
    return folder


def rows(count: int) -> list[dict[str, Any]]:
    """Rows of uneven length whose answer depends on the text."""
    words = ("where", "is", "my", "boots", "order", "return", "fox", "sheep", "Monday", "small")
    out = []
    for index in range(count):
        picked = [words[(index * 7 + place * 3) % len(words)] for place in range(2 + index % 5)]
        answer = json.dumps({"intent": LABELS[index % len(LABELS)]})
        out.append(chat(" ".join(picked) + f" {index}", answer))
    return out


def make_job(
    folder: Path, base: Path, *, train_rows: int = 12, validation_rows: int = 4, **train: Any
) -> dict[str, Any]:
    """A job of kind train without `attempt_dir`; keywords replace keys of `settings.train`."""
    from tunegate.worker.template import template_source
    from tunegate.worker.tokens import stop_ids

    write_rows(folder / "train.jsonl", rows(train_rows))
    write_rows(folder / "validation.jsonl", rows(train_rows + validation_rows)[train_rows:])
    settings = {
        "framework": "native", "epochs": 2, "batch_size": 3, "learning_rate": 5e-3,
        "schedule": "linear", "warmup_steps": 2, "total_steps": 8, "weight_decay": 0.01,
        "max_grad_norm": 1.0, "precision": "fp32", "max_length": 128, "seed": 0, "loss": "answer",
        "eval_every_steps": 3, "lora": {"rank": 4, "alpha": 8, "dropout": 0.0, "targets": TARGETS},
    }  # fmt: skip
    frozen = {
        "name": "tiny",
        "folder": str(folder),
        "settings": {
            "task": {
                "answer": "json",
                "schema": SCHEMA,
                "class": "/intent",
                "labels": list(LABELS),
            },
            "train": {**settings, **train},
            "eval": {"max_new_tokens": 24, "batch_size": 4},
            "limits": {"hours": 3.0, "minutes_at_risk": 10.0},
        },
        "data": {
            "train": {"path": "train.jsonl", "rows": train_rows},
            "validation": {"path": "validation.jsonl", "rows": validation_rows},
        },
        "prompt": {"system": SYSTEM},
        "base": {"model": "tiny", "revision": None, "dir": str(base)},
        "tokenizer": {"stop_ids": sorted(stop_ids(base))},
        "template": {"source": template_source(base), "training_source": None},
    }
    return {
        "format": 1,
        "kind": "train",
        "frozen": frozen,
        "data_dir": str(folder),
        "checkpoint_every_s": 3600.0,
        "threads": 1,
        "run_digest": "of the run",
        "resume_from": None,
    }


def put_job(job: dict[str, Any], folder: Path) -> Path:
    """Write the job as the driver does; its folder becomes `attempt_dir`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "job.json"
    path.write_text(json.dumps({**job, "attempt_dir": str(folder)}))
    return path
