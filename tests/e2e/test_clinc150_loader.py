"""The loader of examples/clinc150: the official file in, the frozen split out."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

FROZEN = {
    "train": "a0742608807fc2b8dec8062316efc2af831e1d273f9833b6f1b9d2f9449357fe",
    "validation": "1b900946e02733b8bf25a7fa042ce4a69f89e5dc175e5af968c69962c74e58bf",
    "test": "4a2c83e0f28c64352042516bfed7ba830edd1ad0bbb05093133deb7413022622",
}
"""SHA-256 of the written files: results are comparable only on the same rows."""


def load(
    repository: Path, *arguments: str, data: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environ = {key: value for key, value in os.environ.items() if key != "TUNEGATE_DATA"}
    if data is not None:
        environ["TUNEGATE_DATA"] = str(data)
    return subprocess.run(
        [sys.executable, "-B", str(repository / "examples" / "clinc150" / "load.py"), *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_split_is_frozen(repository: Path, public_data: Path, odd_path: Path) -> None:
    done = load(repository, "--to", str(odd_path), data=public_data)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "train: 360 rows\nvalidation: 100 rows\ntest: 600 rows\n"
    found = {
        name: hashlib.sha256((odd_path / f"{name}.jsonl").read_bytes()).hexdigest()
        for name in FROZEN
    }
    assert found == FROZEN
    assert sorted(path.name for path in odd_path.iterdir()) == [
        "ATTRIBUTION.md",
        *sorted(f"{name}.jsonl" for name in FROZEN),
    ]
    assert "creativecommons.org/licenses/by/3.0" in (odd_path / "ATTRIBUTION.md").read_text()

    schema = json.loads((repository / "examples" / "clinc150" / "answer.schema.json").read_text())
    labels = schema["properties"]["intent"]["enum"]
    texts: dict[str, set[str]] = {}
    for name, (each, outside) in {
        "train": (20, 60),
        "validation": (5, 25),
        "test": (30, 150),
    }.items():
        written = (odd_path / f"{name}.jsonl").read_text(encoding="utf-8")
        rows = [json.loads(line) for line in written.splitlines()]
        counts = Counter(json.loads(row["completion"])["intent"] for row in rows)
        assert counts == {label: outside if label == "out_of_scope" else each for label in labels}
        texts[name] = {row["prompt"] for row in rows}
        assert len(texts[name]) == len(rows)
    assert not texts["train"] & texts["test"]
    assert not texts["validation"] & (texts["train"] | texts["test"])


def test_another_file_is_refused(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "data_full.json").write_text('{"train": []}')
    done = load(repository, "--from", str(tmp_path), "--to", str(tmp_path / "out"))
    assert done.returncode == 1
    assert "not the official data_full.json" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [[], ["--from", "nowhere"]])
def test_a_missing_file_is_said_in_one_line(
    repository: Path, tmp_path: Path, arguments: list[str]
) -> None:
    done = load(repository, *arguments, "--to", str(tmp_path / "out"))
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
