"""Wrong inputs on the command line: one clear error each, with its place and the way out.

Every case plants one fault into a run that is right otherwise. What must come of it: the exit code,
the kind, one place, what was expected, one hint; and no file in the run folder but complete ones.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.core.test_bases_folder import make_folder
from tests.toys import write_rows
from tests.toys_model import make_run, toy_rows
from tests.wrong_inputs import CASES, Case, change, lines
from tunegate.store import Store
from tunegate.surfaces.cli import cli

NOBODY = 65534


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that freezes as it is, with its base beside its rows."""
    folder = tmp_path_factory.mktemp("right")
    base = make_folder(folder / "base")
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 4096}))
    make_run(folder, Path("base"), train_rows=12)
    return folder


@pytest.fixture
def run(
    right: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any
) -> Path:
    monkeypatch.setenv("TUNEGATE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("TUNEGATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(right, tmp_path / "run"))


class Said:
    """What a command answered: exit code, the JSON object, and the text that a person sees."""

    def __init__(self, *arguments: str | Path) -> None:
        given = [str(argument) for argument in arguments]
        done = CliRunner().invoke(cli, [*given, "--json"], standalone_mode=False)
        assert done.exception is None, done.exception
        self.body: dict[str, Any] = json.loads(done.stdout)
        self.code: int = done.return_value
        assert self.body["code"] == self.code and self.body["ok"] is (self.code == 0)
        if self.code:
            again = CliRunner().invoke(cli, given, standalone_mode=False)
            assert again.return_value == self.code and again.stdout == ""
            self.text = again.stderr
        else:
            self.text = done.stderr
        self.error: dict[str, Any] = self.body["error"] or {}

    def places(self) -> list[str]:
        """Every place that the error names."""
        return [str(self.error["where"]), *self.error.get("problems", [])]


def assert_whole(folder: Path, before: set[Path]) -> None:
    """Nothing was half-written: what is new is the lock, or a stage's file with its digest."""
    for path in {path for path in folder.rglob("*") if path.is_file()} - before:
        if path.name != ".lock":
            assert len(json.loads(path.read_text())["digest"]) == 64, path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_clear_error(case: Case, run: Path) -> None:
    case.plant(run)
    before = {path for path in run.rglob("*") if path.is_file()}
    said = Said(*case.command, run)
    assert (said.code, said.error["kind"]) == (case.code, case.kind), said.text
    if case.where is not None:
        assert any(f"{case.where}" in place for place in said.places()), said.places()
    shown = [line for line in said.text.splitlines() if not line.startswith("[")]
    assert shown[0].startswith("error: ") and shown[-1].startswith("hint: ")
    assert sum(line.startswith(("error: ", "hint: ")) for line in shown) == 2
    if case.code == 2:
        assert len(shown) <= 5, said.text
        assert not (run / "frozen.json").exists()
    for part in case.says:
        assert part in "\n".join(shown[:-1]), said.text
    assert case.hint in shown[-1], said.text
    assert "Traceback" not in said.text and "fault of tunegate" not in said.text
    assert_whole(run, before)


def test_windows_line_ends_pass_and_are_told(run: Path) -> None:
    path = run / "train.jsonl"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    said = Said("check", "--only", "data_lint", run)
    assert said.code == 0
    assert "data_lint: 12 lines end in CRLF" in said.body["data"]["warnings"]


def test_a_run_file_with_a_mark_is_read(run: Path) -> None:
    path = run / "run.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert Said("freeze", run).code == 0


def test_a_path_of_any_letters_works(run: Path) -> None:
    there = run.rename(run.parent / "мои données 数据 & 'x'")
    for old, new in (("train.jsonl", "тренировка rows.jsonl"), ("system.txt", "提示 é.txt")):
        (there / old).rename(there / new)
    (there / "base").rename(there / "модель basis")
    change(there, data={"train": "тренировка rows.jsonl"}, prompt={"system": "提示 é.txt"},
           base={"model": "модель basis"})  # fmt: skip
    assert Said("freeze", there).code == 0
    assert Said("check", "--only", "data_lint", "--only", "length_audit", there).code == 0
    (there / "тренировка rows.jsonl").write_bytes(b"{\n")
    said = Said("freeze", there)
    assert said.code == 2
    assert said.error["where"] == f"{there / 'тренировка rows.jsonl'}:1"


LONG = {"id": "long", "prompt": "fox " * 100_000, "completion": '{"intent": "invoice"}'}


def test_a_row_of_100_000_tokens_closes_the_gate_of_a_few_rows(run: Path) -> None:
    write_rows(run / "train.jsonl", [*toy_rows(12, seed=1, prefix="t"), LONG])
    said = Said("check", "--only", "length_audit", run)
    assert (said.code, said.error["kind"]) == (3, "check_failed")
    assert "1 of 13 rows is lost" in said.text and "train.jsonl:13: left out" in said.text
    assert "it has up to 100,0" in said.text and "the base model reads 4,096" in said.text
    assert "max_length to 100" not in said.text


def test_a_row_of_100_000_tokens_among_many_is_told(run: Path) -> None:
    write_rows(run / "train.jsonl", [LONG, *toy_rows(240, seed=1, prefix="t")])
    said = Said("check", "--only", "length_audit", run)
    assert said.code == 0, said.text
    (warning,) = said.body["data"]["warnings"]
    assert warning.startswith("length_audit: left out: longer than")
    evidence = json.loads((run / "evidence" / "length_audit.json").read_text())
    assert evidence["verdict"]["numbers"]["lost_lines"] == [1]


def test_parquet_without_pyarrow(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "train.jsonl").rename(run / "train.parquet")
    change(run, data={"train": "train.parquet"})
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as Python itself marks what is not there
    said = Said("freeze", run)
    assert (said.code, said.error["kind"]) == (2, "extra_missing")
    assert said.error["hint"].startswith("pip install 'tunegate[parquet]'")


def test_a_parquet_file_that_is_cut_short(run: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = run / "train.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(toy_rows(40, seed=1, prefix="t")), path)
    change(run, data={"train": "train.parquet"})
    assert Said("freeze", run).code == 0
    (run / "frozen.json").unlink()
    path.write_bytes(path.read_bytes()[:-100])
    said = Said("freeze", run)
    assert (said.code, said.error["kind"]) == (2, "data_invalid")
    assert said.error["where"] == f"{path}:1"
    assert said.error["message"].startswith("not a whole Parquet file: ")
    assert said.error["hint"].startswith("write or copy the file again")


def test_two_commands_on_one_run(run: Path) -> None:
    with Store(run).lock("train"):
        said = Said("freeze", run)
    assert (said.code, said.error["kind"]) == (12, "run_busy")
    assert f"the run is busy: train, process {os.getpid()}" in said.text
    assert "hint: wait, or tunegate status" in said.text
    assert Said("freeze", run).code == 0


@pytest.fixture
def nobodys(run: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A frozen run, since changed, that this user may read and not write.

    Root may write everywhere, so it becomes nobody for the test; the interpreter need not be
    readable to nobody, as everything was imported before.
    """
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    folder.chmod(0o755)
    monkeypatch.setenv("TUNEGATE_CACHE", str(folder / "cache"))
    there = Path(shutil.copytree(run, folder / "run"))
    assert Said("freeze", there).code == 0
    change(there, train={"epochs": 1})
    there.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
    try:
        yield there
    finally:
        os.seteuid(os.getuid())
        there.chmod(0o755)
        shutil.rmtree(folder)


def test_a_folder_that_this_user_may_not_write(nobodys: Path) -> None:
    before = {path: path.read_bytes() for path in nobodys.iterdir() if path.is_file()}
    said = Said("freeze", nobodys)
    assert (said.code, said.error["kind"]) == (7, "not_writable"), said.text
    assert "Permission denied" in said.text and str(nobodys) in said.text
    assert said.error["hint"].startswith(("choose a folder", "free some space"))
    assert {path: path.read_bytes() for path in nobodys.iterdir() if path.is_file()} == before


def test_every_bad_line_of_a_file_is_named_at_once(run: Path) -> None:
    found = lines(run)
    found[2], found[6] = b"{\n", b'{"promt": "x"}\n'
    (run / "train.jsonl").write_bytes(b"".join(found))
    said = Said("freeze", run)
    assert said.error["message"] == "2 rows of train.jsonl cannot be read"
    assert [text.split(": ")[0] for text in said.error["problems"]] == [
        f"{run / 'train.jsonl'}:3", f"{run / 'train.jsonl'}:7",
    ]  # fmt: skip
