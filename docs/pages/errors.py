"""docs/errors.md: every exit code, error class and error kind."""

from __future__ import annotations

from tunegate import errors
from tunegate.kinds import KINDS

SOURCE = "tunegate/errors.py and tunegate/kinds.py"


def render() -> str:
    """The page's text."""
    return "\n".join([*_codes(), *_classes(), *_kinds()])


def _codes() -> list[str]:
    return [
        "# Errors and exit codes",
        "",
        "Every command ends with one of these codes, and with `--json` the same number stands in "
        "`code`. They do not change between releases.",
        "",
        "| code | meaning |",
        "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in sorted(errors.EXIT_CODES.items())),
        "",
    ]


def _classes() -> list[str]:
    return [
        "## Classes",
        "",
        "For those who call Tunegate from Python. All are in `tunegate.errors`; an inner line is a "
        "subclass of the one above it. Each carries `message`, `kind`, `hint`, `where` and "
        "`problems`.",
        "",
        *_tree(errors.TunegateError, depth=0),
        "",
    ]


def _tree(item: type[errors.TunegateError], *, depth: int) -> list[str]:
    meaning = (item.__doc__ or "").strip().splitlines()[0]
    line = f"{'  ' * depth}- `{item.__name__}` (exit {item.exit_code}): {meaning}"
    below = [
        sub
        for sub in sorted(item.__subclasses__(), key=lambda sub: sub.exit_code)
        if sub.__module__ == errors.__name__
    ]
    return [line, *(text for sub in below for text in _tree(sub, depth=depth + 1))]


def _kinds() -> list[str]:
    out = [
        "## Kinds",
        "",
        "`error.kind` in the JSON output, and what `error:` lines on the terminal are about; "
        "`tunegate explain KIND` shows one. A kind is stable; the wording of a message is not.",
    ]
    for kind, about in KINDS.items():
        codes = " or ".join(map(str, about.exit_codes))
        out += ["", f"### {kind}", "", f"{about.meaning} Exit code {codes}.", "", about.remedy]
    return out
