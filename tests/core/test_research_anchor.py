"""The anchor: what differs is shown axis by axis, and each difference needs a reason of its own."""

from __future__ import annotations

from typing import Any

import pytest
from samples import FACTS, VERSIONS, frozen

from tunegate import semantics
from tunegate.research import difference, research
from tunegate.types import Answer, Json

ANCHOR = frozen({"name": "reference"})


def axes(found: Json) -> set[str]:
    return {line["axis"] for line in found["differences"]}


def test_a_run_equals_itself() -> None:
    found = difference(frozen(), ANCHOR)
    assert found["differences"] == [] and found["verdict"] == "pass"
    assert found["same"] > 25


@pytest.mark.parametrize(
    ("changes", "axis"),
    [
        ({"spec": {"train": {"learning_rate": 5e-4}}}, "train.learning_rate"),
        ({"spec": {"train": {"batch_size": 16}}}, "train.batch_size"),
        ({"spec": {"train": {"loss": "all"}}}, "train.loss"),
        ({"spec": {"train": {"schedule": "cosine"}}}, "train.schedule"),
        ({"spec": {"train": {"seed": 3407}}}, "train.seed"),
        ({"spec": {"train": {"lora": {"dropout": 0.1}}}}, "train.lora.dropout"),
        ({"spec": {"train": {"precision": "bf16"}}}, "train.precision"),
        ({"spec": {"train": {"warmup_steps": 10}}}, "train.warmup_share"),
        ({"spec": {"eval": {"max_new_tokens": 64}}}, "eval.max_new_tokens"),
        ({"spec": {"eval": {"raw": {"shots": [0, 16]}}}}, "eval.raw.shots"),
        ({"system": "Sort it."}, "prompt.system"),
        ({"rows": {"train": 410}}, "data.train"),
        ({"rows": {"test": 250}}, "data.test"),
        ({"base": {"revision": "2"}}, "base"),
    ],
)
def test_a_difference_on_a_learning_axis_closes_the_gate(
    changes: dict[str, Any], axis: str
) -> None:
    run = frozen(changes.pop("spec", None), **changes)
    found = research(run, FACTS, anchor=ANCHOR)
    assert axis in axes(found["anchor"])
    assert found["verdict"] == "fail"
    assert any(axis in problem for problem in found["problems"])
    reasons = dict.fromkeys(axes(found["anchor"]), "wanted: this is what is compared")
    assert research(run, FACTS, anchor=ANCHOR, allow=reasons)["verdict"] == "pass"


def test_only_the_named_axis_is_allowed() -> None:
    run = frozen({"train": {"learning_rate": 5e-4, "seed": 1}})
    found = difference(run, ANCHOR, allow={"train.seed": "three seeds are compared"})
    verdicts = {line["axis"]: line["verdict"] for line in found["differences"]}
    assert verdicts == {"train.seed": "pass", "train.learning_rate": "fail"}
    assert found["verdict"] == "fail"


def test_the_terminator_and_the_training_template_are_axes() -> None:
    run = frozen()
    run["tokenizer"]["stop_ids"] = [2, 7]
    run["template"]["training_source"] = "{{ other }}"
    assert axes(difference(run, ANCHOR)) == {"terminator", "template.training"}


def test_the_order_of_targets_does_not_count() -> None:
    run = frozen()
    run["settings"]["train"]["lora"]["targets"].reverse()
    assert difference(run, ANCHOR)["differences"] == []


def test_an_unused_allowance_is_pointed_out() -> None:
    found = research(frozen(), FACTS, anchor=ANCHOR, allow={"train.seed": "not needed"})
    assert found["verdict"] == "pass"
    assert any("train.seed" in warning for warning in found["warnings"])


def test_other_package_versions_are_shown() -> None:
    found = difference(frozen(environment={"torch": "2.12.0"}), ANCHOR)
    assert found["environment"] == [
        {"package": "torch", "here": "2.12.0", "there": VERSIONS["torch"]}
    ]


def table(**values: str) -> dict[str, Answer]:
    base = dict.fromkeys(semantics.names(), "the same")
    return {n: Answer(v, "", "a test") for n, v in {**base, **values}.items()}


def test_two_frameworks_are_compared_by_their_answers() -> None:
    here = frozen({"train": {"framework": "unsloth"}})
    there = frozen({"train": {"framework": "llamafactory"}, "name": "reference"})
    tables = {"unsloth": table(loss_on_prompt="completions"), "llamafactory": table()}
    found = difference(here, there, tables=tables, allow={"train.framework": "a port"})
    verdicts = {line["axis"]: line["verdict"] for line in found["differences"]}
    assert verdicts == {"train.framework": "pass", "semantics.loss_on_prompt": "fail"}


def test_a_framework_without_answers_is_unknown_and_never_the_same() -> None:
    here = frozen({"train": {"framework": "unsloth"}})
    allow = {"train.framework": "a port"}
    found = difference(here, ANCHOR, tables={"native": table()}, allow=allow)
    assert found["verdict"] == "cannot_tell"
    assert axes(found) >= {f"semantics.{name}" for name in semantics.names()}
