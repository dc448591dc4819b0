"""Pages: generated ones are fresh, links lead somewhere, commands that are named exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
GENERATE = REPOSITORY / "docs" / "generate.py"

PAGES = [
    *sorted(REPOSITORY.glob("*.md")),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    *sorted((REPOSITORY / "examples").rglob("*.md")),
]


def generate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the generator as `make docs` does, in its own process: it changes sys.path."""
    return subprocess.run(
        [sys.executable, str(GENERATE), *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def dead_links(text: str, folder: Path) -> list[str]:
    """Relative targets of Markdown links and pictures that are not there."""
    targets = re.findall(r"\]\(([^)\s#]+)[^)]*\)", text)
    return [
        target
        for target in targets
        if not re.match(r"[a-z]+:", target) and not (folder / target).exists()
    ]


def test_generated_pages_are_fresh() -> None:
    done = generate("--check")
    assert done.returncode == 0, done.stderr


def test_a_stale_page_is_named(tmp_path: Path) -> None:
    assert generate("--folder", str(tmp_path)).returncode == 0
    assert generate("--folder", str(tmp_path), "--check").returncode == 0
    page = tmp_path / "errors.md"
    page.write_text(page.read_text(encoding="utf-8") + "one line more\n", encoding="utf-8")
    done = generate("--folder", str(tmp_path), "--check")
    assert done.returncode == 1
    assert "errors.md" in done.stderr and "run-file.md" not in done.stderr


def test_a_page_that_nothing_generates_is_named(tmp_path: Path) -> None:
    assert generate("--folder", str(tmp_path)).returncode == 0
    old = (tmp_path / "errors.md").read_text(encoding="utf-8")
    (tmp_path / "gone.md").write_text(old, encoding="utf-8")
    done = generate("--folder", str(tmp_path), "--check")
    assert done.returncode == 1
    assert "gone.md" in done.stderr


def test_every_kind_is_a_heading() -> None:
    from tunegate.kinds import KINDS

    page = (REPOSITORY / "docs" / "errors.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (.+)$", page, flags=re.MULTILINE) == list(KINDS)
    for about in KINDS.values():
        assert about.remedy in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    assert not dead_links(page.read_text(encoding="utf-8"), page.parent)


def test_a_dead_link_is_found() -> None:
    text = "[a](https://example.org) [b](README.md#more) ![c](docs/none.png)"
    assert dead_links(text, REPOSITORY) == ["docs/none.png"]


def test_make_targets_that_pages_name_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    named = {
        target
        for page in PAGES
        for target in re.findall(
            r"(?:`|^ {4})make ([a-z]+)", page.read_text(encoding="utf-8"), flags=re.MULTILINE
        )
    }
    assert {"demo", "test", "check"} <= named <= targets


def test_every_page_is_in_the_index() -> None:
    index = (REPOSITORY / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in (REPOSITORY / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(re.findall(r"\]\(([^)/]+\.md)\)", index))


def test_the_least_run_file_is_one(tmp_path: Path) -> None:
    from tunegate.spec import read_spec

    page = (REPOSITORY / "docs" / "run-file.md").read_text(encoding="utf-8")
    lines = [line[4:] for line in page.splitlines() if line.startswith("    ")]
    example = "\n".join(line for line in lines if not line.startswith("#"))
    for name in ("train.jsonl", "validation.jsonl", "test.jsonl", "system.txt"):
        (tmp_path / name).touch()
    (tmp_path / "run.yaml").write_text(example, encoding="utf-8")
    assert read_spec(tmp_path / "run.yaml").task.labels == ["order_status", "return_item", "other"]


def test_the_rules_of_decision_speak_of_known_thresholds() -> None:
    from tunegate.decide.rules import RULES
    from tunegate.decide.thresholds import THRESHOLDS

    named = {name for rule in RULES for name in re.findall(r"`(\w+)`", rule.when)}
    assert named and named <= set(THRESHOLDS)
    assert set(THRESHOLDS) - named == {"patience"}  # told beside the table


def test_a_picture_of_a_page_says_what_it_shows() -> None:
    for path in (REPOSITORY / "docs" / "images").glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        assert "<title" in text and "<desc" in text and "prefers-color-scheme: dark" in text
        assert not re.search(r"(?:href|src)=|@import|url\(", text)
