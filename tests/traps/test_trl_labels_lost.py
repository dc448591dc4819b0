"""A trainer that hands TRL the ids without the labels: TRL then trains every token, silently."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from framework_environments import python_of, run_job
from tiny_run import make_base, make_job, put_job

from tunegate import checks
from tunegate.checks import CheckInputs
from tunegate.types import Example, Json
from tunegate.worker import batches

PLUGIN = '''
"""TRL, but the column of labels is forgotten."""
import tempfile
from pathlib import Path

from tunegate.frameworks import _trl_rows, trl
from tunegate.worker import feed

ENVIRONMENT, PROVED, SEMANTICS = "trl", "unverified", trl.SEMANTICS
render, train = trl.render, trl.train


def batches(job):
    from tunegate.frameworks._trl_trainer import make_trainer

    rows = _trl_rows.dataset(feed.trained_examples(job, "train")).remove_columns("labels")
    with tempfile.TemporaryDirectory() as out:
        trainer = make_trainer(job, Path(job["frozen"]["base"]["dir"]), rows, Path(out))
        yield list(_trl_rows.through(trainer, trainer.train_dataset, batch_size=4))
'''


class Recorded:
    """Batches that a worker wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def batches(self, job: Json) -> Iterator[list[Example]]:
        return batches.read(self.folder)


def test_mask_exact_refuses_it(tmp_path: Path) -> None:
    python = python_of("trl")
    plugins = tmp_path / "plugins"
    info = plugins / "forgetful-0.1.dist-info"
    info.mkdir(parents=True)
    (plugins / "forgetful.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: forgetful\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[tunegate.frameworks]\nforgetful = forgetful\n")
    job = {**make_job(tmp_path, make_base(tmp_path / "base"), framework="forgetful")}
    job["kind"] = "batches"
    assert run_job(python, put_job(job, tmp_path / "job"), plugins=plugins) == 0
    inputs = CheckInputs(frozen=job["frozen"], framework=Recorded(tmp_path / "job"), job=job)
    check = checks.load("mask_exact")
    verdict = check.judge(check.observe(inputs), job["frozen"])
    assert verdict.status == "fail"
    assert verdict.numbers["problems"] == {"everything": 12}
