"""`page` and `markdown`: views of the run's files, put into the templates of this folder.

Charts are SVG written by the templates, since the page has to follow the reader's colours, keep its
letters at one size from a phone to a print, and hold nothing that loads from elsewhere. A chart
library was tried (altair with vl-convert): its pictures carry their own colours and shrink as one
piece, so that on a phone nothing can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tunegate.report import class_views, field_views, figures, gate_views, run_views
from tunegate.report.curve_view import curve_view
from tunegate.report.wording import FILTERS, clean
from tunegate.types import Json

if TYPE_CHECKING:
    from jinja2 import Environment

PARTS = (
    "frozen",
    "research",
    "verdicts",
    "wire",
    "quote",
    "release",
    "receipt",
    "metrics",
    "decision",
    "cost",
    "hardware",
    "times",
    "attempts",
    "made",
)
"""What `run` may hold beside the report. A part that is missing or None is said to be missing."""


def page(report: Json, *, run: Mapping[str, Any]) -> str:
    """The whole report as one HTML page that loads nothing.

    Args:
        report: `report.json`.
        run: `PARTS` by name: frozen.json, research.json, the verdicts (as `Verdict.to_json`), the
            wire test's observation, quote.json, release.json, the receipt, the rows of
            metrics.jsonl, decision.json, cost {money, currency, basis}, hardware {device,
            memory_gib, peak_memory_gib}, times {name_s: seconds}, attempts [{number, outcome}], and
            made {by, at, version}.
    """
    return _environment().get_template("page.html.jinja").render(_views(report, run))


def markdown(report: Json, run: Mapping[str, Any]) -> str:
    """The short version: verdict, columns, classes, next step."""
    return _environment(html=False).get_template("report.md.jinja").render(_views(report, run))


def _views(report: Json, run: Mapping[str, Any]) -> Json:
    known = {name: run.get(name) for name in PARTS}
    return {
        "report": report,
        "run": known,
        "headline": figures.headline(report, known),
        "columns": figures.columns(report, known),
        "main": figures.slice_table(report, report["main"]),
        "pairs": figures.pairs(report),
        "classes": class_views.by_class(report),
        "classes_by": class_views.sorted_by(report),
        "confusion": class_views.confusion(report),
        "fields": field_views.by_field(report),
        "slices": [
            {
                "name": name,
                "table": figures.slice_table(report, name),
                "kinds": class_views.kinds(report, name),
                "broken": class_views.broken(report, name),
            }
            for name in report["slices"]
            if name != report["main"]
        ],
        "curve": curve_view(known["metrics"] or [], known["receipt"]),
        "research": gate_views.research(known["research"]),
        "gates": gate_views.gates(known),
        "not_checked": gate_views.not_checked(known),
        "waivers": gate_views.waivers(known["release"]),
        "failures": class_views.failure_groups(report),
        "settings": run_views.settings(known),
        "memory": run_views.memory(known),
        "costs": run_views.costs(known, report),
        "provenance": run_views.provenance(known),
    }


@lru_cache(maxsize=2)
def _environment(*, html: bool = True) -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tunegate.report", "templates"),
        # Markdown knows no HTML escapes; there the filter `cell` defuses texts from outside.
        autoescape=html,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    return environment


def _printable(item: Any) -> Any:
    """Every text that a template puts out, without characters that no page can hold."""
    return clean(item) if isinstance(item, str) and not hasattr(item, "__html__") else item
