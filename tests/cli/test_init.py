"""`tunegate init` on rows of one's own, from nothing to a checked run."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from shell import COMMAND, Shell
from tiny_run import make_base
from toys import chat
from toys_model import CLASSES, toy_rows

from tunegate.checks import names
from tunegate.spec import read_spec

pytest.importorskip("torch", reason="torch is not installed")

LABELS = (*CLASSES[:3], "other")


def own_rows(path: Path, count: int = 200) -> Path:
    """Rows in messages form whose answers are labels; every tenth question comes twice, but for
    case and punctuation.
    """
    rows = []
    for number, row in enumerate(toy_rows(count, seed=7, prefix="own")):
        if number % 10 == 1:
            before = [turn["content"] for turn in rows[-1]["messages"]]
            rows.append(chat(f"{before[0].upper()} !!", before[1]))
        else:
            rows.append(chat(row["prompt"], LABELS[number % 4]))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def questions(path: Path) -> set[str]:
    rows = map(json.loads, path.read_text().splitlines())
    return {row["messages"][0]["content"].rstrip(" !?").casefold() for row in rows}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "shell")


def test_own_rows_become_a_run_that_passes_its_checks(shell: Shell, odd_path: Path) -> None:
    mine = own_rows(odd_path / "mine.jsonl")
    before = mine.read_bytes()
    base, folder = odd_path / "base", odd_path / "my run"
    make_base(base)
    body = shell.run("init", folder, "--train", mine, "--base", base)
    assert (body["data"]["answer"], body["data"]["escape"]) == ("label", "other")
    assert body["data"]["labels"] == sorted(LABELS)
    assert any("copies" in line for line in body["data"]["lines"])
    assert mine.read_bytes() == before
    spec = read_spec(folder / "run.yaml")
    assert (spec.name, spec.task.labels) == ("my-run", sorted(LABELS))
    parts = {name: folder / f"data/{name}.jsonl" for name in ("train", "validation", "test")}
    lines = [line for path in parts.values() for line in path.read_bytes().splitlines()]
    assert sorted(lines) == sorted(before.splitlines()), "every row once, as it stood"
    said = {name: questions(path) for name, path in parts.items()}
    assert not said["train"] & said["test"] and not said["validation"] & said["test"]
    assert not said["train"] & said["validation"]
    assert len(parts["test"].read_text().splitlines()) >= 36
    said_check = shell.run("check", folder)["data"]["summary"]
    assert said_check == f"gate 2: {len(names('host'))} checks passed"
    assert shell.run("research", folder)["ok"]
    go = shlex.split(body["next"][0])
    assert go[:2] == ["tunegate", "go"] and Path(go[2]) == folder


def test_json_rows_with_files_of_their_own_are_not_copied(shell: Shell, tmp_path: Path) -> None:
    for name, seed in (("train", 1), ("validation", 2), ("test", 3)):
        rows = toy_rows(40, seed=seed, prefix=name)
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    folder = tmp_path / "run"
    shell.run(
        "init", folder, "--train", tmp_path / "train.jsonl", "--validation",
        tmp_path / "validation.jsonl", "--test", tmp_path / "test.jsonl", "--escape", "",
    )  # fmt: skip
    spec = read_spec(folder / "run.yaml")
    assert (spec.task.answer, spec.task.class_, spec.task.escape) == ("json", "/intent", None)
    assert (spec.data.train, spec.eval.test) == ("../train.jsonl", "../test.jsonl")
    assert spec.base.model == "bundled:smollm2-135m-instruct"
    schema = json.loads((folder / "answer.schema.json").read_text())
    assert schema["properties"]["intent"]["enum"] == sorted(CLASSES)
    assert not (folder / "data").exists()


def refused(shell: Shell, *arguments: Any) -> dict[str, Any]:
    error: dict[str, Any] = shell.run("init", *arguments, code=2)["error"]
    return error


def test_without_a_terminal_the_missing_option_is_named(shell: Shell, tmp_path: Path) -> None:
    error = refused(shell, tmp_path / "run")
    assert error["message"].startswith("--train is missing")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--escape", "nothing"), "no class is called 'nothing'"),
        (("--answer", "json"), "are no JSON object"),
        (("--answer", "word"), "no kind of answer is called 'word'"),
        (("--base", "org/name"), "needs its exact revision"),
        (("--base", "bundled:none"), "no bundled base model"),
        (("--test", "absent.jsonl"), "absent.jsonl"),
    ],
)
def test_a_wrong_option_writes_nothing(
    shell: Shell, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    mine = own_rows(tmp_path / "mine.jsonl", 40)
    error = refused(shell, tmp_path / "run", "--train", mine, *options)
    assert message in error["message"]
    assert not (tmp_path / "run").exists()


def test_nothing_is_written_over(shell: Shell, tmp_path: Path) -> None:
    mine = own_rows(tmp_path / "mine.jsonl", 40)
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/system.txt").write_text("mine")
    assert "there already" in refused(shell, tmp_path, "--train", mine)["message"]
    assert (tmp_path / "prompts/system.txt").read_text() == "mine"
    assert not (tmp_path / "run.yaml").exists() and not (tmp_path / "data").exists()


def test_a_broken_line_is_named_before_anything_is_written(shell: Shell, tmp_path: Path) -> None:
    mine = own_rows(tmp_path / "mine.jsonl", 20)
    mine.write_text(mine.read_text() + "{'prompt': 'x'}\n")
    error = refused(shell, tmp_path / "run", "--train", mine)
    assert error["where"] == f"{mine}:21" and "json.dumps" in error["hint"]
    assert not (tmp_path / "run").exists()


def test_rows_without_answers_are_refused(shell: Shell, tmp_path: Path) -> None:
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"messages": [{"role": "user", "content": "x"}]}\n')
    error = refused(shell, tmp_path / "run", "--train", mine)
    assert error["message"] == "a training row needs a question and an answer"


def test_on_a_terminal_at_most_five_questions(shell: Shell, tmp_path: Path) -> None:
    mine = own_rows(tmp_path / "mine.jsonl", 80)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "init", str(tmp_path / "run")], env=shell.environment, stdin=slave,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(slave)
    os.write(master, f"{mine}\n\n\nSort the mail.\n\n".encode())
    out, asked = process.communicate(timeout=60)
    os.close(master)
    assert process.returncode == 0, asked
    assert [number for number in range(1, 9) if f"{number}. " in asked] == [1, 2, 3, 4, 5]
    assert "next: tunegate go" in out
    spec = read_spec(tmp_path / "run/run.yaml")
    assert (spec.task.answer, spec.task.escape) == ("label", "other")
    assert (tmp_path / "run/prompts/system.txt").read_text() == "Sort the mail.\n"
