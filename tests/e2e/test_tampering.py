"""What is edited by hand after a stage wrote it is never taken for evidence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shell import Shell, read, wait_for
from toys_model import make_base, make_run

pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("shell"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture(scope="module")
def finished(shell: Shell, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    make_run(folder, base)
    shell.run("go", folder)
    return folder


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_verdict_that_was_edited_does_not_open_the_gate(
    shell: Shell, base: Path, tmp_path: Path
) -> None:
    make_run(tmp_path, base)
    with (tmp_path / "train.jsonl").open("a") as handle:
        handle.write((tmp_path / "test.jsonl").read_text().splitlines()[0] + "\n")
    shell.run("check", tmp_path, code=3)
    checks = tmp_path / "evidence/checks.json"
    edit(checks, lambda body: body["verdicts"]["leak_check"].update(status="pass"))
    assert shell.run("status", tmp_path)["data"]["stages"]["check"] == "missing"
    shell.run("go", tmp_path, code=3)
    assert read(tmp_path, "evidence/checks.json")["verdicts"]["leak_check"]["status"] == "fail"


def test_a_setting_edited_in_frozen_json_is_not_trained(shell: Shell, copy: Path) -> None:
    edit(copy / "frozen.json", lambda b: b["settings"]["train"].update(learning_rate=1e-4))
    shell.run("freeze", copy)
    assert read(copy, "frozen.json")["settings"]["train"]["learning_rate"] == 5e-3
    assert set(shell.run("status", copy)["data"]["stages"].values()) == {"done"}


def test_a_release_outside_the_persons_chain_is_refused(shell: Shell, copy: Path) -> None:
    from tunegate.store import digest_of

    def forge(body: dict[str, Any]) -> None:
        body.update(level=1, approver="alice", nonce="ab")
        content = {k: v for k, v in body.items() if k not in ("format", "made", "digest")}
        body["digest"] = digest_of(content)

    edit(copy / "release.json", forge)
    (copy / "trained.json").unlink()
    shutil.rmtree(copy / "attempts")
    body = shell.run("train", copy, code=5)
    assert "chain of releases" in body["error"]["message"]
    assert not (copy / "attempts").exists()


def test_answers_edited_by_hand_are_not_scored(shell: Shell, copy: Path) -> None:
    path = copy / "eval/tuned.jsonl"
    tests = [json.loads(line) for line in (copy / "test.jsonl").read_text().splitlines()]
    gold = {row["id"]: row["completion"] for row in tests}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row["output"] = gold.get(row["id"], row["output"])
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    body = shell.run("eval", copy, code=9)
    assert body["error"]["kind"] == "columns_differ"


def test_a_changed_test_file_is_not_evaluated_before_it_is_checked(
    shell: Shell, copy: Path
) -> None:
    shutil.copy(copy / "train.jsonl", copy / "test.jsonl")
    status = shell.run("status", copy)
    assert "changed since it was frozen: test.jsonl" in status["data"]["summary"]
    body = shell.run("eval", copy, code=3)
    assert body["error"]["kind"] == "check_stale"
    shell.run("decide", copy, code=3)


def test_an_adapter_that_was_replaced_is_trained_again(shell: Shell, copy: Path) -> None:
    weights = copy / "attempts/1/adapter/adapter_model.safetensors"
    good = weights.read_bytes()
    weights.write_bytes(good[:-4] + b"\0\0\0\1")
    (copy / "trained.json").unlink()
    shell.run("train", copy)
    assert weights.read_bytes() == good


def test_answers_to_gate_1_are_inputs_like_all_others(shell: Shell, copy: Path) -> None:
    edit(copy / "run.yaml", lambda spec: spec.pop("research"))
    body = shell.run("go", copy, code=3)
    assert body["error"]["kind"] == "research_open"


def test_freezing_anew_while_training_does_not_relabel_the_training(
    shell: Shell, base: Path, tmp_path: Path
) -> None:
    make_run(tmp_path, base, train_rows=640)
    driver = shell.start("go", tmp_path)
    metrics = tmp_path / "attempts/1/metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.read_bytes().count(b"\n") > 3)
    edit(tmp_path / "run.yaml", lambda spec: spec["train"].update(learning_rate=4e-3))
    shell.run("freeze", tmp_path)
    assert driver.wait(timeout=120) == 5
    assert not (tmp_path / "trained.json").exists()


@pytest.mark.parametrize("text", ['{"format": 1}', "{", "[]", ""])
def test_status_survives_a_broken_file(shell: Shell, copy: Path, text: str) -> None:
    (copy / "frozen.json").write_text(text)
    assert shell.run("status", copy)["data"]["stages"]["freeze"] == "missing"


def test_candidates_of_one_name_are_told_apart(shell: Shell, base: Path, tmp_path: Path) -> None:
    for folder, text in (("a", "Sort it."), ("b", "Sort the mail. Reply with JSON.")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text(text)
    make_run(tmp_path, base, eval={"raw": {"prompts": ["a/x.txt", "b/x.txt"], "shots": [0]}})
    shell.run("freeze", tmp_path)
    found = read(tmp_path, "frozen.json")["settings"]["eval"]["raw"]["prompts"]
    names = [candidate["name"] for candidate in found]
    assert names[:2] == ["serving", "x"] and names[2].startswith("x-") and len(names) == 3
