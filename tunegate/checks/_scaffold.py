"""What a chat template writes of its own: looked at by rendering turns whose texts are marked."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from tunegate.errors import DataError
from tunegate.types import Turn
from tunegate.worker.template import Template
from tunegate.worker.tokens import Tokenizer

MARKS = {"system": "0q1", "user": "0q2", "assistant": "0q3"}
"""Texts that stand for each role's own and occur in no template."""

MIN_SENTENCE_WORDS = 3
"""Fewer words are the name of a role or section, and no system turn."""

_WORD = re.compile(r"[^\W\d_]{2,}")


def own_words(template: Template, tokenizer: Tokenizer) -> str:
    """The words that the template adds to a prompt with a system and a user turn."""
    return " ".join(_words(template, tokenizer, ("system", "user")) or ())


def replaced_turn(template: Template, tokenizer: Tokenizer) -> str | None:
    """The text that the template puts in where a conversation has no system turn; None where none.

    It is the text before the user's, kept only if it has words that a prompt with a system turn
    lacks.
    """
    without = _words(template, tokenizer, ("user",))
    if without is None:
        return None
    with_system = _words(template, tokenizer, ("system", "user")) or ()
    added = Counter(without) - Counter(with_system)
    if sum(added.values()) < MIN_SENTENCE_WORDS:
        return None
    text = _plain(template, tokenizer, ("user",)).partition(MARKS["user"])[0]
    lines = [line.strip() for line in text.splitlines()]
    kept = [line for line in lines if any(word in added for word in _WORD.findall(line))]
    return "\n".join(kept) or " ".join(added)


SERVE_UNTHINKING = (
    "serve without thinking: set `prompt: {chat_template_kwargs: {enable_thinking: false}}`, so "
    "that the prompt ends with this block, and give your server the same"
)
"""The way out where `thinking_off` is the text that stands between prompt and answer."""


def composed(text: str) -> bytes:
    """The text as a tokenizer that normalises to Unicode NFC (Qwen's) gives it back."""
    return unicodedata.normalize("NFC", text).encode()


def thinking_off(template: Template) -> str | None:
    """What the prompt gains at its end where thinking is switched off; None where that is no choice
    or was made.
    """
    if "enable_thinking" not in template.source or "enable_thinking" in template.kwargs:
        return None
    kwargs = {**template.kwargs, "enable_thinking": False}
    off = Template(template.source, kwargs, **template.special_tokens)
    turns = [Turn("user", MARKS["user"])]
    try:
        text, shorter = (one.render(turns, add_generation_prompt=True) for one in (off, template))
    except DataError:
        return None
    return text[len(shorter) :] or None if text.startswith(shorter) else None


def _words(template: Template, tokenizer: Tokenizer, roles: Sequence[str]) -> list[str] | None:
    """Words of the rendering that are no control token, role name or turn; None if refused."""
    try:
        text = _plain(template, tokenizer, roles)
    except DataError:
        return None
    for mark in MARKS.values():
        text = text.replace(mark, " ")
    return [word for word in _WORD.findall(text) if word.lower() not in _ROLE_NAMES]


_ROLE_NAMES = {"system", "user", "assistant", "model", "human", "tool", "developer"}


def _plain(template: Template, tokenizer: Tokenizer, roles: Sequence[str]) -> str:
    text = template.render([Turn(role, MARKS[role]) for role in roles], add_generation_prompt=True)
    for token in tokenizer.added_texts:
        text = text.replace(token, "\n")
    return text
