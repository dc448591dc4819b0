"""The person's side of gate 3: the act on a terminal, and the chain of releases in the person's
own folder.

What each level proves stands in docs/release.md. A level-1 act proves that a terminal was used:
honest agents stop there, and nothing more is claimed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tunegate.errors import PlatformError, UsageError, WaitingForPerson, boundary
from tunegate.types import Json

AGENT_MARKS: tuple[str, ...] = (
    "CLAUDECODE",
    "CLAUDE_CODE_SESSION_ID",
    "AI_AGENT",
    "OPENCODE",
    "CODEX_THREAD_ID",
    "CODEX_TOOL_CALL_ID",
    "CODEX_CI",
)
"""Variables that coding agents leave in their children's environment (Claude Code, opencode, Codex;
read off their processes in November 2026). Present means refuse; absent proves nothing."""


def person_dir(environment: Mapping[str, str]) -> Path:
    """The person's own folder: policy and releases live here, never in a project."""
    chosen = environment.get("TUNEGATE_HOME")
    if chosen:
        return Path(chosen)
    config = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(config) / "tunegate"


def agent_marks(environment: Mapping[str, str]) -> list[str]:
    """Names of the agent marks in an environment."""
    return [name for name in AGENT_MARKS if environment.get(name)]


def chain(folder: Path) -> list[Json]:
    """All lines of the release chain, oldest first. Raises UsageError where the chain is broken."""
    path = folder / "releases.jsonl"
    if not path.is_file():
        return []
    lines, previous = [], ""
    for number, text in enumerate(_lines(path), start=1):
        try:
            line = json.loads(text)
        except json.JSONDecodeError as exc:
            raise UsageError("the release chain is damaged", where=f"{path}:{number}") from exc
        if line.get("previous") != previous:
            raise UsageError(
                "the release chain is broken: this line does not follow the one before",
                where=f"{path}:{number}",
                hint="keep the file as evidence, and start a new chain by moving it away",
            )
        previous = hashlib.sha256(text.encode()).hexdigest()
        lines.append(line)
    return lines


def append(folder: Path, event: Json) -> str:
    """Add an event to the chain, durably. Returns the new head, SHA-256 of the line."""
    import fcntl

    path = folder / "releases.jsonl"
    with boundary(PlatformError, "append to the release chain"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.open("a+b") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            chain(folder)
            handle.seek(0)
            # A line that a kill has torn was never a release.
            handle.truncate(handle.read().rfind(b"\n") + 1)
            text = json.dumps({**event, "previous": head(folder)}, sort_keys=True)
            handle.write(text.encode() + b"\n")
            handle.flush()
            os.fsync(handle.fileno())
    return hashlib.sha256(text.encode()).hexdigest()


def _lines(path: Path) -> list[str]:
    """The whole lines of the chain; what follows the last line end was torn by a kill."""
    return path.read_bytes().decode("utf-8", "replace").split("\n")[:-1]


def head(folder: Path) -> str:
    """SHA-256 of the chain's last line; empty before the first."""
    path = folder / "releases.jsonl"
    if not path.is_file():
        return ""
    lines = _lines(path)
    return hashlib.sha256(lines[-1].encode()).hexdigest() if lines else ""


def ask_person(
    screen: str,
    *,
    ceiling: str,
    digest: str,
    marks: list[str],
    command: str,
    terminal: Callable[[], Path] = lambda: Path("/dev/tty"),
) -> bool:
    """Show the plan on the controlling terminal and let the person type the ceiling and the
    digest's end.

    The terminal is opened by name, so a pipe on stdin answers nothing. Returns False where the
    person typed `refuse`.

    Raises: WaitingForPerson where there is no terminal, an agent's mark is present, or the answer
    was wrong three times.
    """
    if marks:
        raise WaitingForPerson(
            f"a person must release this run, and {', '.join(marks)} shows that an agent works",
            hint=f"a person runs, in a terminal of their own: {command}",
        )
    wanted = (ceiling, digest[-4:])
    try:
        # Two streams: a terminal cannot be opened for update, since it cannot be rewound.
        with (
            terminal().open("w", encoding="utf-8") as out,
            terminal().open(encoding="utf-8") as keys,
        ):
            out.write(screen)
            for _ in range(3):
                out.write(
                    f"\nType the ceiling ({ceiling}) and the last four of the digest, or refuse: "
                )
                out.flush()
                answer = keys.readline().split()
                if answer == ["refuse"]:
                    return False
                if tuple(answer) == wanted:
                    return True
                out.write("That is not what stands above.\n")
    except OSError as exc:
        raise WaitingForPerson(
            "a person must release this run, and there is no terminal to ask on",
            hint=f"a person runs, in a terminal: {command}",
        ) from exc
    raise WaitingForPerson("not released: three wrong answers", hint=f"a person runs: {command}")
