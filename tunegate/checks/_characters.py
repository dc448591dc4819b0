"""Characters that nobody sees or that no text should hold."""

from __future__ import annotations

import re

_FORMAT = re.compile(
    "[\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
"""Category Cf of Unicode 15: joiners, soft hyphens, marks of direction, byte-order marks."""

LOOKALIKES = str.maketrans(
    "\u0430\u0432\u0435\u0438\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0456\u0458\u0455\u0501"
    "\u03b1\u03b2\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u0131",
    "abeukmhopctyxijsdabeikvoptuxi",
)
"""Cyrillic and Greek small letters by the Latin ones that they look like, as capitals too (Unicode
Technical Standard 39). Texts are compared through it, so a letter that has no other is harmless.
"""

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
