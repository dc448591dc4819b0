"""`tunegate doctor`: what it sees, what it never shows, and what closes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell import Shell

pytest.importorskip("torch", reason="torch is not installed")


def test_a_machine_that_trains_is_fine(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.environment["HF_TOKEN"] = "hf_secret_of_mine"
    (tmp_path / "cache/bases/some-base").mkdir(parents=True)
    done = shell.run("doctor")
    found = {item["name"]: item for item in done["data"]["findings"]}
    assert "secret" not in json.dumps(done)
    assert found["hub token"]["text"] == "there is one"
    assert "some-base" in found["cached"]["text"]
    assert {"python", "torch", "gpu", "processor", "memory", "releases"} <= set(found)
    assert {item["state"] for item in found.values()} <= {"ok", "warn"}


def test_a_broken_chain_of_releases_closes_it(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/releases.jsonl").write_text('{"previous": "of another line"}\n')
    error = shell.run("doctor", code=2)["error"]
    assert error["message"] == "this machine cannot run a fine-tune yet"
    assert any("fail releases" in " ".join(text.split()) for text in error["problems"])
    assert "keep the file as evidence" in error["hint"]


def test_a_torch_that_does_not_import_closes_it(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    broken = tmp_path / "broken"
    (broken / "torch").mkdir(parents=True)
    (broken / "torch/__init__.py").write_text("raise ImportError('libcudart is missing')\n")
    shell.environment["PYTHONPATH"] = f"{broken}:{shell.environment.get('PYTHONPATH', '')}"
    error = shell.run("doctor", code=2)["error"]
    assert any("libcudart is missing" in text for text in error["problems"])
    assert error["hint"].startswith("pip install torch")
