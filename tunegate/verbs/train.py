"""The wire test, the dry run, and training."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

from tunegate import checks, drive, frameworks, gate, memory, platforms
from tunegate.drive import Show, no_show
from tunegate.errors import (
    BudgetReached,
    ChangedSinceRelease,
    GateClosed,
    NothingTrained,
    UsageError,
)
from tunegate.store import sha256_file
from tunegate.types import Json, Status, Verdict
from tunegate.verbs.prepare import (
    closed,
    ensure_frozen,
    threads,
    train_job,
    worker_frozen,
)
from tunegate.verbs.release import authorise
from tunegate.verbs.run import Result, Run, cache_dir, now, show_path

WIRE_ROWS = 20
ANCHOR_STEPS = 5
"""Steps whose losses are set beside the anchor's."""


def wire(run: str | Path, *, tiny: bool = False, show: Show = no_show) -> Result:
    """Gate 2: learn 20 rows by heart, save, reload from disk, answer through the serving template.

    `tiny` takes a random model of about a million weights instead of the base: it proves the
    pipeline in seconds, but measures nothing, so that a quote still needs the real one.
    """
    opened = Run(run, show=show)
    with opened.store.lock("wire"):
        ensure_frozen(opened)
        content = run_wire(opened, tiny=tiny)
    verdicts = [Verdict.from_json(raw) for raw in content["verdicts"].values()]
    bad = [verdict for verdict in verdicts if verdict.status is not Status.PASS]
    if bad:
        raise closed(opened, bad)
    wired = verdicts[0]
    return Result(
        "wire",
        opened.argument,
        wired.summary,
        {
            "numbers": dict(wired.numbers),
            "verdicts": {
                v.check: {"status": str(v.status), "summary": v.summary} for v in verdicts
            },
            "tiny": tiny,
        },
        opened.next(),
    )


def run_wire(run: Run, *, tiny: bool = False) -> Json:
    """Run the wire test's job and write its evidence."""
    need_trainer()
    python = run.trainer_python
    job_dir = run.store.path("evidence/wire-tiny" if tiny else "evidence/wire")
    frozen = worker_frozen(run)
    job = {
        **train_job(run, frozen),
        "kind": "wire",
        "attempt_dir": str(job_dir),
        "wire_rows": WIRE_ROWS,
        "tiny": tiny,
        "anchor_steps": None if tiny else _anchor_steps(run),
    }
    host = platforms.load("local")
    drive.run(host, job_dir, job, python=python, cache_dir=cache_dir(), show=run.show)
    observation = _json(job_dir / "observation.json")
    if observation is None:
        raise NothingTrained(
            "the wire test ended without an observation", where=str(job_dir / "log")
        )
    seen = observation.pop("checks")
    verdicts = {"wire": gate.judge_wire(observation)}
    for name in checks.names("machine"):
        verdicts[name] = checks.load(name).judge(seen[name], frozen)
        run.store.write(
            f"evidence/{name}{'_tiny' if tiny else ''}.json",
            {"observation": seen[name], "verdict": verdicts[name].to_json()},
            read=("frozen.json#training",),
            made=run.made("wire"),
        )
    return run.store.write(
        "evidence/wire_tiny.json" if tiny else "evidence/wire.json",
        {
            "observation": observation,
            "verdicts": {name: verdict.to_json() for name, verdict in verdicts.items()},
        },
        read=("frozen.json#training",),
        made=run.made("wire"),
    )


def _anchor_steps(run: Run) -> list[Json]:
    """The first steps that the anchor's newest attempt logged, with the rows that each met."""
    if run.spec.anchor is None:
        return []
    store = Run(run.source_dir / run.spec.anchor).store
    for number in reversed(store.attempts()):
        rows = drive.read_outputs(store.path(f"attempts/{number}/metrics.jsonl"))
        steps = [row for row in rows if row.get("loss") is not None and "row_ids" in row]
        if steps:
            return steps[:ANCHOR_STEPS]
    return []


def need_trainer() -> None:
    """Raise the install command where the training stack is not there, before anything starts."""
    missing = [
        name for name in ("torch", "transformers", "peft") if not importlib.util.find_spec(name)
    ]
    if missing:
        raise UsageError(
            f"{', '.join(missing)} is not installed, so nothing can be trained here",
            kind="extra_missing",
            hint="pip install torch==2.13.0 && pip install 'tunegate[train]'",
        )


def train(run: str | Path, *, dry_run: bool = False, show: Show = no_show) -> Result:
    """Train under a release, or with `dry_run` do everything short of the launch."""
    opened = Run(run, show=show)
    if dry_run:
        with opened.store.lock("train --dry-run"):
            ensure_frozen(opened)
            content = run_dry(opened)
        return Result(
            "train",
            opened.argument,
            f"dry run: {content['offer']['device']}, "
            f"{content['memory']['total_gib']:.1f} GiB expected",
            {
                "file": show_path(opened.store.path("evidence/dry_run.json")),
                "memory": content["memory"],
            },
            opened.next(),
        )
    with opened.store.lock("train", name=".train.lock"):
        ensure_frozen(opened)
        content = run_train(opened)
    return Result(
        "train",
        opened.argument,
        f"trained {content['steps']} steps; best validation loss "
        f"{content['best']['validation_loss']:.4f} "
        f"at step {content['best']['step']}",
        {
            "adapter": content["adapter"]["path"],
            "best": content["best"],
            "attempt": content["attempt"],
        },
        opened.next(),
    )


def run_dry(run: Run) -> Json:
    """Native settings, worker archive, offer and memory, all short of the launch."""
    need_trainer()
    if not run.store.exists("evidence/wire.json"):
        raise GateClosed(
            "the dry run needs what the wire test measured",
            kind="check_missing",
            hint=f"tunegate wire {run.argument}",
        )
    frozen = worker_frozen(run)
    framework: Any = frameworks.load(frozen["settings"]["train"]["framework"])
    offer = platforms.load(frozen["settings"]["platform"]).offer(
        at=now().isoformat(), folder=run.folder
    )
    _, digest = drive.bundle_worker(cache_dir() / "worker")
    observation = run.store.read("evidence/wire.json")["observation"]
    payload = {
        "framework": frozen["settings"]["train"]["framework"],
        "native": framework.render(frozen),
        "worker_sha256": digest,
        # Free space and the clock change from one minute to the next and bind nothing.
        "offer": {k: v for k, v in offer.to_json().items() if k not in ("at", "disk_free_gib")},
        "memory": memory.estimate(frozen, observation),
    }
    return run.store.write(
        "evidence/dry_run.json",
        payload,
        read=("frozen.json", "evidence/wire.json"),
        made=run.made("dry_run"),
    )


def run_train(run: Run) -> Json:
    """Train, resume, attach or take over what is already there, then demand a receipt."""
    need_trainer()
    frozen = worker_frozen(run)
    training = run.frozen["digests"]["training"]
    host = platforms.load(frozen["settings"]["platform"])
    number = _current_attempt(run, training)
    if number is not None and _problems(run, number) == []:
        return _trained(run, number)
    quote, release = authorise(run)
    if number is None:
        number = max(run.store.attempts(), default=0) + 1
    job_dir = run.store.path(f"attempts/{number}")
    ceiling_s = 3600 * float(quote["hours"]["ceiling"])
    if not host.poll(job_dir).running:
        _refuse_spent(run, job_dir, ceiling_s)
        job = {
            **train_job(run, frozen),
            "attempt_dir": str(job_dir),
            "resume_from": last_checkpoint(job_dir),
            "checkpoint_every_s": quote["checkpoint"]["every_s"],
            "ceiling_s": ceiling_s,
            "release_nonce": release["nonce"],
            "training": training,
            "labels_sha256": _checked_labels(run),
        }
        # What is there after the launch is of this launch, whatever the clocks say.
        (job_dir / "receipt.json").unlink(missing_ok=True)
        shutil.rmtree(job_dir / "adapter", ignore_errors=True)
        drive.start(host, job_dir, job, python=run.trainer_python, cache_dir=cache_dir())
    drive.wait(host, job_dir, show=run.show, deadline_s=ceiling_s - trained_s(job_dir))
    if run.store.digest("frozen.json#training") != training:
        raise ChangedSinceRelease(
            f"the run was frozen anew while attempt {number} trained; that attempt is kept, "
            "and is not this run's",
            hint=f"tunegate go {run.argument} trains what is frozen now",
        )
    problems = _problems(run, number)
    if problems:
        raise NothingTrained(
            "the trainer ended with exit code 0, but did not prove that it trained: "
            + "; ".join(problems),
            where=show_path(job_dir / "log"),
            hint="read the log; an exit code alone is never taken for success",
        )
    return _trained(run, number)


def trained_s(job_dir: Path) -> float:
    """Seconds that an attempt has taken, in all its processes: by its receipt, else its metrics."""
    receipt = _json(job_dir / "receipt.json")
    if receipt is not None and receipt.get("train_s") is not None:
        return float(receipt["train_s"])
    rows = drive.read_outputs(job_dir / "metrics.jsonl")
    return max((float(row["t_s"]) for row in rows), default=0.0)


def _refuse_spent(run: Run, job_dir: Path, ceiling_s: float) -> None:
    spent_s = trained_s(job_dir)
    if spent_s >= ceiling_s:
        raise BudgetReached(
            f"{spent_s / 3600:.3g} h are trained already, and the ceiling is "
            f"{ceiling_s / 3600:.3g} h",
            where=show_path(job_dir),
            hint=f"raise limits.hours, then tunegate go {run.argument}, which trains on",
        )


def _checked_labels(run: Run) -> str:
    """Digest of the labels that gate 2 looked at; the worker compares its own before it starts."""
    found: str = run.store.read("evidence/mask_exact.json")["observation"]["labels_sha256"]
    return found


def _current_attempt(run: Run, training: str) -> int | None:
    """The newest attempt at exactly these inputs; None where there is none."""
    for number in reversed(run.store.attempts()):
        job = _json(run.store.path(f"attempts/{number}/job.json"))
        if job is not None and job.get("training") == training:
            return number
    return None


def _problems(run: Run, number: int) -> list[str]:
    folder = run.store.path(f"attempts/{number}")
    receipt = _json(folder / "receipt.json")
    problems = gate.receipt_problems(receipt)
    if receipt is not None and not problems:
        weights = folder / receipt["adapter"]["path"] / "adapter_model.safetensors"
        if not weights.is_file() or sha256_file(weights) != receipt["adapter"]["sha256"]:
            problems.append("the adapter on disk is not the one that the receipt names")
    return problems


def last_checkpoint(job_dir: Path) -> str | None:
    """The newest complete checkpoint: listed in checkpoints.jsonl and still on disk."""
    rows = drive.read_outputs(job_dir / "checkpoints.jsonl")
    for row in sorted(rows, key=lambda row: int(row["step"]), reverse=True):
        path = job_dir / row["path"]
        if path.is_dir():
            return str(path)
    return None


def _json(path: Path) -> Json | None:
    with contextlib.suppress(OSError, json.JSONDecodeError):
        return dict(json.loads(path.read_text(encoding="utf-8")))
    return None


def _trained(run: Run, number: int) -> Json:
    """Write trained.json, which points at the attempt whose receipt holds."""
    receipt = _json(run.store.path(f"attempts/{number}/receipt.json")) or {}
    adapter = receipt["adapter"]
    payload = {
        "attempt": number,
        "steps": receipt["steps"],
        "best": receipt["best"],
        "adapter": {
            "path": f"attempts/{number}/{adapter['path']}",
            "sha256": adapter["sha256"],
            "bytes": adapter["bytes"],
        },
        "threads": threads(),
    }
    return run.store.write(
        "trained.json", payload, read=("frozen.json#training",), made=run.made("train")
    )
