"""SHA-256 of base model files, remembered by size and times so that big files are read once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tunegate.errors import UsageError, boundary

CHUNK_BYTES = 1 << 22


def of_files(
    where: Path, names: Sequence[str], cache_dir: Path, progress: Callable[[str, float], None]
) -> dict[str, str]:
    """SHA-256 of each of `names` in the folder `where`.

    A file whose size, modification time and status-change time are as they were when it was last
    hashed is not read again: the status-change time cannot be set back by copying tools or `touch`.
    """
    memory = _memory(where, cache_dir)
    known = _load(memory)
    found: dict[str, dict[str, Any]] = {}
    with boundary(UsageError, f"reading the base model in {where}"):
        stamps = {name: _stamp(where / name) for name in names}
        stale = [name for name in names if known.get(name, {}).get("stamp") != stamps[name]]
        total = sum(stamps[name][0] for name in stale) or 1
        done = 0
        for name in names:
            if name not in stale:
                found[name] = known[name]
                continue
            found[name] = {"stamp": stamps[name], "sha256": of_file(where / name)}
            done += stamps[name][0]
            progress("hashing the base model", done / total)
    if stale:
        _save(memory, found)
    return {name: str(entry["sha256"]) for name, entry in found.items()}


def remember(where: Path, files: dict[str, str], cache_dir: Path) -> None:
    """Store hashes of files in the folder `where` that were just computed by other means."""
    _save(
        _memory(where, cache_dir),
        {name: {"stamp": _stamp(where / name), "sha256": sha} for name, sha in files.items()},
    )


def of_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def of_content(files: dict[str, str]) -> str:
    """One digest for a folder: over its file names and their hashes, in canonical JSON."""
    text = json.dumps(files, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + _sha256(text.encode())


def _memory(where: Path, cache_dir: Path) -> Path:
    return cache_dir / "hashes" / f"{_sha256(str(where).encode())[:32]}.json"


def _stamp(path: Path) -> list[int]:
    """Size in bytes, modification and status-change time in nanoseconds, following links."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _load(memory: Path) -> dict[str, dict[str, Any]]:
    """What is remembered; nothing when the memory is absent, torn or of another shape."""
    try:
        raw = json.loads(memory.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(raw, dict) or raw.get("format") != 1:
        return {}
    return {
        name: entry
        for name, entry in raw["files"].items()
        if isinstance(entry, dict) and {"stamp", "sha256"} <= entry.keys()
    }


def _save(memory: Path, files: dict[str, dict[str, Any]]) -> None:
    # The memory only saves time: a cache that cannot be written must not stop a run.
    with contextlib.suppress(OSError):
        memory.parent.mkdir(parents=True, exist_ok=True)
        temporary = memory.with_name(f".{memory.name}.{os.getpid()}")
        temporary.write_text(json.dumps({"format": 1, "files": files}), encoding="utf-8")
        temporary.replace(memory)
