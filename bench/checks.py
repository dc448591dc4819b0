"""Rows a second of each gate-2 check, on invented rows of about 160 tokens.

    python -m bench.checks --rows 100000 [--base FOLDER]

FOLDER holds a tokenizer and a chat template (an unpacked base); left out, a small tokenizer is
trained on the spot, whose rows have more tokens than a real one's.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.stand_ins import JSON_TASK, run
from tunegate import frameworks
from tunegate.checks import CheckInputs, load, names, observe_all
from tunegate.types import Json
from tunegate.worker.template import template_source
from tunegate.worker.tokens import stop_ids


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


def inputs(folder: Path, *, count: int, base: Path | None) -> CheckInputs:
    """A run of `count` training rows, a fiftieth of that to validate and a twentieth to test."""
    found = run(
        folder,
        trainer=frameworks.load("native"),
        train=list(rows(count, seed=0)),
        splits={
            "validation": list(rows(count // 50, seed=1)),
            "test": list(rows(count // 20, seed=2)),
        },
        system="You sort messages by what they ask for. " * 6,
        task=JSON_TASK,
    )
    found.frozen["settings"]["train"]["batch_size"] = 32
    if base is not None:
        found.frozen["base"]["dir"] = str(base)
        found.frozen["template"]["source"] = template_source(base)
        found.frozen["tokenizer"]["stop_ids"] = sorted(stop_ids(base))
    return found


def timed(what: str, count: int, work: Callable[[], Any]) -> Any:
    """Print wall and processor seconds of `work`, and return its result."""
    wall, cpu = time.perf_counter(), time.process_time()
    out = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{what:<14} {wall:7.1f} s wall {cpu:7.1f} s CPU {count / wall:9,.0f} rows/s", flush=True)
    return out


def main() -> None:
    """Measure each check alone, then all in one pass as `tunegate check` runs them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--base", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = inputs(Path(folder), count=asked.rows, base=asked.base)
        for name in names():
            seen = timed(name, asked.rows, lambda name=name: load(name).observe(made))
            verdict = load(name).judge(seen, made.frozen)
            print(f"               {verdict.status}: {verdict.summary}")
        timed("all together", asked.rows, lambda: observe_all(made, names=names()))


if __name__ == "__main__":
    main()
