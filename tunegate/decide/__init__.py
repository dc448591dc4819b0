"""Report and lineage -> one recommended next step, the rule that fired, and why. Pure.

The rules are tried in the order of `rules.RULES`; the first that fires decides, and all are
reported. A person confirms. The path: measure properly; a gain that matters, or a base that does it
already; nothing else broken; gap to the teacher closed (or the target reached, where no teacher is
shown to be better than the base) -> serving maths; form lagging -> preference pass; accuracy short
-> the data, class by class, with one knob turn allowed since the data last changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from tunegate.compare.wording import enumerated
from tunegate.decide.rules import RULES, Facts, Rule
from tunegate.decide.targets import classes_to_fix, fields_to_fix, pairs_to_fix
from tunegate.decide.thresholds import THRESHOLDS, limits_of
from tunegate.types import Json

__all__ = ["decide", "knob_turns"]


def decide(
    report: Json,
    lineage: Sequence[Mapping[str, Any]],
    *,
    validation: Sequence[tuple[int, float]] = (),
) -> Json:
    """The payload of `decision.json`.

    Args:
        report: what `compare` made; its `thresholds` override `THRESHOLDS`.
        lineage: {run, data_digest, settings_digest} of the ancestors, oldest first, this run last.
        validation: (step, validation loss) of the run, in order; empty if it was not measured.

    Raises:
        UsageError: a threshold that does not exist or is not a number.
    """
    limits = limits_of(report.get("thresholds") or {})
    facts = Facts(
        report=report,
        limits=limits,
        knob_turns=knob_turns(lineage),
        data_versions=_data_versions(lineage),
        validation=validation,
    )
    results = [(rule, *rule.test(facts)) for rule in RULES]
    chosen, _, why = next(item for item in results if item[1])
    step = _next(chosen, facts)
    classes, fields = classes_to_fix(report), fields_to_fix(report)
    return {
        "next": step,
        "rule": chosen.name,
        "because": [why, *_more(chosen, step, facts, classes, fields)],
        "classes_to_fix": classes,
        "pairs_to_fix": pairs_to_fix(report),
        "fields_to_fix": fields,
        "allowed_knob": facts.knob_turns == 0,
        "knob_turns": facts.knob_turns,
        "warnings": [item for item in report["warnings"] if item["name"] != "not_run"],
        "rules": [
            {"name": rule.name, "next": rule.next, "fired": fired, "why": text}
            for rule, fired, text in results
        ],
        "thresholds": {
            name: {
                "value": limits[name],
                "source": "settings" if name in (report.get("thresholds") or {}) else "default",
                "reason": reason,
            }
            for name, (_, reason) in THRESHOLDS.items()
        },
    }


def knob_turns(lineage: Sequence[Mapping[str, Any]]) -> int:
    """How often settings changed since the data last did, over a lineage of runs, oldest first."""
    turns = 0
    for before, after in pairwise(lineage):
        if after["data_digest"] != before["data_digest"]:
            turns = 0
        elif after["settings_digest"] != before["settings_digest"]:
            turns += 1
    return turns


def _data_versions(lineage: Sequence[Mapping[str, Any]]) -> int:
    digests = [item["data_digest"] for item in lineage]
    return len(dict.fromkeys(digests))


def _next(rule: Rule, facts: Facts) -> str:
    if rule.name in ("no_gain", "worse") and facts.data_versions >= facts.limits["patience"]:
        return "stop"
    return rule.next


def _more(
    rule: Rule, step: str, facts: Facts, classes: list[Json], fields: list[Json]
) -> list[str]:
    """What goes with the step: patience, classes or fields, and the knob."""
    out = []
    if rule.name in ("no_gain", "worse") and facts.data_versions >= facts.limits["patience"]:
        out.append(f"That was version {facts.data_versions} of the data; research before the next.")
    if step in ("data", "one_knob") and classes:
        named = [
            f"{item['class']} ({item['errors']} of {item['n']} wrong, taken for "
            f"{item['confused_with'][0]['class']})"
            for item in classes
        ]
        out.append(f"Most errors: {enumerated(named)}.")
    elif step in ("data", "one_knob") and fields:
        named = [
            f"{item['field']} ({item['wrong']} wrong, {item['missed']} missed and "
            f"{item['hallucinated']} hallucinated of {item['gold']})"
            for item in fields
        ]
        out.append(f"Most errors: {enumerated(named)}.")
    if step in ("data", "one_knob"):
        out.append(
            "One knob turn is allowed before the data changes."
            if facts.knob_turns == 0
            else f"No knob turn is left: {facts.knob_turns} since the data last changed."
        )
    return out
