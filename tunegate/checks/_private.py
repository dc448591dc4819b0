"""What in a text looks like personal data, a key or a password; the value itself is never shown.

Written here and not taken from a library (detect-secrets brings its own scanner of files, requests
and a dozen entropy filters; Presidio brings spaCy): checks travel with the standard library alone.

Personal data is recognised by form: e-mail addresses, international phone numbers, and numbers with
a checksum (IBAN, ISO 13616; payment cards, ISO 7812 with Luhn). National identity numbers have no
common form and are not looked for. Keys are recognised by the prefixes that their issuers document,
passwords by the word before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

SECRET = ("API key", "private key", "token (JWT)")
"""Kinds that open a door for whoever reads them."""

_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?:proj-|ant-|svcacct-|or-)?[A-Za-z0-9_-]{20,}"
    r"|sk_live_[A-Za-z0-9]{16,}|rk_live_[A-Za-z0-9]{16,}"
    r"|hf_[A-Za-z0-9]{30,}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,}"
    r"|glpat-[A-Za-z0-9_-]{20,}|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"
    r"|AIza[A-Za-z0-9_-]{35}|xox[abprs]-[A-Za-z0-9-]{20,}|npm_[A-Za-z0-9]{36}"
    r"|pypi-[A-Za-z0-9_-]{50,})"
)
_BLOCK = re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")
_JWT = re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}")
_PASSWORD = re.compile(
    r"(?i)\b(?:password|passwd|passwort|pwd)\b[\"']?\s?(?:[:=]|is\b|ist\b)\s?[\"']?"
    r"(?P<value>[^\s\"',;<>{}()\[\]]{6,})"
)
_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@(?P<host>[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,})\b"
)
_PHONE = re.compile(r"(?<![\w+])\+[1-9](?:[ ./()-]{0,2}\d){8,13}(?![\d-])")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_CARD = re.compile(r"(?<![\w.+-])[2-6]\d{3}(?:[ -]?\d{4}){2}[ -]?\d{1,7}(?![\w.-]?\d)")

_EXAMPLE_HOSTS = ("example.com", "example.org", "example.net", "example.edu")
"""Names that RFC 2606 keeps for examples, with all that ends in .example, .test or .invalid."""


def private(text: str) -> Iterator[tuple[str, str]]:
    """Kind and masked form of each thing found."""
    if "-" in text or "_" in text or "AIza" in text or "AKIA" in text or "ASIA" in text:
        for found in _KEY.finditer(text):
            if any(character.isdigit() for character in found.group()):
                yield "API key", masked(found.group())
        if _BLOCK.search(text):
            yield "private key", "-----BEGIN … PRIVATE KEY-----"
    if "eyJ" in text and _JWT.search(text):
        yield "token (JWT)", "eyJ…"
    for found in _PASSWORD.finditer(text):
        value = found["value"].rstrip(".!?")
        if len(value) >= 6 and not value.isalpha():
            yield "password", f"of {len(value)} characters"
    if "@" in text:
        for found in _EMAIL.finditer(text):
            host = found["host"].lower()
            if not host.endswith((*_EXAMPLE_HOSTS, ".example", ".test", ".invalid")):
                yield "e-mail address", f"…@… ({len(found.group())} characters)"
    yield from _numbers(text)


def _numbers(text: str) -> Iterator[tuple[str, str]]:
    if not any(character.isdigit() for character in text):
        return
    for found in _PHONE.finditer(text):
        yield "phone number", f"of {_digits(found.group())} digits"
    for found in _IBAN.finditer(text):
        plain = found.group().replace(" ", "")
        if 15 <= len(plain) <= 34 and is_iban(plain):
            yield "IBAN", f"{plain[:2]}… ({len(plain)} characters)"
    for found in _CARD.finditer(text):
        plain = re.sub(r"\D", "", found.group())
        if 13 <= len(plain) <= 19 and is_luhn(plain) and len(set(plain)) > 1:
            yield "payment card", f"of {len(plain)} digits"


def masked(value: str) -> str:
    """The prefix that names a key's issuer, and how long the key is."""
    head = re.match(r"[A-Za-z]+[-_]|[A-Z]{4}", value)
    return f"{head.group() if head else ''}… ({len(value)} characters)"


def _digits(text: str) -> int:
    return sum(character.isdigit() for character in text)


def is_iban(plain: str) -> bool:
    """Whether the check digits of ISO 13616 hold, of an IBAN without spaces."""
    turned = plain[4:] + plain[:4]
    return int("".join(str(int(character, 36)) for character in turned)) % 97 == 1


def is_luhn(digits: str) -> bool:
    """Whether the check digit of ISO 7812 holds."""
    total = 0
    for place, character in enumerate(reversed(digits)):
        value = int(character) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0
