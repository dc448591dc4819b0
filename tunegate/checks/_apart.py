"""Checks that need no batches, in a process of their own beside the pass over the batches.

The process is a fresh Python, never a fork: threads of the tokenizer may run already. Whatever goes
wrong in it is found out by making the same observation here, where its error is told as ever.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tunegate.checks import CheckInputs, load
from tunegate.types import Example, Json

MIN_ROWS = 5_000
"""Rows of all splits from which it pays to start a process, which takes a second by itself."""

_ENTRY = (
    "import sys; sys.path.insert(0, sys.argv[1]); from tunegate.checks._apart import main; main()"
)


class Apart:
    """The named checks at work in another process until `result`, or until the block ends."""

    def __init__(self, inputs: CheckInputs, *, names: Sequence[str]) -> None:
        self._names = names
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ENTRY, str(Path(__file__).parents[2])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        with suppress(OSError):  # it ended before it read; `result` is empty then
            assert self._process.stdin is not None
            with self._process.stdin as pipe:
                pickle.dump((inputs.frozen, inputs.job, list(names)), pipe)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.wait()

    def result(self) -> dict[str, Json]:
        """The observation of each check; nothing where the process failed."""
        assert self._process.stdout is not None
        raw = self._process.stdout.read()
        if self._process.wait() != 0:
            return {}
        found: dict[str, Json] = pickle.loads(raw)
        return found


def worth_it(inputs: CheckInputs) -> bool:
    """Whether the rows are many and a second core is there."""
    rows = sum(split["rows"] for split in inputs.frozen["data"].values())
    return bool(rows >= MIN_ROWS and inputs.job.get("threads", 1) > 1)


class _NoBatches:
    def batches(self, job: Json) -> Iterator[list[Example]]:
        raise NotImplementedError("a check that runs apart looks at no batches")


def main() -> None:
    """Observe what standard input says, for `Apart`."""
    frozen, job, names = pickle.load(sys.stdin.buffer)
    inputs = CheckInputs(frozen, _NoBatches(), job)
    found = {name: load(name).observe(inputs) for name in names}
    sys.stdout.buffer.write(pickle.dumps(found))
