"""Places to run. One file a platform, found by its name.

A *host* is a machine on which Tunegate starts a process and watches it. The contract is small on
purpose: what a platform can do is what its functions do.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from tunegate.errors import PluginError
from tunegate.types import Offer


@dataclass(frozen=True)
class JobState:
    """What is known of a started job."""

    running: bool
    exit_code: int | None
    """Set once the job ended and said so; None while it runs, or where it vanished."""


class Host(Protocol):
    """A machine that runs our job."""

    PROVED: str
    """live, counterpart, contract or unverified: how this platform was proved."""

    @staticmethod
    def offer(*, at: str, folder: Path) -> Offer:
        """What this platform offers and what it costs an hour. `at` is the time now, ISO."""

    @staticmethod
    def launch(job_dir: Path, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start `command` detached, output to `job_dir/log`, stdin closed; returns at once."""

    @staticmethod
    def poll(job_dir: Path) -> JobState:
        """State of the job that was started in `job_dir`, by this process or another."""

    @staticmethod
    def memory_gib(job_dir: Path) -> float | None:
        """Memory that the job's processes hold now; None where that cannot be told."""

    @staticmethod
    def stop(job_dir: Path, *, grace_s: float) -> None:
        """End the job's whole process group: first politely, after `grace_s` by force."""


def names() -> list[str]:
    """Names of the platforms that ship with Tunegate."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> Host:
    """The platform called `name`. Raises PluginError listing the known ones."""
    if name not in names():
        raise PluginError(
            f"no platform is called {name!r}",
            kind="unknown_name",
            hint="write one of: platform: " + ", ".join(names()),
        )
    return cast(Host, importlib.import_module(f"{__name__}.{name}"))
