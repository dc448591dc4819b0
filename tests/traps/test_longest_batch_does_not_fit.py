"""Memory that runs out late, when the longest rows come; preparation that never ends."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.rehearsals import copy_of, judged, said  # noqa: E402
from tunegate.checks import load  # noqa: E402
from tunegate.types import Status  # noqa: E402


def longest(**changes: Any) -> dict[str, Any]:
    fits = {"rows": 8, "tokens": 900, "peak_memory_gib": 20.0, "device_memory_gib": 24.0}
    return {**fits, **changes}


def test_a_batch_with_room_to_spare_passes(rehearsed):
    assert judged("longest_batch", *rehearsed, longest=longest()).status is Status.PASS


def test_a_batch_that_only_just_fits_is_seen(rehearsed):
    found = judged("longest_batch", *rehearsed, longest=longest(peak_memory_gib=22.5))
    assert found.status is Status.FAIL
    assert "22.50 of 24.00 GiB" in said(found)


def test_an_unknown_device_is_no_pass(rehearsed):
    found = judged("longest_batch", *rehearsed, longest=longest(device_memory_gib=None))
    assert found.status is Status.CANNOT_TELL


def test_preparation_that_ends_passes(rehearsed):
    found = judged("prep_probe", *rehearsed)
    assert found.status is Status.PASS, said(found)


def test_preparation_that_fails_in_a_process_of_its_own_is_seen(rehearsed, tmp_path):
    own = copy_of(rehearsed[1], tmp_path / "r")
    job = json.loads(json.dumps(own.job))
    job["frozen"]["data"]["train"]["path"] = "gone.jsonl"
    found = judged("prep_probe", rehearsed[0], replace(own, job=job))
    assert found.status is Status.FAIL
    assert "a batches job ended with code" in said(found) and "gone.jsonl" in said(found)


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        ({"timed_out": True}, "did not end within 120 s"),
        ({"seconds": 90.0, "rows_in_file": 1_000_000}, "ranks that wait for it give up after"),
        ({"seconds": 60.0, "rows_in_file": 60_000}, "a fifth of the run's hours is"),
    ],
)
def test_preparation_that_takes_too_long_is_seen(seen, says):
    base = {"error": None, "timed_out": False, "rows": 2000, "rows_in_file": 4000, "limit_s": 120.0}
    frozen = {"settings": {"limits": {"hours": 2.0}}}
    found = load("prep_probe").judge({**base, "seconds": 2.0, **seen}, frozen)
    assert found.status is Status.FAIL
    assert says in said(found)
