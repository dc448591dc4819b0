"""Rows of one source are in training and in test."""

from tests.stand_ins import run, verdict
from tests.toys import chat
from tunegate.types import Status


def rows(start, *sources):
    return [chat(f"question number {start + n}", "x", doc=doc) for n, doc in enumerate(sources)]


def test_a_shared_source_is_refused(tmp_path):
    inputs = run(
        tmp_path, train=rows(0, "a", "b"), splits={"test": rows(10, "b", "c")}, group="doc"
    )
    found = verdict("leak_check", inputs)
    assert found.status == Status.FAIL
    assert "'doc'" in found.findings[0].message
    assert "'b'" in found.findings[0].message


def test_sources_apart_pass(tmp_path):
    inputs = run(tmp_path, train=rows(0, "a", "b"), splits={"test": rows(10, "c")}, group="doc")
    assert verdict("leak_check", inputs).status == Status.PASS


def test_a_key_that_no_row_has_is_refused(tmp_path):
    inputs = run(tmp_path, train=rows(0, "a"), splits={"test": rows(10, "b")}, group="dok")
    found = verdict("leak_check", inputs)
    assert found.status == Status.FAIL
    assert found.findings[0].message.startswith("no row has the key 'dok'")
