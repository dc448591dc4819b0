"""The keys of a run file, their types and what they mean. `docs/run-file.md` is generated from
here.

Imported only by `spec.py` and the verbs that read a run file, since pydantic costs 150 ms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

MONEY = re.compile(r"^(?P<amount>[0-9]{1,9}(\.[0-9]{1,4})?)\s+(?P<currency>[A-Z]{3})$")


MOST = 10_000_000
"""Largest count that a run file may hold."""


def parse_money(text: str) -> tuple[Decimal, str]:
    """`5 USD` -> (5, USD). Raises ValueError with what was expected."""
    found = MONEY.match(text.strip())
    if not found:
        raise ValueError("an amount and a currency, such as `5 USD`")
    try:
        return Decimal(found["amount"]), found["currency"]
    except InvalidOperation as exc:  # pragma: no cover - the pattern admits only decimals
        raise ValueError("an amount and a currency, such as `5 USD`") from exc


def _money(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("an amount and a currency, such as `5 USD`")
    parse_money(value)
    return value.strip()


# What an editor is told about values that a validator above looks at.
_MONEY_SCHEMA = {"type": "string", "pattern": r"^\s*[0-9]{1,9}(\.[0-9]{1,4})?\s+[A-Z]{3}\s*$"}
_SLICE_NAMES = {
    "propertyNames": {"pattern": "^(?!(test|train|validation|teacher)$)[A-Za-z0-9_-]{1,40}$"}
}
_TASK_NEEDS = {
    "allOf": [
        {
            "if": {"properties": {"answer": {"const": answer}}, "required": ["answer"]},
            "then": {"properties": {key: {"type": kind}}, "required": [key]},
        }
        for answer, key, kind in (("json", "schema", "string"), ("label", "labels", "array"))
    ]
}

Money = Annotated[str, BeforeValidator(_money), WithJsonSchema(_MONEY_SCHEMA)]


def _slice_name(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", value):
        raise ValueError("letters, digits, dash and underscore")
    if value in ("test", "train", "validation", "teacher"):
        raise ValueError("a name of its own, since this one is taken")
    return value


class Keys(BaseModel):
    """Unknown keys are refused; values are not coerced."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        frozen=True,
        allow_inf_nan=False,
    )


class Task(Keys):
    model_config = ConfigDict(json_schema_extra=cast(Any, _TASK_NEEDS))

    answer: Literal["text", "label", "json"]
    """What the model answers: free text, one label, or one JSON value."""
    schema_: str | None = Field(None, alias="schema")
    """File with the JSON Schema (2020-12) of a JSON answer."""
    class_: str | None = Field(None, alias="class", pattern=r"^/")
    """JSON pointer to the class inside a JSON answer, such as `/intent`; results are given by
    class.
    """
    escape: str | None = None
    """The class that means "none of these"."""
    labels: list[str] | None = Field(None, min_length=2, json_schema_extra={"uniqueItems": True})
    """The declared classes; left out, they are read from the schema's enum."""

    @model_validator(mode="after")
    def _shape(self) -> Task:
        if self.answer == "json" and self.schema_ is None:
            raise ValueError("answer: json needs `schema`, the file with its JSON Schema")
        if self.answer == "label" and not self.labels:
            raise ValueError("answer: label needs `labels`, the list of classes")
        if self.labels and len(set(self.labels)) < len(self.labels):
            raise ValueError("a label stands twice in `labels`")
        if self.labels and self.escape is not None and self.escape not in self.labels:
            raise ValueError(f"`escape` is {self.escape!r}, which is not among `labels`")
        return self


Column = Literal[
    "prompt", "completion", "instruction", "input", "output", "system", "history",
    "messages", "conversations", "tools", "text", "check", "id",
]  # fmt: skip
"""Keys of a row that a column map may name; `worker.forms.KEYS`, which travels without pydantic."""


class Data(Keys):
    train: str
    """Training rows: JSON Lines, a JSON array, CSV or Parquet, told apart by the suffix
    (docs/data.md).
    """
    validation: str
    """Validation rows: they choose the checkpoint and the raw column's best prompt."""
    columns: dict[Column, str] | None = Field(None, min_length=1)
    """What the files call the keys of a row, such as `{prompt: question, completion: answer}`."""
    group: str | None = None
    """Key of a row that names its source; rows of one group must stay in one split."""
    may_leave: bool = False
    """True only where the data may go to a third party or a rented machine."""


def _switches(value: Any) -> Any:
    if isinstance(value, dict):
        taken = {"messages", "tools", "documents", "add_generation_prompt"} & set(value)
        if taken or any(str(name).endswith("_token") for name in value):
            raise ValueError("names of the template's own switches, not of messages or tokens")
    return value


class Prompt(Keys):
    system: str | None = None
    """File with the serving prompt; training, evaluation and serving all read this file."""
    chat_template_kwargs: Annotated[
        dict[str, bool | int | float | str], BeforeValidator(_switches)
    ] = {}
    """Values that the chat template asks for by name, such as `enable_thinking: false`. Training
    and evaluation render with them; the server has to send the same.
    """


class Base(Keys):
    model: str
    """Hub id, a folder, or `bundled:smollm2-135m-instruct`."""
    revision: str | None = None
    """Exact revision of a hub id or bundled model; a folder is pinned by its content."""


class Lora(Keys):
    rank: int | None = Field(None, ge=1, le=1024)
    """Rank r of the adapter; left out, 16."""
    alpha: float | None = Field(None, gt=0)
    """Scale of the adapter is alpha / rank; left out, it is twice the rank."""
    dropout: float | None = Field(None, ge=0, lt=1)
    """Adapter dropout; left out, none. Above 0, prompts are no longer shared between rows."""
    targets: list[str] | None = Field(None, min_length=1)
    """Linear modules that get an adapter; left out, all of them."""


class Train(Keys):
    framework: str = "native"
    """Which trainer runs: `native`, or `trl` in an environment of its own; docs/frameworks.md."""
    epochs: float | None = Field(None, gt=0, le=100)
    """Passes over the training rows; left out, 2."""
    batch_size: int | None = Field(None, ge=1, le=MOST)
    """Rows in one optimizer step."""
    learning_rate: float | None = Field(None, gt=0, lt=1)
    """Peak learning rate; left out, it follows the table in facts/learning_rates.json."""
    schedule: Literal["linear", "cosine", "constant"] | None = None
    """How the learning rate falls after the warm-up; left out, linear."""
    warmup_steps: int | None = Field(None, ge=0, le=MOST)
    """Steps over which the learning rate rises."""
    weight_decay: float | None = Field(None, ge=0, le=1)
    """AdamW weight decay on adapter weights; left out, none."""
    max_grad_norm: float | None = Field(None, gt=0)
    """Gradient norm above which gradients are scaled down; left out, 1."""
    lora: Lora = Lora()
    """The adapter."""
    precision: Literal["fp32", "bf16", "fp16"] | None = None
    """Arithmetic of the base model's weights; left out, it follows the hardware."""
    max_length: int | None = Field(None, ge=16, le=MOST)
    """Longest row in tokens; left out, it is the longest row of the data."""
    seed: int | None = Field(None, ge=0, le=MOST)
    """Seeds the adapter's start and the data order."""
    loss: Literal["answer", "all"] | None = None
    """Which tokens are meant to carry loss: the answers and their end (left out), or everything."""
    eval_every_steps: int | None = Field(None, ge=1, le=MOST)
    """Steps between validation losses; left out, up to four times an epoch."""
    chat_template: str | None = None
    """Jinja file for training only. It must render as serving does, or gate 2 stays closed."""


class Raw(Keys):
    prompts: str | list[str] | None = None
    """Folder or files with candidate system prompts; the serving prompt is always a candidate."""
    shots: list[Annotated[int, Field(ge=0, le=64)]] = Field([0, 4], min_length=1)
    """Numbers of worked examples from the training rows to try."""
    constrained: list[bool] | None = Field(None, min_length=1)
    """Whether to force the schema while decoding; left out, both are tried where there is a
    schema.
    """
    validation_rows: int | None = Field(None, ge=20)
    """Validation rows that choose the best prompt; left out, all of them."""


class Teacher(Keys):
    predictions: str
    """Recorded answers of the teacher: JSONL rows with `id` and `output`."""
    prompt: str | None = None
    """The prompt that the teacher saw, for the record."""
    defines_gold: bool = False
    """True where the reference answers are the teacher's own, so that its score says nothing."""


class Eval(Keys):
    test: str
    """Test rows. They are read once, after the checkpoint is chosen."""
    slices: dict[Annotated[str, BeforeValidator(_slice_name)], str] = Field(
        {}, json_schema_extra=cast(Any, _SLICE_NAMES)
    )
    """Further row files, scored apart: adversarial, general, ... Rows with a `check` are scored by
    rule.
    """
    raw: Raw = Raw()
    """How the base model's best prompt is looked for."""
    teacher: Teacher | None = None
    """The column to compare with."""
    max_new_tokens: int | None = Field(None, ge=1, le=MOST)
    """Longest answer in tokens; left out, it follows the reference answers."""
    batch_size: int = Field(64, ge=1, le=4096)
    """Rows generated at a time."""
    smallest_change: float = Field(0.02, gt=0, lt=1)
    """The smallest difference in accuracy that would matter to you."""


class Limits(Keys):
    money: Money = "0 USD"
    """Most money that the run may cost."""
    hours: float = Field(24, gt=0)
    """Most hours that training may take."""
    minutes_at_risk: float = Field(10, gt=0)
    """Work that a crash may cost, in minutes; checkpoints follow from it."""


class SourcedAnswer(Keys):
    answer: str = Field(min_length=3)
    """What was found out."""
    source: str = Field(min_length=3)
    """Where it was found: an address, a file, a measurement."""


class Research(Keys):
    answers: dict[str, SourcedAnswer] = {}
    """Answers to gate 1's open questions, by the question's id."""
    allow: dict[str, str] = {}
    """Differences from the anchor that are wanted: axis and reason."""


class Spec(Keys):
    """A run file."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    """Name of the run: letters, digits, dot, dash and underscore."""
    task: Task
    """What the model is to answer."""
    data: Data
    """Rows to train and validate on."""
    prompt: Prompt = Prompt()
    """The serving prompt."""
    base: Base
    """The model to start from."""
    train: Train = Train()
    """How to train."""
    eval: Eval
    """How to judge the result."""
    anchor: str | None = None
    """Run folder that this run must be comparable with."""
    parent: str | None = None
    """Run folder that this run follows; its knob turns count."""
    research: Research = Research()
    """Answers that gate 1 asked for."""
    platform: str = "local"
    """Where to train."""
    limits: Limits = Limits()
    """What the run may cost."""

    def files(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Key path and value of every file that must exist, relative to the run file's folder."""
        yield from self._named_files()
        for name, path in self.eval.slices.items():
            yield ("eval", "slices", name), path
        prompts = self.eval.raw.prompts
        for path in [prompts] if isinstance(prompts, str) else prompts or []:
            yield ("eval", "raw", "prompts"), path

    def _named_files(self) -> Iterator[tuple[tuple[str, ...], str]]:
        teacher = self.eval.teacher
        candidates: list[tuple[tuple[str, ...], str | None]] = [
            (("task", "schema"), self.task.schema_),
            (("data", "train"), self.data.train),
            (("data", "validation"), self.data.validation),
            (("prompt", "system"), self.prompt.system),
            (("train", "chat_template"), self.train.chat_template),
            (("eval", "test"), self.eval.test),
            (("eval", "teacher", "predictions"), teacher.predictions if teacher else None),
            (("eval", "teacher", "prompt"), teacher.prompt if teacher else None),
            (("anchor",), self.anchor),
            (("parent",), self.parent),
        ]
        for loc, path in candidates:
            if path is not None:
                yield loc, path


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a run file, for editors. What hangs together between keys and
    files, such as an escape class among the labels, only `tunegate freeze` can tell.
    """
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False  # a key's title would repeat the key

    found = Spec.model_json_schema(by_alias=True, schema_generator=Untitled)
    return {"$schema": GenerateJsonSchema.schema_dialect, **found, "title": "Tunegate run file"}


def keys_under(model: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    """Names that may stand under the key path `loc`, as written in the file."""
    current: Any = model
    for part in loc:
        fields = {f.alias or n: f.annotation for n, f in current.model_fields.items()}
        inner = fields.get(str(part))
        found = [t for t in (inner, *get_args(inner)) if _is_model(t)]
        if not found:
            return []
        current = found[0]
    return [field.alias or name for name, field in current.model_fields.items()]


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
