"""What holds for every test: no network but loopback, quiet threads, and a few shared fixtures.

Random order, strict markers and warnings-as-errors are set in pyproject.toml.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

# Before torch is first imported. Waiting threads that spin make two cores crawl when the tests run
# side by side, and a library that looks for files on a hub must fail at once instead of retrying.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

# A busy machine is no counterexample: an example may take its time.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

if TYPE_CHECKING:
    from tunegate.worker.rehearse import Rehearsal

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip `gpu` tests where there is no CUDA device; torch is imported only when one is met."""
    if item.get_closest_marker("gpu"):
        torch = pytest.importorskip("torch", reason="torch is not installed")
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device on this machine")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout that the tests run in."""
    return REPOSITORY


@pytest.fixture(scope="session")
def public_data() -> Path:
    """The folder of public data sets named by TUNEGATE_DATA; the test skips where it is not set."""
    named = os.environ.get("TUNEGATE_DATA")
    if not named:
        pytest.skip("TUNEGATE_DATA does not name a folder of public data")
    folder = Path(named)
    if not folder.is_dir():
        pytest.fail(f"TUNEGATE_DATA names {folder}, which is not a folder")
    return folder


@pytest.fixture
def odd_path(tmp_path: Path) -> Path:
    """A fresh folder whose name breaks careless quoting and encoding."""
    folder = tmp_path / "odd 'name' with späces & $(parens) #1"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Rehearsal]:
    """A job on a toy base and its rehearsal; a test that breaks one takes a copy."""
    pytest.importorskip("torch", reason="torch is not installed")
    from tests.rehearsals import make_rehearsal

    return make_rehearsal(tmp_path_factory.mktemp("rehearsal"))
