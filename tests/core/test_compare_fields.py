"""Reports of answers that have fields and no class: by field, and silence is no skill."""

from __future__ import annotations

import re

import pytest

from tests import eval_run
from tunegate.compare import compare
from tunegate.decide import decide
from tunegate.record import record
from tunegate.report import markdown, page
from tunegate.types import Json


def by_field(said: dict[str, list[str]], answers: list[str]) -> Json:
    """The report of columns that gave these outputs, where these answers were meant."""
    gold = [
        {"id": f"test:{index}", "slice": "test", "answer": answer, "text": f"text {index}"}
        for index, answer in enumerate(answers)
    ]
    columns = {
        name: {
            f"test:{index}": {"id": f"test:{index}", "output": output}
            for index, output in enumerate(outputs)
        }
        for name, outputs in said.items()
    }
    text = {"type": "string"}
    schema = {"type": "object", "properties": {"day": text, "hour": text}}
    frozen = eval_run.frozen()
    frozen["settings"]["task"] = {"answer": "json", "schema": schema, "class": None}
    frozen["settings"]["eval"]["slices"] = {}
    return compare(columns, gold, frozen)


DAY, HOUR, BOTH = '{"day": "1"}', '{"hour": "2"}', '{"day": "1", "hour": "2"}'
BOOKINGS = ["{}"] * 7 + [DAY] * 6 + [HOUR] * 4 + [BOTH] * 3


def test_a_model_that_falls_silent_looks_bad() -> None:
    found = by_field({"raw": [*BOOKINGS[:13], *["{}"] * 7], "tuned": ["{}"] * 20}, BOOKINGS)
    part = found["slices"]["test"]
    assert (part["majority"]["class"], part["majority"]["right"]) == ("{}", 7)
    silent = part["columns"]["tuned"]["strict"]
    assert silent["accuracy"]["right"] == 7
    assert silent["fields"]["f1"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert silent["fields"]["all"]["missed"] == silent["fields"]["all"]["gold"] == 16
    assert silent["fields"]["empty"]["recall"]["rate"] == 1.0
    assert silent["fields"]["empty"]["precision"]["rate"] == 7 / 20
    caution = next(w for w in found["warnings"] if w["name"] == "no_skill")
    assert "right in 7 of 20 rows" in caution["message"]
    assert "always answering “{}” would be right in 7" in caution["message"]
    assert not any("mpty answers" in text for text in found["verdict"]["moved"])


def test_fields_that_were_learnt_have_moved() -> None:
    found = by_field({"raw": [BOTH] * 20, "tuned": [*BOOKINGS[:19], DAY]}, BOOKINGS)
    assert not [w for w in found["warnings"] if w["name"] == "no_skill"]
    moved = " ".join(found["verdict"]["moved"])
    assert "F1 over all fields" in moved
    assert "Empty answers right: 0 of 7, then 7 of 7; given in 0 rows, then in 7." in moved
    assert found["failures"][0]["fields"] == {"wrong": [], "missed": ["hour"], "hallucinated": []}
    f1 = found["slices"]["test"]["columns"]["tuned"]["strict"]["fields"]["f1"]
    assert f1["value"] == pytest.approx(2 * 15 / (16 + 15))
    assert f1["low"] < f1["value"] <= f1["high"]


def test_answers_that_are_all_different_have_no_majority() -> None:
    gold = [f'{{"day": "{index}"}}' for index in range(5)]
    found = by_field({"raw": gold, "tuned": gold}, gold)
    assert found["slices"]["test"]["majority"] is None


def test_a_task_without_classes_is_reported_by_field() -> None:
    found = by_field(
        {"raw": ["{}", "{}"], "tuned": ['{"day": "1", "hour": "3"}', "{}"]}, [BOTH, "{}"]
    )
    table = found["slices"]["test"]["columns"]["tuned"]
    tuned = table["strict"]
    assert (found["labels"], tuned["classes"], tuned["escape"]) == ([], None, None)
    assert tuned["accuracy"]["right"] == 1
    assert tuned["fields"]["fields"]["day"]["right"] == 1
    assert tuned["fields"]["fields"]["hour"]["f1"] == 0
    assert tuned["fields"]["empty"]["right"] == 1
    assert table["truncated"]["rate"] is None


def test_an_answer_outside_the_schema_gives_no_field() -> None:
    found = by_field({"raw": ["{}", DAY], "tuned": ['{"day": 1}', "day 1"]}, [DAY, DAY])
    counts = found["slices"]["test"]["columns"]["tuned"]["strict"]["fields"]
    assert (counts["all"]["said"], counts["all"]["missed"], counts["empty"]["said"]) == (0, 2, 0)


@pytest.mark.parametrize("answers", [["{}", "{}"], ["{}"]])
def test_a_slice_of_empty_answers_only_has_no_f1(answers: list[str]) -> None:
    found = by_field({"raw": answers, "tuned": answers}, answers)
    counts = found["slices"]["test"]["columns"]["tuned"]["strict"]["fields"]
    assert counts["f1"] == {"value": None, "low": None, "high": None}
    assert counts["empty"]["recall"]["rate"] == 1


def test_the_page_tells_by_field_and_what_silence_would_reach() -> None:
    found = by_field({"raw": ["{}"] * 20, "tuned": [*BOOKINGS[:19], '{"day": "9"}']}, BOOKINGS)
    html = page(found, run=eval_run.run(found))
    text = " ".join(re.sub(r"<[^>]+>", " ", html).split())
    for sentence in (
        "By field",
        "Rows whose answer is empty",
        "Always answering {} would be right in 7 of 20 rows",
        "and find none of the 16 values",
        "day Base 9 0 0 0 9 0 – 0.0 0.0 Tuned 9 9 8 1 0 0",
        "missed: hour",
    ):
        assert sentence in text, sentence
    assert ">By class<" not in html
    assert ">Teacher<" not in html
    assert "The teacher column was not run." in text
    short = markdown(found, eval_run.run(found))
    assert "| day | Tuned | 9 | 8 | 1 | 0 | 0 |" in short
    assert "Teacher |" not in short


def test_the_record_and_the_decision_name_the_fields() -> None:
    found = by_field({"raw": ["{}"] * 20, "tuned": [*BOOKINGS[:19], DAY]}, BOOKINGS)
    assert [item["field"] for item in decide(found, [])["fields_to_fix"]] == ["hour"]
    kept = record(eval_run.frozen(), report=found)["evaluation"]["slices"]["test"]
    assert kept["columns"]["tuned"]["fields"]["fields"]["hour"]["missed"] == 1
    assert kept["majority"]["class"] == "{}"
