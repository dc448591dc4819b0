"""Run folders: atomic writes, digests, history, torn lines, the lock."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunegate.errors import RunBusy, UsageError
from tunegate.store import Store, digest_of

MADE = {"by": "test", "at": "2026-01-01T00:00:00+00:00"}


def test_the_same_content_is_the_same_file(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = store.write("quote.json", {"hours": 1.5}, made=MADE)
    again = store.write("quote.json", {"hours": 1.5}, made={**MADE, "at": "later"})
    assert again == first
    assert not (tmp_path / "history").exists()


def test_what_is_replaced_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old = store.write("quote.json", {"hours": 1.5}, made=MADE)
    new = store.write("quote.json", {"hours": 2.5}, made=MADE)
    assert new["digest"] != old["digest"]
    kept = json.loads((tmp_path / "history" / old["digest"][:12] / "quote.json").read_text())
    assert kept["hours"] == 1.5


def test_reading_binds_digests_of_sources_and_sections(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write("frozen.json", {"digests": {"training": "abc"}}, made=MADE)
    content = store.write("x.json", {}, read=("frozen.json#training", "gone.json"), made=MADE)
    assert content["read"] == {"frozen.json#training": "abc", "gone.json": None}


def test_a_newer_format_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "frozen.json").write_text('{"format": 2}')
    with pytest.raises(UsageError, match="has format 2; this version reads format 1"):
        Store(tmp_path).read("frozen.json")


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "frozen.json").write_text(text)
    with pytest.raises(UsageError) as caught:
        Store(tmp_path).read("frozen.json")
    assert caught.value.where is None or "frozen.json" in caught.value.where


def test_a_torn_last_line_is_no_row(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append_jsonl("rows.jsonl", {"id": 1})
    with (tmp_path / "rows.jsonl").open("ab") as handle:
        handle.write(b'{"id": 2, "out')
    assert store.read_jsonl("rows.jsonl") == [{"id": 1}]


def test_a_name_may_not_lead_outside(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="outside the run folder"):
        Store(tmp_path / "run").path("../other")


def _try_lock(folder: str, answer: multiprocessing.Queue[str]) -> None:
    try:
        with Store(Path(folder)).lock("freeze"):
            answer.put("held")
    except RunBusy as exc:
        answer.put(str(exc))


def test_a_second_process_is_told_who_holds_the_run(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    with Store(tmp_path).lock("train"):
        process = context.Process(target=_try_lock, args=(str(tmp_path), answer))
        process.start()
        text = answer.get(timeout=30)
        process.join()
    assert f"train, process {os.getpid()}" in text
    with Store(tmp_path).lock("again"):
        pass


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**50), 2**50)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_a_digest_survives_writing_and_reading(value: object) -> None:
    assert digest_of(json.loads(json.dumps(value))) == digest_of(value)
