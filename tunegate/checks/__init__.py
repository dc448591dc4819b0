"""Gate 2: one check a file, found by its name.

A check is two functions. `observe` looks at data, tokenizer or the framework's batches and returns
what it saw; `judge` turns that observation into a verdict and touches nothing else, so a verdict
can be given again from stored evidence. An observation holds counts, the first 20 rows that are
wrong and at most three samples, whatever the size of the file.

Checks that look at the framework's batches also have `watch`, so that one pass over the batches
serves all of them: `observe_all` does that. A check that looks at no batches may say
`APART = True`: from a few thousand rows on it runs in a second process beside that pass.

To add a check, add a file with the names of `Check`. A third party offers one as an entry point of
the group `tunegate.checks`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from tunegate.errors import PluginError, UsageError
from tunegate.types import Example, Json, Verdict
from tunegate.worker.template import Template, serving_template, training_template
from tunegate.worker.tokens import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    from tunegate.checks._pass import Watcher
    from tunegate.worker.rehearse import Rehearsal

ENTRY_POINTS = "tunegate.checks"

MAX_FINDINGS = 20
"""Rows that an observation and a verdict name, at most."""

MAX_SAMPLES = 3

Told = Callable[[int | None, str], None]
"""Is told how many training rows have been looked at, or that none are counted, and by what."""


def untold(_: int | None, __: str) -> None:
    """For callers that show nothing."""


class Batches(Protocol):
    """The part of a framework that checks use."""

    def batches(self, job: Json) -> Iterator[list[Example]]:
        """Every training row once, dropped ones too, as the trainer is fed it."""
        ...


class Check(Protocol):
    """What a file in this folder offers. Its docstring says what a pass proves and what not."""

    WHERE: str
    """`host`: needs data and tokenizer only, and runs in `check`. `machine`: needs what the trainer
    needs, and runs in the wire test, on a rehearsal of the run."""
    ORDER: int
    """Place in the list of checks; low is early."""

    def observe(self, inputs: CheckInputs) -> Json: ...

    def judge(self, observation: Json, frozen: Json) -> Verdict: ...


class BatchCheck(Check, Protocol):
    """A check that looks at the framework's batches and can share the pass over them."""

    def watch(self, inputs: CheckInputs) -> Watcher: ...


@dataclass(frozen=True)
class CheckInputs:
    """What a check may look at."""

    frozen: Json
    """The payload of frozen.json."""
    framework: Batches
    """The framework's module, whose own batches are looked at."""
    job: Json
    """The job that training would get."""
    rehearsal: Rehearsal | None = None
    """What checks of the machine look at; made by the wire test."""
    wire: Json | None = None
    """What the wire test measured on the real base."""

    @property
    def rehearsed(self) -> Rehearsal:
        """The rehearsal. Raises UsageError for whoever calls a machine's check without one."""
        if self.rehearsal is None:
            raise UsageError(
                "this check looks at a rehearsal, which the wire test makes",
                hint="tunegate wire RUN",
            )
        return self.rehearsal

    @property
    def measured(self) -> Json:
        """What the wire test measured. Raises UsageError where there was none."""
        if self.wire is None:
            raise UsageError(
                "this check looks at a rehearsal, which the wire test makes",
                hint="tunegate wire RUN",
            )
        return self.wire

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return load_tokenizer(Path(self.frozen["base"]["dir"]))

    @cached_property
    def serving_template(self) -> Template:
        """The template that evaluation and serving render with."""
        return serving_template(self.frozen, special_tokens=self.tokenizer.special_tokens)

    @cached_property
    def training_template(self) -> Template:
        """The template that training renders with: the serving one unless the run names another."""
        return training_template(self.frozen, special_tokens=self.tokenizer.special_tokens)

    @property
    def system(self) -> str | None:
        """The frozen serving prompt."""
        text: str | None = self.frozen["prompt"]["system"]
        return text

    def path(self, split: str) -> Path:
        """Where the rows of a split lie."""
        folder: str = self.job.get("data_dir") or self.frozen["folder"]
        name: str = self.frozen["data"][split]["path"]
        return Path(folder) / name


def names(where: str | None = None) -> list[str]:
    """The shipped checks, in the order in which they are run and shown; of one place, or all."""
    found = [item.name for item in pkgutil.iter_modules(__path__) if not item.name.startswith("_")]
    chosen = [name for name in found if where is None or where == load(name).WHERE]
    return sorted(chosen, key=lambda name: (load(name).ORDER, name))


def load(name: str) -> Check:
    """The check of that name. Raises PluginError, which lists the known ones."""
    shipped = {item.name for item in pkgutil.iter_modules(__path__) if item.name[0] != "_"}
    if name in shipped:
        return cast("Check", import_module(f"{__name__}.{name}"))
    outside = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if name not in outside:
        known = sorted(shipped | set(outside))
        near = get_close_matches(name, known, n=1)
        raise PluginError(
            f"no check is called {name!r}; there are {', '.join(known)}",
            hint=f"did you mean {near[0]}?" if near else None,
        )
    found = outside[name].load()
    missing = [part for part in ("WHERE", "ORDER", "observe", "judge") if not hasattr(found, part)]
    if missing:
        raise PluginError(
            f"the check {name} of {outside[name].value} lacks {', '.join(missing)}",
            hint="tunegate/checks/__init__.py says what a check offers",
        )
    return cast("Check", found)


def observe_all(
    inputs: CheckInputs, *, names: Iterable[str], told: Told = untold
) -> dict[str, Json]:
    """The observation of each named check; those that watch the batches share one pass.

    Where the rows are many, checks that are marked as `APART` run beside it in another process.
    """
    from tunegate.checks._apart import Apart, worth_it
    from tunegate.checks._pass import watch_batches

    modules = {name: load(name) for name in names}
    watching = [name for name, module in modules.items() if hasattr(module, "watch")]
    beside = [name for name, module in modules.items() if getattr(module, "APART", False)]
    with ExitStack() as stack:
        apart = None
        if watching and beside and worth_it(inputs):  # before the threads of a tokenizer
            apart = stack.enter_context(Apart(inputs, names=beside))
        watchers = {name: cast("BatchCheck", modules[name]).watch(inputs) for name in watching}
        out = watch_batches(inputs, watchers, told=told) if watchers else {}
        if apart is not None:
            told(None, ", ".join(beside))
            out |= apart.result()
    for name, module in modules.items():
        if name not in out:
            told(None, name)
            out[name] = module.observe(inputs)
    return {name: out[name] for name in modules}
