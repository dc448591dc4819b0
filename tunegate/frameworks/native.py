"""Tunegate's own trainer: LoRA on packed rows that compute their common beginning once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from tunegate.types import Answer, Example, Json
from tunegate.worker import feed
from tunegate.worker.emit import Emit

PROVED = "live"

_VERSIONS = ">=0.1,<0.2"


def _answer(value: str, source: str) -> Answer:
    return Answer(value, _VERSIONS, source)


SEMANTICS: Mapping[str, Answer] = {
    "chat_template": _answer("tokenizer", "tunegate/worker/feed.py, serving"),
    "checkpoint_resume": _answer("exact", "tunegate/worker/checkpoint.py"),
    "default_system": _answer("declared", "tunegate/worker/feed.py, examples"),
    "history_turns": _answer("weighted", "tunegate/worker/encode.py, segments"),
    "learning_rate_default": _answer(
        "by method, size, rank and batch", "tunegate/facts/learning_rates.json"
    ),
    "lora_scale_default": _answer("2", "tunegate/facts/protocol.json, alpha_per_rank"),
    "lora_targets_default": _answer("all_linear", "tunegate/defaults.py, choose_targets"),
    "loss_on_prompt": _answer("answers_but_text", "tunegate/worker/encode.py, encode_rows"),
    "max_length_default": _answer(
        "the longest row of the data, within the model's context",
        "tunegate/defaults.py, choose_max_length",
    ),
    "packing": _answer("prefix_shared", "tunegate/worker/pack.py"),
    "pad_labels": _answer("position", "tunegate/worker/step.py, padded_logits"),
    "precision_default": _answer("hardware", "tunegate/facts/precision.json"),
    "schedule_default": _answer(
        "linear to zero, 5 % of the steps of warm-up", "tunegate/facts/protocol.json"
    ),
    "terminator": _answer("template_and_text", "tunegate/worker/encode.py"),
    "too_long": _answer("drop", "tunegate/worker/encode.py, encode_rows"),
    "unknown_key": _answer("error", "tunegate/spec.py"),
}


def render(frozen: Json) -> Json:
    """The settings in force, those that nobody can set among them."""
    settings = frozen["settings"]["train"]
    return {
        **settings,
        "optimizer": {"name": "adamw", "betas": [0.9, 0.999], "eps": 1e-8},
        "schedule": {
            "name": settings["schedule"],
            "warmup_steps": settings["warmup_steps"],
            "total_steps": settings["total_steps"],
            "ends_at": 0.0,
        },
        "loss": {"over": settings["loss"], "mean": "tokens of the whole batch"},
        "order": "a fresh permutation of the rows each epoch, from the seed",
        "packing": "isolated rows; the common beginning once, where there is no dropout",
        "gradient_checkpointing": False,
        "selection": "the checkpoint with the least validation loss",
    }


def batches(job: Json) -> Iterator[list[Example]]:
    """Every training row once, in file order, dropped ones marked."""
    rows = feed.examples(job, "train")
    size = job["frozen"]["settings"]["train"]["batch_size"]
    while batch := list(islice(rows, size)):
        yield batch


def train(job: Json, emit: Emit) -> None:
    """Run the job; see `worker.train.train`, imported here since checks need no torch."""
    from tunegate.worker.train import train as run

    run(job, emit)
