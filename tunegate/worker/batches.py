"""What a framework feeds its trainer, as a file: for checks that run in another Python than it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tunegate import frameworks
from tunegate.types import Example, Json
from tunegate.worker.emit import Emit

FILE = "batches.jsonl"


def write(job: Json, emit: Emit) -> None:
    """Write every training row as the job's framework feeds it, complete or not at all."""
    framework = frameworks.load(job["frozen"]["settings"]["train"]["framework"])
    folder = Path(job["attempt_dir"])
    total = int(job["frozen"]["data"]["train"]["rows"])
    temporary, done = folder / f".{FILE}.tmp", 0
    with temporary.open("w", encoding="utf-8") as handle:
        for batch in framework.batches(job):
            for row in batch:
                line = [row.index, row.input_ids, row.labels, row.dropped]
                handle.write(json.dumps(line) + "\n")
            done += len(batch)
            emit.progress("batches", done, total)
    temporary.replace(folder / FILE)
    emit.log(f"{done} rows")


def read(folder: Path) -> Iterator[list[Example]]:
    """The rows of such a file, one a batch."""
    with (folder / FILE).open(encoding="utf-8") as handle:
        for line in handle:
            index, ids, labels, dropped = json.loads(line)
            yield [Example(index, ids, labels, dropped=dropped)]
