"""What a start imports and costs, and that the worker's files need only the standard library.

Each test starts a fresh interpreter: modules imported by other tests would hide what is measured.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

HELP_CPU_MS = 150

THIRD_PARTY = {"click"}
"""The only distribution that a start may import."""

OURS = {"tunegate", "tunegate.errors", "tunegate.surfaces"}
"""Our modules that a start may import, with everything in tunegate.surfaces.cli."""

STANDARD = {"ast", "copy", "dataclasses", "dis", "inspect", "opcode", "token", "tokenize"}
"""Modules of the standard library that our side may add to what click's own help imports.
None costs over 10 ms of CPU; what is private (`_ast`) or inside one of them counts with it."""

PROBE = """
import json, sys
import click
click.Group("bare").main(["--help"], standalone_mode=False)
before = set(sys.modules)
from tunegate.surfaces.cli import main
sys.argv = ["tunegate", "--help"]
try:
    main()
except SystemExit as exit:
    assert not exit.code, exit.code
print("\\n" + json.dumps(sorted(set(sys.modules) - before)))
"""

WORKER_FILES = [
    *("worker", "checks", "frameworks/__init__.py", "frameworks/native.py"),
    *("types.py", "errors.py"),
]
"""What travels to the machine that trains, with an empty package file on top."""


def run(*arguments: str, cwd: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def started() -> list[str]:
    """Names of the modules that `tunegate --help` imports beyond click's own."""
    done = run("-c", PROBE)
    assert done.returncode == 0, done.stderr
    assert "Usage:" in done.stdout
    names = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(names, list)
    return names


def test_help_imports_only_listed_modules_of_ours(started: list[str]) -> None:
    ours = {name for name in started if name.partition(".")[0] == "tunegate"}
    extra = {name for name in ours - OURS if not name.startswith("tunegate.surfaces.cli")}
    assert "tunegate.surfaces.cli" in ours
    assert not extra


def test_help_imports_only_click(started: list[str]) -> None:
    tops = {name.partition(".")[0] for name in started} - {"tunegate"}
    assert tops - sys.stdlib_module_names <= THIRD_PARTY


def test_help_imports_no_heavy_standard_modules(started: list[str]) -> None:
    tops = {name.partition(".")[0].lstrip("_") for name in started}
    assert (tops & sys.stdlib_module_names) <= STANDARD


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="no wait4 to measure a child with")
def test_help_is_quick() -> None:
    """The least of several runs, user plus system time: other work only ever adds to it."""
    code = "from tunegate.surfaces.cli import main; main()"
    cpu_ms = min(cpu_ms_of(code, "--help") for _ in range(8))
    assert cpu_ms < HELP_CPU_MS, f"tunegate --help takes {cpu_ms:.0f} ms of CPU"


def cpu_ms_of(code: str, *arguments: str) -> float:
    child = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return 1000 * (usage.ru_utime + usage.ru_stime)


def foreign_imports(source: str) -> list[str]:
    """Our modules that the source imports, at any depth, and that do not travel with the worker."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "tunegate":
            found += [f"tunegate.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
    travels = {name.partition("/")[0].removesuffix(".py") for name in WORKER_FILES}
    ours = [name.split(".") for name in found if name.partition(".")[0] == "tunegate"]
    return [".".join(parts) for parts in ours if parts[1:2] == [] or parts[1] not in travels]


def worker_sources() -> list[Path]:
    paths = [REPOSITORY / "tunegate" / name for name in WORKER_FILES]
    return [
        file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])
    ]


def test_worker_files_import_nothing_else_of_ours() -> None:
    """Also inside functions, which the next test does not run."""
    found = {
        str(path.relative_to(REPOSITORY)): foreign
        for path in worker_sources()
        if (foreign := foreign_imports(path.read_text(encoding="utf-8")))
    }
    assert not found


def test_a_foreign_import_is_found() -> None:
    source = "from tunegate.worker import rows\ndef f():\n    from tunegate import spec, types\n"
    assert foreign_imports(source + "    import tunegate.store") == [
        "tunegate.spec",
        "tunegate.store",
    ]


def test_worker_files_import_alone(tmp_path: Path) -> None:
    """In an interpreter without site-packages, with no other file of ours beside them."""
    package = tmp_path / "tunegate"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in WORKER_FILES:
        source, target = REPOSITORY / "tunegate" / name, package / name
        target.parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    modules = [
        ".".join(path.relative_to(tmp_path).with_suffix("").parts)
        for path in sorted(package.rglob("*.py"))
        if path.name != "__init__.py"
    ]
    assert "tunegate.worker.main" in modules
    code = f"import sys, importlib; sys.path.insert(0, {str(tmp_path)!r})\n" + "\n".join(
        f"importlib.import_module({name!r})" for name in modules
    )
    done = run("-I", "-S", "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
