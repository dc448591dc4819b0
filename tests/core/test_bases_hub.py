"""Hub ids as base models: the local hub cache at one commit, with the network closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.core.test_bases_folder import make_folder
from tunegate.bases import hub, resolve
from tunegate.errors import UsageError

COMMIT = "12fd25f77366fa6b3b4b768ec3050bf629380bac"
ID = "Some-Org/tiny_model-1.0"

ASK = """
import json, pathlib, sys
from tunegate.bases import resolve
from tunegate.errors import UsageError
here = pathlib.Path(sys.argv[1])
revision = sys.argv[3] if len(sys.argv) > 3 else None
try:
    base = resolve(sys.argv[2], revision, cache_dir=here / "own", folder=here)
    print(json.dumps(base.to_json()))
except UsageError as exc:
    print(json.dumps({"kind": exc.kind, "message": str(exc), "hint": exc.hint}))
"""


def ask(here: Path, *arguments: str) -> dict[str, Any]:
    """Resolve in a process of its own: the hub client reads its cache's place when imported."""
    environ = {**os.environ, "HF_HUB_CACHE": str(here / "hub"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(here), *arguments],
        env={**environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def snapshot(here: Path) -> Path:
    return here / "hub" / f"models--{ID.replace('/', '--')}" / "snapshots" / COMMIT


def test_a_cached_commit_is_found_without_a_network(odd_path: Path) -> None:
    make_folder(snapshot(odd_path))
    found = ask(odd_path, ID, COMMIT)
    assert found["dir"] == str(snapshot(odd_path))
    assert found["revision"] == COMMIT
    assert found["architecture"] == "LlamaForCausalLM"
    assert "model.safetensors" in found["files"]


def test_a_branch_is_no_revision_and_the_cached_commit_is_named(tmp_path: Path) -> None:
    make_folder(snapshot(tmp_path))
    for revision in (["main"], [COMMIT[:8]], []):
        answer = ask(tmp_path, ID, *revision)
        assert answer["kind"] == "base_invalid"
        assert COMMIT in answer["hint"]


def test_what_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    answer = ask(tmp_path, ID, COMMIT)
    assert answer["kind"] == "base_invalid"
    assert "cannot be fetched" in answer["message"]
    assert f"hf download {ID} --revision {COMMIT}" in answer["hint"]


def test_a_download_that_was_cut_names_the_missing_file(tmp_path: Path) -> None:
    make_folder(snapshot(tmp_path))
    (snapshot(tmp_path) / "tokenizer.json").unlink()
    answer = ask(tmp_path, ID, COMMIT)
    assert answer["kind"] == "base_invalid"
    assert "tokenizer.json" in answer["message"]


def test_a_folder_of_that_name_wins(tmp_path: Path) -> None:
    make_folder(tmp_path / ID)
    base = resolve(ID, None, cache_dir=tmp_path / "own", folder=tmp_path)
    assert base.revision.startswith("sha256:")


@pytest.mark.parametrize(
    "text", ["", "one", "a/b/c", "/a/b", "./a", "a/..", "https://x.y/z", "a b/c"]
)
def test_what_is_no_hub_id(text: str) -> None:
    assert not hub.is_id(text)
    assert hub.is_id(ID)


def test_the_revision_is_asked_for_before_any_look_up(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="40 hex digits"):
        resolve(ID, "main", cache_dir=tmp_path, folder=tmp_path)
