"""uv or pip as a subprocess: put the packages of a lock into an environment, by their hashes.

Where packages come from is the installer's own configuration; no address is given here.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tunegate.errors import PlatformError

Watch = Callable[[int, str], None]
"""Hears how many packages were taken up, and the last one's name."""

TAIL_LINES = 6

_NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|Temporary failure in name resolution|"
    r"Failed to establish|Connection refused|ConnectTimeout|Network is unreachable|"
    r"No matching distribution|No solution found|dns error|client error \(Connect\)|"
    r"ProxyError|Could not find a version",
)
_OTHER_HASH = re.compile(r"DO NOT MATCH THE HASHES|Hash mismatch", re.IGNORECASE)


def install(python: Path, requirements: Path, *, packages: set[str], watch: Watch) -> None:
    """Install exactly the lock, wheels only, by uv where it is there, else by pip.

    Raises PlatformError (`environment_failed`), which tells a missing network from a wrong file.
    """
    said: list[str] = []
    commands = _commands(python, requirements)
    for command in commands:
        code, lines = _run(command, packages, watch)
        if code == 0:
            return
        said += lines
    raise _failure(said, [Path(command[0]).name for command in commands])


def _commands(python: Path, requirements: Path) -> list[list[str]]:
    """Uv first; pip after it, since uv does not read pip's configuration."""
    commands = []
    uv = shutil.which("uv")
    if uv is not None:
        commands.append(
            [uv, "pip", "install", "--python", str(python), "--no-deps", "--require-hashes",
             "--only-binary", ":all:", "-r", str(requirements)]
        )  # fmt: skip
    if importlib.util.find_spec("pip") is not None:
        commands.append(
            [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps",
             "--require-hashes", "--only-binary", ":all:", "--no-input", "--progress-bar", "off",
             "--disable-pip-version-check", "-r", str(requirements)]
        )  # fmt: skip
    if not commands:
        raise PlatformError(
            "neither uv nor pip is there to install a framework's environment",
            kind="environment_failed",
            hint=f"{sys.executable} -m ensurepip",
        )
    return commands


def _run(command: list[str], packages: set[str], watch: Watch) -> tuple[int, list[str]]:
    """Exit code and all lines; each package is told once, when its line comes."""
    seen: set[str] = set()
    lines: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            # pip: "Collecting trl==1.16.0 (from ...)"; uv: " + trl==1.16.0".
            name = line.lower().replace("collecting ", "").strip(" +").partition("==")[0]
            name = re.sub(r"[-_.]+", "-", name)
            if name in packages and name not in seen:
                seen.add(name)
                watch(len(seen), name)
    return process.returncode, lines


def _failure(said: list[str], tools: list[str]) -> PlatformError:
    """One error that says what to do."""
    text = "\n".join(said)
    tail = "\n".join([line for line in said if line and "WARNING" not in line][-TAIL_LINES:])
    if _OTHER_HASH.search(text):
        return PlatformError(
            f"a package is not the one that the lock names by its hash:\n{tail}",
            kind="environment_failed",
            hint="the index serves another file: check which index pip is configured for",
        )
    if _NO_NETWORK.search(text):
        return PlatformError(
            f"the packages of the environment cannot be fetched:\n{tail}",
            kind="environment_failed",
            hint="it needs the network once; see that `pip download trl` works, then run the same "
            "command again",
        )
    return PlatformError(
        f"{' and then '.join(tools)} failed:\n{tail}",
        kind="environment_failed",
        hint="run the same command again; what was fetched is kept by the installer",
    )
