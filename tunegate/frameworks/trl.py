"""TRL's `SFTTrainer`, in an environment of its own.

Rows reach TRL as token ids and labels, prepared by the same code as the native trainer's: TRL's own
route through `prompt` and `completion` would also train the line end that a template prints after
the turn's end. What is TRL's own here is everything after that: it truncates, filters and collates
the rows, computes the loss, clips, steps and schedules. Gate 2 looks at what its collator returns.

`SEMANTICS` says what TRL does where nothing is written; `DRIVEN` what holds under Tunegate, which
writes every setting that matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tunegate.errors import SpecError
from tunegate.types import Answer, Example, Json
from tunegate.worker.emit import Emit

PROVED = "live"

ENVIRONMENT = "trl"
"""The lock in `locks/` from which its environment is made."""

_VERSIONS = ">=1.16,<1.17"
_CONFIG = "trl/trainer/sft_config.py and base_config.py, trl 1.16.0, read 2026-11-30"
_TRAINER = "trl/trainer/sft_trainer.py, trl 1.16.0, read 2026-11-30"
_ARGUMENTS = "transformers/training_args.py, transformers 5.24.0, read 2026-11-30"
_PEFT = "peft/tuners/lora/config.py and utils/constants.py, peft 0.21.2, read 2026-11-30"


def _answer(value: str, source: str) -> Answer:
    return Answer(value, _VERSIONS, source)


SEMANTICS: Mapping[str, Answer] = {
    "chat_template": _answer("tokenizer", f"{_TRAINER}: apply_chat_template"),
    "checkpoint_resume": _answer(
        "exact", "transformers/trainer.py, transformers 5.24.0: _run_epoch skips whole batches"
    ),
    "default_system": _answer("template", f"{_TRAINER}: apply_chat_template"),
    "history_turns": _answer("all", f"{_TRAINER}: one completion, or assistant_masks"),
    "learning_rate_default": _answer("2e-5", _CONFIG),
    "lora_scale_default": _answer("1", f"{_PEFT}: r 8, lora_alpha 8"),
    "lora_targets_default": _answer("attention_qv", f"{_PEFT}: the map of Llama and Qwen"),
    "loss_on_prompt": _answer("completions", f"{_TRAINER}: completion_only_loss"),
    "max_length_default": _answer("1024", _CONFIG),
    "packing": _answer("off", _CONFIG),
    "pad_labels": _answer("position", f"{_TRAINER}: DataCollatorForLanguageModeling"),
    "precision_default": _answer(
        "fp32", "trl/trainer/utils.py, trl 1.16.0: create_model_from_path"
    ),
    "schedule_default": _answer("linear to zero, no warm-up", _ARGUMENTS),
    "terminator": _answer("completions", f"{_TRAINER}: add_eos; chats end as the template prints"),
    "too_long": _answer("cut_end", f"{_TRAINER}: truncation_mode keep_start"),
    "unknown_key": _answer("error", "SFTConfig is a dataclass: an unknown argument is a TypeError"),
}

_HERE = "tunegate/frameworks/trl.py"

DRIVEN: Mapping[str, Answer] = {
    **SEMANTICS,
    "default_system": _answer("declared", f"{_HERE}: rows come from tunegate/worker/feed.py"),
    "history_turns": _answer("weighted", f"{_HERE}: labels come from tunegate/worker/encode.py"),
    "learning_rate_default": _answer(
        "by method, size, rank and batch", "tunegate/facts/learning_rates.json"
    ),
    "lora_scale_default": _answer("2", "tunegate/facts/protocol.json, alpha_per_rank"),
    "lora_targets_default": _answer("all_linear", "tunegate/defaults.py, choose_targets"),
    "loss_on_prompt": _answer("answers_but_text", f"{_HERE}: labels are given, never derived"),
    "max_length_default": _answer(
        "the longest row of the data, within the model's context",
        "tunegate/defaults.py, choose_max_length",
    ),
    "precision_default": _answer("hardware", "tunegate/facts/precision.json"),
    "schedule_default": _answer(
        "linear to zero, 5 % of the steps of warm-up, its first step at rate 0", _ARGUMENTS
    ),
    "terminator": _answer("template_and_text", f"{_HERE}: labels come from encode.py"),
    "too_long": _answer("drop", f"{_HERE}: rows above max_length never reach TRL"),
}

SCHEDULES = {"linear": "linear", "cosine": "cosine", "constant": "constant_with_warmup"}


FIXED: Json = {
    "gradient_accumulation_steps": 1,
    "optim": "adamw_torch",
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "fp16": False,
    "gradient_checkpointing": False,
    "truncation_mode": "keep_start",
    "packing": False,
    "padding_free": False,
    "pad_to_multiple_of": None,
    "completion_only_loss": False,  # labels are given: no mask column is to be applied
    "assistant_only_loss": False,
    "loss_type": "nll",
    "shuffle_dataset": False,
    "dataloader_drop_last": False,
    "dataloader_num_workers": 0,
    "dataloader_pin_memory": False,
    "logging_strategy": "steps",
    "logging_steps": 1,
    "logging_nan_inf_filter": False,
    "report_to": "none",
    "disable_tqdm": True,
    # Saving and validating are Tunegate's, in this order and complete or invisible.
    "save_strategy": "no",
    "eval_strategy": "no",
}
"""Arguments of `SFTConfig` that are the same in every run, written since defaults move."""


def render(frozen: Json) -> Json:
    """The arguments of `SFTConfig`, `LoraConfig` and the model, nothing left to a default that
    differs between versions. Raises SpecError for a setting that is not tried here.
    """
    settings = frozen["settings"]["train"]
    if settings["precision"] not in ("fp32", "bf16"):
        raise SpecError(
            f"train.precision is {settings['precision']}; with trl it is fp32 or bf16",
            hint="fp16 needs a loss scaler, whose state is not part of an exact resume here",
        )
    return {
        "SFTConfig": {**_schedule(settings), **FIXED},
        "LoraConfig": {
            "r": settings["lora"]["rank"],
            "lora_alpha": settings["lora"]["alpha"],
            "lora_dropout": settings["lora"]["dropout"],
            "target_modules": list(settings["lora"]["targets"]),
            "bias": "none",
            "task_type": "CAUSAL_LM",
        },
        "model_init_kwargs": {
            "dtype": "bfloat16" if settings["precision"] == "bf16" else "float32",
            "attn_implementation": "sdpa",
            "trust_remote_code": False,
            "local_files_only": True,
        },
        "order": "a fresh permutation of the rows each epoch, from the seed, as native's",
        "selection": "the checkpoint with the least validation loss",
    }


def _schedule(settings: Json) -> Json:
    """The arguments of `SFTConfig` that come from the run."""
    return {
        "max_steps": settings["total_steps"],
        "per_device_train_batch_size": settings["batch_size"],
        "learning_rate": settings["learning_rate"],
        "lr_scheduler_type": SCHEDULES[settings["schedule"]],
        "warmup_steps": settings["warmup_steps"],
        "weight_decay": settings["weight_decay"],
        "max_grad_norm": settings["max_grad_norm"],
        "bf16": settings["precision"] == "bf16",
        "max_length": settings["max_length"],
        "seed": settings["seed"],
        "data_seed": settings["seed"],
    }


def batches(job: Json) -> Iterator[list[Example]]:
    """Every training row once: what TRL's preparation and collator return for it."""
    from tunegate.frameworks._trl_rows import collated

    return collated(job)


def train(job: Json, emit: Emit) -> None:
    """Train as the job says; see `worker.attempt` for what is left behind.

    Raises: as the native trainer.
    """
    from tunegate.frameworks._trl_trainer import run

    run(job, emit)


def learner(job: Json, base_dir: Path, emit: Emit) -> object:
    """What the wire test lets learn 20 rows: the same trainer on its own settings."""
    from tunegate.frameworks._trl_trainer import Learner

    return Learner(job, base_dir, emit)
