"""Each rule of decision fires on a report made for it, and only one knob turn is allowed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests import eval_run
from tests.core.test_compare import small
from tests.eval_run import LABELS, answer
from tunegate.compare import compare
from tunegate.decide import decide, knob_turns
from tunegate.decide.rules import RULES
from tunegate.decide.thresholds import THRESHOLDS
from tunegate.errors import UsageError
from tunegate.types import Json

FIRST = [{"run": "a", "data_digest": "d1", "settings_digest": "s1"}]
TURNED = [*FIRST, {"run": "b", "data_digest": "d1", "settings_digest": "s2"}]
GOLD = LABELS[:6] * 20
FLAT = [(10, 0.3), (20, 0.2), (30, 0.199)]
FALLING = [(10, 0.6), (20, 0.4), (30, 0.3)]


def wrong(labels: list[str], every: int) -> list[str]:
    """The labels with every n-th one put wrong."""
    return [
        LABELS[(LABELS.index(label) + 1) % 6] if index % every == 0 else label
        for index, label in enumerate(labels)
    ]


def loose(labels: list[str], every: int) -> list[str]:
    """The labels with every n-th one in capitals, which only the tolerant reading accepts."""
    return [label.upper() if i % every == 0 else label for i, label in enumerate(labels)]


def report(said: dict[str, list[str]]) -> Json:
    return compare(*small(said, GOLD))


def with_general(tuned_right: bool) -> Json:
    """A run at the teacher's level whose general slice held, or fell."""
    columns: Any = copy.deepcopy(eval_run.columns())
    for row in eval_run.gold():
        for name in ("tuned", "teacher"):
            if row["slice"] == "general":
                good = row["check"].get("choice", "Rome")
                columns[name][row["id"]]["output"] = good if tuned_right else "{}"
            else:
                columns[name][row["id"]]["output"] = row["answer"]
    return compare(columns, eval_run.gold(), eval_run.frozen())


def fallen_slice() -> Json:
    columns: Any = copy.deepcopy(eval_run.columns())
    for row in eval_run.gold():
        if row["slice"] == "adversarial":
            columns["raw"][row["id"]]["output"] = row["answer"]
            columns["tuned"][row["id"]]["output"] = answer("login_problem")
    return compare(columns, eval_run.gold(), eval_run.frozen())


def cut(column: str, raw: list[str], rows_cut: int = 5) -> Json:
    columns, gold, frozen = small({"raw": raw, "tuned": GOLD}, GOLD)
    rows: Any = columns[column]
    for index in range(rows_cut):
        rows[f"test:{index}"]["finish"] = "length"
    return compare(columns, gold, frozen)


HALF, FIFTH, TENTH = wrong(GOLD, 2), wrong(GOLD, 5), wrong(GOLD, 10)
NEARLY_HALF = [label if index % 40 else LABELS[7] for index, label in enumerate(HALF)]
CASES: dict[str, tuple[Json, str]] = {}


def cases() -> dict[str, tuple[Json, str]]:
    """Rule -> (report on which it fires first, next step)."""
    if not CASES:
        CASES.update(
            unmeasured=(report({"tuned": GOLD}), "fix_eval"),
            truncated=(cut("tuned", HALF), "fix_eval"),
            worse=(report({"raw": GOLD, "tuned": HALF}), "stop"),
            too_few_rows=(
                report({"raw": [*GOLD[:117], *[LABELS[7]] * 3], "tuned": GOLD}),
                "fix_eval",
            ),
            base_suffices=(report({"raw": TENTH, "tuned": [LABELS[7], *TENTH[1:]]}), "stop"),
            no_gain=(report({"raw": HALF, "tuned": NEARLY_HALF}), "data"),
            general_loss=(with_general(False), "data"),
            slice_loss=(fallen_slice(), "data"),
            gap_closed=(report({"raw": HALF, "tuned": GOLD, "teacher": GOLD}), "serve"),
            format_lags=(
                report({"raw": HALF, "tuned": loose(GOLD, 8), "teacher": GOLD}),
                "preference",
            ),
            still_falling=(report({"raw": HALF, "tuned": FIFTH, "teacher": GOLD}), "one_knob"),
            accuracy_short=(report({"raw": HALF, "tuned": FIFTH, "teacher": GOLD}), "data"),
        )
    return CASES


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_each_rule_fires(rule: str) -> None:
    found, step = cases()[rule]
    decision = decide(found, FIRST, validation=FALLING if rule == "still_falling" else FLAT)
    assert (decision["rule"], decision["next"]) == (rule, step)
    fired = [item["name"] for item in decision["rules"] if item["fired"]]
    assert fired[0] == rule
    assert [item["name"] for item in decision["rules"]] == [item.name for item in RULES]
    assert decision["because"][0] == next(
        item["why"] for item in decision["rules"] if item["name"] == rule
    )
    assert any(char.isdigit() for char in decision["because"][0]) or rule == "unmeasured"


def test_a_step_is_one_of_the_known_ones() -> None:
    assert {rule.next for rule in RULES} == {
        "fix_eval",
        "stop",
        "data",
        "serve",
        "preference",
        "one_knob",
    }


def test_the_general_slice_bars_serving_only_when_it_fell() -> None:
    assert decide(with_general(True), FIRST)["next"] == "serve"
    fell = decide(with_general(False), FIRST)
    assert fell["rule"] == "general_loss"
    assert any(item["slice"] == "general" for item in fell["warnings"])


def test_what_is_reached_is_not_trained_longer() -> None:
    found = decide(cases()["gap_closed"][0], FIRST, validation=FALLING)
    assert found["rule"] == "gap_closed"
    item = next(item for item in found["rules"] if item["name"] == "still_falling")
    assert not item["fired"] and "reached" in item["why"]


def test_a_second_knob_turn_is_refused_and_the_classes_are_named_instead() -> None:
    found = cases()["still_falling"][0]
    first = decide(found, FIRST, validation=FALLING)
    assert (first["next"], first["allowed_knob"]) == ("one_knob", True)
    second = decide(found, TURNED, validation=FALLING)
    assert (second["next"], second["allowed_knob"], second["knob_turns"]) == ("data", False, 1)
    assert second["classes_to_fix"]
    assert any("No knob turn is left" in text for text in second["because"])
    why = next(item["why"] for item in second["rules"] if item["name"] == "still_falling")
    assert "refused" in why


def test_knob_turns_are_counted_since_the_data_changed() -> None:
    def run(data: str, settings: str) -> dict[str, str]:
        return {"run": "x", "data_digest": data, "settings_digest": settings}

    assert knob_turns([]) == 0
    assert knob_turns([run("d", "s")]) == 0
    assert knob_turns([run("d", "s"), run("d", "s")]) == 0
    assert knob_turns([run("d", "s"), run("d", "t"), run("d", "s")]) == 2
    assert knob_turns([run("d", "s"), run("d", "t"), run("e", "u")]) == 0
    assert knob_turns([run("d", "s"), run("e", "u"), run("e", "v")]) == 1


def test_no_gain_after_three_versions_of_the_data_stops() -> None:
    found = cases()["no_gain"][0]
    lineage = [{"run": d, "data_digest": d, "settings_digest": "s"} for d in ("d1", "d2", "d3")]
    assert decide(found, lineage[:2])["next"] == "data"
    stopped = decide(found, lineage)
    assert stopped["next"] == "stop"
    assert any("version 3" in text for text in stopped["because"])


def test_without_a_teacher_the_target_is_the_yardstick() -> None:
    assert decide(report({"raw": HALF, "tuned": GOLD}), FIRST)["rule"] == "gap_closed"
    short = report({"raw": HALF, "tuned": TENTH})
    assert decide(short, FIRST)["rule"] == "accuracy_short"
    short["thresholds"]["target_accuracy"] = 0.8
    assert decide(short, FIRST)["rule"] == "gap_closed"


def test_a_teacher_that_made_the_gold_is_no_yardstick() -> None:
    columns, gold, frozen = small({"raw": HALF, "tuned": TENTH, "teacher": TENTH}, GOLD)
    assert decide(compare(columns, gold, frozen), FIRST)["rule"] == "gap_closed"
    frozen["settings"]["eval"]["teacher"]["defines_gold"] = True
    assert decide(compare(columns, gold, frozen), FIRST)["rule"] == "accuracy_short"


def test_a_base_that_rambles_does_not_ask_for_longer_outputs_for_ever() -> None:
    found = cut("raw", HALF, rows_cut=84)
    decision = decide(found, FIRST)
    assert decision["next"] == "serve"
    why = next(item["why"] for item in decision["rules"] if item["name"] == "truncated")
    assert "84 of 120 of raw were cut" in why
    assert [w["column"] for w in decision["warnings"] if w["name"] == "truncated"] == ["raw"]


def test_cuts_of_the_base_count_where_they_may_be_the_whole_gain() -> None:
    assert decide(cut("raw", loose(GOLD, 2)), FIRST)["rule"] == "truncated"


def shares(n: int, **right: tuple[int, int]) -> Json:
    """A report of n rows; each column is right from one row up to another."""
    gold = [LABELS[0]] * n
    said = {
        name: [LABELS[0] if start <= i < end else LABELS[1] for i in range(n)]
        for name, (start, end) in right.items()
    }
    return compare(*small(said, gold))


def test_a_teacher_that_does_not_beat_the_base_is_no_yardstick() -> None:
    for n in (100, 1000):  # too few rows to show the lead of five points, and enough
        found = shares(n, raw=(0, n // 20), tuned=(0, 2 * n // 5), teacher=(0, n // 10))
        assert found["yardstick"]["strict"]["significant"] == (n == 1000)
        decision = decide(found, FIRST)
        assert decision["rule"] == "accuracy_short"
        assert "The teacher is no yardstick" in decision["because"][0]
    assert decide(shares(100, raw=(0, 5), tuned=(0, 40), teacher=(0, 40)), FIRST)["next"] == "serve"
    good = shares(100, raw=(0, 5), tuned=(0, 100), teacher=(0, 10))
    assert decide(good, FIRST)["next"] == "serve"


def test_a_strong_base_is_served_and_the_data_not_blamed() -> None:
    decision = decide(shares(2000, raw=(0, 1940), tuned=(0, 1970)), FIRST)
    assert (decision["rule"], decision["next"]) == ("base_suffices", "stop")
    said = decision["because"][0]
    assert "is shown, but below the smallest change that matters" in said
    assert "the base with its best prompt already does it" in said
    assert not any("The data" in item["why"] for item in decision["rules"] if item["fired"])


def test_a_base_that_is_not_below_the_teacher_is_served() -> None:
    found = shares(100, raw=(0, 70), tuned=(0, 71), teacher=(0, 71))
    decision = decide(found, FIRST)
    assert (decision["rule"], decision["next"]) == ("base_suffices", "stop")
    assert "if 70.0\u202f% is enough" in decision["because"][0]
    assert "More test rows" not in decision["because"][0]
    few = shares(30, raw=(0, 18), tuned=(0, 18), teacher=(0, 22))
    few["same_outputs"]["same"] = 0
    assert "More test rows" in decide(few, FIRST)["because"][0]
    short = shares(100, raw=(0, 70), tuned=(0, 71), teacher=(0, 90))
    assert decide(short, FIRST)["rule"] == "no_gain"


def test_a_gain_that_is_shown_and_small_is_not_called_none() -> None:
    decision = decide(shares(2000, raw=(0, 1000), tuned=(0, 1030)), FIRST)
    assert (decision["rule"], decision["next"]) == ("no_gain", "data")
    assert "is shown, but below" in decision["because"][0]


def test_the_smallest_change_comes_from_the_frozen_settings() -> None:
    columns, gold, frozen = small({"raw": HALF, "tuned": FIFTH}, GOLD)
    assert decide(compare(columns, gold, frozen), FIRST)["rule"] != "no_gain"
    frozen["settings"]["eval"]["smallest_change"] = 0.4
    decision = decide(compare(columns, gold, frozen), FIRST)
    assert decision["rule"] == "no_gain"
    assert decision["thresholds"]["smallest_change"]["value"] == 0.4
    assert decision["thresholds"]["patience"]["source"] == "default"


@pytest.mark.parametrize("own", [{"smalest_change": 0.1}, {"patience": "3"}, {"patience": True}])
def test_an_unknown_or_wrong_threshold_is_an_error(own: dict[str, object]) -> None:
    found = copy.deepcopy(cases()["gap_closed"][0])
    found["thresholds"] = own
    with pytest.raises(UsageError) as caught:
        decide(found, FIRST)
    assert next(iter(own)) in caught.value.message


def test_every_threshold_has_a_reason() -> None:
    assert all(reason.endswith(".") for _, reason in THRESHOLDS.values())


def test_the_classes_and_pairs_with_the_most_errors_come_first() -> None:
    gold = ["order_status"] * 20 + ["missing_item"] * 20 + ["return_item"] * 20
    said = [
        *["missing_item"] * 6,
        *["order_status"] * 14,
        *["order_status"] * 9,
        *["missing_item"] * 10,
        "return_item",
        *["return_item"] * 20,
    ]
    raw = ["login_problem"] * 60
    decision = decide(compare(*small({"raw": raw, "tuned": said}, gold)), FIRST)
    assert [item["class"] for item in decision["classes_to_fix"]] == [
        "missing_item",
        "order_status",
    ]
    worst = decision["classes_to_fix"][0]
    assert (worst["errors"], worst["right"], worst["n"]) == (10, 10, 20)
    assert worst["confused_with"][0] == {"class": "order_status", "rows": 9}
    assert decision["pairs_to_fix"][0] == {"classes": ["missing_item", "order_status"], "rows": 15}
