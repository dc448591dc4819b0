"""The loader of examples/restaurants8k: the official files in, the frozen split out."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Json = dict[str, Any]

FROZEN = {
    "train": "3df51f79e05149924de1510b80fbe6d4cd373c9e88204d496bc091d8fea17fb1",
    "validation": "1851efb1061a1188aafd80493294732024e7323eb1ed031836211d5bf897b8bb",
    "test": "ba9fcecd411b531a58be1a3804898d6aae8b2e4d3a2e7191410b19ba3a32c638",
}
"""SHA-256 of the written files: results are comparable only on the same rows."""
ROWS = {"train": (640, 224), "validation": (100, 42), "test": (300, 109)}
"""Rows, and how many of them give nothing."""


def load(
    repository: Path, *arguments: str, data: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environ = {key: value for key, value in os.environ.items() if key != "TUNEGATE_DATA"}
    if data is not None:
        environ["TUNEGATE_DATA"] = str(data)
    script = repository / "examples" / "restaurants8k" / "load.py"
    return subprocess.run(
        [sys.executable, "-B", str(script), *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def loader(repository: Path) -> Iterator[ModuleType]:
    path = repository / "examples" / "restaurants8k" / "load.py"
    spec = importlib.util.spec_from_file_location("restaurants8k_load", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[spec.name]


def official(text: str, *, asked: tuple[str, ...] = (), **given: str) -> Json:
    """A row of the official form; a span at the very start has no start, as in the files."""
    row: Json = {"userInput": {"text": text}}
    if asked:
        row["context"] = {"requestedSlots": list(asked)}
    labels = []
    for slot, value in given.items():
        start = text.index(value)
        span = {"startIndex": start} if start else {}
        labels.append({"slot": slot, "valueSpan": {**span, "endIndex": start + len(value)}})
    if labels:
        row["labels"] = labels
    return row


def normal(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def test_rows_of_the_official_form_become_answers(loader: ModuleType) -> None:
    for row, prompt, answer in (
        (official("13", asked=("time",), time="13"), "Asked for: time\n13", '{"time": "13"}'),
        (official("Is it far?"), "Is it far?", "{}"),
        (
            official("It's Zoë Ng, at 7, for two", last_name="Ng", time="7", first_name="Zoë"),
            "It's Zoë Ng, at 7, for two",
            '{"time": "7", "first_name": "Zoë", "last_name": "Ng"}',
        ),
        (
            official("Ng", asked=("last_name", "first_name", "last_name"), last_name="Ng"),
            "Asked for: last_name, first_name\nNg",
            '{"last_name": "Ng"}',
        ),
    ):
        (found,) = loader.as_rows("test", [loader.message(row)])
        assert found == {"id": "test-0001", "prompt": prompt, "completion": answer}


LONG = "please cancel the lunch that I booked for Tuesday at noon under the name of"


def stand_in(loader: ModuleType) -> dict[str, list[Any]]:
    """Small files in which test shares two messages with train, one of them spelt otherwise."""
    days = ("Monday", "Tuesday", "Friday", "Sunday")
    places = ("garden", "window", "kitchen", "bar", "stairs", "door")
    own = [
        official(f"{place} seat {number} on {day}", date=day)
        for day in days
        for place in places
        for number in range(2)
    ]
    test = [official(f"is dish {number} vegan {number * 7}") for number in range(20)]
    train = [
        *own,
        official("13", asked=("time",), time="13"),
        official("Yes, please: book it!"),
        official("is dish 3 vegan 21 please"),  # almost a test row
        official(f"{LONG} Davina, our guest"),  # shares a long stretch with one
        own[0],  # twice
    ]
    test += [official("13", asked=("people",), people="13"), official("yes please book it")]
    test.append(official(f"{LONG} Clement and his wife"))
    both = {"train": train, "test": test}
    return {name: [loader.message(row) for row in rows] for name, rows in both.items()}


def test_what_both_official_files_have_is_counted_and_left_out(loader: ModuleType) -> None:
    files = stand_in(loader)
    assert loader.shared(files) == (2, 2)
    sizes = {"test": None, "validation": 6, "train": None}
    splits = loader.select(files, sizes)
    assert list(splits) == ["train", "validation", "test"]
    texts = {name: [normal(row.text) for row in rows] for name, rows in splits.items()}
    assert len(texts["test"]) == 23  # no official test row is lost or changes sides
    assert len(texts["validation"]) == 6
    assert not {"13", "yes please book it"} & set(texts["train"] + texts["validation"])
    assert not [text for text in texts["train"] if text.startswith(("is dish", "please cancel"))]
    for name, found in texts.items():
        others = {text for other, rows in texts.items() if other != name for text in rows}
        assert len(set(found)) == len(found)
        assert not set(found) & others
    # What is nearly a validation row is left out of train, so there are fewer than 48 - 6.
    assert 0 < len(texts["train"]) <= 42


def test_a_sample_depends_on_the_messages_and_not_on_their_order(loader: ModuleType) -> None:
    files = stand_in(loader)
    sizes = {"test": 5, "validation": 4, "train": 9}
    again = {name: rows[::-1] for name, rows in files.items()}
    assert loader.select(files, sizes) == loader.select(again, sizes)
    with pytest.raises(ValueError, match="only 23 rows are left, 24 are needed"):
        loader.select(files, {**sizes, "test": 24})


def test_the_split_is_frozen(repository: Path, public_data: Path, odd_path: Path) -> None:
    done = load(repository, "--to", str(odd_path), data=public_data)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "left out of train: 480 official rows whose message 293 test rows have, too",
        *(f"{name}: {n} rows, {empty} with nothing given" for name, (n, empty) in ROWS.items()),
    ]
    found = {
        name: hashlib.sha256((odd_path / f"{name}.jsonl").read_bytes()).hexdigest()
        for name in FROZEN
    }
    assert found == FROZEN
    assert "creativecommons.org/licenses/by/4.0" in (odd_path / "ATTRIBUTION.md").read_text()
    rows = {
        name: [json.loads(line) for line in (odd_path / f"{name}.jsonl").read_text().splitlines()]
        for name in FROZEN
    }
    assert {name: len(found) for name, found in rows.items()} == {n: ROWS[n][0] for n in ROWS}
    schema = json.loads(
        (repository / "examples" / "restaurants8k" / "answer.schema.json").read_text()
    )
    for row in (row for found in rows.values() for row in found):
        answer = json.loads(row["completion"])
        assert list(answer) == [name for name in schema["properties"] if name in answer]
        assert all(value and value in row["prompt"] for value in answer.values())


def test_the_overlap_of_the_official_files_is_what_is_said(
    repository: Path, public_data: Path, odd_path: Path
) -> None:
    """Counted here another way than in the loader."""
    folder = public_data / "restaurants8k"
    texts = {}
    for name in ("train", "test"):
        rows = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        texts[name] = [normal(row["userInput"]["text"]) for row in rows]
    assert sum(text in set(texts["test"]) for text in texts["train"]) == 480
    assert sum(text in set(texts["train"]) for text in texts["test"]) == 293
    assert load(repository, "--to", str(odd_path), data=public_data).returncode == 0
    for name in ("train", "validation"):
        for line in (odd_path / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            message = json.loads(line)["prompt"].rpartition("\n")[2]
            assert normal(message) not in texts["test"], line


def test_another_file_is_refused(repository: Path, tmp_path: Path) -> None:
    for name in ("train_0.json", "test.json"):
        (tmp_path / name).write_text("[]")
    done = load(repository, "--from", str(tmp_path), "--to", str(tmp_path / "out"))
    assert done.returncode == 1
    assert "not the official train_0.json" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [[], ["--from", "nowhere"]])
def test_a_missing_file_is_said_in_one_line(
    repository: Path, tmp_path: Path, arguments: list[str]
) -> None:
    done = load(repository, *arguments, "--to", str(tmp_path / "out"))
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
