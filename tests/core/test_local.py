"""The local platform with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tunegate.platforms import JobState, local


def wait_for(condition: Callable[[], bool], *, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the job did not get there"
        time.sleep(0.02)


def finish(job_dir: Path) -> JobState:
    wait_for(lambda: not local.poll(job_dir).running)
    return local.poll(job_dir)


def test_output_goes_to_the_log_and_the_code_is_kept(tmp_path: Path) -> None:
    job = tmp_path / "job with space"
    local.launch(job, ["sh", "-c", 'echo "$GREETING"; cat; exit 7'], {"GREETING": "hello"})
    assert finish(job) == JobState(running=False, exit_code=7)
    assert (job / "log").read_text() == "hello\n", "stdin is closed, so cat ends at once"


def test_a_job_killed_from_outside_has_the_code_of_its_signal(tmp_path: Path) -> None:
    local.launch(tmp_path, ["sh", "-c", "kill -9 $$"], {})
    assert finish(tmp_path).exit_code == 137


def test_a_job_that_vanishes_with_its_wrapper_has_no_code(tmp_path: Path) -> None:
    local.launch(tmp_path, ["sleep", "60"], {})
    wait_for(lambda: local.poll(tmp_path).running)
    os.killpg(json.loads((tmp_path / "handle.json").read_text())["pid"], signal.SIGKILL)
    assert finish(tmp_path) == JobState(running=False, exit_code=None)


def test_stop_ends_the_whole_group(tmp_path: Path) -> None:
    local.launch(tmp_path, ["sh", "-c", "sleep 60 & echo $!; wait"], {})
    wait_for(lambda: bool((tmp_path / "log").exists() and (tmp_path / "log").read_text().strip()))
    child = int((tmp_path / "log").read_text())
    local.stop(tmp_path, grace_s=2)
    assert not local.poll(tmp_path).running
    wait_for(
        lambda: (
            not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text()
        )
    )


def test_a_recycled_process_id_is_not_our_job(tmp_path: Path) -> None:
    handle = {"pid": os.getpid(), "started": 1.0}
    (tmp_path / "handle.json").write_text(json.dumps(handle))
    assert local.poll(tmp_path) == JobState(running=False, exit_code=None)


def test_a_folder_without_a_job_is_not_running(tmp_path: Path) -> None:
    assert local.poll(tmp_path) == JobState(running=False, exit_code=None)
    local.stop(tmp_path)


def test_the_offer_costs_nothing_and_knows_the_machine(tmp_path: Path) -> None:
    offer = local.offer(at="2026-01-01T00:00:00+00:00", folder=tmp_path)
    assert offer.price_per_h == "0" and "CPU core" in offer.device
    assert offer.disk_free_gib is not None and offer.disk_free_gib > 0


def test_a_polite_stop_waits_until_the_job_has_saved(tmp_path: Path) -> None:
    script = "trap 'sleep 0.5; echo saved; exit 130' TERM; echo begun; while :; do sleep 0.05; done"
    local.launch(tmp_path, ["sh", "-c", script], {})
    wait_for(lambda: (tmp_path / "log").exists() and "begun" in (tmp_path / "log").read_text())
    local.stop(tmp_path, grace_s=10)
    assert "saved" in (tmp_path / "log").read_text()
    assert local.poll(tmp_path) == JobState(running=False, exit_code=130)


DRIVER = """
import os, sys
from pathlib import Path
from tunegate.platforms import local

def die(*_):
    os._exit(9)

Path.replace = die  # killed between the start of the process and the note of which one it is
local.launch(Path(sys.argv[1]), ["sh", "-c", "echo ran"], {})
"""


def test_no_job_runs_that_nobody_knows_of(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", DRIVER, str(tmp_path)], timeout=60)
    assert done.returncode == 9
    time.sleep(0.5)
    assert not (tmp_path / "log").exists() and not (tmp_path / "handle.json").exists()
