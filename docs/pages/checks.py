"""docs/checks.md: what each check of gate 2 proves, from its module's docstring."""

from __future__ import annotations

import ast
from pathlib import Path

import tunegate
from tunegate.gate import EXACT_SHARE, LOSS_SHARE

SOURCE = "the docstrings in tunegate/checks/ and tunegate/gate.py"

WIRE = (
    "`tunegate wire RUN` belongs to gate 2 too, and is a rehearsal rather than a look: it trains "
    "on 20 rows until they are known by heart, saves, loads the result from disk and asks for the "
    "answers through the serving prompt.",
    "",
    "A pass proves that this base, these settings and this chain of training, saving, loading and "
    f"answering work together: the loss fell to {LOSS_SHARE:g} of what it was, {EXACT_SHARE:.0%} "
    "of the answers came back exactly, and every one stopped. It also measures the time of a step "
    "and of a save and the most memory, on the longest rows, which the quote rests on.",
    "",
    "It does not prove that the run will learn the task, nor that only the answers carry loss "
    "(mask_exact looks at that).",
)


def render() -> str:
    """The page's text."""
    out = [
        "# Checks of gate 2",
        "",
        "`tunegate check RUN` runs all of them, in this order, without a GPU and without cost. "
        "Each looks at every row, those about training through the very batches that the trainer "
        "builds, and ends in pass, fail or cannot tell. Only a pass opens the gate. A failure "
        "names the file and line, shows what was seen and says what to change; all of it is kept "
        "in `evidence/<check>.json`, and "
        "the report shows it.",
        "",
        "A check that fails for a reason you accept may be waived by a person, by name and with a "
        "reason ([release.md](release.md)); the waiver stands in the report.",
        "",
        "| check | a pass says that |",
        "|---|---|",
        *(f"| [`{path.stem}`](#{path.stem}) | {_title(path)} |" for path in _files()),
        "| [the wire test](#the-wire-test) | the whole chain learns 20 rows by heart |",
    ]
    for path in _files():
        title, _, rest = _docstring(path).partition("\n")
        out += ["", f"## {path.stem}", "", title.strip(), *([rest.rstrip()] if rest else [])]
    return "\n".join([*out, "", "## The wire test", "", *WIRE])


def _title(path: Path) -> str:
    first = _docstring(path).partition("\n")[0].strip().rstrip(".")
    return first[0].lower() + first[1:]


def _files() -> list[Path]:
    # Read as text, not imported: a check may come to need a library that is not installed here.
    folder = Path(tunegate.__file__).parent / "checks"
    found = [path for path in folder.glob("*.py") if path.stem != "__init__" and _is_check(path)]
    return sorted(found, key=_order)


def _order(path: Path) -> int:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "ORDER":
            order: int = ast.literal_eval(node.value)
            return order
    raise ValueError(f"{path} has no ORDER")


def _is_check(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name == "judge" for node in tree.body)


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
