"""The trainers that Tunegate drives: one file each, found by its name.

To add a framework, add a file with the names of `Framework`. A third party offers one as an entry
point of the group `tunegate.frameworks`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol, cast

from tunegate.errors import PluginError
from tunegate.types import Answer, Example, Json

if TYPE_CHECKING:
    from tunegate.worker.emit import Emit

ENTRY_POINTS = "tunegate.frameworks"
PARTS = ("PROVED", "SEMANTICS", "render", "batches", "train")


class Framework(Protocol):
    """What a file in this folder offers.

    It may have three more names. `ENVIRONMENT`: the lock in `locks/` from which an environment of
    its own is made. `DRIVEN`: the answers that hold under Tunegate, which writes what `SEMANTICS`
    leaves open. `learner`: its trainer for the wire test, see `worker.wire.Learner`.
    """

    PROVED: str
    """`live`, `counterpart`, `contract` or `unverified`: how it was shown to work."""
    SEMANTICS: Mapping[str, Answer]
    """An answer to each question of `semantics/`; what is not answered is unknown."""

    def render(self, frozen: Json) -> Json:
        """The framework's own settings for a frozen run, its defaults filled in."""
        ...

    def batches(self, job: Json) -> Iterator[list[Example]]:
        """Every training row once, dropped ones too, as the trainer is fed it."""
        ...

    def train(self, job: Json, emit: Emit) -> None:
        """Train and leave metrics, checkpoints, adapter and receipt in the attempt's folder."""
        ...


def environment(name: str) -> str | None:
    """Name of the environment that the framework runs in; None where it is the running Python."""
    found: str | None = getattr(load(name), "ENVIRONMENT", None)
    return found


def names() -> list[str]:
    """The shipped frameworks."""
    return sorted(item.name for item in pkgutil.iter_modules(__path__) if item.name[0] != "_")


def load(name: str) -> Framework:
    """The framework of that name. Raises PluginError, which lists the known ones."""
    shipped = names()
    if name in shipped:
        return cast("Framework", import_module(f"{__name__}.{name}"))
    outside = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if name not in outside:
        known = sorted({*shipped, *outside})
        near = get_close_matches(name, known, n=1)
        raise PluginError(
            f"no framework is called {name!r}; there are {', '.join(known)}",
            hint=f"did you mean {near[0]}?" if near else f"train: {{framework: {known[0]}}}",
        )
    found = outside[name].load()
    if missing := [part for part in PARTS if not hasattr(found, part)]:
        raise PluginError(
            f"the framework {name} of {outside[name].value} lacks {', '.join(missing)}",
            hint="tunegate/frameworks/__init__.py says what a framework offers",
        )
    return cast("Framework", found)
