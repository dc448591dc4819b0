"""Whole runs on the local platform, on a model made on the spot: real processes, real training."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from kills import differences, outcome, strike
from shell import COMMAND, Shell, read, wait_for
from toys_model import make_base, make_run

pytest.importorskip("torch", reason="torch is not installed")

REPOSITORY = Path(__file__).resolve().parents[2]

STUB = '''
"""A trainer that says it is done and did nothing."""
from tunegate.frameworks import native

PROVED, SEMANTICS, render, batches = native.PROVED, native.SEMANTICS, native.render, native.batches


def train(job, emit):
    if SLEEPS or "attempts" in job["attempt_dir"]:
        emit.log("Training completed successfully!")
    else:
        native.train(job, emit)
'''


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("shell"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base with space") / "tiny")


@pytest.fixture(scope="module")
def finished(shell: Shell, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run that went from file to report without a stop."""
    folder = tmp_path_factory.mktemp("rün 'one'")
    make_run(folder, base)
    shell.run("go", folder)
    yield folder


def test_go_ends_in_a_report_and_a_decision(shell: Shell, finished: Path) -> None:
    assert "<html" in (finished / "report.html").read_text()
    assert read(finished, "release.json")["level"] == 0
    assert read(finished, "record.json")["training"]["receipt"]["steps"] == 24
    status = shell.run("status", finished)
    assert set(status["data"]["stages"].values()) == {"done"}
    assert status["next"] == [f"tunegate report {shlex.quote(str(finished))}"]


def test_the_page_about_python_does_what_it_says(
    shell: Shell, finished: Path, tmp_path: Path
) -> None:
    page = (REPOSITORY / "docs/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mail").symlink_to(finished)
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)],
        cwd=tmp_path,
        env={**shell.environment, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    report = read(finished, "report.json")
    accuracy = report["slices"]["test"]["columns"]["tuned"]["strict"]["accuracy"]
    for said in ("gate 2:", report["headline"], f"{accuracy['rate']} {accuracy['low']}", " of "):
        assert said in done.stdout
    assert re.search(r"^(usage|file_missing) 2 ", done.stdout, flags=re.MULTILINE)


def test_the_tutorial_shows_what_the_commands_say_today(
    shell: Shell, base: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transcript is of the demo, so first lines are compared with their figures taken out."""
    from tunegate import verbs

    for name in ("TUNEGATE_CACHE", "TUNEGATE_HOME"):
        monkeypatch.setenv(name, shell.environment[name])
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    calls = {
        "freeze": lambda: verbs.freeze(folder),
        "research": lambda: verbs.research(folder),
        "check": lambda: verbs.check(folder),
        "wire": lambda: verbs.wire(folder),
        "raw": lambda: verbs.eval(folder, column="raw"),
        "dry_run": lambda: verbs.train(folder, dry_run=True),
        "quote": lambda: verbs.quote(folder),
        "release": lambda: verbs.release(folder),
        "train": lambda: verbs.train(folder),
        "record": lambda: verbs.record(folder),
        "report": lambda: verbs.report(folder),
    }
    kept = json.loads((REPOSITORY / "docs/transcripts/tutorial.json").read_text(encoding="utf-8"))
    steps = {step["name"]: step for step in kept["steps"]}
    for name, call in calls.items():
        before = bare(steps[name]["stdout"].splitlines()[0])
        now = bare(call().summary.replace(str(base), "/base"))
        assert before == now, f"{name}: run docs/keep_transcript.py again"
    shown = {line.split()[0] for line in memory_lines(steps["quote"]["stdout"])}
    assert shown >= {"weights", "activations", "sum", "measured", "headroom"}


def bare(sentence: str) -> list[str]:
    """Its words, without figures, paths, names and what hangs on them."""
    return re.findall(r"(?<![\w:/.-])[a-z]+(?![\w:/-])", sentence)


def memory_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if " GiB" in line]


def test_every_row_is_answered_once_in_every_column(finished: Path) -> None:
    for column in ("raw", "tuned", "teacher"):
        lines = (finished / f"eval/{column}.jsonl").read_text().splitlines()
        ids = [json.loads(line)["id"] for line in lines]
        assert len(ids) == len(set(ids)) == 26, column


def test_going_again_does_nothing_again(shell: Shell, finished: Path) -> None:
    names = ("frozen.json", "trained.json", "report.json", "decision.json", "record.json")
    before = {name: (finished / name).stat().st_mtime_ns for name in names}
    shell.run("go", finished)
    assert {name: (finished / name).stat().st_mtime_ns for name in names} == before


def grown(path: Path, *, lines: int = 1) -> bool:
    return path.is_file() and path.read_bytes().count(b"\n") >= lines


MOMENTS: tuple[tuple[str, str, Callable[[Path], bool]], ...] = (
    ("wire", "worker and its shell", lambda run: (run / "evidence/wire/progress.json").exists()),
    ("baseline", "all", lambda run: any(map(grown, run.glob("eval/raw.selection/*.jsonl")))),
    ("train", "driver", lambda run: grown(run / "attempts/1/metrics.jsonl")),
    ("train", "worker", lambda run: grown(run / "attempts/1/metrics.jsonl", lines=8)),
    (
        "train, saving",
        "all",
        lambda run: (
            any(run.glob("attempts/1/checkpoints/.*"))
            or grown(run / "attempts/1/metrics.jsonl", lines=24)
        ),
    ),
    ("eval", "worker", lambda run: grown(run / "eval/tuned.jsonl")),
    ("eval, writing the report", "driver", lambda run: (run / "eval/tuned.json").exists()),
)
"""Stage, whom the kill hits, when."""


@pytest.mark.slow
@pytest.mark.timeout(900)  # a run and seven new starts
def test_kills_in_every_stage_end_in_the_same_report(
    shell: Shell, base: Path, finished: Path, tmp_path: Path
) -> None:
    """One run, killed seven times and moved to another place on its way."""
    run = tmp_path / "before"
    run.mkdir()
    make_run(run, base)
    for stage, whom, moment in MOMENTS:
        kill = strike(shell, run, when=partial(moment, run), whom=whom)
        assert kill is not None, f"the run was over before {stage}"
        if whom == "all":
            run = run.rename(tmp_path / f"{'ferne Länder ' * 12}{stage} 'ß'")
    shell.run("go", run)
    assert differences(outcome(finished), outcome(run)) == []


def test_stop_keeps_a_checkpoint_and_resume_goes_on(
    shell: Shell, base: Path, tmp_path: Path
) -> None:
    make_run(tmp_path, base, train_rows=1280)
    driver = shell.start("go", tmp_path)
    listed = tmp_path / "attempts/1/checkpoints.jsonl"
    wait_for(lambda: listed.exists() and listed.read_bytes().count(b"\n") >= 2)
    seen = shell.run("watch", tmp_path)["data"]
    assert (seen["state"], seen["job"], seen["steps"]) == ("running", "attempt 1", 480)
    assert 0 < seen["step"] <= 480 and seen["curve"]["loss"][-1][0] == seen["step"]
    assert seen["checkpoint"]["step"] >= 1 and seen["checkpoint"]["minutes_allowed"] == 1
    assert seen["spend"]["money"] == "0" and seen["memory_gib"] > 0.05 and not seen["silent"]
    watcher = subprocess.Popen(
        [*COMMAND, "watch", str(tmp_path)], env=shell.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watcher.stdout is not None and watcher.stdout.readline().startswith("attempt 1, ")
    stopped = shell.run("stop", tmp_path)
    assert stopped["data"]["stopped"] is True
    driver.wait(timeout=60)
    _, said = watcher.communicate(timeout=60)
    assert watcher.returncode != 0 and "error: " in said, "it ends as the job ended"
    again = shell.run("stop", tmp_path)
    assert again["data"]["stopped"] is False
    assert again["data"]["summary"] == "nothing is running"
    assert shell.run("resume", tmp_path)["data"]["summary"].startswith("trained 480 steps")
    assert read(tmp_path, "trained.json")["steps"] == 480
    ended = shell.run("watch", tmp_path)["data"]
    assert (ended["state"], ended["outcome"]["code"]) == ("ended", 0)
    once_more = shell.run("resume", tmp_path)
    assert once_more["data"]["summary"].startswith("nothing to resume: trained 480 steps")


def test_nothing_to_stop_and_nothing_to_resume(shell: Shell, base: Path, tmp_path: Path) -> None:
    make_run(tmp_path, base)
    stopped = shell.run("stop", tmp_path)
    assert stopped["data"]["summary"] == "nothing is running"
    assert stopped["next"][0].startswith("tunegate go ")
    body = shell.run("resume", tmp_path, code=2)
    assert body["error"]["message"] == "nothing was trained yet, so nothing can go on"
    assert body["error"]["hint"].startswith("tunegate go ")


@pytest.mark.parametrize("always", [True, False])
def test_a_trainer_that_exits_0_without_training_ends_with_code_8(
    base: Path, tmp_path: Path, always: bool
) -> None:
    plugins = tmp_path / "plugins"
    info = plugins / "stub_trainer-0.1.dist-info"
    info.mkdir(parents=True)
    (plugins / "stub_trainer.py").write_text(STUB.replace("SLEEPS", str(always)))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stub-trainer\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[tunegate.frameworks]\nstub = stub_trainer\n")
    shell = Shell(tmp_path)
    shell.environment["PYTHONPATH"] = f"{plugins}:{os.environ.get('PYTHONPATH', '')}"
    run = tmp_path / "run"
    run.mkdir()
    answers = {"versions.stub": {"answer": "with all: it does nothing", "source": "this test"}}
    make_run(run, base, train={"framework": "stub"}, answers=answers)
    body = shell.run("go", run, code=8)
    assert body["error"]["kind"] == "nothing_trained"
    if always:  # seen in the wire test, before anything is spent
        assert "without a receipt" in body["error"]["message"]
        assert not (run / "attempts").exists()
    else:
        assert "no receipt" in body["error"]["message"]
        assert "completed successfully" in (run / "attempts/1/log").read_text()
    assert not (run / "trained.json").exists()


def test_a_changed_setting_voids_evidence_and_release(
    shell: Shell, base: Path, finished: Path, tmp_path: Path
) -> None:
    make_run(tmp_path, base, train={"epochs": 1})
    shell.run("freeze", tmp_path)
    first = read(tmp_path, "frozen.json")["digest"]
    shell.run("research", tmp_path)
    make_run(tmp_path, base, train={"epochs": 2})
    shell.run("freeze", tmp_path)
    assert read(tmp_path, "frozen.json")["digest"] != first
    assert read(tmp_path / "history" / first[:12], "frozen.json")["digest"] == first
    assert shell.run("status", tmp_path)["data"]["stages"]["research"] == "stale"


def test_a_row_of_test_in_train_closes_the_gate(shell: Shell, base: Path, tmp_path: Path) -> None:
    make_run(tmp_path, base)
    with (tmp_path / "train.jsonl").open("a") as handle:
        handle.write((tmp_path / "test.jsonl").read_text().splitlines()[0] + "\n")
    body = shell.run("go", tmp_path, code=3)
    assert body["error"]["kind"] == "check_failed"
    assert any("train.jsonl:65" in problem for problem in body["error"]["problems"])
    assert not (tmp_path / "attempts").exists()


def test_broken_lines_are_all_named(shell: Shell, base: Path, tmp_path: Path) -> None:
    make_run(tmp_path, base)
    lines = (tmp_path / "train.jsonl").read_text().splitlines()
    lines[2], lines[4] = '{"prompt": "x"', '{"question": "x"}'
    (tmp_path / "train.jsonl").write_text("\n".join(lines) + "\n")
    body = shell.run("freeze", tmp_path, code=2)
    places = [problem.rpartition("/")[2][:14] for problem in body["error"]["problems"]]
    assert places == ["train.jsonl:3:", "train.jsonl:5:"]
    assert not (tmp_path / "frozen.json").exists()
