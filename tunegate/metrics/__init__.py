"""Metrics: one file a metric, found by its name.

To add a metric, add `tunegate/metrics/<name>.py` with what `Metric` asks for; nothing else changes.
Files whose name starts with an underscore are parts that metrics share, not metrics. A package of
someone else's offers one through the entry-point group `tunegate.metrics`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from tunegate.errors import PluginError
from tunegate.types import Json

READINGS = ("strict", "tolerant")
"""The two ways an output is read. Every metric answers in both."""

ENTRY_POINTS = "tunegate.metrics"


class Metric(Protocol):
    """What a metric file holds at module level."""

    NAME: str
    """The file's name."""
    DIRECTION: str
    """`higher` or `lower`: which way is better."""

    def score(self, output: str, gold: Mapping[str, Any], task: Mapping[str, Any]) -> Json:
        """Score one output, with at least the keys `strict` and `tolerant`.

        `gold` is the row's truth: `answer` (text) or `check` (rules), optionally `class`. `task` is
        `settings.task` of the frozen run. Pure. Raises DataError where *gold* is unusable, and
        never because of what the output says.
        """
        ...

    def summarise(self, scores: Sequence[Mapping[str, Any]]) -> Json:
        """Add up the scores of many rows: counts and rates under `n`, `strict` and `tolerant`."""
        ...


def names() -> list[str]:
    """The metrics that come with Tunegate, sorted."""
    return sorted(
        module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")
    )


def load(name: str) -> Metric:
    """The metric of that name.

    Raises:
        PluginError: no such metric, or one that lacks a part of the contract.
    """
    if name in names():
        return _checked(importlib.import_module(f"{__name__}.{name}"), name)
    # importlib.metadata costs 45 ms of CPU, so it is asked only about names that are not ours.
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name == name:
            return _checked(entry.load(), name)
    raise PluginError(
        f"there is no metric called {name!r}", hint="known metrics: " + ", ".join(names())
    )


def _checked(module: object, name: str) -> Metric:
    missing = [
        part for part in ("NAME", "DIRECTION", "score", "summarise") if not hasattr(module, part)
    ]
    if missing:
        raise PluginError(f"metric {name!r} lacks {', '.join(missing)}")
    return cast(Metric, module)
