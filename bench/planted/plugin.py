"""A third-party framework that wraps the native one and breaks it in one place.

Its module and its entry point lie in a folder that is put on PYTHONPATH, as an installed package
would be found. What `batches` shows is what `train` trains.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

NAME = "lender"
MODULE = "lender_trainer"

_SOURCE = '''
"""Lender: a trainer of a third party."""

from dataclasses import replace
from itertools import islice

from tunegate.frameworks import native
from tunegate.types import IGNORED, Example
from tunegate.worker import feed

PROVED = "unverified"
SEMANTICS = native.SEMANTICS
render = native.render


def spans(labels):
    """Begin and end of each run of labels that carry loss."""
    found, start = [], None
    for place, label in enumerate([*labels, IGNORED]):
        if label != IGNORED and start is None:
            start = place
        elif label == IGNORED and start is not None:
            found.append((start, place))
            start = None
    return found


def masked(example, keep):
    """The example with loss only at the places that `keep` names."""
    return replace(example, labels=[
        label if place in keep else IGNORED for place, label in enumerate(example.labels)
    ])


def row(example, tokenizer):
    return example


def rows(examples, tokenizer):
    for example in examples:
        yield row(example, tokenizer)


def prepare(worker):
    """Change the trainer before it starts."""


BODY

def examples(job, split):
    tokenizer, _ = feed.serving(job["frozen"])
    yield from rows(feed.examples(job, split), tokenizer)


def batches(job):
    found = examples(job, "train")
    size = job["frozen"]["settings"]["train"]["batch_size"]
    while batch := list(islice(found, size)):
        yield batch


def train(job, emit):
    from tunegate.worker import train as worker

    worker.examples = examples
    worker.trained_examples = lambda job, split: [
        example for example in examples(job, split) if example.dropped is None
    ]
    prepare(worker)
    worker.train(job, emit)
'''


def write(folder: Path, body: str) -> None:
    """Write the package whose module redefines `row`, `rows` or `prepare` in `body`."""
    folder.mkdir(parents=True)
    source = _SOURCE.lstrip("\n").replace("BODY\n", dedent(body).strip("\n") + "\n\n")
    compile(source, MODULE, "exec")
    (folder / f"{MODULE}.py").write_text(source, encoding="utf-8")
    about = folder / f"{MODULE}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {MODULE}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[tunegate.frameworks]\n{NAME} = {MODULE}\n")
