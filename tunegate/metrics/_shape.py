"""What an answer schema says about the shape of the answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tunegate.types import Json

REFERENCES = 16
"""References that are followed from one place; more are taken for a circle."""
_PLAIN = frozenset({"string", "number", "integer", "boolean"})


def resolved(schema: Any, root: Json) -> Json:
    """The schema, or what its `$ref` into the same document (`#/...`) points at; else empty."""
    for _ in range(REFERENCES):
        if not isinstance(schema, dict):
            return {}
        pointer = schema.get("$ref")
        if not isinstance(pointer, str):
            return schema
        if pointer != "#" and not pointer.startswith("#/"):
            return {}
        found: Any = root
        for part in pointer[2:].split("/") if len(pointer) > 2 else []:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        schema = found
    return {}


def openings(schema: Json) -> str:
    """The characters with which an object or array that the schema takes may begin."""
    kinds = {kind for part in _parts(schema) for kind in _kinds(part)}
    if "array" not in kinds:
        return "{"
    return "{[" if "object" in kinds else "["


def takes_plain(schema: Json) -> bool:
    """The schema names plain values: texts, numbers, true and false."""
    return any(kind in _PLAIN for part in _parts(schema) for kind in _kinds(part))


def means_absent(schema: Json, key: str, root: Json) -> bool:
    """A null under this key can only mean that there is none: the key may go, null may not stay."""
    if key in schema.get("required", ()):
        return False
    of_key = resolved((schema.get("properties") or {}).get(key), root)
    kinds = {kind for part in _parts(of_key) for kind in _kinds(part)}
    return bool(kinds) and "null" not in kinds


def _kinds(part: Json) -> list[str]:
    said = part.get("type")
    if said is not None:
        return [said] if isinstance(said, str) else list(said)
    values = part["enum"] if "enum" in part else [part["const"]] if "const" in part else []
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return [names.get(type(value), "number") for value in values] + (
        ["object"] if "properties" in part else []
    )


def _parts(schema: Json) -> Iterator[Json]:
    """The schema and its alternatives, references followed."""
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    while waiting:
        node, depth = waiting.pop()
        part = resolved(node, schema)
        yield part
        if depth < REFERENCES // 4:
            for name in ("anyOf", "oneOf", "allOf"):
                waiting += [(item, depth + 1) for item in part.get(name) or []]
