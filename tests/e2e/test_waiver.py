"""A person waives a failed check at a terminal, and the run goes on under that waiver."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from shell import COMMAND, Shell, read
from toys_model import make_base, make_run

pytest.importorskip("torch", reason="torch is not installed")

REASON = "the row is a form letter"


def release_at_a_terminal(shell: Shell, run: Path, typed: str) -> tuple[int, str]:
    """Run `tunegate release --waive` on a terminal of its own; what was shown, and the code."""
    person, terminal = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "release", str(run), "--waive", f"leak_check={REASON}"],
        env=shell.environment, stdin=terminal, stdout=terminal, stderr=terminal,
        preexec_fn=lambda: os.login_tty(terminal),
    )  # fmt: skip
    os.close(terminal)
    shown = b""
    while True:
        try:
            shown += os.read(person, 4096)
        except OSError:  # the terminal closes with its last process
            break
        if shown.endswith(b"or refuse: "):
            digest = shown.split(b"digest    ")[1].split()[0].decode()
            os.write(person, typed.replace("DIGEST", digest[-4:]).encode() + b"\n")
            shown += b"\n"
    os.close(person)
    return process.wait(timeout=60), shown.decode()


@pytest.mark.skipif(sys.platform != "linux", reason="controls a Linux terminal")
def test_a_waiver_is_a_persons_act_and_stands_in_the_report(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for mark in ("CLAUDECODE", "AI_AGENT", "CODEX_CI", "OPENCODE"):
        shell.environment.pop(mark, None)
    run = tmp_path / "run"
    run.mkdir()
    make_run(run, make_base(tmp_path / "base"))
    with (run / "train.jsonl").open("a") as handle:
        handle.write((run / "test.jsonl").read_text().splitlines()[0] + "\n")
    shell.run("go", run, code=3)
    waive = ("release", run, "--waive", f"leak_check={REASON}")
    hint = shell.run(*waive, code=3)["error"]["hint"]
    assert hint == "; ".join(
        f"tunegate {text}" for text in (f"wire {run}", f"train {run} --dry-run", f"quote {run}")
    )
    shell.run("wire", run)
    shell.run("train", run, "--dry-run")
    shell.run("quote", run)
    shell.run(*waive, code=4)
    assert release_at_a_terminal(shell, run, "refuse")[0] == 3
    code, shown = release_at_a_terminal(shell, run, "0 DIGEST")
    assert code == 0, shown
    assert f"WAIVED    leak_check: {REASON}" in shown
    assert read(run, "release.json")["level"] == 1
    shell.run("go", run)
    assert REASON in (run / "report.html").read_text()
    assert read(run, "record.json")["gates"]["waived"] == {"leak_check": REASON}
