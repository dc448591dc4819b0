"""facts/: every table loads, every entry has a source with a date, and nothing is cited in vain."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tunegate import facts
from tunegate.errors import PluginError

NAMES = facts.names()


def entries(value: Any) -> Iterator[dict[str, Any]]:
    """Every object below `value`."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from entries(item)


def raw(name: str) -> dict[str, Any]:
    text = resources.files(facts).joinpath(f"{name}.json").read_text("utf-8")
    return dict(json.loads(text))


def test_the_tables_that_the_code_reads_are_there() -> None:
    read = {"bands", "known_issues", "learning_rates", "precision", "protocol", "versions"}
    assert read <= set(NAMES)
    assert set(facts.load_all()) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_source_has_an_address_and_a_date(name: str) -> None:
    for source in raw(name)["sources"].values():
        assert source["title"] and source["address"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", source["read"])


@pytest.mark.parametrize("name", NAMES)
def test_every_source_is_cited_by_an_entry(name: str) -> None:
    content = raw(name)
    cited = {s for e in entries(content) for s in e.get("source", [])}
    assert cited == set(content["sources"])


@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_entry_carries_its_whole_citation(name: str) -> None:
    sourced = [e for e in entries(facts.load(name)) if "source" in e]
    assert sourced
    for entry in sourced:
        assert re.search(r"read \d{4}-\d\d-\d\d\)$", entry["source"])


@pytest.mark.parametrize("name", ["learning_rates", "bands", "precision"])
def test_every_rule_says_why(name: str) -> None:
    assert all(row["reason"] and row["source"] for row in facts.load(name)["rows"])


def test_an_unknown_table_is_refused_with_the_known_ones() -> None:
    with pytest.raises(PluginError) as caught:
        facts.load("learning_rate")
    assert "learning_rates" in str(caught.value.hint)


def test_ids_of_known_issues_are_unique() -> None:
    ids = [row["id"] for row in facts.load("known_issues")["rows"]]
    assert len(ids) == len(set(ids))


def test_the_native_trainer_s_bounds_are_those_that_are_installed(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))["project"]
    texts = [*project["dependencies"], *project["optional-dependencies"]["train"]]
    declared = {r.name: r.specifier for r in map(Requirement, texts)}
    rows = facts.load("versions")["rows"]
    bounds = next(row["requires"] for row in rows if row["framework"] == "native")
    assert {"torch", "transformers", "peft"} <= set(bounds)
    for package, requires in bounds.items():
        assert Requirement(f"{package}{requires}").specifier == declared[package]
