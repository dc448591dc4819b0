"""A frozen run without a disk: what `freeze` makes of a small run file and hand-written facts.

frozen()                                    the run whose settings were all chosen by rule
frozen({"train": {"epochs": 9}})            the same with keys of the run file set
frozen(base={"layers": 40}, data={...})     the same with facts changed
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tunegate import facts as tables
from tunegate.freeze import Facts, FileFacts, freeze
from tunegate.specmodel import Spec
from tunegate.types import Json

SMOLLM2: Json = {
    "model": "bundled:smollm2-135m-instruct",
    "revision": "1",
    "dir": "base",
    "files": {"model.safetensors": "0" * 64},
    "architecture": "LlamaForCausalLM",
    "parameters": 134_515_008,
    "layers": 30,
    "hidden": 576,
    "vocab": 49_152,
    "context": 8192,
    "dtype": "float32",
    "linear_modules": dict.fromkeys(
        ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"), 30
    ),
}
LABELS = ["refund", "address", "none_of_these"]
VERSIONS = {
    "torch": "2.13.0+cpu",
    "transformers": "5.24.0",
    "peft": "0.21.2",
    "tokenizers": "0.23.3",
    "safetensors": "0.8.0",
    "python": "3.12.1",
}
CPU = {"kind": "cpu", "bf16_native": False}
FACTS = tables.load_all()


def digest(value: Any) -> str:
    """SHA-256 over sorted JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def file_facts(name: str, rows: int) -> FileFacts:
    """A data file of `rows` rows of at most 140 tokens, 12 of them in the answer."""
    return FileFacts(
        path=f"data/{name}.jsonl",
        sha256=digest([name, rows]),
        bytes=200 * rows,
        rows=rows,
        tokens_max=140,
        answer_tokens_max=12,
        answer_tokens_p99=11,
    )


def frozen(
    spec: Mapping[str, Any] | None = None,
    *,
    rows: Mapping[str, int] | None = None,
    base: Mapping[str, Any] | None = None,
    environment: Mapping[str, str | None] | None = None,
    trainer: Json | None = None,
    system: str = "Sort the message.",
) -> Json:
    """The frozen run of a small triage task."""
    keys: Json = {
        "name": "triage",
        "task": {"answer": "label", "labels": LABELS, "escape": "none_of_these"},
        "data": {"train": "data/train.jsonl", "validation": "data/validation.jsonl"},
        "base": {"model": SMOLLM2["model"]},
        "eval": {"test": "data/test.jsonl", "teacher": {"predictions": "data/teacher.jsonl"}},
    }
    sizes = {"train": 400, "validation": 100, "test": 240, "teacher": 240, **(rows or {})}
    prompt = {"system": system, "sha256": digest(system)}
    gathered = Facts(
        files={name: file_facts(name, count) for name, count in sizes.items()},
        kinds={},
        base={**SMOLLM2, **(base or {})},
        tokenizer={
            "sha256": "1" * 64,
            "eos_token": "<|im_end|>",
            "eos_id": 2,
            "pad_id": 2,
            "bos_id": 1,
            "stop_ids": [2],
        },
        template={"sha256": "2" * 64, "source": "{{ messages }}", "training_source": None},
        prompt=prompt,
        candidates=[{"name": "serving", "sha256": prompt["sha256"], "text": system}],
        schema=None,
        environment={**VERSIONS, **(environment or {})},
        trainer=trainer,
        device=CPU,
        tables=FACTS,
    )
    read = Spec.model_validate(_merged(keys, spec or {}))
    return freeze(read, gathered, folder="run", digest=digest)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Json:
    out = dict(below)
    for key, value in above.items():
        inner = out.get(key)
        both = isinstance(inner, Mapping) and isinstance(value, Mapping)
        out[key] = _merged(inner, value) if both else value
    return out
