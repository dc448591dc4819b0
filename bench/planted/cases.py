"""What a case is, and how the cases of a set are found.

A case is one function that changes the clean project. Its name is the case's id, its docstring says
what is wrong (or only looks so), and a decorator gives the rest.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from bench.planted.project import Project

FAMILIES = (
    "mask", "template", "stop", "truncation", "tokens", "data", "leak", "tools", "config",
    "evaluation", "artefact", "resume", "gradient", "packing",
)  # fmt: skip
STAGES = ("freeze", "research", "check", "wire")

Change = Callable[[Project], None]


@dataclass(frozen=True)
class Case:
    """One project that is broken in one way, or one that only looks broken."""

    id: str
    description: str
    family: str
    is_bug: bool
    stage: str
    """Of a bug: the earliest stage that should refuse it. Of a control: the last that is run."""
    words: tuple[str, ...]
    """Of a bug: in the refusal a word must begin with one of these, whatever its case."""
    freeze_first: tuple[str, ...]
    """Folders of other runs that are frozen before, such as an anchor."""
    change: Change

    def build(self, folder: Path, base: Path, knowing: Path) -> Project:
        """The case's project in `folder`, which must not exist yet."""
        project = Project.make(folder, base=base, knowing=knowing)
        self.change(project)
        project.save()
        return project


def bug(
    family: str, *words: str, stage: str = "check", freeze_first: tuple[str, ...] = ()
) -> Callable[[Change], Case]:
    """Make the function a case that a gate should refuse, naming one of `words`."""
    if not words:
        raise ValueError("a bug needs the words that a refusal has to hold")
    return lambda change: _case(change, family, stage, words, freeze_first, is_bug=True)


def control(
    family: str, *, stage: str = "check", freeze_first: tuple[str, ...] = ()
) -> Callable[[Change], Case]:
    """Make the function a case that every gate should let pass."""
    return lambda change: _case(change, family, stage, (), freeze_first, is_bug=False)


def _case(
    change: Change,
    family: str,
    stage: str,
    words: tuple[str, ...],
    freeze_first: tuple[str, ...],
    *,
    is_bug: bool,
) -> Case:
    if family not in FAMILIES or stage not in STAGES:
        raise ValueError(f"{change.__name__}: no family {family!r} or stage {stage!r}")
    text = " ".join((change.__doc__ or "").split())
    return Case(change.__name__, text, family, is_bug, stage, words, freeze_first, change)


def load(name: str) -> list[Case]:
    """All cases of a set, bugs first, by family and in the order of their files."""
    package = import_module(f"bench.planted.{name}")
    found: list[Case] = []
    for item in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
        module = import_module(f"{package.__name__}.{item.name}")
        found += [value for value in vars(module).values() if isinstance(value, Case)]
    ids = [case.id for case in found]
    if twice := {name for name in ids if ids.count(name) > 1}:
        raise ValueError(f"ids that stand twice: {', '.join(sorted(twice))}")
    return sorted(found, key=lambda case: (not case.is_bug, FAMILIES.index(case.family)))
