"""Numbers from outside, as data: thresholds, version bounds, known issues; with source and date.

Every file is JSON with `format`, `read` (the date), `sources` and its entries. An entry names its
sources by their short names; `load` puts the full citation in their place, so that a pure module
can hand an entry's `source` on as it stands. Files are found by their name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from tunegate.errors import PluginError
from tunegate.types import Json

FORMAT = 1


def names() -> list[str]:
    """Names of the tables, sorted."""
    entries = resources.files(__name__).iterdir()
    return sorted(e.name.removesuffix(".json") for e in entries if e.name.endswith(".json"))


def load(name: str) -> Json:
    """One table, with `source` of every entry spelled out.

    Raises PluginError for an unknown name or a format that this version does not read.
    """
    known = names()
    if name not in known:
        raise PluginError(f"no facts are called `{name}`", hint=f"known: {', '.join(known)}")
    raw = json.loads(resources.files(__name__).joinpath(f"{name}.json").read_text("utf-8"))
    if raw.get("format") != FORMAT:
        raise PluginError(f"facts/{name}.json has format {raw.get('format')}, not {FORMAT}")
    cited = {short: cite(source) for short, source in raw["sources"].items()}
    entries = {key: _spell_out(value, cited) for key, value in raw.items() if key != "sources"}
    return {**entries, "sources": raw["sources"]}


def load_all() -> dict[str, Json]:
    """Every table by its name: what the pure functions take as `facts`."""
    return {name: load(name) for name in names()}


def cite(source: Mapping[str, str]) -> str:
    """`title (address, read date)`."""
    return f"{source['title']} ({source['address']}, read {source['read']})"


def _spell_out(value: Any, cited: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_spell_out(item, cited) for item in value]
    if not isinstance(value, dict):
        return value
    out = {key: _spell_out(item, cited) for key, item in value.items() if key != "source"}
    if "source" in value:
        # An unknown short name is a fault of the file; the KeyError names it, and a test loads all.
        out["source"] = "; ".join(cited[short] for short in value["source"])
    return out
