"""run.yaml -> Spec. Every problem of the file at once, each with line, column and the nearest
known key.

The file is YAML 1.2: `2e-4` is a number, `no` is a word, and a key that stands twice is an error.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunegate.errors import Problem, SpecError, UsageError

if TYPE_CHECKING:
    from tunegate.specmodel import Spec

MAX_BYTES = 1_000_000
"""A run file is settings, not data; a larger one is surely the wrong file."""


def run_file_and_folder(run: str | Path) -> tuple[Path, Path]:
    """The run file and the run folder that `RUN` on the command line means.

    A folder stands for its `run.yaml`. A file of another name, say `run-x.yaml`, keeps its run in
    the folder `run-x` beside it, so that several run files may share one folder.
    """
    path = Path(run)
    if path.is_dir():
        file = path / "run.yaml"
        if not file.is_file():
            raise UsageError(
                f"no run.yaml in {path}", hint="name a run file, or a folder that holds run.yaml"
            )
        return path.resolve() / "run.yaml", path.resolve()
    if not path.is_file():
        raise UsageError(
            f"no such run: {path}",
            kind="file_missing",
            hint="tunegate demo writes a run that works; docs/run-file.md explains the file",
        )
    if path.suffix not in {".yaml", ".yml"}:
        raise UsageError(f"{path} is not a run file", hint="a run file ends in .yaml")
    # A link to a run file is a run of its own, in the folder that holds the link.
    path = path.parent.resolve() / path.name
    return path, path.parent if path.name == "run.yaml" else path.with_suffix("")


def read_spec(file: Path) -> Spec:
    """Read and check a run file.

    Raises: SpecError with all problems, in the order of the file.
    """
    tree = _parse(file)
    spec, problems = _validate(tree, file)
    kind, hint = None, "tunegate schema prints every key; docs/run-file.md explains them"
    if spec is not None:
        problems += _missing_files(spec, tree, file)
        kind, hint = (
            "file_missing",
            "paths in a run file are relative to the folder that it lies in",
        )
    if problems:
        problems.sort(key=_line_and_column)
        message, where = f"{len(problems)} problems in the run file", str(file)
        if len(problems) == 1:
            message, where = problems[0].message, problems[0].where or where
        raise SpecError(message, kind=kind, where=where, problems=problems, hint=hint)
    assert spec is not None
    return spec


def place(file: Path, *keys: str) -> str:
    """`file:line:column` of a key of a run file that can be read, for errors found later."""
    return _where(_parse(file), keys, file)


def _text(file: Path) -> str:
    """The run file's text, whatever is not text refused with the way out."""
    if file.stat().st_size > MAX_BYTES:
        raise SpecError(
            f"larger than {MAX_BYTES:,} bytes, so not a run file",
            where=str(file),
            hint="name the .yaml file with the settings; rows stand in files that it names",
        )
    raw = file.read_bytes()
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        utf16 = raw.startswith((b"\xff\xfe", b"\xfe\xff"))
        raise SpecError(
            "the run file is UTF-16" if utf16 else f"not UTF-8 text: byte 0x{raw[exc.start]:02x}",
            where=f"{file}:{raw.count(bytes([10]), 0, exc.start) + 1}",
            hint="save the run file as UTF-8",
        ) from exc
    line, nul, _ = text.partition("\0")
    if nul:
        raise SpecError(
            "a NUL character, which no text holds",
            where=f"{file}:{line.count(chr(10)) + 1}",
            hint="write the run file again as plain text in UTF-8",
        )
    if not text.strip():
        raise SpecError("the run file is empty", where=f"{file}:1", hint=_STARTER)
    return text


_STARTER = "tunegate init FOLDER --train ROWS writes a run file; docs/run-file.md shows one"


def _parse(file: Path) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    text = _text(file)
    try:
        tree = YAML(typ="rt").load(text)
    except DuplicateKeyError as exc:
        raise SpecError(
            _first_line(exc.problem),
            where=_mark(file, exc.problem_mark),
            hint="a key stands once: keep one of the two lines",
        ) from exc
    except MarkedYAMLError as exc:
        said = _first_line(exc.problem)
        raise SpecError(
            f"not valid YAML: {said}",
            where=_mark(file, exc.problem_mark),
            hint="indent with spaces, not tabs" if "'\\t'" in said else _YAML,
        ) from exc
    except RecursionError as exc:
        raise SpecError(
            "nested too deeply to be a run file", where=str(file), hint=_STARTER
        ) from exc
    except YAMLError as exc:
        raise SpecError(
            f"not valid YAML: {_first_line(str(exc))}", where=str(file), hint=_YAML
        ) from exc
    if not isinstance(tree, Mapping):
        raise SpecError(
            "a run file is a mapping of keys, such as `name: my-run`",
            where=f"{file}:1",
            hint=_STARTER,
        )
    return tree


_YAML = "docs/run-file.md shows the form; texts with a colon or a hash stand in quotes"


def _line_and_column(problem: Problem) -> tuple[int, int]:
    line, column = (problem.where or "").split(":")[-2:]
    return int(line), int(column)


def _first_line(text: str | None) -> str:
    return (text or "unreadable").strip().splitlines()[0]


def _mark(file: Path, mark: Any) -> str:
    return f"{file}:{mark.line + 1}:{mark.column + 1}" if mark is not None else str(file)


def _validate(tree: Any, file: Path) -> tuple[Spec | None, list[Problem]]:
    from pydantic import ValidationError

    from tunegate.specmodel import Spec

    try:
        return Spec.model_validate(_plain(tree)), []
    except ValidationError as exc:
        return None, [_problem(error, tree, file) for error in exc.errors()]


def _plain(node: Any) -> Any:
    """Round-trip nodes without their YAML types, so that strict validation sees plain values."""
    if isinstance(node, Mapping):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if isinstance(node, bool) or node is None:
        return node
    for kind in (int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return str(node)


def _problem(error: Any, tree: Any, file: Path) -> Problem:
    loc = tuple(part for part in error["loc"] if not _is_tag(part))
    key = ".".join(str(part) for part in loc)
    where = _where(tree, loc, file)
    kind, got = error["type"], error.get("input")
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(loc[-1]), _known_keys(loc[:-1]), n=1)
        known = (
            f"did you mean `{near[0]}`?" if near else "known: " + ", ".join(_known_keys(loc[:-1]))
        )
        return Problem(f"unknown key `{key}`; {known}", where)
    if kind == "missing":
        return Problem(f"`{key}` is missing", where)
    if key == "base.revision" and isinstance(got, int | float):
        return Problem(f"`{key}` was read as the number {got}; quote it", where)
    message = error["msg"].removeprefix("Value error, ")
    message = message.replace("Input should", "must", 1)
    return Problem(f"`{key}`: {message[0].lower() + message[1:]}, got {_short(got)}", where)


def _is_tag(part: object) -> bool:
    return isinstance(part, str) and part.startswith(("function-", "union-", "constrained-"))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _known_keys(loc: tuple[Any, ...]) -> list[str]:
    """The keys that may stand under a path of the run file."""
    from tunegate.specmodel import Spec, keys_under

    return keys_under(Spec, loc)


def _where(tree: Any, loc: tuple[Any, ...], file: Path) -> str:
    """`file:line:column` of the deepest part of `loc` that the file holds."""
    node, line, column = tree, 0, 0
    for part in loc:
        marks = getattr(node, "lc", None)
        if marks is None:
            break
        try:
            line, column = marks.key(part) if isinstance(node, Mapping) else marks.item(part)
            node = node[part]
        except (KeyError, IndexError, TypeError, AttributeError):
            break
    return f"{file}:{line + 1}:{column + 1}"


_FOLDERS = ("prompts", "anchor", "parent")
"""Keys that may name a folder."""


def _unreadable(path: Path, *, may_be_folder: bool) -> str | None:
    """What keeps a path from being read; None where nothing does."""
    try:
        if not path.exists():
            return "a link that leads nowhere" if path.is_symlink() else "no such file"
        if path.is_dir():
            return None if may_be_folder else "a folder where a file was expected"
        if not path.is_file():
            return "not an ordinary file"
        return None if os.access(path, os.R_OK) else "this user may not read it"
    except OSError as exc:
        return f"cannot be looked at ({exc.strerror})"


def _missing_files(spec: Spec, tree: Any, file: Path) -> list[Problem]:
    problems = []
    for loc, value in spec.files():
        wrong = _unreadable(file.parent / value, may_be_folder=loc[-1] in _FOLDERS)
        if wrong is not None:
            key = ".".join(str(part) for part in loc)
            near = _near_name(file.parent / value)
            said = f"`{key}`: {wrong}, {value}{near}"
            problems.append(Problem(said, _where(tree, loc, file)))
    return problems


def _near_name(path: Path) -> str:
    """`; did you mean ...?` where a name much like the missing one lies in the folder."""
    if os.path.lexists(path) or not path.parent.is_dir():
        return ""
    near = difflib.get_close_matches(path.name, sorted(os.listdir(path.parent)), n=1, cutoff=0.75)
    return f"; did you mean {near[0]}?" if near else ""
