"""Build every case of a set, run the gates on it, and count what was caught and what cried wolf.

    python -m bench.planted --set first [--only ID] [--json FILE] [--bases FOLDER] [--build-only]

A bug is caught where a stage refuses the project with a text that holds one of the case's words. A
refusal for another reason does not count, nor does a warning.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.planted.cases import STAGES, Case, load
from bench.planted.models import make_base
from bench.planted.project import Project
from bench.planted.table import show
from tests.shell import COMMAND

REPOSITORY = Path(__file__).resolve().parents[2]
TIMEOUT_S = 600
OUR_OWN_FAULT = 1


@dataclass(frozen=True)
class Outcome:
    """What came of one case."""

    id: str
    description: str
    family: str
    is_bug: bool
    expected: str
    stage: str | None = None
    """The first stage that refused; None where none did."""
    code: int = 0
    kind: str | None = None
    checks: tuple[str, ...] = ()
    text: str = ""
    """All that the refusal said."""
    is_caught: bool = False
    """Refused with a text that names a fitting cause."""
    seconds: float = 0.0

    @property
    def is_refused(self) -> bool:
        """Whether a stage said no; a fault of the tool itself is no refusal."""
        return self.stage is not None and self.code != OUR_OWN_FAULT


def run_case(case: Case, *, scratch: Path, base: Path, knowing: Path) -> Outcome:
    """Build the case in a folder of its own and run its stages up to the first refusal."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=scratch, prefix=f"{case.id}-") as name:
        project = case.build(Path(name, "run"), base, knowing)
        environment = _environment(Path(name), project)
        for folder in case.freeze_first:
            code, body = _call("freeze", project.folder / folder, environment)
            if code:
                raise RuntimeError(f"{case.id}: {folder} could not be frozen: {body}")
        known: dict[str, Any] = {}
        for stage in STAGES[: STAGES.index(_last(case)) + 1]:
            code, body = _call(stage, project.folder, environment)
            if code:
                known = _refusal(case, stage, code, body, project.folder)
                break
    seconds = round(time.monotonic() - began, 1)
    return Outcome(
        case.id, case.description, case.family, case.is_bug, case.stage, seconds=seconds, **known
    )


def _last(case: Case) -> str:
    return "wire" if case.stage == "wire" else "check"


def _environment(folder: Path, project: Project) -> dict[str, str]:
    paths = [str(REPOSITORY)]
    if project.plugin_dir is not None:
        paths.append(str(project.plugin_dir))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "TUNEGATE_CACHE": str(folder / "cache"),
        "TUNEGATE_HOME": str(folder / "home"),
        "OMP_WAIT_POLICY": "PASSIVE",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _call(stage: str, run: Path, environment: dict[str, str]) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [*COMMAND, stage, str(run), "--json"], env=environment, cwd=REPOSITORY,
        capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        body = json.loads(done.stdout)
    except ValueError:
        body = {"error": {"kind": "no_answer", "message": done.stdout + done.stderr}}
    return done.returncode, body


def _refusal(
    case: Case, stage: str, code: int, body: dict[str, Any], folder: Path
) -> dict[str, Any]:
    error = body.get("error") or {}
    said = [str(error.get("message")), *map(str, error.get("problems") or ())]
    checks = []
    for verdict in _failed(folder, stage):
        checks.append(verdict["check"])
        said.append(verdict["summary"])
        for finding in verdict["findings"]:
            said.append(f"{finding['message']} {finding.get('change') or ''}".strip())
    text = "\n".join(dict.fromkeys(said))
    fits = any(_occurs(word, text) for word in case.words)
    return {
        "stage": stage,
        "code": code,
        "kind": error.get("kind"),
        "checks": tuple(checks),
        "text": text[:4000],
        "is_caught": case.is_bug and fits and code != OUR_OWN_FAULT,
    }


def _occurs(word: str, text: str) -> bool:
    """Whether a word of the text begins so, whatever its case; up to three letters are a word."""
    before = r"\b" if word[0].isalnum() else ""
    after = r"\b" if len(word) <= 3 and word.isalpha() else ""
    return re.search(before + re.escape(word) + after, text, re.IGNORECASE) is not None


def _failed(folder: Path, stage: str) -> list[dict[str, Any]]:
    """The verdicts of this stage that are no pass, from its evidence files."""
    if stage not in ("check", "wire"):
        return []
    found = []
    for path in sorted((folder / "evidence").glob("*.json")):
        verdict = json.loads(path.read_text(encoding="utf-8")).get("verdict")
        if isinstance(verdict, dict) and verdict.get("status") != "pass":
            found.append(verdict)
    return found


def main() -> None:
    """Run a set and print its table; exits 0 whatever the figures."""
    about = __doc__.splitlines()[0] if __doc__ else None
    parser = argparse.ArgumentParser(prog="python -m bench.planted", description=about)
    parser.add_argument("--set", default="first", help="folder of cases")
    parser.add_argument("--only", action="append", metavar="ID", help="this case, repeatable")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all outcomes there")
    parser.add_argument("--workers", type=int, default=2, help="cases side by side")
    parser.add_argument("--bases", type=Path, help="keep the two toy bases in this folder")
    parser.add_argument("--build-only", action="store_true", help="build the cases, run nothing")
    options = parser.parse_args()
    cases = load(options.set)
    if unknown := set(options.only or ()) - {case.id for case in cases}:
        parser.error(f"no case is called {', '.join(sorted(unknown))}")
    wanted = [case for case in cases if not options.only or case.id in options.only]
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        scratch = Path(name)
        bases = {key: (options.bases or scratch) / key for key in ("base", "knowing")}
        for key, path in bases.items():
            if not path.is_dir():
                make_base(path, knows=key == "knowing")
        if options.build_only:
            for case in wanted:
                case.build(scratch / case.id, **bases)
            print(f"{len(wanted)} cases of {options.set} were built")
            return
        with ThreadPoolExecutor(max_workers=options.workers) as pool:
            jobs = [pool.submit(run_case, case, scratch=scratch, **bases) for case in wanted]
            outcomes = [job.result() for job in jobs]
    print(show(outcomes))
    if options.json:
        rows = [asdict(outcome) for outcome in outcomes]
        text = json.dumps({"set": options.set, "outcomes": rows}, indent=1, ensure_ascii=False)
        options.json.write_text(text + "\n", encoding="utf-8")
