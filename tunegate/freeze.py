"""Spec + facts -> Frozen: every setting resolved, every input pinned by digest, every choice with
its reason.

Pure. The verbs gather the facts: hashes, token counts, the base model's header, package versions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tunegate import defaults
from tunegate.types import Choice, Json

if TYPE_CHECKING:
    from tunegate.specmodel import Spec

RULE_NEW_TOKENS = 48
"""Longest answer on slices that are scored by rule; the rules ask for a word, a sentence or a
list.
"""

Digest = Callable[[Any], str]
"""SHA-256 over canonical JSON, passed in so that this module stays free of I/O."""


@dataclass(frozen=True)
class FileFacts:
    """What is known of one data file."""

    path: str
    """Relative to the run file's folder."""
    sha256: str
    bytes: int
    rows: int
    tokens_max: int = 0
    """Tokens of the longest row, rendered as in training; 0 where it was not rendered."""
    answer_tokens_max: int = 0
    answer_tokens_p99: int = 0
    by_class: Mapping[str, int] | None = None
    """Rows of each class; None where the task has no classes."""

    def to_json(self) -> Json:
        return dict(self.__dict__)


@dataclass(frozen=True)
class Facts:
    """Everything that freezing needs and the run file does not hold."""

    files: Mapping[str, FileFacts]
    """By name: train, validation, test, slice:<name>, teacher."""
    kinds: Mapping[str, str]
    """Of each slice: `class` or `rule`."""
    base: Json
    tokenizer: Json
    template: Json
    """{"sha256", "source", "training_source"}."""
    prompt: Json
    """{"system": text or None, "sha256"}."""
    candidates: Sequence[Json]
    """System prompts of the raw column: {"name", "sha256", "text"}; the serving prompt comes
    first.
    """
    schema: Json | None
    environment: Mapping[str, str | None]
    """Versions of what evaluates, and of what trains where the framework has none of its own."""
    trainer: Json | None
    """The framework's own environment: {"framework", "lock", "packages", "python"}; or None."""
    device: Mapping[str, Any]
    """{"kind": "cpu", "bf16_native": bool}."""
    tables: Mapping[str, Json]
    """The tables of facts/ by name."""


def freeze(spec: Spec, facts: Facts, *, folder: str, digest: Digest) -> Json:
    """The payload of frozen.json."""
    choices: list[Choice] = []
    settings = {
        "task": resolve_task(spec, facts.schema),
        "data": {
            "group": spec.data.group,
            "may_leave": spec.data.may_leave,
            "columns": dict(spec.data.columns) if spec.data.columns else None,
        },
        "train": _train(spec, facts, choices),
        "eval": _eval(spec, facts, choices),
        "platform": spec.platform,
        "limits": _limits(spec),
    }
    data = {name: file.to_json() for name, file in facts.files.items()}
    base = dict(facts.base)
    frozen = {
        "name": spec.name,
        "settings": settings,
        "choices": [choice.to_json() for choice in choices],
        "data": data,
        "prompt": dict(facts.prompt),
        "base": base,
        "tokenizer": dict(facts.tokenizer),
        "template": dict(facts.template),
        "environment": dict(facts.environment),
        "trainer": facts.trainer,
        "folder": folder,
    }
    frozen["digests"] = _digests(frozen, digest)
    return frozen


def _digests(frozen: Json, digest: Digest) -> Json:
    """Digests of the parts, and of what training and evaluation depend on."""
    settings = frozen["settings"]
    base = {k: v for k, v in frozen["base"].items() if k != "dir"}
    hashes = {name: file["sha256"] for name, file in frozen["data"].items()}
    parts = {
        "settings": digest(settings),
        "data": digest(hashes),
        "base": digest(base),
        "prompt": digest([frozen["prompt"]["sha256"], frozen["template"]]),
        "eval": digest([settings["eval"], hashes.get("test")]),
        "environment": digest([frozen["environment"], frozen["trainer"]]),
    }
    shared = [settings["task"], parts["base"], frozen["prompt"]["sha256"], frozen["environment"]]
    template = frozen["template"]
    learned = {name: hashes[name] for name in ("train", "validation") if name in hashes}
    learned["columns"] = settings["data"]["columns"]
    trainer = frozen["trainer"]
    parts["training"] = digest([*shared, template, settings["train"], learned, trainer])
    # What a knob turn and a change of data are, for the lineage: limits and test rows are neither.
    parts["knobs"] = digest([settings["train"], frozen["prompt"]["sha256"], template])
    parts["curriculum"] = digest(learned)
    read = [settings["data"]["group"], settings["data"]["columns"]]
    parts["evaluation"] = digest([*shared, template["sha256"], settings["eval"], hashes, *read])
    return parts


def resolve_task(spec: Spec, schema: Json | None) -> Json:
    """The task's settings; classes that the run file does not list are read from the schema."""
    task = spec.task
    labels = list(task.labels) if task.labels else labels_in_schema(schema, task.class_)
    return {
        "answer": task.answer,
        "schema": schema,
        "class": task.class_,
        "escape": task.escape,
        "labels": labels,
    }


def labels_in_schema(schema: Json | None, pointer: str | None) -> list[str] | None:
    """The enum that a JSON Schema declares at a JSON pointer of the answer; None where there is
    none.
    """
    node: Any = _followed(schema, schema)
    for part in (pointer or "").strip("/").split("/") if pointer and schema else []:
        name = part.replace("~1", "/").replace("~0", "~")
        node = (node.get("properties") or {}).get(name) if isinstance(node, dict) else None
        node = _followed(node, schema)
    values = node.get("enum") if isinstance(node, dict) else None
    # What is no text is spelt as JSON writes it (true, 1), as checks and metrics do.
    spelt = [value if isinstance(value, str) else json.dumps(value) for value in values or ()]
    return spelt or None


def _followed(node: Any, schema: Any) -> Any:
    """The node that a `$ref` inside the schema leads to; the node itself where it has none."""
    for _ in range(8):  # a circle of references leads nowhere
        reference = node.get("$ref") if isinstance(node, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return node
        node = schema
        for part in reference[2:].split("/"):
            node = node.get(part) if isinstance(node, dict) else None
    return None


def _train(spec: Spec, facts: Facts, choices: list[Choice]) -> Json:
    train, lora = spec.train, spec.train.lora
    tables, rows = facts.tables, facts.files["train"].rows
    protocol = {choice.key: choice for choice in defaults.choose_protocol(tables)}

    def pick(value: Any, choice: Choice) -> Any:
        """The file's value, or the rule's, whose reason is then kept."""
        if value is not None:
            return value
        choices.append(choice)
        return choice.value

    epochs = pick(train.epochs, protocol["train.epochs"])
    rank = pick(lora.rank, protocol["train.lora.rank"])
    batch = pick(train.batch_size, defaults.choose_batch_size(tables, rows=rows, epochs=epochs))
    steps = defaults.total_steps(rows=rows, batch_size=batch, epochs=epochs)
    rate = defaults.choose_learning_rate(
        tables, method="lora", parameters=facts.base["parameters"], rank=rank, batch_size=batch
    )
    validate_every = defaults.choose_eval_every_steps(
        tables,
        rows=rows,
        batch_size=batch,
        total_steps=steps,
        validation_rows=facts.files["validation"].rows,
    )
    longest = max(facts.files[name].tokens_max for name in ("train", "validation"))
    max_length = defaults.choose_max_length(longest_tokens=longest, context=facts.base["context"])
    targets = defaults.choose_targets(tables, linear_modules=facts.base["linear_modules"])
    return {
        "framework": train.framework,
        "epochs": epochs,
        "batch_size": batch,
        "learning_rate": pick(train.learning_rate, rate),
        "schedule": pick(train.schedule, protocol["train.schedule"]),
        "warmup_steps": pick(
            train.warmup_steps, defaults.choose_warmup_steps(tables, total_steps=steps)
        ),
        "total_steps": steps,
        "weight_decay": pick(train.weight_decay, protocol["train.weight_decay"]),
        "max_grad_norm": pick(train.max_grad_norm, protocol["train.max_grad_norm"]),
        "lora": {
            "rank": rank,
            "alpha": pick(lora.alpha, defaults.choose_alpha(tables, rank=rank)),
            "dropout": pick(lora.dropout, protocol["train.lora.dropout"]),
            "targets": pick(lora.targets, targets),
        },
        "precision": pick(train.precision, defaults.choose_precision(tables, device=facts.device)),
        "max_length": pick(train.max_length, max_length),
        "seed": pick(train.seed, protocol["train.seed"]),
        "loss": pick(train.loss, protocol["train.loss"]),
        "eval_every_steps": pick(train.eval_every_steps, validate_every),
        "chat_template": train.chat_template,
    }


def _eval(spec: Spec, facts: Facts, choices: list[Choice]) -> Json:
    evaluation, raw = spec.eval, spec.eval.raw
    answers = [file.answer_tokens_p99 for name, file in facts.files.items() if name != "teacher"]
    new_tokens = evaluation.max_new_tokens
    if new_tokens is None:
        chosen = defaults.choose_max_new_tokens(facts.tables, p99_answer_tokens=max(answers))
        new_tokens = chosen.value
        choices.append(chosen)
    constrained = raw.constrained if raw.constrained is not None else [False, True]
    return {
        "max_new_tokens": new_tokens,
        "rule_max_new_tokens": RULE_NEW_TOKENS,
        "batch_size": evaluation.batch_size,
        "decoding": "greedy",
        "raw": {
            "prompts": [dict(candidate) for candidate in facts.candidates],
            "shots": list(raw.shots),
            "constrained": [flag for flag in constrained if facts.schema is not None or not flag],
            "validation_rows": raw.validation_rows,
        },
        "teacher": _teacher(spec),
        "slices": {name: {"kind": facts.kinds[name]} for name in evaluation.slices},
        "smallest_change": evaluation.smallest_change,
        "confidence": 0.95,
    }


def _teacher(spec: Spec) -> Json | None:
    teacher = spec.eval.teacher
    if teacher is None:
        return None
    return {"predictions": teacher.predictions, "defines_gold": teacher.defines_gold}


def _limits(spec: Spec) -> Json:
    amount, currency = spec.limits.money.split()
    return {
        "money": amount,
        "currency": currency,
        "hours": spec.limits.hours,
        "minutes_at_risk": spec.limits.minutes_at_risk,
    }
