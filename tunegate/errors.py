"""Every error Tunegate raises on purpose, and the boundary that turns foreign errors into them.

    TunegateError                 1   our own fault, or a base that is never raised itself
    ├── UsageError                2   a wrong command line, a missing file, an unknown name
    │   ├── SpecError             2   the run file is wrong; carries every problem at once
    │   ├── DataError             2   a data file is wrong; carries file and line
    │   └── PluginError           2   a plug-in is unknown or breaks its contract
    ├── GateClosed                3   a check failed, was not run, or went stale
    ├── WaitingForPerson          4   a person must act; do not retry
    ├── ChangedSinceRelease       5   something the release binds has changed
    ├── BudgetReached             6   the spend ceiling stopped it
    ├── PlatformError             7   the place where it runs failed
    ├── NothingTrained            8   it finished but did nothing
    ├── EvalError                 9   evaluation is incomplete, or columns are not comparable
    ├── TrainerError             10   the trainer crashed
    ├── KnowledgeError           11   knowledge or text lint failed
    └── RunBusy                  12   another command holds the run

To add an error: pick the class by its exit code, choose a `kind` in snake_case, and add the kind to
`tunegate/kinds.py` with its meaning, exit code and remedy.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, where it stands, and what was expected."""

    message: str
    where: str | None = None
    """Place as `file:line` or `file:line:column`."""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class TunegateError(Exception):
    """An error with a stable kind, an exit code, a next step and a place."""

    exit_code = 1
    default_kind = "internal"

    def __init__(
        self,
        message: str,
        *,
        kind: str | None = None,
        hint: str | None = None,
        where: str | None = None,
        problems: Sequence[Problem] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind or self.default_kind
        self.hint = hint
        self.where = where
        self.problems = tuple(problems)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return place + self.message

    def to_json(self) -> dict[str, object]:
        """The `error` object of the command line's JSON."""
        out: dict[str, object] = {
            "kind": self.kind,
            "message": self.message,
            "hint": self.hint,
            "where": self.where,
        }
        if self.problems:
            out["problems"] = [str(problem) for problem in self.problems[:20]]
        return out


class UsageError(TunegateError):
    """The command or a path it was given is wrong."""

    exit_code = 2
    default_kind = "usage"


class SpecError(UsageError):
    """The run file is wrong."""

    default_kind = "spec_invalid"


class DataError(UsageError):
    """A data file is wrong."""

    default_kind = "data_invalid"


class PluginError(UsageError):
    """A plug-in is unknown or does not keep its contract."""

    default_kind = "unknown_name"


class GateClosed(TunegateError):
    """A gate is not open; `problems` lists what is missing."""

    exit_code = 3
    default_kind = "check_failed"


class WaitingForPerson(TunegateError):
    """Only a person can go on from here. Do not retry."""

    exit_code = 4
    default_kind = "release_needed"


class ChangedSinceRelease(TunegateError):
    """What was released is not what would run now."""

    exit_code = 5
    default_kind = "changed_since_release"


class BudgetReached(TunegateError):
    """A ceiling of money or time was reached."""

    exit_code = 6
    default_kind = "budget_reached"


class PlatformError(TunegateError):
    """The place where the job runs failed."""

    exit_code = 7
    default_kind = "platform_failed"


class NothingTrained(TunegateError):
    """The trainer ended without proof of training."""

    exit_code = 8
    default_kind = "nothing_trained"


class EvalError(TunegateError):
    """Evaluation is incomplete, or its columns cannot be compared."""

    exit_code = 9
    default_kind = "eval_incomplete"


class TrainerError(TunegateError):
    """The trainer crashed."""

    exit_code = 10
    default_kind = "trainer_crashed"


class KnowledgeError(TunegateError):
    """A text or a knowledge entry breaks a rule."""

    exit_code = 11
    default_kind = "knowledge_lint"


class RunBusy(TunegateError):
    """Another command holds the run."""

    exit_code = 12
    default_kind = "run_busy"


EXIT_INTERRUPTED = 130

EXIT_CODES: dict[int, str] = {
    0: "done",
    1: "our own fault",
    2: "usage or run file wrong",
    3: "a gate is closed: a check failed, was not run, went stale, or the release was refused",
    4: "waiting for a person, do not retry",
    5: "changed since the release",
    6: "budget reached, stopped",
    7: "platform or provider failed",
    8: "finished but did nothing",
    9: "evaluation incomplete, or columns not comparable",
    10: "the trainer crashed (out of memory, divergence, its own error)",
    11: "knowledge or text lint failed",
    12: "the run is busy",
    130: "interrupted",
}


_KIND_BY_ERRNO = {
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EFBIG: "disk_full",
    errno.EACCES: "not_writable",
    errno.EPERM: "not_writable",
    errno.EROFS: "not_writable",
}


def of_system(exc: OSError) -> TunegateError | None:
    """What the system refuses, as our error; None where it is no matter of space or rights."""
    kind = _KIND_BY_ERRNO.get(exc.errno or 0)
    if kind is None:
        return None
    hint = "make room" if kind == "disk_full" else "give this user the right, or take another place"
    return PlatformError(
        f"{exc.strerror}: {exc.filename or 'where it writes'}",
        kind=kind,
        hint=f"{hint}, then run the same command again",
    )


@contextmanager
def boundary(error: type[TunegateError], doing: str, *, hint: str | None = None) -> Iterator[None]:
    """Attribute whatever escapes the block to `error`, once, with what was being done.

    Our own errors pass unchanged, so the innermost boundary wins.
    """
    try:
        yield
    except TunegateError:
        raise
    except OSError as exc:
        raise error(f"{doing}: {exc}", kind=_KIND_BY_ERRNO.get(exc.errno or 0), hint=hint) from exc
    except Exception as exc:
        raise error(f"{doing}: {type(exc).__name__}: {exc}", hint=hint) from exc
