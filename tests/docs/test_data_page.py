"""Every example of docs/data.md is a row that is read as the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from tunegate.specmodel import Column
from tunegate.worker.forms import KEYS
from tunegate.worker.rows import read_rows

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
ROLES = {
    "Prompt and completion": ["user", "assistant"],
    "Messages": ["user", "assistant", "user", "assistant"],
    "Alpaca": ["user", "assistant"],
    "Tools": ["user", "assistant", "tool", "assistant"],
    "Raw text": [],
    "Scored by rule": ["user"],
    "Recorded answers": ["assistant"],
}


def blocks(kind: str) -> list[tuple[str, str]]:
    """Section and text of every example of a kind."""
    return [
        (title, block)
        for title, body in SECTIONS
        for block in re.findall(rf"```{kind}\n(.*?)```", body, flags=re.DOTALL)
    ]


@pytest.mark.parametrize(("title", "block"), blocks("json"))
def test_an_example_is_read(tmp_path: Path, title: str, block: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(block, encoding="utf-8")
    (row,) = read_rows(path)
    roles = [turn.role for turn in row.turns]
    if title == "ShareGPT":
        assert roles in (["user", "assistant"], ["user", "assistant", "tool", "assistant"])
    else:
        assert roles == ROLES[title]
    assert bool(row.tools) == ("tools" in block)
    assert (row.text is not None) == (title == "Raw text")
    assert [turn.weight for turn in row.turns].count(0) == block.count('"weight": 0')


def test_the_examples_of_csv_are_read(tmp_path: Path) -> None:
    (_, plain), (_, mapped) = blocks("csv")
    path = tmp_path / "rows.csv"
    path.write_text(plain, encoding="utf-8")
    assert [(row.meta["id"], row.answer) for row in read_rows(path)] == [
        ("t-1", "order_status"),
        ("t-2", "none_of_these"),
    ]
    path.write_text(mapped, encoding="utf-8")
    columns = {"prompt": "question", "completion": "answer", "id": "nr"}
    (row,) = read_rows(path, columns=columns)
    assert (row.meta["id"], row.answer) == ("1", "order_status")


def test_a_column_map_may_name_every_key() -> None:
    assert set(get_args(Column)) == set(KEYS)
