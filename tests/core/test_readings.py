"""How outputs are read: strictly and tolerantly, whatever a model writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.eval_run import LABELS, TASK, answer
from tunegate.errors import DataError
from tunegate.metrics import _reading, _shape, escape, exact, fields, label, schema
from tunegate.types import Json

GOLD = {"id": "test:1", "answer": answer("order_status")}


@pytest.mark.parametrize(
    ("output", "strict", "tolerant"),
    [
        ('{"intent": "order_status"}', "order_status", "order_status"),
        ('  {"intent":"order_status"}\n', "order_status", "order_status"),
        ('Sure! {"intent": "order_status"} Anything else?', None, "order_status"),
        ('```json\n{"intent": "order_status"}\n```', None, "order_status"),
        ('{"INTENT": "Order Status"}', None, "order_status"),
        ('{"intent": "order-status"}', None, "order_status"),
        ('{"intent": "ORDER_STATUS "}', None, "order_status"),
        ('{"intent": "order_status"}{"intent": "refund_status"}', None, "order_status"),
        ('{"intent": "order_status", "intent": "refund_status"}', None, "refund_status"),
        ('{oops} {"intent": "order_status"}', None, "order_status"),
        ('{"intent": "order_sta', None, None),
        ('{"intent": "order_status", "why": "late"}', None, "order_status"),
        ('{"intent": null}', None, None),
        ('{"intent": ["order_status"]}', None, None),
        ("{'intent': 'order_status'}", None, None),
        ('{"intent": NaN}', None, "NaN"),
        ("order_status", None, None),
        ('"order_status"', None, None),
        ("", None, None),
        ("   \n", None, None),
        ("null", None, None),
        ("[" * 5000, None, None),
        ('{"a":' * 5000, None, None),
        ('{"intent": "\\ud800"}', None, "\ud800"),
    ],
)
def test_json_is_read(output: str, strict: str | None, tolerant: str | None) -> None:
    found = _reading.read(output, TASK)
    assert [reading.label for reading in found] == [strict, tolerant]


def test_the_first_object_decides_among_two() -> None:
    both = f"{answer('refund_status')} or {answer('order_status')}"
    assert label.score(both, GOLD, TASK)["tolerant"] is False


def test_a_class_that_the_task_does_not_have_is_other_and_none_is_unreadable() -> None:
    assert label.score('{"intent": "weather"}', GOLD, TASK)["said"] == {
        "strict": "(unreadable)",  # the schema does not allow it
        "tolerant": "(other)",
    }
    assert label.score("I cannot say", GOLD, TASK)["said"]["tolerant"] == "(unreadable)"


def test_strict_needs_the_schema_and_tolerant_adherence_the_spelling() -> None:
    assert schema.score('{"intent": "weather"}', GOLD, TASK) == {"strict": False, "tolerant": False}
    assert schema.score('{"Intent": "Refund status"}', GOLD, TASK) == {
        "strict": False,
        "tolerant": True,
    }


@pytest.mark.parametrize(
    ("output", "strict", "tolerant"),
    [
        ("order_status", True, True),
        (" order_status\n", True, True),
        ("Order status.", False, True),
        ("The intent is order status, not refund_status.", False, True),
        ("refund_status rather than order_status", False, False),
        ("reorder_status", False, False),
        ("", False, False),
    ],
)
def test_labels_are_read(output: str, strict: bool, tolerant: bool) -> None:
    task = {"answer": "label", "labels": LABELS}
    found = label.score(output, {"answer": "order_status"}, task)
    assert (found["strict"], found["tolerant"]) == (strict, tolerant)


def test_the_longer_of_two_labels_at_one_place_is_meant() -> None:
    task = {"answer": "label", "labels": ["refund", "refund status", "other"]}
    found = label.score("It is refund status!", {"answer": "refund status"}, task)
    assert found["tolerant"] is True


def test_labels_that_differ_in_separators_only_are_not_guessed() -> None:
    task = {**TASK, "schema": None, "labels": ["a_b", "ab"]}
    assert _reading.read('{"intent": "A B"}', task)[1].label == "A B"
    assert _reading.read('{"intent": "ab"}', task)[1].label == "ab"


@pytest.mark.parametrize(
    ("labels", "output", "said"),
    [
        (["us", "US"], "us", "us"),
        (["us", "US"], "US.", "US"),
        (["us", "US"], "It is us", "us"),
        (["us", "US"], "It is US", "US"),
        (["us", "US"], "Us", "(other)"),
        (["a_b", "a b"], "a b", "a b"),
        (["a_b", "a b"], "It is a_b!", "a_b"),
    ],
)
def test_labels_that_fold_alike_are_told_by_their_exact_text(
    labels: list[str], output: str, said: str
) -> None:
    task = {"answer": "label", "labels": labels}
    assert label.score(output, {"answer": labels[0]}, task)["said"]["tolerant"] == said
    if said in labels:
        assert exact.score(output, {"answer": said}, task)["tolerant"]
        other = next(item for item in labels if item != said)
        assert not exact.score(output, {"answer": other}, task)["tolerant"]


ITEM = {"type": "object", "properties": {"size": {"enum": ["small", "large"]}}}
LIST = {"$defs": {"list": {"type": "array", "items": ITEM}}, "$ref": "#/$defs/list"}
EITHER = {"anyOf": [{"type": "array"}, {"type": "object"}]}


@pytest.mark.parametrize(
    ("form", "gold", "output", "strict"),
    [
        ({"enum": ["a", "b"]}, '"a"', '"a"', True),
        ({"enum": ["a", "b"]}, '"a"', "A.", False),
        ({"enum": ["a", "b"]}, '"a"', '```json\n"a"\n```', False),
        ({"enum": [1, "1"]}, "1", "1", True),
        ({"type": "boolean"}, "true", "true", True),
        ({"type": "boolean"}, "true", "True.", False),
        (EITHER, "[1]", "[1]", True),
        (EITHER, '[{"a": 1}]', 'So: [{"a": 1}].', False),
        (EITHER, '{"a": [1]}', 'So: {"a": [1]}.', False),
        (LIST, '[{"size": "small"}]', '[{"size": "small"}]', True),
        (LIST, '[{"size": "small"}]', 'So: [{"Size": "SMALL"}]', False),
        ({"type": ["array", "null"]}, "null", "null", True),
        ({"properties": {"a": {}}}, '{"a": 1, "A": 2}', '{"A": 2, "a": 1}', True),
    ],
)
def test_answers_that_are_no_objects_are_read_tolerantly(
    form: Json, gold: str, output: str, strict: bool
) -> None:
    task = {"answer": "json", "schema": form}
    assert exact.score(output, {"answer": gold}, task) == {"strict": strict, "tolerant": True}
    assert schema.score(output, {"answer": gold}, task) == {"strict": strict, "tolerant": True}


def test_fields_whose_keys_are_not_the_schemas_own_are_right_in_both_readings() -> None:
    task = {"answer": "json", "schema": {"type": "object", "properties": {"a": {}}}}
    found = fields.score('{"A": 1}', {"answer": '{"A": 1}'}, task)
    assert found["strict"] == found["tolerant"] == {"said": ["A"], "right": ["A"], "read": True}


def test_prose_is_no_plain_value_of_an_object_schema() -> None:
    assert _reading.read("order_status", TASK)[1].found is False
    task = {"answer": "json", "schema": {"enum": ["a", "b"]}}
    assert schema.score("c", {"answer": '"a"'}, task) == {"strict": False, "tolerant": False}


def test_a_reference_in_a_circle_ends() -> None:
    assert _shape.resolved({"$ref": "#"}, {"$ref": "#"}) == {}
    loop = {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}
    assert _shape.openings(loop) == "{"


def test_nested_pointers_and_escapes() -> None:
    task = {"answer": "json", "schema": None, "class": "/a~1b/0/c~0d", "labels": ["x", "y"]}
    found = _reading.read('{"a/b": [{"c~d": "x"}]}', task)
    assert [reading.label for reading in found] == ["x", "x"]


def test_text_is_compared_as_it_is_and_loosely() -> None:
    task = {"answer": "text"}
    gold = {"answer": "The small dog."}
    assert exact.score("The small dog.\n", gold, task) == {"strict": True, "tolerant": True}
    assert exact.score('"the  small DOG"', gold, task) == {"strict": False, "tolerant": True}
    assert exact.score("the small cat", gold, task) == {"strict": False, "tolerant": False}


def test_values_are_compared_as_json_compares_them() -> None:
    task = {"answer": "json", "schema": None}
    gold = {"answer": '{"n": 1, "on": true, "list": [1, "A b"]}'}
    assert exact.score('{"list":[1,"A b"],"on":true,"n":1.0}', gold, task)["strict"] is True
    assert exact.score('{"list":[1,"A b"],"on":1,"n":1}', gold, task)["tolerant"] is False
    assert exact.score('{"list":[1,"a  B"],"on":true,"n":1}', gold, task) == {
        "strict": False,
        "tolerant": True,
    }


def test_the_empty_object_counts() -> None:
    task = {"answer": "json", "schema": {"type": "object"}}
    rows = [
        ('{"time": "7 pm", "people": 2}', '{"time": "7 PM", "people": 2}'),
        ("{}", "{}"),
        ("{}", "nothing here"),
        ("{}", '{"date": "today"}'),
        ('{"people": 3}', "{}"),
    ]
    found = fields.summarise([fields.score(said, {"answer": gold}, task) for gold, said in rows])
    assert found["n"] == 5
    strict = found["strict"]
    assert strict["empty"]["gold"] == 3
    assert strict["empty"]["right"] == 1
    assert strict["empty"]["said"] == 2
    assert strict["fields"]["people"] == {
        "gold": 2,
        "said": 1,
        "right": 1,
        "wrong": 0,
        "missed": 1,
        "hallucinated": 0,
        "precision": 1.0,
        "recall": 0.5,
        "f1": pytest.approx(2 / 3),
    }
    assert strict["fields"]["time"]["right"] == 0
    assert found["tolerant"]["fields"]["time"]["right"] == 1
    assert strict["fields"]["date"]["precision"] == 0.0
    assert strict["fields"]["date"]["recall"] is None
    assert strict["all"]["gold"] == 3


def test_what_is_not_right_is_wrong_missed_or_hallucinated() -> None:
    task = {"answer": "json", "schema": {"type": "object"}}
    rows = [
        ('{"a": "1", "b": "2"}', '{"a": "1", "b": "3"}'),
        ('{"a": "1"}', '{"b": "2"}'),
        ('{"b": "2"}', "no json"),
        ("{}", '{"b": "2"}'),
    ]
    strict = fields.summarise([fields.score(s, {"answer": g}, task) for g, s in rows])["strict"]
    found = {
        name: tuple(counts[part] for part in fields.COUNTS)
        for name, counts in {
            **strict["fields"],
            "all": strict["all"],
            "{}": strict["empty"],
        }.items()
    }
    assert found == {
        "a": (2, 1, 1, 0, 1, 0),
        "b": (2, 3, 0, 1, 1, 2),
        "all": (4, 4, 1, 1, 2, 2),
        "{}": (1, 0, 0, 0, 1, 0),
    }
    for gold, said, right, wrong, missed, hallucinated in found.values():
        assert (gold, said) == (right + wrong + missed, right + wrong + hallucinated)


def test_a_null_is_no_field() -> None:
    text = {"type": "string"}
    schema: Json = {"type": "object", "properties": {"a": text, "b": text}, "required": ["b"]}
    task: Json = {"answer": "json", "schema": schema}
    # Silence is not rewarded, whichever way it is written.
    nulls = {"answer": "json", "schema": {"type": "object"}}
    silent = fields.score('{"a": null}', {"answer": '{"a": null, "b": "2"}'}, nulls)
    assert silent["gold"] == ["b"]
    assert silent["strict"] == {"said": [], "right": [], "read": True}
    # Tolerantly, a null is the same as no key where the key may go and the schema has no null.
    said, gold = '{"a": null, "b": "2"}', {"answer": '{"b": "2"}'}
    assert exact.score(said, gold, task) == {"strict": False, "tolerant": True}
    assert fields.score(said, gold, task)["tolerant"]["right"] == ["b"]
    required = {**schema, "required": ["a", "b"]}
    assert not exact.score(said, gold, {**task, "schema": required})["tolerant"]
    nullable = {**schema, "properties": {"a": {"type": ["string", "null"]}, "b": text}}
    assert not exact.score(said, gold, {**task, "schema": nullable})["tolerant"]


@pytest.mark.parametrize("bad", [{}, {"answer": None}, {"answer": "not json"}, {"answer": "{}"}])
def test_a_gold_row_without_a_usable_answer_is_an_error_that_names_it(bad: dict[str, str]) -> None:
    with pytest.raises(DataError) as caught:
        label.score("{}", {"id": "test:9", **bad}, TASK)
    assert caught.value.where == "test:9"


def test_a_schema_that_points_elsewhere_fetches_nothing() -> None:
    task = {**TASK, "schema": {"$ref": "https://example.org/other.json"}}
    with pytest.raises(DataError, match="refers to"):
        schema.score("{}", GOLD, task)


@given(
    st.sampled_from(LABELS), st.text(alphabet=st.characters(exclude_characters="{}"), max_size=40)
)
def test_prose_around_an_answer_changes_only_the_strict_reading(said: str, prose: str) -> None:
    found = label.score(f"{prose} {answer(said)} {prose}", GOLD, TASK)
    assert found["said"]["tolerant"] == said
    assert found["strict"] == (said == "order_status" and not prose.strip())


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(values)
def test_any_value_equals_itself_strictly(value: object) -> None:
    task = {"answer": "json", "schema": None}
    text = json.dumps(value)
    assert exact.score(text, {"answer": text}, task)["strict"] is True


FORMS: list[Json | None] = [
    None,
    {},
    {"enum": ["a", "A b", "a_b", 1, True]},
    {"type": "boolean"},
    {"type": ["string", "array"]},
    EITHER,
    LIST,
    {"type": "object", "properties": {"a": {"enum": ["x", "X"]}, "A b": {}}},
]
words = st.sampled_from(["a", "A", "A b", "a_b", "ab", "x", "X", "1", "true"])
answers = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


@given(answers, answers, st.sampled_from(FORMS), st.sampled_from(["", " So:", "\n"]), st.booleans())
def test_what_is_right_strictly_is_right_tolerantly(
    gold: object, said: object, form: Json | None, prose: str, same: bool
) -> None:
    task = {"answer": "json", "schema": form}
    row = {"answer": json.dumps(gold)}
    output = prose + json.dumps(gold if same else said)
    for metric in (exact, schema):
        found = metric.score(output, row, task)
        assert found["tolerant"] >= found["strict"]
    found = fields.score(output, row, task)
    if found["gold"] is not None:
        assert set(found["tolerant"]["right"]) >= set(found["strict"]["right"])


@given(words, words, st.lists(words, unique=True, max_size=4), st.booleans())
def test_a_label_that_is_right_strictly_is_right_tolerantly(
    gold: str, said: str, labels: list[str], is_json: bool
) -> None:
    task: Json = {"answer": "label", "labels": labels, "escape": gold}
    if is_json:
        task |= {"answer": "json", "class": "/k", "schema": None}
        row, output = {"answer": json.dumps({"k": gold})}, json.dumps({"k": said})
    else:
        row, output = {"answer": gold}, said
    for metric in (label, exact, schema, escape):
        found = metric.score(output, row, task)
        assert (found["tolerant"] or False) >= (found["strict"] or False)
