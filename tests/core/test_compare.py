"""The report's figures: they add up, every row counts once, and what is missing is an error."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import eval_run
from tests.eval_run import ESCAPE, LABELS, answer
from tunegate.compare import compare, index_rows
from tunegate.errors import DataError, EvalError
from tunegate.types import Json

Columns = dict[str, dict[str, Json] | None]


@pytest.fixture(scope="module")
def report() -> Json:
    return eval_run.report()


def small(said: dict[str, list[str]], gold: list[str]) -> tuple[Columns, list[Json], Json]:
    """Columns over a few test rows, given the classes."""
    rows = [
        {"id": f"test:{index}", "slice": "test", "answer": answer(label), "text": f"text {index}"}
        for index, label in enumerate(gold)
    ]
    columns: Columns = {
        name: {
            f"test:{index}": {
                "id": f"test:{index}",
                "output": label if label.startswith("=") else answer(label),
                "finish": "stop",
            }
            for index, label in enumerate(labels)
        }
        for name, labels in said.items()
    }
    frozen = eval_run.frozen()
    frozen["settings"]["eval"]["slices"] = {}
    return columns, rows, frozen


def test_a_report_is_json_and_the_same_every_time(report: Json) -> None:
    again = compare(eval_run.columns(), eval_run.gold(), eval_run.frozen(), notes=eval_run.notes())
    assert json.dumps(report, sort_keys=True) == json.dumps(again, sort_keys=True)


def test_every_row_is_counted_once(report: Json) -> None:
    for name, n in (("test", 240), ("adversarial", 66), ("general", 84)):
        part = report["slices"][name]
        assert part["n"] == n
        for table in part["columns"].values():
            assert table["n"] == table["scored"] == n
            for reading in ("strict", "tolerant"):
                check_reading(table[reading], n, part["kind"])


def check_reading(reading: Json, n: int, kind: str) -> None:
    accuracy = reading["accuracy"]
    assert accuracy["n"] == n
    assert accuracy["low"] <= accuracy["rate"] <= accuracy["high"]
    if reading["kinds"] is not None:
        assert sum(item["n"] for item in reading["kinds"].values()) == n
        assert sum(item["right"] for item in reading["kinds"].values()) == accuracy["right"]
    if kind != "class":
        assert reading["classes"] is None
        return
    classes, confusion = reading["classes"], reading["confusion"]
    assert sum(item["n"] for item in classes.values()) == n
    assert sum(item["right"] for item in classes.values()) == accuracy["right"]
    assert sum(sum(row.values()) for row in confusion.values()) == n
    for label, item in classes.items():
        assert sum(confusion.get(label, {}).values()) == item["n"]
        assert confusion.get(label, {}).get(label, 0) == item["right"]
        assert sum(row.get(label, 0) for row in confusion.values()) == item["said"]
    assert reading["escape"]["said"] == classes[ESCAPE]["said"]
    assert reading["escape"]["recall"]["n"] == classes[ESCAPE]["n"]


def test_tolerant_is_never_below_strict(report: Json) -> None:
    for part in report["slices"].values():
        for table in part["columns"].values():
            assert table["gap"] >= 0
            assert table["tolerant"]["accuracy"]["right"] >= table["strict"]["accuracy"]["right"]


def test_pairs_are_the_columns_rows(report: Json) -> None:
    assert len(report["pairs"]) == 3 * 2 * 2  # slices, other columns, readings
    for pair in report["pairs"]:
        tables = report["slices"][pair["slice"]]["columns"]
        right = {
            name: tables[name][pair["reading"]]["accuracy"]["right"]
            for name in ("tuned", pair["b"])
        }
        assert pair["both"] + pair["only_a"] + pair["only_b"] + pair["neither"] == pair["n"]
        assert pair["both"] + pair["only_a"] == right["tuned"]
        assert pair["both"] + pair["only_b"] == right[pair["b"]]
        assert pair["difference"] == pytest.approx((right["tuned"] - right[pair["b"]]) / pair["n"])
        assert pair["low"] <= pair["difference"] <= pair["high"]
        assert pair["significant"] == (pair["p"] < 0.05)


def test_failures_are_the_wrong_rows_worst_class_first(report: Json) -> None:
    tuned = report["slices"]["test"]["columns"]["tuned"]["strict"]
    wrong = 240 - tuned["accuracy"]["right"]
    assert report["failures_total"]["test"] == wrong
    assert len(report["failures"]) == min(40, sum(report["failures_total"].values()))
    main = [row for row in report["failures"] if row["slice"] == "test"]
    assert len(main) == min(40, wrong)
    assert report["failures"][: len(main)] == main
    errors = [
        tuned["classes"][row["class"]]["n"] - tuned["classes"][row["class"]]["right"]
        for row in main
    ]
    assert errors == sorted(errors, reverse=True)
    gold = {row["id"]: row for row in eval_run.gold()}
    outputs: Any = eval_run.columns()["tuned"]
    for row in report["failures"]:
        assert row["text"] == gold[row["id"]]["text"]
        assert row["output"] == outputs[row["id"]]["output"]
        assert set(row["others"]) == {"raw", "teacher"}
        for name, other in row["others"].items():
            assert other["output"] == eval_run.columns()[name][row["id"]]["output"]


@pytest.mark.parametrize("column", ["raw", "tuned", "teacher"])
@pytest.mark.parametrize("gone", [["test:3"], ["test:0", "adversarial:5", "general:83"]])
def test_a_missing_row_is_an_error_that_names_it(column: str, gone: list[str]) -> None:
    columns: Any = eval_run.columns()
    for row in gone:
        del columns[column][row]
    with pytest.raises(EvalError) as caught:
        compare(columns, eval_run.gold(), eval_run.frozen())
    assert caught.value.exit_code == 9
    assert column in caught.value.message
    assert all(row in caught.value.message for row in gone)


def test_raw_and_tuned_may_leave_out_no_slice_and_the_teacher_only_a_whole_one() -> None:
    for column, error in (("raw", True), ("tuned", True), ("teacher", False)):
        columns: Any = eval_run.columns()
        columns[column] = {
            key: row for key, row in columns[column].items() if not key.startswith("general")
        }
        if error:
            with pytest.raises(EvalError, match="lacks 84 of 84 rows of general"):
                compare(columns, eval_run.gold(), eval_run.frozen())
        else:
            found = compare(columns, eval_run.gold(), eval_run.frozen())
            assert found["not_run"] == [{"column": "teacher", "slice": "general"}]
            assert found["slices"]["general"]["columns"]["teacher"] is None
            assert [
                w for w in found["warnings"] if w["slice"] == "general" and w["name"] == "not_run"
            ]


def test_rows_of_another_set_are_an_error() -> None:
    columns: Any = eval_run.columns()
    columns["teacher"]["test:999"] = {"id": "test:999", "output": "x"}
    with pytest.raises(EvalError) as caught:
        compare(columns, eval_run.gold(), eval_run.frozen())
    assert caught.value.kind == "columns_differ"
    assert "test:999" in caught.value.message


def test_double_rows_are_an_error() -> None:
    with pytest.raises(EvalError, match="test:1"):
        index_rows([{"id": "test:1"}, {"id": "test:2"}, {"id": "test:1"}], column="raw")
    assert list(index_rows([{"id": "a"}, {"id": "b"}], column="raw")) == ["a", "b"]
    gold = eval_run.gold()
    with pytest.raises(EvalError, match="test:0"):
        compare(eval_run.columns(), [*gold, gold[0]], eval_run.frozen())


def test_an_answer_that_is_no_text_is_an_error() -> None:
    columns: Any = eval_run.columns()
    columns["tuned"]["test:7"]["output"] = None
    with pytest.raises(EvalError, match="test:7"):
        compare(columns, eval_run.gold(), eval_run.frozen())


def test_a_slice_without_rows_is_an_error() -> None:
    gold = [row for row in eval_run.gold() if row["slice"] != "adversarial"]
    with pytest.raises(EvalError, match="no rows of adversarial"):
        compare(eval_run.columns(), gold, eval_run.frozen())


def test_columns_made_under_other_settings_are_not_compared() -> None:
    notes = {
        "columns": {"raw": {"settings_digest": "a" * 64}, "tuned": {"settings_digest": "b" * 64}}
    }
    with pytest.raises(EvalError) as caught:
        compare(eval_run.columns(), eval_run.gold(), eval_run.frozen(), notes=notes)
    assert caught.value.kind == "columns_differ"


def test_a_bad_gold_row_is_the_datas_fault() -> None:
    gold = eval_run.gold()
    gold[5]["answer"] = "order_status"
    with pytest.raises(DataError) as caught:
        compare(eval_run.columns(), gold, eval_run.frozen())
    assert caught.value.where == "test:5"


def test_without_a_teacher_the_report_says_so(report: Json) -> None:
    for columns in ({**eval_run.columns(), "teacher": None},
                    {k: v for k, v in eval_run.columns().items() if k != "teacher"}):  # fmt: skip
        found = compare(columns, eval_run.gold(), eval_run.frozen())
        assert found["columns"]["teacher"] is None
        assert {pair["b"] for pair in found["pairs"]} == {"raw"}
        assert "no teacher was evaluated" in found["verdict"]["sentence"]
        assert [w["column"] for w in found["warnings"] if w["name"] == "not_run"] == ["teacher"]
    assert not [w for w in report["warnings"] if w["name"] == "not_run"]


@pytest.mark.parametrize(
    ("n", "raw", "tuned", "clause"),
    [
        (24, 12, 17, "interval and exact test disagree, and the test decides"),
        (240, 20, 200, ""),
    ],
)
def test_where_interval_and_test_disagree_it_is_said(
    n: int, raw: int, tuned: int, clause: str
) -> None:
    gold = [LABELS[0]] * n
    said = {
        name: [LABELS[0] if index < right else LABELS[1] for index in range(n)]
        for name, right in (("raw", raw), ("tuned", tuned))
    }
    found = compare(*small(said, gold))
    pair = next(item for item in found["pairs"] if item["reading"] == "strict")
    assert (pair["low"] > 0) != pair["significant"] if clause else pair["significant"]
    assert clause in found["verdict"]["sentence"]
    assert ("disagree" in json.dumps(found["verdict"])) == bool(clause)


def test_the_teacher_is_compared_with_the_base_too(report: Json) -> None:
    tables = report["slices"]["test"]["columns"]
    for reading in ("strict", "tolerant"):
        found = report["yardstick"][reading]
        rates = [tables[name][reading]["accuracy"]["rate"] for name in ("teacher", "raw")]
        assert found["difference"] == pytest.approx(rates[0] - rates[1])
    assert compare(*small({"raw": LABELS, "tuned": LABELS}, LABELS))["yardstick"] is None


def test_without_the_base_nothing_is_claimed() -> None:
    found = compare({**eval_run.columns(), "raw": None}, eval_run.gold(), eval_run.frozen())
    assert found["verdict"]["kind"] == "unmeasured"
    assert "No gain can be told" in found["verdict"]["sentence"]


def test_where_the_teacher_made_the_gold_it_is_said() -> None:
    frozen = eval_run.frozen()
    frozen["settings"]["eval"]["teacher"]["defines_gold"] = True
    found = compare(eval_run.columns(), eval_run.gold(), frozen)
    assert found["gold"]["teacher_defines_gold"] is True
    assert [w for w in found["warnings"] if w["name"] == "teacher_is_gold"]
    assert "are the gold" in found["verdict"]["sentence"]


def test_a_gain_in_form_is_not_called_a_gain() -> None:
    gold = LABELS[:6] * 10
    shouted = [label.upper() for label in gold]
    found = compare(*small({"raw": shouted, "tuned": gold}, gold))
    assert found["verdict"]["kind"] == "format_only"
    assert "form, not judgement" in found["verdict"]["sentence"]
    assert any("read tolerantly" in text for text in found["verdict"]["not_moved"])


def test_a_loss_is_called_a_loss() -> None:
    gold = LABELS[:6] * 10
    wrong = [LABELS[(LABELS.index(label) + 1) % 6] for label in gold]
    found = compare(*small({"raw": gold, "tuned": wrong}, gold))
    assert found["verdict"]["kind"] == "worse"
    assert found["slices"]["test"]["columns"]["tuned"]["strict"]["macro_f1"]["value"] == 0


def test_equal_columns_show_no_gain_and_the_same_outputs() -> None:
    gold = LABELS[:6] * 5
    said = [*gold[:20], *reversed(gold[20:])]
    found = compare(*small({"raw": said, "tuned": said}, gold))
    assert found["verdict"]["kind"] == "no_gain"
    assert found["same_outputs"] == {"n": 30, "same": 30}
    assert [w for w in found["warnings"] if w["name"] == "same_outputs"]


def test_classes_that_did_not_move_are_named() -> None:
    gold = LABELS[:6] * 10
    base = [LABELS[0]] * 60
    tuned = [label if label != "refund_status" else "return_item" for label in gold]
    found = compare(*small({"raw": base, "tuned": tuned}, gold))
    assert found["verdict"]["kind"] == "gain"
    assert any("refund_status (0 of 10, base 0)" in text for text in found["verdict"]["not_moved"])


def test_a_worse_slice_is_a_named_warning() -> None:
    columns: Any = copy.deepcopy(eval_run.columns())
    for key, row in columns["tuned"].items():
        if key.startswith("general"):
            row["output"] = '{"intent": "none_of_these"}'
    found = compare(columns, eval_run.gold(), eval_run.frozen())
    lost = [w for w in found["warnings"] if w["name"] == "slice_loss"]
    assert [w["slice"] for w in lost] == ["general"]
    assert any("general got worse" in text for text in found["verdict"]["not_moved"])


def test_cut_outputs_are_counted_and_warned_about() -> None:
    columns: Any = copy.deepcopy(eval_run.columns())
    for index in range(6):
        columns["tuned"][f"test:{index}"]["finish"] = "length"
    found = compare(columns, eval_run.gold(), eval_run.frozen())
    cut = found["slices"]["test"]["columns"]["tuned"]["truncated"]
    assert (cut["right"], cut["n"]) == (6, 240)
    assert [w for w in found["warnings"] if w["name"] == "truncated" and w["column"] == "tuned"]


def test_the_majority_class_is_the_baseline_of_no_skill(report: Json) -> None:
    majority = report["slices"]["test"]["majority"]
    assert (majority["class"], majority["right"], majority["n"]) == (ESCAPE, 48, 240)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40))
def test_counts_add_up_for_any_columns(seed: int, n: int) -> None:
    rng = random.Random(seed)
    gold = [rng.choice(LABELS) for _ in range(n)]
    said = {
        name: [rng.choice([*LABELS, label, label, "=no json", "weather"]) for label in gold]
        for name in ("raw", "tuned", "teacher")
    }
    found = compare(*small(said, gold))
    for name, table in found["slices"]["test"]["columns"].items():
        for reading in ("strict", "tolerant"):
            check_reading_small(table[reading], n)
            hits = sum(a == b for a, b in zip(gold, said[name], strict=True))
            assert table[reading]["accuracy"]["right"] == hits


def check_reading_small(reading: Json, n: int) -> None:
    assert sum(item["n"] for item in reading["classes"].values()) == n
    assert sum(sum(row.values()) for row in reading["confusion"].values()) == n
    said = sum(item["said"] for item in reading["classes"].values())
    strange = sum(
        count
        for row in reading["confusion"].values()
        for label, count in row.items()
        if label.startswith("(")
    )
    assert said + strange == n
