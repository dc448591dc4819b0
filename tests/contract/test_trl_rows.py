"""What TRL hands to its loss, in its own environment, is what the native trainer trains."""

from __future__ import annotations

from typing import Any

import pytest
from framework_environments import python_of, run_job
from tiny_run import make_base, make_job, put_job
from toys import chat, write_rows

from tunegate.frameworks import native
from tunegate.types import Example
from tunegate.worker import batches

ANSWER = '{"intent": "order_status"}'
FORMS: list[dict[str, Any]] = [
    chat("where is my parcel", ANSWER),
    {"prompt": "where is it", "completion": ANSWER},
    {"instruction": "Sort this.", "input": "it is late", "output": ANSWER},
    {"text": "a row of raw text that is trained whole"},
    {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "first answer", "weight": 0},
            {"role": "user", "content": "two"},
            {"role": "assistant", "content": "second  answer\nof two lines"},
        ]
    },
    {"prompt": "a longer row " * 40, "completion": ANSWER},  # above max_length
    {"prompt": "größer → 漢字 🙂", "completion": '{"intent": "none_of_these"}'},
]


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Example], list[Example]]:
    """Rows of every form, as TRL and as the native trainer feed them."""
    python = python_of("trl")
    folder = tmp_path_factory.mktemp("forms")
    job = make_job(folder, make_base(folder / "base"), framework="trl", max_length=96)
    write_rows(folder / "train.jsonl", FORMS)
    job["kind"] = "batches"
    job["frozen"]["data"]["train"]["rows"] = len(FORMS)
    assert run_job(python, put_job(job, folder / "job")) == 0
    there = [row for batch in batches.read(folder / "job") for row in batch]
    here = [row for batch in native.batches(job) for row in batch]
    return there, here


def test_labels_are_those_of_the_native_trainer_row_by_row(
    fed: tuple[list[Example], list[Example]],
) -> None:
    there, here = fed
    assert len(there) == len(FORMS)
    for trl, ours in zip(there, here, strict=True):
        assert trl == ours, f"row {ours.index}"


def test_the_rows_are_no_easy_ones(fed: tuple[list[Example], list[Example]]) -> None:
    _, here = fed
    assert [row.index for row in here if row.dropped] == [5]
    whole = [row.index for row in here if row.labels == row.input_ids]
    assert whole == [3]
