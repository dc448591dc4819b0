"""The checks stream the training rows: their memory does not grow with the file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stand_ins import JSON_TASK, run
from tests.toys import chat
from tunegate.checks._firsts import Firsts

REPOSITORY = Path(__file__).resolve().parents[2]

GROWTH_MIB = 32
"""Of the peak, from 3,000 rows to 12,000, whose ids and labels alone take twice that."""

OBSERVE = """
import json, re, sys
from pathlib import Path
from tunegate import frameworks
from tunegate.checks import CheckInputs, names, observe_all

for folder in sys.argv[1:]:
    job = json.loads(Path(folder, "job.json").read_text())
    inputs = CheckInputs(job["frozen"], frameworks.load("native"), job)
    seen = observe_all(inputs, names=names("host"))["mask_exact"]["rows"]
    # getrusage would start from the peak of the process that started this one.
    peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())
    print(json.dumps([seen, int(peak[1]) / 1024]))
"""


def written(folder: Path, *, count: int) -> Path:
    """A run of `count` rows of about 200 tokens, and the job that trains on them."""
    rows = [
        chat(f"{' '.join(f'{word}{n * 7 % 997}' for word in 'abcdefghij' * 2)} {n}", answer)
        for n in range(count)
        for answer in [json.dumps({"intent": JSON_TASK["labels"][n % 3]})]
    ]
    inputs = run(folder, train=rows, splits={"test": rows[-1:]}, task=JSON_TASK, group="id")
    inputs.frozen["settings"]["train"]["batch_size"] = 32
    (folder / "job.json").write_text(json.dumps(inputs.job))
    return folder


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_four_times_the_rows_take_no_more_memory(tmp_path):
    folders = [written(tmp_path / str(count), count=count) for count in (3_000, 12_000)]
    done = subprocess.run(
        [sys.executable, "-c", OBSERVE, *map(str, folders)],
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    (few, small), (many, large) = map(json.loads, done.stdout.splitlines())
    assert (few, many) == (3_000, 12_000)
    assert large - small < GROWTH_MIB


KEYS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.sampled_from([-(2**63), -1, 0, 7, 2**63 - 1]) | KEYS, max_size=60))
def test_first_places_are_those_of_a_dictionary_wherever_they_lie(keys):
    firsts, known = Firsts(kept=5), {}
    for line, key in enumerate(keys):
        word = None if line % 3 else f"word {line}"
        assert firsts.first(key, line, word) == known.setdefault(key, (line, word))
        assert len(firsts._young) <= 5
    firsts.close()
