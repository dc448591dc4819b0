"""Frameworks' environments: locked, made once, checked on every use, told when they cannot be made.

Nothing is fetched here: a small lock of wheels made on the spot stands for a framework's own, and a
stand-in installer on PATH is what a machine without network has.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tunegate import environments, torch_files
from tunegate.drive import Progress
from tunegate.errors import ChangedSinceRelease, PlatformError, UsageError
from tunegate.frameworks import names

LOCKED = [name for name in names() if environments.has_lock(name)]


def test_some_framework_has_an_environment() -> None:
    assert "trl" in LOCKED


@pytest.mark.parametrize("name", LOCKED)
def test_a_lock_pins_and_hashes_every_package_but_torch(name: str) -> None:
    lock = environments.lock_of(name)
    assert lock.packages[name], "the framework itself"
    assert "torch" not in lock.packages
    assert not [package for package in lock.packages if package.startswith(("nvidia", "cuda"))]
    blocks = re.split(r"\n(?=[a-z])", re.sub(r"^#.*\n", "", lock.text, flags=re.MULTILINE))
    assert len(blocks) == len(lock.packages)
    assert all("--hash=sha256:" in block for block in blocks)
    assert "index" not in lock.text and "://" not in lock.text


def test_an_unknown_environment_is_refused() -> None:
    with pytest.raises(UsageError, match="nosuch"):
        environments.lock_of("nosuch")


def test_what_is_frozen_names_the_lock_and_torch() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    told = environments.described("trl")
    assert told["packages"]["torch"] == torch_files.linked_versions(set())["torch"]
    assert told["packages"]["trl"] == environments.lock_of("trl").packages["trl"]
    assert len(told["lock"]) == 64


STAND_IN = """#!{python}
import pathlib, sys, time
arguments = sys.argv[1:]
log = pathlib.Path({log!r})
with log.open("a") as handle:
    handle.write("installed\\n")
time.sleep({sleep})
python = pathlib.Path(arguments[arguments.index("--python") + 1])
site = next((python.parent.parent / "lib").glob("python3*")) / "site-packages"
(site / "trl.py").write_text("version = 1\\n")
print(" + trl==1.16.0")
print({say!r})
sys.exit({code})
"""


def stand_in(
    folder: Path, patch: pytest.MonkeyPatch, *, say: str = "", code: int = 0, sleep: float = 0
) -> Path:
    """A `uv` on PATH that puts one file into the environment; the log it returns counts calls."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    log = folder / "calls"
    script = STAND_IN.format(python=sys.executable, log=str(log), say=say, code=code, sleep=sleep)
    (programs / "uv").write_text(script)
    (programs / "uv").chmod(0o755)
    patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return log


@dataclass
class Made:
    """An environment, made by two threads at once."""

    cache: Path
    log: Path
    pythons: list[Path]
    told: list[Progress]
    calls_at_first: int = 0

    @property
    def python(self) -> Path:
        return self.pythons[0]

    @property
    def site(self) -> Path:
        return next((self.python.parent.parent / "lib").glob("python3*")) / "site-packages"

    def again(self) -> Path:
        return environments.ensure("trl", cache_dir=self.cache)

    def calls(self) -> int:
        return self.log.read_text().count("installed")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    pytest.importorskip("torch", reason="torch is not installed")
    folder = tmp_path_factory.mktemp("environments of 'mine'")
    with pytest.MonkeyPatch.context() as patch:
        log = stand_in(folder, patch, sleep=0.3)
        found = Made(folder, log, [], [])

        def make() -> None:
            python = environments.ensure("trl", cache_dir=folder, show=found.told.append)
            found.pythons.append(python)

        makers = [threading.Thread(target=make) for _ in range(2)]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()
        found.calls_at_first = found.calls()
        yield found


def test_two_at_once_make_one(made: Made) -> None:
    assert len(made.pythons) == 2 and made.pythons[0] == made.pythons[1]
    assert made.calls_at_first == 1
    assert any("waiting" in step.phase for step in made.told)
    steps = [step for step in made.told if step.total]
    assert steps[-1].done == steps[-1].total


def test_it_holds_what_the_lock_says_and_the_torch_that_runs_here(made: Made) -> None:
    code = (
        "import trl; from importlib.metadata import version; print(trl.version, version('torch'))"
    )
    done = subprocess.run(
        [made.python, "-c", code],
        capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.stdout.split() == ["1", torch_files.linked_versions(set())["torch"]]
    assert (made.site / "torch" / "__init__.py").is_file()
    assert made.again() == made.python
    (listed,) = environments.known(made.cache)
    assert listed["framework"] == "trl" and listed["complete"] and listed["problem"] is None


def test_changed_added_and_missing_files_are_found(made: Made) -> None:
    file, added = made.site / "trl.py", made.site / "sitecustomize.py"
    right = file.read_text()
    os.utime(file)
    made.again()  # touched, but the same
    file.write_text("version = 2\n")
    with pytest.raises(ChangedSinceRelease, match=r"trl\.py has another content") as caught:
        made.again()
    assert caught.value.kind == "environment_changed"
    assert str(made.python.parent.parent) in (caught.value.hint or "")
    file.unlink()
    with pytest.raises(ChangedSinceRelease, match=r"trl\.py is gone"):
        made.again()
    file.write_text(right)
    added.write_text("print('hello')\n")
    with pytest.raises(ChangedSinceRelease, match=r"sitecustomize\.py was added"):
        made.again()
    added.unlink()
    made.again()


def test_a_half_made_one_is_made_anew(made: Made) -> None:
    folder = made.python.parent.parent
    before = made.calls()
    (folder / environments.INSTALLED).unlink()
    (folder / "left.over").write_text("of a crash")
    assert not environments.known(made.cache)[0]["complete"]
    made.again()
    assert made.calls() == before + 1
    assert not (folder / "left.over").exists()


@pytest.mark.parametrize(
    ("say", "words"),
    [
        ("error: client error (Connect): dns error", "cannot be fetched"),
        ("error: Hash mismatch for `trl==1.16.0`", "not the one that the lock names"),
    ],
)
def test_a_failure_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: str, words: str
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    stand_in(tmp_path, monkeypatch, say=say, code=2)
    # pip is asked after uv: it has no index either.
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(PlatformError, match=words) as caught:
        environments.ensure("trl", cache_dir=tmp_path)
    assert caught.value.kind == "environment_failed" and caught.value.hint
    (listed,) = environments.known(tmp_path)
    assert not listed["complete"]
