"""Gate 1: a run chosen by rule passes without a person; what leaves its band asks a question."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import FACTS, frozen

from tunegate.research import research
from tunegate.research.evaluation import rows_needed, smallest_difference
from tunegate.types import Json

SOURCED = {"answer": "measured in a sweep", "source": "notes/sweep.md"}


def ask(spec: dict[str, Any] | None = None, **changes: Any) -> Json:
    """Research on the sample run; `answers` and `device` go to research, the rest to the run."""
    given_to_research = {k: changes.pop(k) for k in ("answers", "device", "allow") if k in changes}
    return research(frozen(spec, **changes), FACTS, **given_to_research)


def line(found: Json, key: str) -> Json:
    return next(item for item in found["bands"] if item["key"] == key)


def test_a_run_chosen_by_rule_passes_without_a_question() -> None:
    found = ask()
    assert found["verdict"] == "pass"
    assert found["questions"] == [] and found["problems"] == []
    assert {band["verdict"] for band in found["bands"]} == {"pass"}


@given(
    rows=st.integers(10, 50_000),
    layers=st.integers(1, 120),
    parameters=st.integers(1_000_000, 400_000_000_000),
)
def test_rules_choose_within_the_bands(rows: int, layers: int, parameters: int) -> None:
    modules = dict.fromkeys(("q_proj", "down_proj", "lm_head"), layers)
    base = {"layers": layers, "parameters": parameters, "linear_modules": modules}
    found = ask(rows={"train": rows}, base=base)
    assert found["verdict"] == "pass", found["problems"]


def test_every_setting_is_listed_once_with_its_origin() -> None:
    found = ask({"train": {"learning_rate": 5e-4}})
    lines = {item["key"]: item for item in found["effective"]}
    assert len(lines) == len(found["effective"])
    assert lines["train.learning_rate"]["from"] == "file"
    assert lines["train.lora.targets"]["from"] == "chosen"
    assert lines["train.lora.targets"]["source"]
    assert lines["train.total_steps"]["from"] == "computed"
    assert "text" not in lines["eval.raw.prompts"]["value"][0]


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        ({"train": {"learning_rate": 2e-5}}, "train.learning_rate"),
        ({"train": {"learning_rate": 5e-2}}, "train.learning_rate"),
        ({"train": {"lora": {"rank": 512}}}, "train.lora.rank"),
        ({"train": {"lora": {"alpha": 160}}}, "train.lora.alpha_per_rank"),
        ({"train": {"lora": {"dropout": 0.5}}}, "train.lora.dropout"),
        ({"train": {"epochs": 9}}, "train.epochs"),
        ({"train": {"batch_size": 256}}, "train.total_steps"),
        ({"train": {"warmup_steps": 60}}, "train.warmup_share"),
        ({"train": {"weight_decay": 0.5}}, "train.weight_decay"),
        ({"train": {"max_grad_norm": 50.0}}, "train.max_grad_norm"),
    ],
)
def test_outside_its_band_a_setting_asks_a_question(spec: dict[str, Any], key: str) -> None:
    found = ask(spec)
    assert found["verdict"] == "fail"
    assert line(found, key)["verdict"] == "fail"
    assert [q["id"] for q in found["questions"] if q["open"]].count(key) == 1
    assert any(key in problem and "research.answers" in problem for problem in found["problems"])


def test_a_sourced_answer_closes_the_question_and_is_kept() -> None:
    spec = {"train": {"learning_rate": 2e-5}}
    found = ask(spec, answers={"train.learning_rate": SOURCED})
    assert found["verdict"] == "pass"
    assert found["questions"][0]["answer"] == SOURCED
    assert "answered" in line(found, "train.learning_rate")["reason"]


@pytest.mark.parametrize("lacking", ["answer", "source"])
def test_half_an_answer_closes_nothing(lacking: str) -> None:
    answer = {**SOURCED, lacking: ""}
    found = ask({"train": {"learning_rate": 2e-5}}, answers={"train.learning_rate": answer})
    assert found["verdict"] == "fail"
    assert found["questions"][0]["open"]


def test_an_answer_to_another_question_closes_nothing_and_is_pointed_out() -> None:
    found = ask({"train": {"learning_rate": 2e-5}}, answers={"train.epochs": SOURCED})
    assert found["verdict"] == "fail"
    assert any("train.epochs" in warning for warning in found["warnings"])


def test_the_band_of_the_rate_moves_with_the_rank() -> None:
    assert line(ask({"train": {"lora": {"rank": 256}}}), "train.learning_rate")["high"] == 5e-4


def test_a_misspelt_target_is_found_though_another_one_matches() -> None:
    found = ask({"train": {"lora": {"targets": ["q_proj", "gate_projj"]}}})
    assert found["coverage"]["targets"]["gate_projj"]["modules"] == 0
    assert found["verdict"] == "fail"
    assert any("gate_projj" in problem for problem in found["problems"])
    # No answer mends a name that is not there.
    answered = {"train.lora.coverage": SOURCED, "train.lora.targets": SOURCED}
    again = ask({"train": {"lora": {"targets": ["q_proj", "gate_projj"]}}}, answers=answered)
    assert again["verdict"] == "fail"


def test_targets_that_reach_few_blocks_ask_a_question() -> None:
    hybrid = {"layers": 56, "linear_modules": {"q_proj": 4, "in_proj": 52}}
    narrow = {"train": {"lora": {"targets": ["q_proj"]}}}
    found = ask(narrow, base=hybrid)
    assert found["coverage"]["layers_share"] == pytest.approx(4 / 56, abs=1e-3)
    assert found["coverage"]["not_targeted"] == ["in_proj"]
    assert found["verdict"] == "fail"
    assert ask(narrow, base=hybrid, answers={"train.lora.coverage": SOURCED})["verdict"] == "pass"


def test_a_dotted_target_matches_its_module() -> None:
    found = ask({"train": {"lora": {"targets": ["self_attn.q_proj"]}}})
    assert found["coverage"]["targets"]["self_attn.q_proj"]["modules"] == 30


def test_bf16_on_a_processor_without_it_asks_a_question() -> None:
    cpu = {"kind": "cpu", "bf16_native": False}
    assert ask(device=cpu)["precision"]["verdict"] == "pass"
    found = ask({"train": {"precision": "bf16"}}, device=cpu)
    assert found["verdict"] == "fail"
    assert ask({"train": {"precision": "bf16"}}, device={"kind": "cuda", "capability": 7.5})[
        "verdict"
    ] == "fail"  # fmt: skip
    assert ask({"train": {"precision": "bf16"}})["precision"] is None


def test_a_version_outside_the_bounds_closes_the_gate() -> None:
    found = ask(environment={"torch": "2.4.1"})
    assert found["verdict"] == "fail"
    assert any("torch 2.4.1" in problem for problem in found["problems"])


def test_a_package_that_is_missing_leaves_the_question_open() -> None:
    found = ask(environment={"torch": None})
    assert found["verdict"] == "cannot_tell"
    assert any("torch is not installed" in problem for problem in found["problems"])


def test_a_framework_without_bounds_asks_with_what_it_works() -> None:
    homegrown = {"train": {"framework": "homegrown"}}
    closed = ask(homegrown)
    assert closed["verdict"] != "pass"
    assert [q["id"] for q in closed["questions"] if q["open"]] == ["versions.homegrown"]
    answers = {"versions.homegrown": {"answer": "all of 5.x", "source": "its tests"}}
    assert ask(homegrown, answers=answers)["verdict"] == "pass"


def test_known_issues_match_by_framework_version_and_setting() -> None:
    native = {issue["id"] for issue in ask()["known_issues"]}
    assert "TK-01" in native and "LM-06" not in native and "PR-03" not in native
    fp16 = ask({"train": {"precision": "fp16"}})
    assert "PR-03" in {issue["id"] for issue in fp16["known_issues"]}
    trl = ask({"train": {"framework": "trl"}}, environment={"trl": "1.16.0"})
    found = {issue["id"] for issue in trl["known_issues"]}
    assert {"LM-06", "OP-03"} <= found and "LM-07" not in found


def test_an_issue_that_nothing_catches_asks_a_question() -> None:
    rows = [{**row, "caught_by": []} for row in FACTS["known_issues"]["rows"]]
    uncaught = {**FACTS, "known_issues": {**FACTS["known_issues"], "rows": rows}}
    found = research(frozen(), uncaught)
    assert found["verdict"] == "fail"
    assert "issue.TK-01" in {question["id"] for question in found["questions"]}


def test_a_test_set_that_shows_nothing_asks_a_question() -> None:
    found = ask(rows={"test": 18})
    assert found["verdict"] == "fail"
    assert found["evaluation"]["verdict"] == "fail"
    answered = ask(rows={"test": 18}, answers={"eval.test.rows": SOURCED})
    assert answered["verdict"] == "pass"


def test_classes_are_counted_where_the_frozen_run_holds_them() -> None:
    run = frozen()
    counts = {"refund": 120, "address": 117, "none_of_these": 3}
    run["data"]["test"]["by_class"] = counts
    found = research(run, FACTS)
    assert found["evaluation"]["n_per_class_min"] == 3
    assert found["evaluation"]["majority_share"] == 0.5
    assert any("none_of_these" in warning for warning in found["warnings"])
    assert ask()["evaluation"]["n_per_class_min"] is None


def test_a_run_without_a_prompted_baseline_cannot_be_judged() -> None:
    run = frozen()
    run["settings"]["eval"]["raw"]["prompts"] = []
    found = research(run, FACTS)
    assert found["verdict"] == found["evaluation"]["verdict"] == "fail"


def test_the_sample_size_is_the_published_one() -> None:
    # Connor's formula as two public calculators give it: 23 pairs, and 155 for 0.45 and 0.15.
    strong = rows_needed(0.40, discordance=0.50, power=0.80, alpha=0.05)
    assert 22 < strong <= 23
    weak = rows_needed(0.15, discordance=0.45, power=0.80, alpha=0.05)
    assert 154 < weak <= 155


@given(st.integers(1, 20_000), st.floats(0.02, 1.0))
def test_the_smallest_difference_needs_just_these_rows(rows: int, discordance: float) -> None:
    shown = smallest_difference(rows, discordance=discordance, power=0.8, alpha=0.05)
    assert 0 < shown <= 1
    if shown < 1:
        needed = rows_needed(shown, discordance=discordance, power=0.8, alpha=0.05)
        assert needed == pytest.approx(rows, rel=1e-3)


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_more_rows_never_show_less(a: int, b: int) -> None:
    few, many = sorted((a, b))
    shown = [smallest_difference(n, discordance=0.3, power=0.8, alpha=0.05) for n in (few, many)]
    assert shown[0] >= shown[1]
