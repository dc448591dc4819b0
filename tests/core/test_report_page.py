"""The page: it loads nothing, escapes everything, shows what it got and says what is missing."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest

from tests import eval_run
from tests.core.test_compare import small
from tests.eval_run import LABELS
from tunegate.compare import compare
from tunegate.report import markdown, page
from tunegate.report import wording as words
from tunegate.report.class_views import by_class, confusion
from tunegate.types import Json

HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(2)>\"'&|`*\ud800\x07"
VOID = {"meta", "link", "img", "br", "hr", "input"}
SVG_EMPTY = {"rect", "line", "circle", "path"}


class Seen(HTMLParser):
    """What a browser would make of the page: its tags, attributes and texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.faults: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in SVG_EMPTY:
            self.faults.append(f"<{tag}/>")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


@pytest.fixture(scope="module")
def report() -> Json:
    return eval_run.report()


@pytest.fixture(scope="module")
def run(report: Json) -> Json:
    return eval_run.run(report)


@pytest.fixture(scope="module")
def html(report: Json, run: Json) -> str:
    return page(report, run=run)


def check_harmless(html: str) -> Seen:
    seen = Seen(html)
    assert seen.faults == [] and seen.open == []
    assert not set(seen.tags) & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
    }
    names = {name for name, _ in seen.attributes}
    assert not [name for name in names if name.startswith("on")]
    assert not names & {"src", "srcset", "action", "xlink:href"}
    ids = [value for name, value in seen.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    links = {value for name, value in seen.attributes if name == "href"}
    assert links <= {f"#{name}" for name in ids}
    assert not [value for _, value in seen.attributes if "://" in value]
    style = html[html.index("<style>") : html.index("</style>")]
    assert not re.search(r"@import|url\(|https?:", style)
    assert "default-src 'none'" in html
    html.encode("utf-8")
    return seen


def test_the_page_loads_nothing_and_every_tag_is_closed(html: str) -> None:
    check_harmless(html)


def test_the_page_is_a_pure_function(report: Json, run: Json, html: str) -> None:
    before = json.dumps([report, run], sort_keys=True)
    assert page(report, run=run) == html
    assert json.dumps([report, run], sort_keys=True) == before


def poison(node: Any, keep: Callable[[tuple[Any, ...]], bool], path: tuple[Any, ...] = ()) -> Any:
    """Every text of a structure replaced by a hostile one, but for those that steer the page."""
    if isinstance(node, dict):
        return {key: poison(item, keep, (*path, key)) for key, item in node.items()}
    if isinstance(node, list | tuple):
        return [poison(item, keep, (*path, index)) for index, item in enumerate(node)]
    return HOSTILE if isinstance(node, str) and not keep(path) else node


def test_texts_from_outside_are_shown_and_never_obeyed(report: Json, run: Json) -> None:
    poisoned = poison(run, lambda path: path[-1] == "next")
    steering = {"a", "b", "slice", "reading", "kind", "main", "column"}
    bad = poison(report, lambda path: path[-1] in steering and path[0] != "failures")
    bad["labels"], bad["escape"] = report["labels"], report["escape"]
    for _, text in ((0, page(bad, run=poisoned)), (1, page(report, run=poisoned))):
        seen = check_harmless(text)
        assert "<script>alert(1)</script>" in seen.text
    short = markdown(bad, poisoned)
    assert "<script" not in short.replace("\\<script", "")
    short.encode("utf-8")


def test_labels_and_keys_from_outside_are_escaped_too() -> None:
    frozen = eval_run.frozen()
    name = "<script>alert(3)</script>|x"
    frozen["settings"]["task"] = {**eval_run.TASK, "schema": None, "labels": [name, "b"]}
    frozen["settings"]["eval"]["slices"] = {}
    frozen["settings"]["<b>"] = {"<i>": "x"}
    frozen["environment"] = {"<u>": "1"}
    gold = [
        {"id": f"test:{i}", "slice": "test", "answer": json.dumps({"intent": name}), "kind": name}
        for i in range(4)
    ]
    rows = {
        f"test:{i}": {"id": f"test:{i}", "output": json.dumps({"intent": "b" if i else name})}
        for i in range(4)
    }
    found = compare({"raw": rows, "tuned": rows, "<i>odd</i>": rows}, gold, frozen)
    seen = check_harmless(page(found, run={"frozen": frozen, "times": {"<b>_s": 1.0}}))
    assert "script" not in seen.tags and not set(seen.tags) & {"i", "u"}
    table = [line for line in markdown(found, {}).splitlines() if line.startswith("|")]
    assert any("alert(3)" in line for line in table)
    for line in table:
        assert len(re.findall(r"(?<!\\)\|", line)) in (4, 5, 6, 7)


def test_an_address_in_a_reason_is_text_and_no_link(report: Json, run: Json) -> None:
    own = copy.deepcopy(run)
    own["frozen"]["choices"][0]["source"] = "https://example.org/rule"
    seen = check_harmless(page(report, run=own))
    assert "https://example.org/rule" in seen.text


def test_figures_on_the_page_are_the_reports(report: Json, html: str) -> None:
    text = Seen(html).text
    for column in ("raw", "tuned", "teacher"):
        table = report["slices"]["test"]["columns"][column]["strict"]
        for rate in (table["accuracy"], table["schema"], table["escape"]["recall"]):
            assert f"{100 * rate['rate']:.1f}" in text
            assert f"{100 * rate['low']:.1f}–{100 * rate['high']:.1f}" in text
    for pair in report["pairs"]:
        assert words.points(pair["difference"]) in text
    for sentence in (report["verdict"]["sentence"], *report["verdict"]["not_moved"]):
        assert sentence in text


def test_another_report_gives_other_figures(report: Json, run: Json) -> None:
    other = copy.deepcopy(report)
    accuracy = other["slices"]["test"]["columns"]["tuned"]["strict"]["accuracy"]
    accuracy.update(right=123, rate=123 / 240, low=0.4, high=0.6)
    changed = Seen(page(other, run=run)).text
    assert "123 of 240" in changed and "40.0–60.0" in changed


def test_every_part_of_the_run_is_on_the_page(run: Json, html: str) -> None:
    text = Seen(html).text
    for verdict in run["verdicts"]:
        assert verdict["summary"] in text
        for looked_away in verdict["not_checked"]:
            assert looked_away in text
    for choice in run["frozen"]["choices"]:
        assert choice["reason"] in text
    for line in run["quote"]["memory"]["lines"]:
        assert line["formula"] in text
    for sentence in run["decision"]["because"]:
        assert sentence in text
    for digest in run["frozen"]["digests"].values():
        assert digest in text
    for part in ("robin", "rows were written one by one", "2.13.0", "checkpoint of step 85"):
        assert part in text
    assert text.count("Waived by a person") == 1


def test_the_markdown_report_holds_the_same_parts(report: Json, run: Json) -> None:
    text = markdown(report, run)
    for heading in ("Columns", "Classes", "Failures", "Gates", "Not looked at", "Memory"):
        assert f"\n## {heading}" in text
    for part in ("the gain aimed at is 20 points", "rows were written one by one", "robin"):
        assert part in text
    assert "| activations | 1.236 |" in text and "paraphrases" in text
    wrong = report["failures"][0]
    line = next(line for line in text.splitlines() if line.startswith(f"| {wrong['id']} |"))
    assert words.cell(wrong["others"]["raw"]["output"]) in line
    assert "\n\n\n" not in text.strip()


def test_two_readings_that_agree_are_shown_once() -> None:
    for name, shown in (("no_gain", 0), ("format_only", 1)):
        found = reports()[name]
        text = Seen(page(found, run=eval_run.run(found))).text
        assert text.count("Accuracy, read tolerantly") == shown
        assert ("no column has more rows right" in text) is (not shown)


def test_a_gain_that_cost_something_says_so_at_the_top(report: Json, run: Json) -> None:
    lost = copy.deepcopy(report)
    for pair in lost["pairs"]:
        if pair["slice"] == "general" and pair["b"] == "raw":
            pair.update(difference=-0.2, low=-0.3, high=-0.1, significant=True)
    assert "Gain shown, with a loss on general" in Seen(page(lost, run=run)).text
    assert "Gain shown, not yet enough" in Seen(page(report, run=run)).text


def test_every_head_of_a_table_says_what_it_is_the_head_of(html: str) -> None:
    assert re.findall(r"<th(?![^>]*scope=)[ >]", html) == []
    levels = [int(level) for level in re.findall(r"<h([1-6])", html)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for tag in re.findall(r"<svg[^>]*>", html):
        inside = 'preserveAspectRatio="none"' in tag or 'overflow="visible"' in tag
        assert "aria-hidden" in tag or "aria-label" in tag or inside or 'height="100%"' in tag


def test_trained_tokens_are_marked(run: Json, html: str) -> None:
    assert (
        html.count("<mark>{&#34;intent&#34;: &#34;order_status&#34;}&lt;|im_end|&gt;</mark>") == 3
    )
    without = copy.deepcopy(run)
    for verdict in without["verdicts"]:
        verdict["samples"] = [{"line": 7, "ends": "only <this>", "none": None}]
    found = compare(eval_run.columns(), eval_run.gold(), eval_run.frozen())
    text = Seen(page(found, run=without)).text
    assert "only <this>" in text and "line 7" in text
    sample = {"line": 9, "supervised_text": "<answer>", "supervised_tokens": 3, "tokens": 40}
    without["verdicts"][1]["samples"] = [sample]
    shown = page(found, run=without)
    assert "<mark>&lt;answer&gt;</mark>" in shown and "line 9: 3 of 40 tokens" in shown


def test_what_was_not_run_is_said(report: Json) -> None:
    for run in ({}, dict.fromkeys(("frozen", "quote", "verdicts", "metrics", "receipt"))):
        text = check_harmless(page(report, run=run)).text
        for sentence in (
            "No training was logged.",
            "Gate 1 was not run.",
            "No check was run.",
            "Nothing was released.",
            "Memory was not estimated",
            "No cost was recorded.",
            "There is no receipt of a training.",
            "every check of gate 2",
        ):
            assert sentence in text
        assert markdown(report, run).startswith("# triage: Gain shown")


@cache
def reports() -> dict[str, Json]:
    gold = LABELS[:6] * 10
    wrong = [LABELS[(LABELS.index(label) + 1) % 6] for label in gold]
    text_frozen = eval_run.frozen()
    text_frozen["settings"]["task"] = {"answer": "text", "class": None}
    text_frozen["settings"]["eval"]["slices"] = {}
    text_gold = [{"id": "test:0", "slice": "test", "answer": "Yes."}]
    text_rows = {"test:0": {"id": "test:0", "output": "yes"}}
    field_frozen = copy.deepcopy(text_frozen)
    field_frozen["settings"]["task"] = {"answer": "json", "schema": None, "class": None}
    field_gold = [{"id": "test:0", "slice": "test", "answer": '{"a": 1, "b": "x"}'}]
    field_rows = {"test:0": {"id": "test:0", "output": '{"a": 1}'}}
    return {
        "format_only": compare(*small({"raw": [g.upper() for g in gold], "tuned": gold}, gold)),
        "worse": compare(*small({"raw": gold, "tuned": wrong}, gold)),
        "no_gain": compare(*small({"raw": wrong, "tuned": wrong}, gold)),
        "strong": compare(*small({"raw": gold, "tuned": [*gold[:59], LABELS[0]]}, gold)),
        "raw_only": compare(*small({"raw": gold}, gold)),
        "tuned_only": compare(*small({"tuned": gold}, gold)),
        "all_right": compare(*small({"raw": wrong, "tuned": gold, "anchor": gold}, gold)),
        "text": compare({"raw": text_rows, "tuned": text_rows}, text_gold, text_frozen),
        "fields": compare({"raw": field_rows, "tuned": field_rows}, field_gold, field_frozen),
    }


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("format_only", "Form only"),
        ("worse", "Training made it worse"),
        ("no_gain", "No gain is shown"),
        ("raw_only", "the tuned model was not evaluated"),
        ("tuned_only", "the base with its best prompt was not evaluated"),
        ("all_right", "The tuned column has no wrong row."),
        ("text", "1 row, per cent"),
        ("fields", "By field"),
    ],
)
def test_reports_of_every_kind_have_a_page(name: str, sentence: str) -> None:
    found = reports()[name]
    run = eval_run.run(found)
    assert sentence in check_harmless(page(found, run=run)).text
    assert markdown(found, run)


def test_the_page_says_nothing_of_a_column_that_was_not_run() -> None:
    found = reports()["raw_only"]
    text = check_harmless(page(found, run=eval_run.run(found))).text
    assert "weakest class of the base column first" in text
    assert "Three columns" not in text
    found = reports()["text"]  # free text has no schema
    assert "fits the schema" not in check_harmless(page(found, run=eval_run.run(found))).text


def test_a_base_that_suffices_is_not_headed_find_out_why() -> None:
    found = reports()["strong"]
    run = eval_run.run(found)
    assert run["decision"]["rule"] == "base_suffices"
    text = check_harmless(page(found, run=run)).text
    assert "Stop: tuning adds nothing that matters to the base" in text
    assert "Stop and find out why" not in text


def test_classes_are_sorted_by_the_tuned_columns_weakness(report: Json) -> None:
    rows = by_class(report)
    assert {row["label"] for row in rows} == set(LABELS)
    tuned = [
        bar["recall"]["rate"] for row in rows for bar in row["bars"] if bar["column"] == "tuned"
    ]
    assert tuned == sorted(tuned)


def test_the_matrix_is_the_tuned_columns(report: Json) -> None:
    matrix = confusion(report)
    assert matrix is not None
    sparse = report["slices"]["test"]["columns"]["tuned"]["strict"]["confusion"]
    for row in matrix["rows"]:
        assert (
            sum(cell["count"] for cell in row["cells"])
            == row["n"]
            == sum(sparse[row["label"]].values())
        )
        assert sum(cell["share"] for cell in row["cells"]) == pytest.approx(1)
        assert [cell["said"] for cell in row["cells"] if cell["right"]] == [row["label"]]
