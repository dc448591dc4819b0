"""A made-up run around the rows of `eval_rows`: settings, curves, gates, quote and receipt."""

from __future__ import annotations

import copy
import math
import random
from functools import cache

from tests.eval_rows import ESCAPE, LABELS, SCHEMA, TASK, answer, columns, gold
from tunegate.types import Json

__all__ = [
    "ESCAPE",
    "LABELS",
    "SCHEMA",
    "TASK",
    "answer",
    "columns",
    "frozen",
    "gold",
    "notes",
    "report",
    "run",
]

TRAIN: Json = {
    "framework": "native",
    "epochs": 2,
    "batch_size": 8,
    "learning_rate": 0.001,
    "schedule": "linear",
    "warmup_steps": 5,
    "total_steps": 102,
    "weight_decay": 0.0,
    "max_grad_norm": 1.0,
    "lora": {"rank": 16, "alpha": 32, "dropout": 0.0, "targets": ["q_proj", "v_proj"]},
    "precision": "fp32",
    "max_length": 512,
    "seed": 0,
    "loss": "answer",
    "eval_every_steps": 17,
    "chat_template": None,
}

CHOICES: list[Json] = [
    {
        "key": "train.learning_rate",
        "value": 0.001,
        "reason": "LoRA on 135 M parameters, rank 16: ten times the rate of full tuning",
        "source": "facts/learning_rate.json",
    },
    {
        "key": "train.batch_size",
        "value": 8,
        "reason": "at least 100 steps for 408 rows in 2 epochs",
        "source": None,
    },
]


def frozen() -> Json:
    """The parts of a frozen run that the evaluation and the page read."""
    return {
        "name": "triage",
        "settings": {
            "task": TASK,
            "train": TRAIN,
            "eval": {
                "max_new_tokens": 24,
                "batch_size": 16,
                "decoding": "greedy",
                "slices": {"adversarial": {"kind": "class"}, "general": {"kind": "rule"}},
                "smallest_change": 0.02,
                "confidence": 0.95,
                "teacher": {"predictions": "data/teacher.jsonl", "defines_gold": False},
            },
            "platform": "local",
            "limits": {"money": "0", "currency": "USD", "hours": 3.0, "minutes_at_risk": 10.0},
        },
        "choices": CHOICES,
        "data": {
            "train": _file("data/train.jsonl", "a1", 408),
            "validation": _file("data/validation.jsonl", "b2", 100),
            "test": _file("data/test.jsonl", "c3", 240),
            "slice:adversarial": _file("data/adversarial.jsonl", "d4", 66),
            "slice:general": _file("data/general.jsonl", "e5", 84),
        },
        "prompt": {"system": "Classify the message. Answer as JSON.", "sha256": "f6" * 32},
        "base": {
            "model": "bundled:smollm2-135m-instruct",
            "revision": "12fd25f7",
            "architecture": "LlamaForCausalLM",
            "parameters": 134515008,
            "layers": 30,
            "hidden": 576,
            "vocab": 49152,
            "context": 8192,
            "dtype": "fp32",
            "files": {"model.safetensors": "0a" * 32},
            "linear_modules": {"q_proj": 30, "v_proj": 30},
        },
        "environment": {"python": "3.11.7", "torch": "2.13.0", "transformers": "5.24.0"},
        "code": {"commit": "cc0bd4a1d2e3f40516273849506172839405a6b7", "dirty": False},
        "digests": {
            "settings": "1c" * 32,
            "data": "2d" * 32,
            "base": "3e" * 32,
            "prompt": "4f" * 32,
            "eval": "5a" * 32,
            "environment": "6b" * 32,
        },
    }


def _file(path: str, digest: str, rows: int) -> Json:
    return {"path": path, "sha256": digest * 32, "bytes": rows * 180, "rows": rows}


def notes() -> Json:
    """What is known beside the rows."""
    raw = {"prompt": "described", "shots": 4, "constrained": True, "name": "described-4shot-schema"}
    return {
        "columns": {
            "raw": {
                "chosen": {**raw, "strict": 0.46, "tolerant": 0.46, "rows": 100},
                "candidates": [
                    {**raw, "strict": 0.46, "tolerant": 0.46, "rows": 100},
                    {**raw, "name": "system-0shot", "shots": 0, "strict": 0.0, "tolerant": 0.08},
                ],
                "seconds": 61.0,
            },
            "tuned": {"seconds": 21.5},
        },
        "gold": "Texts and labels were written for this project by machine.",
    }


def metrics_rows() -> list[Json]:
    """Curves of 102 steps, with a validation minimum at step 85."""
    rng = random.Random(3)
    rows: list[Json] = []
    for step in range(1, 103):
        loss = 1.5 * math.exp(-step / 14) + 0.05 + 0.03 * rng.random()
        rows.append(
            {
                "step": step,
                "t_s": 2.1 * step,
                "loss": loss,
                "grad_norm": 1.0 + rng.random(),
                "learning_rate": 0.001 * min(step / 5, (103 - step) / 98),
                "tokens": 950,
                "rows": 8,
            }
        )
        if step % 17 == 0:
            last = {17: 0.61, 34: 0.31, 51: 0.21, 68: 0.172, 85: 0.158, 102: 0.163}[step]
            rows.append({"step": step, "t_s": 2.1 * step + 3, "validation_loss": last})
    return rows


def verdicts() -> list[Json]:
    """What the checks of gate 2 said."""
    spans = [
        {"text": "<|im_start|>system\nClassify the message.<|im_end|>\n", "trained": False},
        {"text": "<|im_start|>user\nwheres my <b>tent</b><|im_end|>\n", "trained": False},
        {"text": "<|im_start|>assistant\n", "trained": False},
        {"text": '{"intent": "order_status"}<|im_end|>', "trained": True},
        {"text": "\n", "trained": False},
    ]
    return [
        _verdict(
            "data_lint",
            "pass",
            "748 rows in 3 files: no errors, 2 warnings.",
            warnings=[
                {
                    "message": "12 rows name their own class in the text",
                    "where": "data/train.jsonl:14",
                    "change": None,
                }
            ],
            not_checked=["whether the labels are right"],
        ),
        _verdict(
            "mask_exact",
            "pass",
            "508 of 508 rows: trained tokens equal answer plus terminator, 4,811 tokens.",
            samples=[
                {"where": f"data/train.jsonl:{line}", "spans": spans} for line in (1, 204, 408)
            ],
        ),
        _verdict(
            "stop_token", "pass", "Every row ends in <|im_end|> (2), which the server stops on."
        ),
        _verdict(
            "length_audit", "pass", "508 rows in, 508 trained; none cut. Longest: 214 tokens."
        ),
        _verdict(
            "leak_check",
            "cannot_tell",
            "No exact or near copy among 898 rows; groups are not declared.",
            not_checked=["paraphrases", "groups: no row has a group key"],
        ),
    ]


def _verdict(check: str, status: str, summary: str, **more: object) -> Json:
    out: Json = {
        "check": check,
        "status": status,
        "summary": summary,
        "findings": [],
        "warnings": [],
        "numbers": {},
        "samples": [],
        "not_checked": [],
        "hint": None,
    }
    out.update(more)
    return out


@cache
def _report() -> Json:
    from tunegate.compare import compare

    return compare(columns(), gold(), frozen(), notes=notes())


def report() -> Json:
    """The report of all this, which is made once."""
    return copy.deepcopy(_report())


def run(report: Json) -> Json:
    """Everything that the page gets beside the report."""
    from tunegate.decide import decide

    rows = metrics_rows()
    validation = [(r["step"], r["validation_loss"]) for r in rows if "validation_loss" in r]
    lineage = [{"run": "triage", "data_digest": "d", "settings_digest": "s"}]
    return {
        "frozen": frozen(),
        "research": research(),
        "verdicts": verdicts(),
        "wire": {"rows": 20, "exact": 20, "stopped": 20, "step_s_median": 2.02},
        "quote": quote(),
        "release": {
            "level": 1,
            "why": "a check is waived, which only a person may do",
            "approver": "robin",
            "decision": "release",
            "money_ceiling": "0",
            "plan_digest": "9d" * 32,
            "waived": {"leak_check": "rows were written one by one, there are no groups"},
        },
        "receipt": receipt(),
        "metrics": rows,
        "decision": decide(report, lineage, validation=validation),
        "cost": {
            "money": "0",
            "currency": "USD",
            "basis": "214 s at 0 USD an hour, own machine",
        },
        "hardware": {"device": "2 CPU cores", "memory_gib": 7.6, "peak_memory_gib": 2.41},
        "times": {"wire_s": 34.0, "train_s": 214.2, "eval_raw_s": 61.0, "eval_tuned_s": 21.5},
        "attempts": [
            {"number": 1, "outcome": "out_of_memory"},
            {"number": 2, "outcome": "trained"},
        ],
        "made": {"by": "eval", "at": "2026-11-30T19:51:00+00:00", "version": "0.1.0"},
    }


def research() -> Json:
    """Gate 1, open with one answered question."""
    return {
        "verdict": "pass",
        "problems": [],
        "warnings": ["classes with fewer than 20 test rows: order_status, missing_item"],
        "questions": [
            {
                "id": "eval.test.rows",
                "question": "why is that enough, given that small gains are wanted?",
                "why": "240 test rows show differences from 8 points only",
                "source": "facts/bands.json",
                "answer": {"answer": "the gain aimed at is 20 points", "source": "run plan"},
                "open": False,
            }
        ],
        "known_issues": [],
        "evaluation": {
            "n_test": 240,
            "smallest_detectable_difference": 0.0803,
            "assumed": {"power": 0.8, "alpha": 0.05, "discordance": 0.2},
            "method": "McNemar's test on paired rows, sample size after Connor (1987)",
        },
    }


def quote() -> Json:
    """A quote for two processor cores."""
    lines = [
        ("weights", 0.501, "134,515,008 x 4 bytes"),
        ("adapter", 0.018, "4,884,480 x 4 bytes"),
        ("gradients", 0.018, "4,884,480 x 4 bytes"),
        ("optimizer", 0.036, "4,884,480 x 8 bytes (two moments)"),
        ("activations", 1.236, "960 tokens x 30 layers x 576 x 20 x 4 bytes"),
        ("logits", 0.035, "96 answer tokens x 49,152 x 8 bytes (values and gradients)"),
        ("runtime", 0.5, "interpreter and libraries"),
    ]
    return {
        "offer": {"platform": "local", "device": "2 CPU cores", "price_per_h": "0"},
        "hours": {"value": 0.0661, "with_margin": 0.0992, "ceiling": 3.0},
        "money": {"value": "0", "with_margin": "0", "ceiling": "0", "currency": "USD"},
        "checkpoint": {
            "every_s": 148.5,
            "minutes_at_risk": 10.0,
            "reason": "Young's optimum for saves of 0.12 s and one failure in 24 h (assumed)",
        },
        "crash": {"expected_minutes": 1.24, "worst_minutes": 2.51},
        "memory": {
            "lines": [{"name": n, "gib": g, "formula": f} for n, g, f in lines],
            "sum_gib": 2.34,
            "measured_gib": 2.29,
            "headroom_gib": 0.23,
            "total_gib": 2.52,
            "available_gib": 7.6,
            "fits": True,
            "basis": "measured by the wire test",
        },
    }


def receipt() -> Json:
    """A receipt that proves training."""
    return {
        "planned_steps": 102,
        "steps": 102,
        "first_loss": 1.48,
        "last_loss": 0.07,
        "losses_finite": True,
        "grad_norm_max": 1.98,
        "rows_seen": 816,
        "tokens": 96900,
        "answer_tokens": 9622,
        "adapter": {
            "path": "adapter/adapter_model.safetensors",
            "sha256": "7c" * 32,
            "bytes": 19562016,
            "changed": True,
        },
        "best": {"step": 85, "validation_loss": 0.158},
        "effect": {"probes": 8, "changed": 8},
        "train_s": 214.2,
        "peak_memory_gib": 2.41,
        "worker_sha256": "8b" * 32,
    }
