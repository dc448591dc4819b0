"""Rows a second and peak memory of each gate-2 check, beside plain tokenisation of the same rows.

    python -m bench.checks --base FOLDER [--rows 100000] [--keep docs/results/bench/checks.json]

The rows are invented and have about 200 tokens, prompt included. FOLDER holds a tokenizer and a
chat template (an unpacked base); left out, a small tokenizer is trained on the spot, whose rows
have more tokens than a real one's. Every part runs in a process of its own. "Plain" is the bare
minimum: the rendered training rows through `tokenizers.encode_batch_fast`, on as many threads as
the checks have; reading and rendering are not counted. CPU seconds are those of all threads, user
and system; where other work shares the machine, only they mean something. "All together" runs some
checks in a second process, as `tunegate check` does; its memory, that of leak_check, is not in it.

Memory: training rows are streamed. What stays is the tokenizer, a chunk of rows with their tokens,
the ids of texts encoded lately (`worker.tokens.RECENT_CHARACTERS`), at most `_firsts.KEPT` hashes a
table, and 17 bytes a row to find it again. Rows of the held-out splits are kept in leak_check's
index, so their number is the same in both sizes that memory is told of; `leak_check` is told by
itself with ten times as many of them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from tests.stand_ins import JSON_TASK, run
from tunegate import frameworks
from tunegate.checks import CheckInputs, load, names, observe_all
from tunegate.types import Json
from tunegate.worker.rows import read_rows
from tunegate.worker.template import template_source
from tunegate.worker.tokens import stop_ids

CHUNK_ROWS = 2_048
HELD_ROWS = {"validation": 2_000, "test": 5_000}
FEW = 10
"""By so much fewer training rows does the second memory figure see, and held-out rows the third."""


def rows(count: int, *, seed: int) -> Iterator[Json]:
    """Questions of 30 to 90 words drawn by a rough Zipf law, each with a label as JSON."""
    dice = random.Random(seed)
    vocabulary = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in _ENDINGS]
    weights = [1 / (place + 5) for place in range(len(vocabulary))]
    labels = JSON_TASK["labels"]
    for number in range(count):
        said = " ".join(dice.choices(vocabulary, weights, k=dice.randint(30, 90)))
        answer = json.dumps({"intent": dice.choice(labels)})
        turns = [{"role": "user", "content": said}, {"role": "assistant", "content": answer}]
        yield {"id": str(number), "messages": turns}


_ENDINGS = [f"{a}{b}{c}" for a in "lmnrst" for b in "aeiou" for c in ("", "ck", "nd", "st", "ring")]


def make(folder: Path, *, count: int, held: int, base: Path | None) -> None:
    """Write a run of `count` training rows, and a `held`-th of the held-out rows."""
    splits = {
        name: list(rows(size // held, seed=seed + 1))
        for seed, (name, size) in enumerate(HELD_ROWS.items())
    }
    found = run(
        folder,
        train=list(rows(count, seed=0)),
        splits=splits,
        system="You sort messages by what they ask for. " * 6,
        task=JSON_TASK,
    )
    frozen = found.frozen
    frozen["settings"]["train"]["batch_size"] = 32
    if base is not None:
        frozen["base"]["dir"] = str(base)
        frozen["template"]["source"] = template_source(base)
        frozen["tokenizer"]["stop_ids"] = sorted(stop_ids(base))
    found.job["threads"] = len(os.sched_getaffinity(0))
    (folder / "job.json").write_text(json.dumps(found.job))


def inputs(folder: Path) -> CheckInputs:
    """What the checks look at, of a run that `make` wrote."""
    job = json.loads((folder / "job.json").read_text())
    return CheckInputs(job["frozen"], frameworks.load("native"), job)


def measured(part: str, folder: Path) -> Json:
    """Wall and CPU seconds of one part in this process, its peak memory and what it saw."""
    made = inputs(folder)
    if part == "plain":
        seconds, tokens = plain(made)
        found = {"tokens": tokens}
    else:
        checks = names() if part == "all together" else [part]
        observed, seconds = timed(lambda: observe_all(made, names=checks))
        found = {name: str(load(name).judge(observed[name], made.frozen).status) for name in checks}
    return {"part": part, **seconds, "peak_mib": peak_mib(), "found": found}


def peak_mib() -> float:
    """Peak memory of this process. `getrusage` would start from that of the process before it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return round(int(line.split()[1]) / 1024, 1)
    raise SystemExit("the peak of memory is read from /proc, which this system does not have")


def timed(work: Callable[[], Any]) -> tuple[Any, Json]:
    """What `work` returns, and its seconds; CPU seconds with those of processes that it started."""
    wall, cpu = time.perf_counter(), sum(os.times()[:4])
    out = work()
    return out, {"wall_s": time.perf_counter() - wall, "cpu_s": sum(os.times()[:4]) - cpu}


def plain(made: CheckInputs) -> tuple[Json, int]:
    """Seconds and tokens of tokenising the rendered training rows and nothing else."""
    encoder, template = made.tokenizer.encoder, made.serving_template
    source = read_rows(made.path("train"), system=made.system)
    total, tokens = {"wall_s": 0.0, "cpu_s": 0.0}, 0
    while chunk := list(islice(source, CHUNK_ROWS)):
        texts = [template.render(row.turns, add_generation_prompt=False) for row in chunk]
        encodings, seconds = timed(
            lambda texts=texts: encoder.encode_batch_fast(texts, add_special_tokens=False)
        )
        tokens += sum(len(encoding.ids) for encoding in encodings)
        total = {key: value + seconds[key] for key, value in total.items()}
    return total, tokens


def apart(part: str, folder: Path) -> Json:
    """As `measured`, in a process of its own."""
    command = [sys.executable, "-m", "bench.checks", "--part", part, "--run", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: Json = json.loads(done.stdout)
    return found


def compare(folder: Path, *, count: int, base: Path | None) -> Json:
    """All parts over `count` rows, and peak memory over fewer; printed as they come."""
    make(folder / "many", count=count, held=1, base=base)
    make(folder / "few", count=count // FEW, held=1, base=base)
    make(folder / "few held", count=count // FEW, held=FEW, base=base)
    parts = []
    for part in ("plain", *names(), "all together"):
        found = apart(part, folder / "many")
        parts.append(found)
        times = found["cpu_s"] / parts[0]["cpu_s"]
        print(
            f"{part:<14} {found['wall_s']:7.1f} s wall {found['cpu_s']:7.1f} s CPU "
            f"{count / found['wall_s']:9,.0f} rows/s {times:6.2f} x plain "
            f"{found['peak_mib']:7.0f} MiB",
            flush=True,
        )
    memory = {f"{count} rows": parts[-1]["peak_mib"]}
    memory[f"{count // FEW} rows"] = apart("all together", folder / "few")["peak_mib"]
    for name in ("few", "few held"):
        held = sum(HELD_ROWS.values()) // (1 if name == "few" else FEW)
        memory[f"leak_check, {held} held-out rows"] = apart("leak_check", folder / name)["peak_mib"]
    for what, mib in memory.items():
        print(f"peak memory, {what}: {mib:.0f} MiB", flush=True)
    return {"rows": count, "held_rows": HELD_ROWS, "parts": parts, "peak_mib": memory}


def described() -> Json:
    """The commit, the versions and the machine. Raises where the code is not committed."""
    git = ["git", "-C", str(Path(__file__).parent)]
    dirty = subprocess.run([*git, "status", "--porcelain"], capture_output=True, check=True).stdout
    if dirty:
        raise SystemExit("the code is not committed, so nobody could repeat this; commit first")
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True).stdout
    processor = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "command": "python -m bench.checks --base FOLDER",
        "commit": commit.decode().strip(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {name: version(name) for name in ("tokenizers", "jinja2", "jsonschema")}
        | {"python": platform.python_version()},
        "machine": {
            "processor": processor,
            "cores": len(os.sched_getaffinity(0)),
            "load": round(os.getloadavg()[0], 2),
        },
    }


def main() -> None:
    """Measure each check alone, then all in one pass as `tunegate check` runs them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--base", type=Path, help="folder of a tokenizer and a chat template")
    parser.add_argument("--keep", type=Path, help="file for the result; the code is committed")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part is not None:
        print(json.dumps(measured(asked.part, asked.run)))
        return
    about = described() if asked.keep is not None else {}
    base = None if asked.base is None else asked.base.resolve()
    with tempfile.TemporaryDirectory() as folder:
        result = {**about, **compare(Path(folder), count=asked.rows, base=base)}
    if asked.keep is not None:
        asked.keep.parent.mkdir(parents=True, exist_ok=True)
        asked.keep.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
