"""The rules of the house: size limits, names, words, declared imports, error kinds, the network.

Each rule is a pure function over text; beside the test that the tree keeps it stands one that a
planted breach is found.
"""

from __future__ import annotations

import ast
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_socket import SocketConnectBlockedError

from tunegate import errors
from tunegate.kinds import KINDS

REPOSITORY = Path(__file__).resolve().parents[2]

FILE_LINES = 400
FUNCTION_LINES = 60
AGENTS_LINES = 40

VAGUE_NAMES = {
    *("utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "base"),
    *("handler", "handlers", "core", "lib", "stuff"),
}

# Written with one letter in brackets, so that this file does not break its own rule.
BANNED_WORDS = {
    "unfinished work": r"\b(TOD[O]|FIXM[E]|XX[X]|HAC[K])\b",
    "a path of one machine": r"(?<![\w.~}*/-])/(hom[e]|roo[t]|tm[p]|wor[k]|User[s])/\w",
    "a registry's host": r"pyp[i]\.org|pythonhoste[d]|registry\.npmj[s]|deb\.debia[n]\.org",
    "how it was written": r"\b(subagen[t]|this sessio[n]|as an A[I]\b|the bri[e]f)",
}
"""What a word says that does not belong into the project -> the pattern that finds it."""

TEXT_SUFFIXES = {
    *("", ".md", ".py", ".toml", ".txt", ".yaml", ".yml"),
    *(".css", ".html", ".jinja", ".js", ".json", ".svg"),
}

IMPORT_TO_DISTRIBUTION = {"ruamel": "ruamel.yaml", "vl_convert": "vl-convert-python"}
"""Top-level import names that differ from the name of the distribution."""


def project_files(*suffixes: str) -> list[Path]:
    """The files that git knows or would add, as paths from the repository's root."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a git checkout, so the project's files cannot be told from others")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    paths = [Path(name) for name in listed if name and (REPOSITORY / name).is_file()]
    return [path for path in paths if not suffixes or path.suffix in suffixes]


def read(path: Path) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")


def long_functions(source: str) -> list[str]:
    """`name (lines)` of every function over the limit, decorators not counted."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                found.append(f"{node.name} ({lines})")
    return found


def banned_words(text: str) -> list[str]:
    """`line: what: the line` for every banned word."""
    return [
        f"{number}: {what}: {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), start=1)
        for what, pattern in BANNED_WORDS.items()
        if re.search(pattern, line)
    ]


def third_party_imports(source: str) -> Iterator[str]:
    """Distributions that the source imports, at any depth; the standard library and ours apart."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            continue
        for name in names:
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names and top != "tunegate":
                yield normal(IMPORT_TO_DISTRIBUTION.get(top, top))


def normal(distribution: str) -> str:
    """PEP 503's normal form of a distribution's name, requirements cut off."""
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=!~;\[ ]", distribution)[0]).lower()


def literal_kinds(source: str) -> Iterator[tuple[int, str, str]]:
    """Line, class and text of every `kind="..."` given to one of our error classes."""
    classes = {name for name, item in vars(errors).items() if isinstance(item, type)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            for keyword in node.keywords:
                value = getattr(keyword.value, "value", None)
                if called in classes and keyword.arg == "kind" and isinstance(value, str):
                    yield node.lineno, called, value


def test_no_file_is_over_the_limit() -> None:
    over = [
        f"{path} ({lines})"
        for path in project_files(".py")
        if (lines := len(read(path).splitlines())) > FILE_LINES
    ]
    assert not over, f"files over {FILE_LINES} lines; make a folder of the same name: {over}"


def test_no_function_is_over_the_limit() -> None:
    over = {
        str(path): found for path in project_files(".py") if (found := long_functions(read(path)))
    }
    assert not over, f"functions over {FUNCTION_LINES} lines: {over}"


@pytest.mark.parametrize("lines", [FUNCTION_LINES, FUNCTION_LINES + 1])
def test_a_long_function_is_found(lines: int) -> None:
    source = "@decorated\ndef f():\n" + "    pass\n" * (lines - 1)
    assert bool(long_functions(source)) == (lines > FUNCTION_LINES)


def test_modules_are_named_for_what_they_do() -> None:
    names = {part.removesuffix(".py") for path in project_files(".py") for part in path.parts}
    tests_own = {"core"}  # tests/core is the folder of the pure parts' tests
    assert not (names & VAGUE_NAMES) - tests_own


def test_no_banned_words() -> None:
    found = {
        str(path): words
        for path in project_files()
        if path.suffix in TEXT_SUFFIXES and (words := banned_words(read(path)))
    }
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "# TO" + "DO: later",
        "cache = '/ho" + "me/ana/.cache'",
        "index = https://py" + "pi.org/simple",
        "written by a sub" + "agent",
    ],
)
def test_a_banned_word_is_found(text: str) -> None:
    assert banned_words(text)


@pytest.mark.parametrize("text", ["a method", "~/work/x", "docs/work/x", "https://a.b/home/c"])
def test_an_innocent_word_is_not_found(text: str) -> None:
    assert not banned_words(text)


def declared() -> tuple[set[str], set[str]]:
    """Distributions that pyproject.toml declares: of the base install, and with the extras."""
    project = tomllib.loads(read(Path("pyproject.toml")))["project"]
    base = {normal(item) for item in project["dependencies"]}
    extras = {
        normal(item)
        for extra, items in project["optional-dependencies"].items()
        if extra != "dev"
        for item in items
    }
    return base, base | extras


def test_every_import_is_declared() -> None:
    _, known = declared()
    missing = {
        f"{path}: {name}"
        for path in project_files(".py")
        if path.parts[0] == "tunegate"
        for name in third_party_imports(read(path))
        if name not in known
    }
    assert not missing, "imported, but not in pyproject.toml"


def test_an_undeclared_import_is_found() -> None:
    source = (
        "import os, tunegate.types\nif x:\n    from ruamel.yaml import YAML\n    import nosuch.x"
    )
    assert list(third_party_imports(source)) == ["ruamel-yaml", "nosuch"]


def test_every_pin_satisfies_what_is_declared() -> None:
    from packaging.requirements import Requirement

    pins = dict(
        line.split("==")
        for line in read(Path("constraints.txt")).splitlines()
        if line and not line.startswith("#")
    )
    pinned = {normal(name): version for name, version in pins.items()}
    project = tomllib.loads(read(Path("pyproject.toml")))["project"]
    asked = list(project["dependencies"])
    for items in project["optional-dependencies"].values():
        asked += items
    loose = [
        item
        for item in map(Requirement, asked)
        if not item.specifier.contains(pinned.get(normal(item.name), "0"))
    ]
    assert not loose, "constraints.txt has no pin inside the declared range"


def test_every_error_class_has_a_known_kind_and_exit_code() -> None:
    classes = [item for item in vars(errors).values() if isinstance(item, type)]
    ours = [item for item in classes if issubclass(item, errors.TunegateError)]
    assert len(ours) > 10
    codes = {item: KINDS[item.default_kind].exit_codes for item in ours}
    assert [item for item in ours if item.exit_code not in codes[item]] == []
    assert {item.exit_code for item in ours} <= set(errors.EXIT_CODES)


def test_every_kind_in_the_source_is_documented() -> None:
    unknown = {
        f"{path}:{line}: {kind}"
        for path in project_files(".py")
        if path.parts[0] == "tunegate"
        for line, _, kind in literal_kinds(read(path))
        if kind not in KINDS
    }
    assert not unknown, "add the kind to tunegate/kinds.py"


def test_a_kind_is_raised_with_the_exit_code_that_its_page_names() -> None:
    wrong = [
        f"{path}:{line}: {kind} with {name}"
        for path in project_files(".py")
        if path.parts[0] == "tunegate"
        for line, name, kind in literal_kinds(read(path))
        if name != "TunegateError"  # its exit code is set by hand
        and getattr(errors, name).exit_code not in KINDS[kind].exit_codes
    ]
    assert wrong == []


def test_a_literal_kind_is_seen() -> None:
    source = 'raise errors.UsageError("x", kind="odd")\nf(kind="no")'
    assert list(literal_kinds(source)) == [(1, "UsageError", "odd")]


def test_the_notes_for_agents_stay_short() -> None:
    assert len(read(Path("AGENTS.md")).splitlines()) <= AGENTS_LINES
    assert read(Path("CLAUDE.md")).strip() == "@AGENTS.md"


def test_the_network_is_closed() -> None:
    outside = "192.0.2.1"  # RFC 5737: never routed, so even an open network would not answer
    with (
        socket.socket() as client,
        pytest.warns(UserWarning, match=outside),
        pytest.raises(SocketConnectBlockedError),
    ):
        client.connect((outside, 9))


def test_loopback_is_open() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=5) as client,
    ):
        assert client.getpeername() == server.getsockname()
