"""docs/checks.md: what each check of gate 2 proves, from its module's docstring."""

from __future__ import annotations

import ast
from pathlib import Path

import tunegate

SOURCE = "the docstrings in tunegate/checks/"


def render() -> str:
    """The page's text."""
    out = [
        "# Checks of gate 2",
        "",
        "A check looks at what really happens with the run's data (`observe`) and then concludes "
        "(`judge`): pass, fail or cannot tell. Only a pass opens the gate. What was seen is kept "
        "in `evidence/<check>.json`.",
    ]
    for path in _files():
        title, _, rest = _docstring(path).partition("\n")
        out += ["", f"## {path.stem}", "", title.strip(), *([rest.rstrip()] if rest else [])]
    return "\n".join(out)


def _files() -> list[Path]:
    # Read as text, not imported: a check may come to need a library that is not installed here.
    folder = Path(tunegate.__file__).parent / "checks"
    return sorted(
        path for path in folder.glob("*.py") if path.stem != "__init__" and _is_check(path)
    )


def _is_check(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name == "judge" for node in tree.body)


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
