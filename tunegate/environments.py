"""Frameworks' own Python environments: made on first use from a lock with hashes, checked later.

    <cache>/environments/trl-0123456789ab/
      bin/python, lib/...  the environment; nothing of Tunegate is in it
      files.json           SHA-256, size and time of every file, as it was made
      installed.json       what came: versions, Python, torch, the lock; written last

The name holds the digest of lock, Python and torch, so another lock is another folder. Without
`installed.json` a folder is half made and is made anew. torch is not fetched: the running Python's
own build fits the machine, so its files are linked over, each held against the hash that torch
recorded.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from tunegate.drive import Progress, Show, no_show
from tunegate.errors import ChangedSinceRelease, PlatformError, UsageError, boundary
from tunegate.installers import install
from tunegate.store import digest_of, sha256_file, write_atomic
from tunegate.torch_files import linked_versions, place
from tunegate.types import Json

FOLDER = "environments"
INSTALLED = "installed.json"
FILES = "files.json"


@dataclass(frozen=True)
class Lock:
    """The exact versions of one framework's environment."""

    framework: str
    text: str
    sha256: str
    packages: dict[str, str]
    """Version of each package, by normal name; torch is not among them."""


def _lock_file(framework: str) -> Traversable:
    return resources.files("tunegate.frameworks").joinpath("locks", f"{framework}.txt")


def has_lock(framework: str) -> bool:
    """Whether the framework has an environment of its own."""
    return _lock_file(framework).is_file()


def lock_of(framework: str) -> Lock:
    """The lock that ships with the framework. Raises UsageError where it has none."""
    file = _lock_file(framework)
    if not file.is_file():
        raise UsageError(f"no environment is known by the name {framework!r}", kind="unknown_name")
    text = file.read_text(encoding="utf-8")
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, flags=re.MULTILINE)
    packages = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins}
    return Lock(framework, text, hashlib.sha256(text.encode()).hexdigest(), packages)


def described(framework: str) -> Json:
    """What freezing pins: the lock's digest and every version, torch and Python included.

    Raises UsageError (`extra_missing`) where the running Python has no torch to take over.
    """
    lock = lock_of(framework)
    return {
        "framework": framework,
        "lock": lock.sha256,
        "packages": {**lock.packages, **linked_versions(set(lock.packages))},
        "python": platform.python_version(),
    }


def folder_of(framework: str, *, cache_dir: Path) -> Path:
    """Where the environment lies, or will lie, on this machine."""
    key = digest_of([described(framework), sysconfig.get_platform(), sys.implementation.cache_tag])
    return cache_dir / FOLDER / f"{framework}-{key[:12]}"


def ensure(framework: str, *, cache_dir: Path, show: Show = no_show) -> Path:
    """The environment's Python; the environment is made first where it is not there.

    Raises PlatformError (`environment_failed`) where it cannot be made, ChangedSinceRelease
    (`environment_changed`) where its files are no longer what was installed.
    """
    folder = folder_of(framework, cache_dir=cache_dir)
    with boundary(PlatformError, f"make the environment of {framework}"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder, show):
            if not (folder / INSTALLED).is_file():
                _make(folder, framework, show)
                return _python(folder)
    problem = changed(folder)
    if problem is not None:
        raise ChangedSinceRelease(
            f"the environment of {framework} is not what was installed: {problem}",
            kind="environment_changed",
            hint=f"delete the folder {folder}; the next command makes it anew",
            where=str(folder),
        )
    return _python(folder)


def known(cache_dir: Path) -> list[Json]:
    """Every environment in the cache: {framework, path, complete, made, packages, problem}."""
    found = []
    root = cache_dir / FOLDER
    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        if not folder.is_dir():
            continue
        told = _read(folder / INSTALLED)
        found.append(
            {
                "framework": folder.name.rpartition("-")[0],
                "path": str(folder),
                "complete": told is not None,
                "packages": (told or {}).get("packages", {}),
                "problem": changed(folder) if told else "half made: the next use makes it anew",
            }
        )
    return found


def changed(folder: Path) -> str | None:
    """The first file that differs from what was installed; None where none does.

    A file is read again only where its size or time is another than when it was installed.
    """
    told, listed = _read(folder / INSTALLED), _read(folder / FILES)
    if told is None or listed is None or digest_of(listed) != told["files_sha256"]:
        return f"{FILES} was changed or is gone"
    there = set()
    for path, name in _files(folder):
        there.add(name)
        entry = listed.get(name)
        if entry is None:
            return f"{name} was added"
        stat = path.stat()
        same = [stat.st_size, str(stat.st_mtime_ns)] == entry[1:]
        if not same and sha256_file(path) != entry[0]:
            return f"{name} has another content"
    missing = sorted(set(listed) - there)
    return f"{missing[0]} is gone" if missing else None


def _make(folder: Path, framework: str, show: Show) -> None:
    """Fill the folder; `installed.json` comes last and makes it count."""
    told = described(framework)
    total = len(lock_of(framework).packages) + 2
    show(Progress(f"making the environment of {framework}, once", 0, total, "empty environment"))
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder)],
        check=True, capture_output=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    lock = lock_of(framework)
    requirements = folder / "lock.txt"
    requirements.write_text(lock.text, encoding="utf-8")
    python = _python(folder)

    def watch(done: int, text: str) -> None:
        show(Progress(f"making the environment of {framework}, once", done, total, text))

    install(python, requirements, packages=set(lock.packages), watch=watch)
    watch(total - 1, "torch")
    place(_site_packages(python), locked=set(lock.packages))
    watch(total, "checked")
    listed = {name: _entry(path) for path, name in _files(folder)}
    write_atomic(folder / FILES, json.dumps(listed))
    payload = {"format": 1, **told, "files_sha256": digest_of(listed)}
    write_atomic(folder / INSTALLED, json.dumps(payload, indent=1))


def _entry(path: Path) -> list[str | int]:
    stat = path.stat()
    return [sha256_file(path), stat.st_size, str(stat.st_mtime_ns)]


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every file that a Python of the folder may run, in order; byte code is Python's own."""
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = Path(root, name)
            if path.parent == folder and name in (FILES, INSTALLED):
                continue
            if path.is_file():
                yield path, path.relative_to(folder).as_posix()


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _site_packages(python: Path) -> Path:
    """Where the environment's packages lie, as its own Python says."""
    code = "import sysconfig; print(sysconfig.get_path('platlib'))"
    command: Sequence[str] = [str(python), "-c", code]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return Path(done.stdout.strip())


def _read(path: Path) -> Json | None:
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(path.read_text(encoding="utf-8")))
    return None


@contextlib.contextmanager
def _alone(folder: Path, show: Show) -> Iterator[None]:
    """Hold an operating-system lock, which dies with its process, while the folder is made."""
    import fcntl  # not on native Windows, where training is refused anyway

    with (folder.parent / f".{folder.name}.lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            show(Progress("waiting for another process that makes this environment"))
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
