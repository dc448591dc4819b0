"""The rows of a job as examples, and the order in which they are trained."""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tunegate.errors import ChangedSinceRelease, DataError
from tunegate.types import IGNORED, Example, Json
from tunegate.worker.encode import encode_rows
from tunegate.worker.rows import columns_of, read_rows
from tunegate.worker.template import Template, serving_template, training_template
from tunegate.worker.tokens import Tokenizer, load_tokenizer


def serving(frozen: Json) -> tuple[Tokenizer, Template]:
    """The tokenizer and the template that requests are rendered with."""
    tokenizer = load_tokenizer(Path(frozen["base"]["dir"]))
    return tokenizer, serving_template(frozen, special_tokens=tokenizer.special_tokens)


def data_path(job: Json, split: str) -> Path:
    """Where the rows of a split lie on this machine."""
    return Path(job["data_dir"], job["frozen"]["data"][split]["path"])


def examples(job: Json, split: str) -> Iterator[Example]:
    """Every row of a split as the trainer sees it, in file order, dropped ones marked."""
    frozen = job["frozen"]
    tokenizer = load_tokenizer(Path(frozen["base"]["dir"]))
    settings = frozen["settings"]["train"]
    rows = read_rows(
        data_path(job, split),
        system=frozen["prompt"]["system"],
        columns=columns_of(frozen, split),
    )
    if "rows" in job:  # a rehearsal trains on few of them
        wanted = set(job["rows"][split])
        rows = (row for row in rows if row.index in wanted)
    return encode_rows(
        rows,
        tokenizer=tokenizer,
        template=training_template(frozen, special_tokens=tokenizer.special_tokens),
        loss=settings["loss"],
        max_length=settings["max_length"],
    )


def trained_examples(job: Json, split: str) -> list[Example]:
    """The rows of a split that are trained. Raises DataError where none is left."""
    kept = [example for example in examples(job, split) if example.dropped is None]
    if not kept:
        raise DataError(
            f"no row of {split} is left to train on",
            hint="raise train.max_length: every row is longer",
        )
    return kept


def labels_sha256(rows: Iterable[Example]) -> str:
    """Digest of which tokens carry loss in which row, over all rows in file order."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(label_line(row))
    return digest.hexdigest()


def label_line(row: Example) -> bytes:
    """What the digest of labels takes of one row."""
    return json.dumps([row.index, row.dropped, row.labels]).encode() + b"\n"


def verify_labels(job: Json, rows: Sequence[Example]) -> None:
    """Look at the labels once more beside the trainer, before it starts.

    Raises ChangedSinceRelease where a trained row carries no loss, or where the labels are not
    those that the job was released with (`labels_sha256`).
    """
    for row in rows:
        if row.dropped is None and all(label == IGNORED for label in row.labels[1:]):
            raise ChangedSinceRelease(
                f"row {row.index} would be trained without a single label",
                hint="run the checks again",
            )
    expected = job.get("labels_sha256")
    if expected is not None and labels_sha256(rows) != expected:
        raise ChangedSinceRelease(
            "the labels that would be trained here are not those that the checks saw",
            hint="compare the versions of tokenizers and jinja2 on both machines, then check again",
        )


@dataclass(frozen=True)
class Order:
    """Which rows form the batch of which step: a permutation an epoch, from the seed alone."""

    rows: int
    batch_size: int
    seed: int

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(self.rows / self.batch_size)

    def total_steps(self, settings: Mapping[str, float]) -> int:
        """All steps of `epochs`, or fewer where `total_steps` says so."""
        whole = math.ceil(settings["epochs"] * self.steps_per_epoch)
        return min(whole, int(settings.get("total_steps") or whole))

    def batch(self, step: int) -> list[int]:
        """Positions of the rows of the 1-based `step`; an epoch's last batch may be smaller."""
        epoch, place = divmod(step - 1, self.steps_per_epoch)
        return self.epoch(epoch)[place * self.batch_size : (place + 1) * self.batch_size]

    def epoch(self, number: int) -> list[int]:
        """Positions of all rows in the order of the 0-based epoch."""
        shuffled = list(range(self.rows))
        random.Random(f"{self.seed}/{number}").shuffle(shuffled)
        return shuffled

    def ends_epoch(self, step: int) -> bool:
        return step % self.steps_per_epoch == 0
