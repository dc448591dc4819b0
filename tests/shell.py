"""The command line as tests run it: real processes, a cache and a person's folder of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-c", "from tunegate.surfaces.cli import main; main()"]


class Shell:
    """Runs the command line with a cache, a person's folder and plug-ins of its own."""

    def __init__(self, folder: Path) -> None:
        self.environment = {
            **os.environ,
            "TUNEGATE_CACHE": str(folder / "cache"),
            "TUNEGATE_HOME": str(folder / "home"),
            "OMP_WAIT_POLICY": "PASSIVE",
        }

    def run(self, *arguments: str | Path, code: int = 0, seconds: float = 300) -> dict[str, Any]:
        done = subprocess.run(
            [*COMMAND, *map(str, arguments), "--json"],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, (
            f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        body: dict[str, Any] = json.loads(done.stdout)
        assert body["code"] == code and body["ok"] is (code == 0)
        assert len(done.stdout.encode()) <= 8192
        return body

    def text(self, *arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        """As a person without a terminal sees it."""
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)], env=self.environment,
            capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == code, (
            f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done

    def start(self, *arguments: str | Path, alone: bool = False) -> subprocess.Popen[bytes]:
        """Start a command and return at once; `alone` gives it a process group of its own."""
        return subprocess.Popen(
            [*COMMAND, *map(str, arguments)], env=self.environment, start_new_session=alone,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def read(folder: Path, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / name).read_text())
    return content


def wait_for(condition: Callable[[], bool], *, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)
