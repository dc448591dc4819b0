"""docs/planted.md: what the gates caught of planted bugs. No figure on the page is typed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "results" / "planted"
SOURCE = "docs/results/planted/*.json (kept outcomes of bench/planted)"

Json = dict[str, Any]


def render() -> str:
    """The page's text."""
    lines = [
        "# Planted bugs",
        "",
        "How many planted bugs the gates refuse with a fitting cause (recall), and how many "
        "right-but-odd projects they refuse (false alarms). A set is written without sight of the "
        "checks and frozen before its first run; `bench/planted/first/README.md` says how. The "
        "figures of a first run stay here, whatever is mended afterwards.",
        "",
    ]
    for file in sorted(RESULTS.glob("*.json")):
        lines += _set(json.loads(file.read_text(encoding="utf-8")))
    return "\n".join(lines)


def _set(result: Json) -> list[str]:
    bugs = [o for o in result["outcomes"] if o["is_bug"]]
    controls = [o for o in result["outcomes"] if not o["is_bug"]]
    alarms = [o for o in controls if o["stage"]]
    caught = [o for o in bugs if o["is_caught"]]
    families = dict.fromkeys(o["family"] for o in bugs)
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return [
        f"## Set {result['set']}: {result['run']}",
        "",
        f"Recall {_share(caught, bugs)}; false alarms {_share(alarms, controls)}.",
        "",
        "| family | bugs | caught | refused for another reason | missed |",
        "|---|---|---|---|---|",
        *(_family(name, [o for o in bugs if o["family"] == name]) for name in families),
        "",
        f"Missed: {_names(o for o in bugs if not o['stage'])}.",
        "",
        "Refused for another reason: "
        f"{_names(o for o in bugs if o['stage'] and not o['is_caught'])}.",
        "",
        f"False alarms: {_names(alarms)}.",
        "",
        f"- command: `{result['command']}`, commit `{result['commit']}`, {result['at']}",
        f"- {result['machine']}; {versions}",
        "",
    ]


def _family(name: str, bugs: list[Json]) -> str:
    caught = sum(o["is_caught"] for o in bugs)
    missed = sum(not o["stage"] for o in bugs)
    return f"| {name} | {len(bugs)} | {caught} | {len(bugs) - caught - missed} | {missed} |"


def _share(part: list[Json], whole: list[Json]) -> str:
    return f"{len(part)} of {len(whole)} ({100 * len(part) / len(whole):.1f} %)"


def _names(outcomes: Iterable[Json]) -> str:
    return ", ".join(f"`{o['id']}`" for o in outcomes) or "none"
