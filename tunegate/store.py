"""The only writer of run folders: atomic JSON files, appended JSONL, digests, history, the lock.

A stage's file is `{"format", "made", "read", "digest", ...payload}`. `read` holds the digests of
what the stage read and `digest` is taken over the payload and `read`, so that whether a file is
stale is computed and never stored. `made` (who, when, which version, which commit) is outside the
digest: doing the same thing again gives the same file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tunegate.errors import PlatformError, RunBusy, UsageError, boundary

FORMAT = 1
"""Format of every file in a run folder. A reader refuses a newer one and says so."""

_ENVELOPE = ("format", "made", "digest")


def canonical(value: Any) -> bytes:
    """Canonical JSON of `value` (RFC 8785): what every digest is taken over."""
    import rfc8785

    return rfc8785.dumps(value)


def digest_of(value: Any) -> str:
    """SHA-256 of the canonical JSON of `value`, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def write_atomic(path: Path, text: str) -> None:
    """Write by temporary name, flush to disk, rename: a reader sees the old file or the new one."""
    with boundary(
        PlatformError, f"write {path.name}", hint="free some space, or fix the folder's rights"
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("w", encoding="utf-8") as handle:
                handle.write(text)
                handle.flush()
                os.fsync(handle.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


class Store:
    """One run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """The path of a file of this run; a name that leads outside the folder is refused."""
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise UsageError(f"{name} lies outside the run folder")
        return path

    def exists(self, name: str) -> bool:
        return self.path(name).is_file()

    def read(self, name: str) -> dict[str, Any]:
        """The payload of a stage's file, its envelope included.

        The digest is taken again, so that a file edited by hand is never taken for evidence.
        Raises: UsageError where it is missing, unreadable, edited (`file_edited`) or of a newer
        format.
        """
        path = self.path(name)
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as exc:
            raise UsageError(f"{name} is missing", kind="file_missing", where=str(path)) from exc
        except (ValueError, OSError) as exc:
            raise UsageError(
                f"{name} cannot be read: {exc}",
                kind="file_edited",
                where=str(path),
                hint="delete it and run its stage again",
            ) from exc
        if not isinstance(raw, dict) or raw.get("format") != FORMAT:
            found = raw.get("format") if isinstance(raw, dict) else type(raw).__name__
            raise UsageError(
                f"{name} has format {found}; this version reads format {FORMAT}",
                where=str(path),
                hint="use the version of tunegate that wrote it, named in its `made`",
            )
        body = {key: value for key, value in raw.items() if key not in _ENVELOPE}
        if raw.get("digest") != digest_of(body) or not isinstance(raw.get("read"), dict):
            raise UsageError(
                f"{name} was changed after its stage wrote it",
                kind="file_edited",
                where=str(path),
                hint="delete it and run its stage again",
            )
        return raw

    def digest(self, name: str) -> str | None:
        """Digest of a stage's file, or of one section of frozen.json as `frozen.json#training`.

        None where the file or the section is missing.
        """
        file, _, section = name.partition("#")
        if not self.exists(file):
            return None
        try:
            content = self.read(file)
        except UsageError:
            return None
        found = content["digests"].get(section) if section else content["digest"]
        return str(found) if found is not None else None

    def write(
        self,
        name: str,
        payload: Mapping[str, Any],
        *,
        read: Sequence[str] = (),
        made: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Write a stage's file with its envelope; what stood there before goes to `history/`.

        `read` names the files (or sections) that the stage read; each must exist.
        A file whose digest does not change is left as it is, so nothing downstream goes stale.
        """
        digests = {source: self.digest(source) for source in read}
        body = {**payload, "read": digests}
        digest = digest_of(body)
        if self.exists(name):
            try:
                old = self.read(name)
            except UsageError as exc:
                if exc.kind != "file_edited":  # a newer format is never written over
                    raise
                self._to_history(name, f"edited-{digest[:5]}")
            else:
                if old["digest"] == digest:
                    return old
                self._to_history(name, old["digest"])
        content = {"format": FORMAT, "made": dict(made), "digest": digest, **body}
        write_atomic(self.path(name), json.dumps(content, ensure_ascii=False, indent=1) + "\n")
        return content

    def write_text(self, name: str, text: str) -> Path:
        """Write a rendered file (a page, Markdown) that no stage reads back."""
        path = self.path(name)
        write_atomic(path, text)
        return path

    def _to_history(self, name: str, digest: str) -> None:
        target = self.path(f"history/{digest[:12]}/{name}")
        with boundary(PlatformError, f"keep the old {name}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.path(name), target)

    def retire(self, name: str, digest: str) -> None:
        """Move a file or folder that is no longer current to `history/<digest>/`."""
        source = self.path(name)
        if not source.exists():
            return
        target = self.path(f"history/{digest[:12]}/{name}")
        with boundary(PlatformError, f"keep the old {name}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir():
                shutil.rmtree(target)
            source.replace(target)

    def read_jsonl(self, name: str) -> list[dict[str, Any]]:
        """Rows of an appended file; a torn last line, left by a kill, is not a row."""
        path = self.path(name)
        if not path.is_file():
            return []
        rows = []
        for line in path.read_bytes().split(b"\n")[:-1]:
            with contextlib.suppress(json.JSONDecodeError, UnicodeDecodeError):
                rows.append(json.loads(line))
        return rows

    def append_jsonl(self, name: str, row: Mapping[str, Any]) -> None:
        """Append one row and flush it to disk."""
        path = self.path(name)
        with boundary(PlatformError, f"append to {name}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as handle:
                handle.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
                handle.flush()
                os.fsync(handle.fileno())

    def attempts(self) -> list[int]:
        """Numbers of the training attempts, oldest first."""
        folder = self.path("attempts")
        if not folder.is_dir():
            return []
        return sorted(int(p.name) for p in folder.iterdir() if p.is_dir() and p.name.isdigit())

    @contextlib.contextmanager
    def lock(self, verb: str, *, name: str = ".lock") -> Iterator[None]:
        """Hold the run; the kernel frees it when the process dies, however it dies.

        Raises: RunBusy naming the holder.
        """
        import fcntl

        with boundary(
            PlatformError, "lock the run", hint="choose a folder that this user can write"
        ):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = self.path(name).open("a+", encoding="utf-8")
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as exc:
                handle.seek(0)
                holder = handle.read().strip() or "another process"
                raise RunBusy(
                    f"the run is busy: {holder}",
                    where=str(self.folder),
                    hint="wait, or tunegate status",
                ) from exc
            with contextlib.suppress(OSError):  # on a full disk the run is held all the same
                handle.seek(0)
                handle.truncate()
                handle.write(f"{verb}, process {os.getpid()}\n")
                handle.flush()
            yield
