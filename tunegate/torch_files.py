"""torch in a framework's environment: the running Python's own build, linked file by file.

A build of torch fits one machine: its processor, its GPU, its driver. The one that runs here does,
so it is taken over, with the packages that only it needs (the CUDA libraries); nothing is fetched.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
from importlib import metadata
from pathlib import Path

from tunegate.errors import PlatformError, UsageError


def linked_versions(locked: set[str]) -> dict[str, str]:
    """Version of torch and of each package that it needs and the lock does not hold.

    Raises UsageError (`extra_missing`) where one of them is not installed here.
    """
    return {name: found.version for name, found in _needed(locked).items()}


def place(target: Path, *, locked: set[str]) -> None:
    """Link torch's files, and those of what it needs, into the folder of packages `target`.

    Raises PlatformError (`environment_failed`) where a file is not the one that was installed.
    """
    for name, found in _needed(locked).items():
        files = found.files
        if not files:
            raise PlatformError(
                f"{name} {found.version} does not list its files, so it cannot be taken over",
                kind="environment_failed",
                hint=f"install it with pip: pip install --force-reinstall {name}=={found.version}",
            )
        for file in files:
            if file.parts[0] == ".." or "__pycache__" in file.parts:
                continue  # scripts and byte code
            source = Path(str(found.locate_file(file)))
            if file.hash is not None and _digest(source, file.hash.mode) != file.hash.value:
                raise PlatformError(
                    f"{source} is not the file that {name} {found.version} installed",
                    kind="environment_failed",
                    hint=f"pip install --force-reinstall --no-deps {name}=={found.version}",
                )
            _link(source, target / file)


def _needed(locked: set[str]) -> dict[str, metadata.Distribution]:
    """Torch and, of what it needs, all that the lock does not hold, by normal name."""
    from packaging.requirements import Requirement

    found: dict[str, metadata.Distribution] = {}
    open_names = ["torch"]
    while open_names:
        name = open_names.pop()
        if name in found or name in locked:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            raise UsageError(
                f"{name} is not installed beside Tunegate, and a framework's environment takes "
                "it over from there",
                kind="extra_missing",
                hint="pip install torch==2.13.0 && pip install 'tunegate[train]'",
            ) from None
        for text in found[name].requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                open_names.append(re.sub(r"[-_.]+", "-", needed.name).lower())
    return dict(sorted(found.items()))


def _digest(path: Path, kind: str) -> str:
    """As a package's RECORD writes it: base64 without padding."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, kind).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another disk, or a file system without links
        shutil.copy2(source, target)
