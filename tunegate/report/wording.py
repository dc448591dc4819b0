"""How values are written on the page: numbers, durations, sizes, settings, texts from outside."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tunegate.compare.wording import MINUS, NARROW, NONE, p_value, percent, points

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
COLUMN_TITLES = {"raw": "Base", "tuned": "Tuned", "teacher": "Teacher"}


def title(column: str) -> str:
    """What a column is called on the page."""
    return COLUMN_TITLES.get(column, column)


def plain(value: float | None) -> str:
    """`89.6` of 0.896: a percentage whose unit stands in the heading."""
    return NONE if value is None else f"{100 * value:.1f}"


def span(low: float | None, high: float | None) -> str:
    """`85.1-92.9` with an en dash, as percentages."""
    return "" if low is None or high is None else f"{100 * low:.1f}{NONE}{100 * high:.1f}"


def signed_span(low: float, high: float) -> str:
    """`+43.9 to +59.2`, as percentage points."""
    return f"{points(low)} to {points(high)}"


def bare_p(p: float) -> str:
    """`0.034` or `< 0.001`, under a heading that says what it is."""
    return p_value(p).removeprefix("p").replace("\u00a0=\u00a0", "").strip()


def number(value: float | None, digits: int = 0) -> str:
    """Thousands apart by a narrow space."""
    if value is None:
        return NONE
    return f"{value:,.{digits}f}".replace(",", NARROW).replace("-", MINUS)


def duration(seconds: float | None) -> str:
    """`12 s`, `3 min 20 s`, `1 h 5 min`."""
    if seconds is None:
        return NONE
    if seconds < 10:
        return f"{seconds:.1f}{NARROW}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}{NARROW}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}{NARROW}min" + (f" {rest}{NARROW}s" if rest else "")
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{NARROW}h" + (f" {minutes}{NARROW}min" if minutes else "")


def gib(value: float | None) -> str:
    """`2.31 GiB`."""
    return NONE if value is None else f"{value:.2f}{NARROW}GiB"


def clean(text: object) -> str:
    """Any text, printable: lone surrogates and control characters are shown, not sent."""
    out = str(text).encode("utf-8", "replace").decode("utf-8")
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "\ufffd", out)


def value(item: Any) -> str:
    """A setting's value as a person would write it."""
    if item is None:
        return "none"
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, float):
        return f"{item:g}"
    if isinstance(item, str):
        return clean(item)
    if isinstance(item, list) and all(isinstance(part, str | int | float) for part in item):
        return ", ".join(value(part) for part in item) or "none"
    return clean(json.dumps(item, ensure_ascii=False))


def short(digest: Any) -> str:
    """The first twelve characters of a digest."""
    return NONE if not digest else clean(digest)[:12]


def when(iso: Any) -> str:
    """`30 November 2026, 19:51 UTC` of an ISO time; the text itself where it is none."""
    found = re.match(r"(\d{4})-(\d\d)-(\d\d)T(\d\d:\d\d)", str(iso or ""))
    if not found:
        return clean(iso or "")
    year, month, day, clock = found.groups()
    zone = " UTC" if re.search(r"(Z|\+00:00)$", str(iso)) else ""
    return f"{int(day)} {MONTHS[int(month) - 1]} {year}, {clock}{zone}"


def spoken(name: str) -> str:
    """`accuracy short` of `accuracy_short`."""
    return clean(name).replace("_", " ")


def cell(text: object) -> str:
    """A text inside a Markdown table: on one line, with nothing that a reader would interpret."""
    out = re.sub(r"\s+", " ", clean(text))
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", out)


FILTERS: dict[str, Callable[..., Any]] = {
    "bare_p": bare_p,
    "cell": cell,
    "clean": clean,
    "duration": duration,
    "gib": gib,
    "number": number,
    "p_value": p_value,
    "percent": percent,
    "plain": plain,
    "points": points,
    "short": short,
    "signed_span": signed_span,
    "span": span,
    "spoken": spoken,
    "title_of": title,
    "value": value,
    "when": when,
}
