"""The command line: one help table, one JSON form, stable exit codes, parity with the verbs."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from tunegate import verbs
from tunegate.errors import EXIT_CODES
from tunegate.kinds import KINDS
from tunegate.surfaces.cli import GROUPS, VERBS, cli

CONTEXT = click.Context(cli)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from tunegate.surfaces.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def command(name: str) -> click.Command:
    found = cli.get_command(CONTEXT, name)
    assert found is not None, name
    return found


@pytest.mark.parametrize("name", VERBS)
def test_the_help_table_says_what_the_command_says(name: str) -> None:
    text = command(name).help or ""
    assert text.splitlines()[0] == VERBS[name]


def test_every_verb_file_is_in_the_table() -> None:
    folder = Path(inspect.getfile(cli.callback or cli)).parent
    found = {path.name.removesuffix("_verb.py") for path in folder.glob("*_verb.py")}
    assert found == set(VERBS)


@pytest.mark.parametrize("name", VERBS)
def test_a_command_is_the_function_of_the_same_name(name: str) -> None:
    function = getattr(verbs, name)
    wanted = set(inspect.signature(function).parameters) - {"show"}
    given = {parameter.name for parameter in command(name).params} - {"as_json"}
    assert given == wanted


def test_every_verb_is_a_command() -> None:
    functions = {name for name in verbs.__all__ if name not in ("Result", "parse_waivers")}
    assert functions == set(VERBS)


def test_help_shows_every_verb_once() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(VERBS)


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_without_a_verb_it_is_the_help(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("Usage: tunegate [OPTIONS] VERB [RUN]")


def test_help_lists_the_exit_codes() -> None:
    text = run("--help").stdout
    for code, meaning in EXIT_CODES.items():
        assert f"{code}  {meaning.split(':')[0].split('(')[0].strip()[:40]}" in text


def test_an_unknown_verb_gets_the_nearest() -> None:
    done = run("chek")
    assert done.returncode == 2
    assert "did you mean 'check'?" in done.stderr.lower() and done.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("check", "nowhere.yaml"), "file_missing"),
        (("check", "--onyl", "x"), "usage"),
        (("explain", "no_such_kind"), "unknown_name"),
        (("eval", "nowhere.yaml", "--column", "middle"), "usage"),
    ],
)
def test_a_wrong_call_is_one_json_object(arguments: tuple[str, ...], kind: str) -> None:
    done = run(*arguments, "--json")
    assert done.returncode == 2
    body: dict[str, Any] = json.loads(done.stdout)
    assert set(body) == {"ok", "code", "verb", "run", "data", "next", "error"}
    assert body["ok"] is False and body["code"] == 2 and body["verb"] == arguments[0]
    assert body["error"]["kind"] == kind


def test_every_kind_can_be_explained() -> None:
    for kind, about in KINDS.items():
        found = verbs.explain(kind)
        assert found.summary == f"{kind}: {about.meaning}"
        assert found.data["remedy"] == about.remedy
        codes = [line for line in found.data["lines"] if line.startswith("exit code")]
        assert [int(line.split()[2].rstrip(":")) for line in codes] == list(about.exit_codes)


def test_a_run_folder_without_a_run_file_says_so(tmp_path: Path) -> None:
    done = run("status", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == f"error: no run.yaml in {tmp_path}"
    assert done.stderr.splitlines()[1].startswith("hint: ")


def test_version_is_the_packages() -> None:
    import tunegate

    assert run("--version").stdout == f"tunegate {tunegate.__version__}\n"


def test_the_demo_copies_every_input_of_the_example(repository: Path) -> None:
    from tunegate.verbs.go import EXAMPLE, example_dir

    assert example_dir() == repository / "examples" / "triage"
    listed = subprocess.run(
        ["git", "-C", str(repository), "ls-files", "examples/triage"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    found = {line.removeprefix("examples/triage/").split("/")[0] for line in listed.stdout.split()}
    assert found == set(EXAMPLE)


def test_the_demo_does_not_write_into_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    done = run("demo", str(tmp_path))
    assert done.returncode == 2
    assert "is not empty and holds no run" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_odd_folder_name_still_gives_json(tmp_path: Path) -> None:
    import os

    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    done = run("status", os.fsdecode(folder), "--json")
    assert json.loads(done.stdout)["code"] == 2
