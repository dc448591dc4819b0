"""An opened run: its run file, its folder, and where each stage stands."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tunegate
from tunegate import approvers, environments, frameworks, stages
from tunegate.decide.advice import advice
from tunegate.drive import Show, no_show
from tunegate.errors import GateClosed, UsageError
from tunegate.spec import read_spec, run_file_and_folder
from tunegate.store import Store
from tunegate.types import Json, Status

if TYPE_CHECKING:
    from tunegate.specmodel import Spec


@dataclass(frozen=True)
class Result:
    """What a verb returns: the same on the command line, in Python and to an agent."""

    verb: str
    run: str | None
    summary: str
    """One line for a person."""
    data: Mapping[str, Any] = field(default_factory=dict)
    next: tuple[str, ...] = ()
    """Commands that are allowed now, best first."""
    text: str | None = None
    """All that a person is shown, where it is meant to be piped on; the JSON names its file."""

    def to_json(self) -> Json:
        return {
            "ok": True,
            "code": 0,
            "verb": self.verb,
            "run": self.run,
            "data": {"summary": self.summary, **self.data},
            "next": list(self.next),
            "error": None,
        }


def now() -> datetime:
    """The time in UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


def cache_dir() -> Path:
    """Where unpacked base models and worker archives are kept between runs."""
    chosen = os.environ.get("TUNEGATE_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or home_dir() / ".cache") / "tunegate"


def home_dir() -> Path:
    """The user's home folder. Raises UsageError where the system knows of none."""
    try:
        return Path.home()
    except RuntimeError as exc:
        raise UsageError(
            "this user has no home folder",
            hint="set HOME, or TUNEGATE_CACHE and TUNEGATE_HOME to folders that can be written",
        ) from exc


def show_path(path: Path) -> str:
    """A path as a person would type it from here."""
    with contextlib.suppress(ValueError):
        relative = path.relative_to(Path.cwd())
        return str(relative) if str(relative) != "." else str(path)
    return str(path)


class Run:
    """One run, opened by a verb. Reading it writes nothing."""

    def __init__(self, run: str | Path, *, show: Show = no_show) -> None:
        self.file, self.folder = run_file_and_folder(run)
        self.show = show
        self.store = Store(self.folder)

    @cached_property
    def spec(self) -> Spec:
        return read_spec(self.file)

    @property
    def source_dir(self) -> Path:
        """The folder that paths in the run file are relative to."""
        return self.file.parent

    @property
    def argument(self) -> str:
        """How this run is named on a command line."""
        return shlex.quote(show_path(self.file if self.file.name != "run.yaml" else self.folder))

    @cached_property
    def frozen(self) -> Json:
        """frozen.json. Raises UsageError where the run was never frozen."""
        return self.store.read("frozen.json")

    @cached_property
    def person_dir(self) -> Path:
        return approvers.person_dir(os.environ)

    def made(self, by: str) -> Json:
        """The envelope's `made`: who wrote a file, when, from which code."""
        return {"by": by, "at": now().isoformat(), "version": tunegate.__version__, **self.code}

    @cached_property
    def code(self) -> Json:
        """Commit of the project that holds the run file, and whether it has uncommitted changes."""
        try:
            commit = self._git("rev-parse", "HEAD")
            dirty = bool(self._git("status", "--porcelain", "--untracked-files=no"))
        except (OSError, subprocess.SubprocessError):
            return {"commit": None, "dirty": None}
        return {"commit": commit, "dirty": dirty}

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.source_dir), *arguments],
            capture_output=True, text=True, timeout=20, check=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return done.stdout.strip()

    @property
    def python(self) -> str:
        """The Python that evaluates, and that trains where the framework has none of its own."""
        return sys.executable

    @property
    def environment(self) -> str | None:
        """Name of the framework's own environment; None where it runs in this Python."""
        return frameworks.environment(self.spec.train.framework)

    @cached_property
    def trainer_python(self) -> str:
        """The framework's Python; its environment is made first where that is needed."""
        name = self.environment
        if name is None:
            return self.python
        return str(environments.ensure(name, cache_dir=cache_dir(), show=self.show))

    def reset(self) -> None:
        """Forget what was read, after frozen.json was written."""
        self.__dict__.pop("frozen", None)

    def current(self) -> dict[str, str | None]:
        """Digest now of every name that a stage may read."""
        names = {name for stage in stages.STAGES for name in stage.reads}
        return {name: self.store.digest(name) for name in names}

    def states(self) -> dict[str, stages.State]:
        """Where each stage stands, by the files in the folder."""
        return stages.states({s.name: self._seen(s) for s in stages.STAGES}, self.current())

    def _seen(self, stage: stages.Stage) -> stages.Seen:
        if not self.store.exists(stage.writes):
            return stages.Seen(partly=self._is_partly(stage.name))
        try:
            content = self.store.read(stage.writes)
        except UsageError:
            return stages.Seen()
        if stage.name == "train" and not self.store.path(content["adapter"]["path"]).is_dir():
            return stages.Seen()
        return stages.Seen(
            digest=content["digest"],
            read=content["read"],
            is_open=is_open(stage.name, content, waived=self.waived()),
        )

    def waived(self) -> Mapping[str, str]:
        """Checks that a person waived in a release that stands in the person's chain."""
        try:
            release = self.store.read("release.json")
        except UsageError:
            return {}
        known = {line.get("nonce") for line in approvers.chain(self.person_dir)}
        found: Mapping[str, str] = release["waived"] if release["nonce"] in known else {}
        return found if release["decision"] == "release" else {}

    def require(self, *names: str) -> None:
        """Raise GateClosed where one of these stages is not done for the inputs of now."""
        found = self.states()
        for stage in stages.STAGES:
            state = found[stage.name]
            if stage.name in names and state is not stages.State.DONE:
                kind = {
                    stages.State.STALE: "check_stale",
                    stages.State.CLOSED: "check_failed",
                }.get(state, "check_missing")
                raise GateClosed(
                    f"{stage.name} is {state}",
                    kind=kind,
                    hint=f"tunegate go {self.argument} runs what is missing, in order",
                )

    def _is_partly(self, name: str) -> bool:
        if name == "train":
            return bool(self.store.attempts())
        if name in ("baseline", "eval"):
            return self.store.path("eval").is_dir() and any(self.store.path("eval").iterdir())
        return False

    def next(self) -> tuple[str, ...]:
        """Commands that are allowed now."""
        return tuple(stages.next_commands(self.states(), self.argument))


def recommended(run: Run) -> Json:
    """{"recommended": what a person does next}, once the run is complete and decided; else {}."""
    if stages.next_stage(run.states()) is not None:
        return {}
    trained = run.store.path(run.store.read("trained.json")["adapter"]["path"])
    decision = run.store.read("decision.json")
    text = advice(decision, run=run.argument, adapter=show_path(trained))
    return {"recommended": text}


def is_open(stage: str, content: Mapping[str, Any], *, waived: Mapping[str, str]) -> bool:
    """Whether a stage's file lets the run go on: its own verdict, or a person's waiver."""
    if stage in ("research", "quote") and stage in waived:
        return True
    if stage == "research":
        return bool(content["verdict"] == Status.PASS)
    if stage in ("check", "wire"):
        verdicts = content.get("verdicts", {}).items()  # a wire test of an earlier form has none
        passed = [v["status"] == Status.PASS or name in waived for name, v in verdicts]
        return bool(passed) and all(passed)
    if stage == "release":
        return bool(content["decision"] == "release")
    return True
