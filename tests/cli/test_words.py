"""What a newcomer reads: help in plain words, errors with their cause and a next step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell import Shell

from tunegate.surfaces.cli import VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_every_help_begins_with_usage_and_a_sentence(verb: str, tmp_path: Path) -> None:
    lines = Shell(tmp_path).text(verb, "--help").stdout.splitlines()
    assert lines[0].startswith(f"Usage: tunegate {verb} [OPTIONS]")
    assert "RUN" not in lines[0] or "[RUN]" in lines[0], "the run may be left out"
    assert lines[2].strip()[-1:] in ".,;:" or lines[3].strip(), "a sentence"


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (("chek",), ["error: no such verb 'chek'. Did you mean 'check'?", "hint: tunegate --help"]),
        (
            ("go", "--jsn"),
            ["error: no such option '--jsn'. Did you mean '--json'?", "hint: tunegate go --help"],
        ),
        (
            ("status", "nowhere.yaml"),
            ["error: no such run: nowhere.yaml"],
        ),
        (
            ("init", "here"),
            [
                "error: --train is missing: the file with your rows",
                "hint: tunegate init FOLDER --train mine.jsonl; everything else has a default",
            ],
        ),
        (
            ("explain", "disk_ful"),
            ["error: no error kind is called 'disk_ful'", "hint: did you mean disk_full?"],
        ),
    ],
)
def test_an_error_says_what_and_what_next(
    tmp_path: Path, arguments: tuple[str, ...], lines: list[str]
) -> None:
    said = Shell(tmp_path).text(*arguments, code=2)
    assert said.stdout == ""
    assert said.stderr.splitlines()[: len(lines)] == lines
    assert "hint: " in said.stderr


def test_more_worked_examples_than_rows_are_refused(tmp_path: Path) -> None:
    from tiny_run import make_base
    from toys import chat

    make_base(tmp_path / "base")
    rows = "".join(json.dumps(chat(f"question {n}", "ab"[n % 2])) + "\n" for n in range(6))
    for name in ("train", "validation", "test"):
        (tmp_path / f"{name}.jsonl").write_text(rows)
    (tmp_path / "run.yaml").write_text(
        "name: few\ntask: {answer: label, labels: [a, b]}\n"
        "data: {train: train.jsonl, validation: validation.jsonl}\nbase: {model: base}\n"
        "eval: {test: test.jsonl, raw: {shots: [0, 7]}}\n"
    )
    error = Shell(tmp_path).run("freeze", tmp_path, code=2)["error"]
    assert error["message"] == (
        "eval.raw.shots asks for 7 worked examples, and train.jsonl has 6 rows"
    )
    assert error["hint"] == "shots of at most 6; [0] tries no worked examples"
    assert not (tmp_path / "frozen.json").exists()
