"""The run file: every problem at once, with line, column and near names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tunegate.errors import SpecError, UsageError
from tunegate.spec import read_spec, run_file_and_folder

GOOD = """\
name: triage
task: {answer: label, labels: [a, b]}
data: {train: rows.jsonl, validation: rows.jsonl}
base: {model: some/base, revision: "12e45678"}
train:
  learning_rate: 2e-4
eval: {test: rows.jsonl}
"""


def write(folder: Path, text: str) -> Path:
    (folder / "rows.jsonl").write_text('{"prompt": "x", "completion": "a"}\n')
    file = folder / "run.yaml"
    file.write_text(text)
    return file


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read_spec(write(folder, text))
    return [str(problem).removeprefix(str(folder) + "/") for problem in caught.value.problems]


def test_reads_numbers_and_words_as_yaml_1_2(tmp_path: Path) -> None:
    text = GOOD.replace("labels: [a, b]", "labels: [no, yes]")
    spec = read_spec(write(tmp_path, text))
    assert spec.train.learning_rate == 2e-4
    assert spec.task.labels == ["no", "yes"]


def test_reports_all_problems_at_once_with_places(tmp_path: Path) -> None:
    text = GOOD.replace(
        "learning_rate: 2e-4", "learning_rat: 2e-4\n  epochs: two\n  lora: {rnk: 8}"
    )
    assert problems(tmp_path, text) == [
        "run.yaml:6:3: unknown key `train.learning_rat`; did you mean `learning_rate`?",
        "run.yaml:7:3: `train.epochs`: must be a valid number, got 'two'",
        "run.yaml:8:10: unknown key `train.lora.rnk`; did you mean `rank`?",
    ]


def test_names_missing_files_with_their_key(tmp_path: Path) -> None:
    found = problems(tmp_path, GOOD.replace("train: rows.jsonl", "train: gone.jsonl"))
    assert found == ["run.yaml:3:8: `data.train`: no such file, gone.jsonl"]


@pytest.mark.parametrize("revision", ["12e45678", "1234567", "0.5"])
def test_asks_to_quote_a_revision_that_yaml_reads_as_a_number(
    tmp_path: Path, revision: str
) -> None:
    (found,) = problems(tmp_path, GOOD.replace('"12e45678"', revision))
    assert found.endswith("; quote it") and found.startswith("run.yaml:4:26:")


def test_refuses_a_key_that_stands_twice(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match='duplicate key "name"') as caught:
        read_spec(write(tmp_path, GOOD + "name: again\n"))
    assert caught.value.where is not None and ":8:1" in caught.value.where


@pytest.mark.parametrize(
    "text", ["", "- a list\n", "name: [unclosed\n", "\tname: tab\n", "name: \xff"]
)
def test_refuses_what_is_no_mapping(tmp_path: Path, text: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(SpecError):
        read_spec(file)


def test_refuses_values_of_another_type(tmp_path: Path) -> None:
    found = problems(tmp_path, GOOD + "limits: {money: 5}\n")
    assert found == [
        "run.yaml:8:10: `limits.money`: an amount and a currency, such as `5 USD`, got 5"
    ]


def test_a_run_file_of_another_name_has_a_folder_of_its_own(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD)
    other = tmp_path / "run-b.yaml"
    other.write_text(GOOD)
    assert run_file_and_folder(file)[1] == tmp_path
    assert run_file_and_folder(tmp_path)[0] == file
    assert run_file_and_folder(other)[1] == tmp_path / "run-b"


def test_says_what_is_missing_where_there_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no run\.yaml in"):
        run_file_and_folder(tmp_path)
    with pytest.raises(UsageError, match="no such run"):
        run_file_and_folder(tmp_path / "gone.yaml")


def test_refuses_what_is_no_ordinary_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    text = GOOD.replace("train: rows.jsonl", "train: folder").replace(
        "test: rows.jsonl", "test: pipe"
    )
    assert problems(tmp_path, text) == [
        "run.yaml:3:8: `data.train`: a folder where a file was expected, folder",
        "run.yaml:7:8: `eval.test`: not an ordinary file, pipe",
    ]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("limits: {minutes_at_risk: .inf}", "limits.minutes_at_risk"),
        ("limits: {money: ٥ USD}", "limits.money"),
    ],
)
def test_refuses_numbers_that_no_run_can_have(tmp_path: Path, line: str, key: str) -> None:
    (found,) = problems(tmp_path, GOOD + line + "\n")
    assert f"`{key}`" in found


def test_refuses_counts_beyond_reason(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, GOOD.replace("learning_rate: 2e-4", "seed: 9007199254740994"))
    assert "`train.seed`" in found


@pytest.mark.parametrize("name", ["test", "train", "a/b", '""'])
def test_refuses_slices_that_would_be_taken_for_something_else(tmp_path: Path, name: str) -> None:
    text = GOOD.replace("test: rows.jsonl}", f"test: rows.jsonl, slices: {{{name}: rows.jsonl}}}}")
    (found,) = problems(tmp_path, text)
    assert "`eval.slices" in found


def test_a_link_to_a_run_file_is_a_run_of_its_own(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD)
    other = tmp_path / "other"
    other.mkdir()
    (other / "run.yaml").symlink_to(file)
    assert run_file_and_folder(other)[1] == other
    assert run_file_and_folder(other / "run.yaml") == (other / "run.yaml", other)


def test_refuses_template_switches_that_are_no_switches(tmp_path: Path) -> None:
    for name in ("messages", "bos_token"):
        line = f"prompt: {{chat_template_kwargs: {{{name}: x}}}}\n"
        (found,) = problems(tmp_path, GOOD + line)
        assert "`prompt.chat_template_kwargs`" in found and "switches" in found
