"""Characters that nobody sees or that no text should hold."""

from __future__ import annotations

import re

_FORMAT = re.compile(
    "[\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
"""Category Cf of Unicode 15: joiners, soft hyphens, marks of direction, byte-order marks."""

ODD = {"\ufffd": "U+FFFD, the mark of a wrong encoding", "\ufeff": "a byte-order mark"}
"""Characters that are left over where texts went through a wrong encoding."""


def visible(text: str) -> str:
    """The text without format characters, which show nothing."""
    return text if text.isascii() else _FORMAT.sub("", text)


def normal(text: str) -> str:
    """The text without case, format characters and runs of space."""
    return " ".join(visible(text).casefold().split())


def odd(text: str) -> str | None:
    """What a text holds that comes of a wrong encoding; None where nothing does."""
    if text.isascii():
        return None
    return next((name for mark, name in ODD.items() if mark in text), None)
