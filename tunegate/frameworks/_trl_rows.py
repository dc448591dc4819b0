"""What TRL makes of rows: its preparation and its collator, run on each of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from tunegate.types import Example, Json
from tunegate.worker import feed
from tunegate.worker.model import write_tiny_base

CHUNK_ROWS = 1024
"""Rows that are prepared together, so that memory does not grow with the file."""


def quiet() -> None:
    """Without the progress bars that are meant for notebooks."""
    import datasets
    from transformers.utils import logging

    datasets.disable_progress_bars()
    logging.disable_progress_bar()
    logging.set_verbosity_error()


def dataset(rows: Sequence[Example]) -> Any:
    """Rows as TRL takes them when they are tokenised already; `index` says which row it was."""
    from datasets import Dataset

    return Dataset.from_dict(
        {
            "input_ids": [row.input_ids for row in rows],
            "labels": [row.labels for row in rows],
            "index": [row.index for row in rows],
        }
    )


def load_tokenizer(base_dir: Path) -> Any:
    """The tokenizer that TRL pads with."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(base_dir, local_files_only=True, trust_remote_code=False)


def through(trainer: Any, prepared: Any, *, batch_size: int) -> Iterator[Example]:
    """Each row of a prepared dataset as the collator hands it to the loss, padding taken off."""
    for start in range(0, len(prepared), batch_size):
        part = [prepared[n] for n in range(start, min(start + batch_size, len(prepared)))]
        batch = trainer.data_collator(
            [{k: row[k] for k in ("input_ids", "labels")} for row in part]
        )
        for place, row in enumerate(part):
            kept = batch["attention_mask"][place].bool()
            yield Example(
                row["index"],
                batch["input_ids"][place][kept].tolist(),
                batch["labels"][place][kept].tolist(),
            )


def collated(job: Json) -> Iterator[list[Example]]:
    """Every training row once, in file order; rows that are never given to TRL are marked.

    The trainer is a real one on a random model of the base's architecture: TRL prepares and
    collates in its constructor and its collator, whatever the model's size.
    """
    from tunegate.frameworks._trl_trainer import make_trainer

    quiet()
    settings = job["frozen"]["settings"]["train"]
    base_dir = Path(job["frozen"]["base"]["dir"])
    rows = feed.examples(job, "train")
    with tempfile.TemporaryDirectory() as scratch:
        tiny = Path(scratch, "base")
        write_tiny_base(base_dir, tiny, seed=settings["seed"])
        trainer = None
        while chunk := list(islice(rows, CHUNK_ROWS)):
            given = [row for row in chunk if row.dropped is None]
            back = {}
            if given:
                prepared = dataset(given)
                if trainer is None:
                    trainer = make_trainer(job, tiny, prepared, Path(scratch, "out"))
                    prepared = trainer.train_dataset
                else:
                    args = trainer.args
                    prepared = trainer._prepare_dataset(
                        prepared, trainer.processing_class, args, args.packing, None, "train"
                    )
                size = settings["batch_size"]
                back = {row.index: row for row in through(trainer, prepared, batch_size=size)}
            # A row that TRL dropped is in neither: the checks count it as missing.
            yield [
                row if row.dropped is not None else back[row.index]
                for row in chunk
                if row.dropped is not None or row.index in back
            ]
