"""Checkpoints that are complete or invisible, and that resume exactly.

    checkpoints/step-000050/
      adapter_model.safetensors, adapter_config.json  an ordinary PEFT adapter
      optimizer.safetensors                           both moments and the count of each weight
      random.safetensors                              torch's generators
      state.json                                      step, best so far, totals, Python's generator
      best/                                           the best adapter so far, where there is one
      manifest.json                                   SHA-256 of each file above

A folder is filled under a temporary name, flushed, renamed, and only then listed in
checkpoints.jsonl. No pickle is written or read.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunegate.errors import ChangedSinceRelease, TrainerError
from tunegate.types import Json
from tunegate.worker.emit import NO_SPACE, Emit, now_iso
from tunegate.worker.model import (
    ADAPTER_CONFIG,
    ADAPTER_FILE,
    adapter_config,
    adapter_tensors,
    set_adapter,
)
from tunegate.worker.step import Stepper

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1
FOLDER = "checkpoints"
KEPT = 4
"""Checkpoints at one time: the newest two, the best, and the one being written."""


def name_of(step: int) -> str:
    """The folder's name; sorts by step."""
    return f"step-{step:06d}"


def write_adapter(model: Any, folder: Path) -> None:
    """Write the adapter as an ordinary PEFT folder, each file flushed to the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_tensors(folder / ADAPTER_FILE, adapter_tensors(model))
    text = json.dumps(adapter_config(model), indent=2, sort_keys=True)
    _write(folder / ADAPTER_CONFIG, text.encode())


def save(
    attempt_dir: Path,
    write: Callable[[Path], None],
    state: Mapping[str, Any],
    *,
    best_dir: Path | None,
    emit: Emit,
) -> Json:
    """Write the checkpoint of `state["step"]` and list it; returns its line of checkpoints.jsonl.

    `write` fills the given folder with adapter, optimizer and generators, each file flushed.
    Raises TrainerError (`disk_full`), with the earlier checkpoints intact, where space runs out.
    """
    began = time.monotonic()
    step = int(state["step"])
    target = attempt_dir / FOLDER / name_of(step)
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    with disk_room(f"save the checkpoint of step {step}", temporary):
        temporary.mkdir(parents=True)
        write(temporary)
        whole = {"format": FORMAT, **state, "python_random": random.getstate()}
        _write(temporary / "state.json", json.dumps(whole).encode())
        if best_dir is not None:
            copy_adapter(best_dir, temporary / "best")
        digest = _write_manifest(temporary)
        _sync_folder(temporary)
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
        _sync_folder(target.parent)
        line = {
            "step": step,
            "path": f"{FOLDER}/{target.name}",
            "validation_loss": None,
            "sha256": digest,
            "save_s": round(time.monotonic() - began, 3),
            "at": now_iso(),
        }
        emit.line("checkpoints.jsonl", line, sync=True)
    return line


def read(folder: Path, *, training: str) -> Json:
    """The state that was saved; Python's own generator is put back as it was.

    The folder must be one in which `damage` finds none. Raises ChangedSinceRelease where it belongs
    to other settings than `training`, their digest.
    """
    state: Json = json.loads((folder / "state.json").read_text())
    if state["training"] != training:
        raise ChangedSinceRelease(
            f"{folder} was saved by a run with other settings, data or base",
            hint="start a new attempt, or restore the settings that it was made with",
        )
    version, internal, gauss = state.pop("python_random")
    random.setstate((version, tuple(internal), gauss))
    return state


def write_stepper(stepper: Stepper, folder: Path) -> None:
    """Write a stepper's adapter, optimizer and torch's generators."""
    write_adapter(stepper.base.model, folder)
    _write_tensors(folder / "optimizer.safetensors", _optimizer_tensors(stepper))
    _write_tensors(folder / "random.safetensors", _random_tensors())


def restore_stepper(stepper: Stepper, folder: Path) -> None:
    """Put model, optimizer and torch's generators back."""
    import torch
    from safetensors.torch import load_file

    set_adapter(stepper.base.model, load_file(folder / ADAPTER_FILE))
    moments = load_file(folder / "optimizer.safetensors")
    for name, weight in stepper.weights.items():
        stepper.optimizer.state[weight] = {
            part: moments[f"{part}/{name}"].to(weight.device)
            for part in ("step", "exp_avg", "exp_avg_sq")
        }
    generators = load_file(folder / "random.safetensors")
    torch.set_rng_state(generators["cpu"])
    if "cuda" in generators and torch.cuda.is_available():
        torch.cuda.set_rng_state(generators["cuda"])


def damage(folder: Path) -> str | None:
    """What of a checkpoint is not as it was saved; None where every file is."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        for name, digest in manifest.items():
            if _sha256(folder / name) != digest:
                return f"{folder / name} is not the file that was saved"
    except (OSError, ValueError, AttributeError) as error:
        return f"{folder} cannot be read: {error}"
    return None


def up_to(newest: Path) -> list[Path]:
    """The checkpoint `newest` and those before it, newest first."""
    found = sorted(newest.parent.glob("step-*"), reverse=True)
    return [folder for folder in found if folder.name <= newest.name]


def prune(attempt_dir: Path, *, step: int, best: int | None) -> None:
    """Keep the checkpoints of `step`, the one before it, and the best; delete all others.

    The one before it stands in where a disk has spoilt the newest.
    """
    folders = sorted((attempt_dir / FOLDER).iterdir())
    names = [folder.name for folder in folders if "step" <= folder.name <= name_of(step)]
    kept = {*names[-2:], name_of(best) if best is not None else None}
    for folder in folders:
        if folder.name not in kept:
            shutil.rmtree(folder)


def most_bytes(model: Any) -> int:
    """Bytes that checkpoints and adapter take at most: weights, two moments and the best each."""
    weights = sum(
        weight.numel() * weight.element_size()
        for weight in model.parameters()
        if weight.requires_grad
    )
    return int((KEPT * 4 + 1) * weights)


def copy_adapter(source: Path, target: Path) -> None:
    """Copy the two files of an adapter; they get the present time."""
    target.mkdir(parents=True, exist_ok=True)
    for name in (ADAPTER_FILE, ADAPTER_CONFIG):
        _write(target / name, (source / name).read_bytes())


def place_adapter(source: Path, target: Path) -> Json:
    """Make `target` the adapter of `source`; returns its path, digest, size and time."""
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    with disk_room("write the adapter", temporary):
        copy_adapter(source, temporary)
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
    stat = (target / ADAPTER_FILE).stat()
    return {
        "path": target.name,
        "sha256": _sha256(target / ADAPTER_FILE),
        "bytes": stat.st_size,
        "mtime": stat.st_mtime,
    }


def folder_bytes(folder: Path) -> int:
    """Size of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@contextmanager
def disk_room(doing: str, temporary: Path) -> Iterator[None]:
    """Turn a full disk into its own error, after removing what was half written."""
    try:
        yield
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if error.errno not in NO_SPACE:
            raise
        raise TrainerError(
            f"{doing}: {error.strerror}; the checkpoints before it are complete",
            kind="disk_full",
            hint="make room, then run the same command again: it goes on from the last checkpoint",
        ) from error


def _optimizer_tensors(stepper: Stepper) -> dict[str, Tensor]:
    return {
        f"{part}/{name}": value.contiguous()
        for name, weight in stepper.weights.items()
        for part, value in stepper.optimizer.state[weight].items()
    }


def _random_tensors() -> dict[str, Tensor]:
    import torch

    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _write_manifest(folder: Path) -> str:
    """List the SHA-256 of every file; returns that of the list."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    manifest = {path.relative_to(folder).as_posix(): _sha256(path) for path in files}
    data = json.dumps(manifest, indent=1).encode()
    _write(folder / "manifest.json", data)
    return hashlib.sha256(data).hexdigest()


def _write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Through bytes in memory: a full disk then is an OSError, and the file can be flushed."""
    from safetensors.torch import save as to_bytes

    _write(path, to_bytes(tensors, metadata={"format": "pt"}))


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
