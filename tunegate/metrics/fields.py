"""Precision, recall and F1 by field of a JSON object.

Unit: share of field values; range 0 to 1. A field counts where its value is equal; precision is
over the fields that the output gives, recall over those that the answer has. What is not right is
one of three: missed (the output does not give it), wrong (another value) or hallucinated (the
answer does not have it). A field that is null is one that is not given, in answers and outputs.
The empty object counts: a row whose answer is `{}` is right when the output is `{}` too, and these
rows are reported apart, since fields alone would never show them. An unreadable output gives
nothing, so it costs recall, and is no empty answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tunegate.metrics import READINGS, _reading
from tunegate.types import Json

NAME = "fields"
DIRECTION = "higher"
COUNTS = ("gold", "said", "right", "wrong", "missed", "hallucinated")
"""Counts of each field: gold = right + wrong + missed, said = right + wrong + hallucinated."""


def score(output: str, gold: Mapping[str, Any], task: Mapping[str, Any]) -> Json:
    """`gold`: fields of the answer; by reading {said, right, read}; null if it is no object."""
    answer = _reading.gold_value(gold, task)
    if not isinstance(answer, dict):
        return {"gold": None, "strict": None, "tolerant": None}
    wanted = _given(answer)
    out: Json = {"gold": sorted(wanted)}
    strict, tolerant = _reading.read(output, task)
    first = strict.value if strict.fits is not False else None
    out["strict"] = _read_fields(first, wanted, equal=_equal)
    out["tolerant"] = _read_fields(tolerant.value, wanted, equal=_loose)
    # An answer whose keys are not the schema's own is told by the keys as they stand.
    if not set(out["strict"]["right"]) <= set(out["tolerant"]["right"]):
        out["tolerant"] = _read_fields(first, wanted, equal=_loose)
    return out


def _read_fields(value: Any, wanted: Json, *, equal: Callable[[Any, Any], bool]) -> Json:
    said = _given(value) if isinstance(value, dict) else {}
    right = [key for key in said if key in wanted and equal(said[key], wanted[key])]
    return {"said": sorted(said), "right": sorted(right), "read": isinstance(value, dict)}


def _given(value: Json) -> Json:
    return {key: item for key, item in value.items() if item is not None}


def summarise(scores: Sequence[Mapping[str, Any]]) -> Json:
    """`n`, and for each reading `fields` {field: counts}, `all` (counts over all fields), `empty`.

    Counts are {gold, said, right, wrong, missed, hallucinated, precision, recall, f1}; `empty`
    counts rows with `{}`, which are right, missed or hallucinated, and never wrong.
    """
    counted = [item for item in scores if item["gold"] is not None]
    out: Json = {"n": len(counted)}
    for name in READINGS:
        fields = sorted({key for item in counted for key in (*item["gold"], *item[name]["said"])})
        by_field = {
            field: _counts(
                [(field in item["gold"], field in item[name]["said"]) for item in counted],
                right=sum(field in item[name]["right"] for item in counted),
            )
            for field in fields
        }
        empty = [(not item["gold"], is_empty(item[name])) for item in counted]
        out[name] = {
            "fields": by_field,
            "all": _rates({part: sum(c[part] for c in by_field.values()) for part in COUNTS}),
            "empty": _counts(empty, right=sum(gold and said for gold, said in empty)),
        }
    return out


def is_empty(read: Mapping[str, Any]) -> bool:
    """The output is an object that gives nothing; `read` is a score's `strict` or `tolerant`."""
    return bool(read["read"]) and not read["said"]


def _counts(pairs: Sequence[tuple[bool, bool]], *, right: int) -> Json:
    """Counts of (the answer has it, the output gives it), a pair a row."""
    both = sum(gold and said for gold, said in pairs)
    gold, said = (sum(pair[place] for pair in pairs) for place in (0, 1))
    counted = (gold, said, right, both - right, gold - both, said - both)
    return _rates(dict(zip(COUNTS, counted, strict=True)))


def _rates(counts: dict[str, int]) -> Json:
    gold, said, right = (counts[part] for part in ("gold", "said", "right"))
    return {
        **counts,
        "precision": _reading.share(right, said),
        "recall": _reading.share(right, gold),
        "f1": _reading.share(2 * right, gold + said),
    }


def _equal(said: Any, wanted: Any) -> bool:
    return type(said) is type(wanted) and bool(said == wanted)


def _loose(said: Any, wanted: Any) -> bool:
    if isinstance(said, str) and isinstance(wanted, str):
        return _reading.loose(said) == _reading.loose(wanted)
    return bool(said == wanted)
