"""What to fix in the data: classes, pairs of classes and fields with the most wrong rows."""

from __future__ import annotations

from tunegate.compare.lookup import table
from tunegate.types import Json

LISTED = 5
"""Classes, pairs and fields that are named."""


def classes_to_fix(report: Json) -> list[Json]:
    """The classes with the most wrong rows, and what they are taken for."""
    tuned = table(report, "tuned")
    if tuned is None or not tuned["strict"]["classes"]:
        return []
    confusion = tuned["strict"]["confusion"]
    out = []
    for label, counts in tuned["strict"]["classes"].items():
        wrong = {said: n for said, n in confusion.get(label, {}).items() if said != label}
        if not wrong:
            continue
        taken = sorted(wrong.items(), key=lambda item: (-item[1], item[0]))
        out.append(
            {
                "class": label,
                "n": counts["n"],
                "right": counts["right"],
                "errors": counts["n"] - counts["right"],
                "recall": counts["recall"],
                "confused_with": [{"class": said, "rows": n} for said, n in taken],
            }
        )
    out.sort(key=lambda item: (-item["errors"], item["class"]))
    return out[:LISTED]


def pairs_to_fix(report: Json) -> list[Json]:
    """Pairs of classes that are taken for each other, both directions together, most rows first."""
    tuned = table(report, "tuned")
    counts: dict[tuple[str, str], int] = {}
    for label, row in ((tuned or {}).get("strict", {}).get("confusion") or {}).items():
        for said, n in row.items():
            if said != label and said in report["labels"]:
                key = (min(label, said), max(label, said))
                counts[key] = counts.get(key, 0) + n
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"classes": list(names), "rows": n} for names, n in ranked[:LISTED]]


def fields_to_fix(report: Json) -> list[Json]:
    """The fields of a JSON answer with the most values wrong, missed or hallucinated."""
    tuned = table(report, "tuned")
    fields = ((tuned or {}).get("strict", {}).get("fields") or {}).get("fields") or {}
    out = []
    for name, counts in fields.items():
        errors = counts["wrong"] + counts["missed"] + counts["hallucinated"]
        if errors:
            out.append({"field": name, "errors": errors, **counts})
    out.sort(key=lambda item: (-item["errors"], item["field"]))
    return out[:LISTED]
