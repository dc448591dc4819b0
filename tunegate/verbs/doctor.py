"""doctor: what this machine has for a fine-tune, what is missing, and what to do about it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import tunegate
from tunegate import approvers
from tunegate.compare.wording import many
from tunegate.drive import Progress, Show, no_show
from tunegate.errors import Problem, UsageError
from tunegate.types import Json
from tunegate.verbs.prepare import threads
from tunegate.verbs.run import Result, cache_dir, show_path

OK, WARN, FAIL = "ok", "warn", "fail"
TRAIN = "pip install torch==2.13.0 && pip install 'tunegate[train]'"
MEMORY_GIB, DISK_GIB = 5.0, 2.5
"""What the demo needs, by the README."""
TORCH_S = 120

_TORCH = """
import json, torch
found = {"threads": torch.get_num_threads(), "version": torch.__version__, "gpus": []}
if torch.cuda.is_available():
    for number in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(number)
        found["gpus"].append({"name": about.name, "gib": round(about.total_memory / 2**30, 1)})
print(json.dumps(found))
"""


def doctor(*, show: Show = no_show) -> Result:
    """Look at this machine; each finding is ok, warn or fail, with a remedy.

    Raises: UsageError (`extra_missing`) listing what keeps a fine-tune from running.
    """
    show(Progress("looking at this machine"))
    found = [
        _python(),
        *_packages(),
        *_torch(),
        _bf16(),
        _memory(),
        _disk("cache", cache_dir()),
        _disk("here", Path.cwd()),
        _cache(),
        _token(os.environ),
        _chain(),
        _terminal(),
    ]
    lines = [_line(item) for item in found]
    bad = [item for item in found if item["state"] == FAIL]
    if bad:
        raise UsageError(
            "this machine cannot run a fine-tune yet",
            kind="extra_missing",
            problems=[Problem(line.strip()) for line in lines],
            hint=bad[0]["remedy"],
        )
    warned = sum(item["state"] == WARN for item in found)
    return Result(
        "doctor",
        None,
        "this machine can run a fine-tune" + (", with warnings" if warned else ""),
        {"lines": lines, "findings": found},
        ("tunegate demo",),
    )


def _finding(name: str, state: str, text: str, remedy: str | None = None) -> Json:
    return {"name": name, "state": state, "text": text, "remedy": remedy}


def _line(item: Json) -> str:
    remedy = f" -> {item['remedy']}" if item["remedy"] else ""
    return f"  {item['state']:<5}{item['name']:<14}{item['text']}{remedy}"


def _python() -> Json:
    version = ".".join(map(str, sys.version_info[:3]))
    state = OK if sys.version_info >= (3, 11) else FAIL
    remedy = None if state == OK else "install Python 3.11 or newer"
    return _finding("python", state, f"{version}, tunegate {tunegate.__version__}", remedy)


def _packages() -> list[Json]:
    """Installed versions against the ranges that this distribution declares."""
    from packaging.requirements import Requirement

    try:
        declared = metadata.requires("tunegate") or []
    except metadata.PackageNotFoundError:
        return [
            _finding(
                "packages", WARN, "tunegate runs from a folder, so no versions are declared",
                "pip install -e .",
            )
        ]  # fmt: skip
    out = []
    for item in map(Requirement, declared):
        optional = item.marker is not None
        if item.marker is not None and not item.marker.evaluate({"extra": "train"}):
            continue
        try:
            version = metadata.version(item.name)
        except metadata.PackageNotFoundError:
            remedy = TRAIN if optional else "pip install tunegate"
            out.append(_finding(item.name, FAIL, "not installed", remedy))
            continue
        if not item.specifier.contains(version, prereleases=True):
            remedy = f"pip install '{item.name}{item.specifier}'"
            out.append(_finding(item.name, WARN, f"{version} is not {item.specifier}", remedy))
    return out or [_finding("packages", OK, "every version lies in its declared range")]


def _torch() -> list[Json]:
    """torch, asked in a process of its own: it is large, and may crash where a driver is broken."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TORCH], capture_output=True, text=True, timeout=TORCH_S,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [_finding("torch", FAIL, f"did not start in {TORCH_S} s", "look at the GPU driver")]
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it crashed"])[-1]
        return [_finding("torch", FAIL, last, TRAIN)]
    found = json.loads(done.stdout.splitlines()[-1])
    out = [_finding("torch", OK, f"{found['version']}, {found['threads']} of {threads()} cores")]
    if found["gpus"]:
        gpus = ", ".join(f"{gpu['name']} ({gpu['gib']} GiB)" for gpu in found["gpus"])
        return [*out, _finding("gpu", OK, gpus)]
    seen = shutil.which("nvidia-smi") is not None
    text = "torch sees none" + (
        ", though nvidia-smi is here" if seen else "; training uses the CPU"
    )
    remedy = "install a CUDA build of torch" if seen else None
    return [*out, _finding("gpu", WARN if seen else OK, text, remedy)]


def _bf16() -> Json:
    from tunegate.verbs.inputs import device

    native = device()["bf16_native"]
    text = "this processor multiplies bf16" if native else "no bf16 instructions: fp32 is chosen"
    return _finding("processor", OK, text)


def _memory() -> Json:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (ValueError, OSError):
        return _finding("memory", WARN, "the system does not tell how much there is")
    enough = total >= MEMORY_GIB
    remedy = None if enough else f"the demo takes {MEMORY_GIB:g} GiB"
    return _finding("memory", OK if enough else WARN, f"{total:.1f} GiB", remedy)


def _disk(name: str, folder: Path) -> Json:
    there = folder
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free / 2**30
    text = f"{free:.1f} GiB free in {show_path(folder)}"
    if not os.access(there, os.W_OK):
        remedy = (
            "name a folder of your own in TUNEGATE_CACHE" if name == "cache" else "go elsewhere"
        )
        state = FAIL if name == "cache" else WARN
        return _finding(f"disk, {name}", state, f"{show_path(there)} cannot be written", remedy)
    state, remedy_ = (OK, None) if free >= DISK_GIB else (WARN, "make room")
    return _finding(f"disk, {name}", state, text, remedy_)


def _cache() -> Json:
    """Base models and environments of frameworks that are there already."""
    parts = []
    for title, folder in (("bases", "bases"), ("environments", "environments")):
        place = cache_dir() / folder
        names = [p.name for p in place.iterdir() if p.is_dir()] if place.is_dir() else []
        names = sorted(name for name in names if not name.startswith("."))
        parts.append(f"{title}: {', '.join(names) or 'none yet'}")
    return _finding("cached", OK, "; ".join(parts))


def _token(environment: Mapping[str, str]) -> Json:
    """Whether there is a token for the hub; its value is never read into anything."""
    home = Path(environment.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    there = bool(environment.get("HF_TOKEN")) or (home / "token").is_file()
    text = "there is one" if there else "none; only gated models of the hub need one"
    return _finding("hub token", OK, text)


def _chain() -> Json:
    folder = approvers.person_dir(os.environ)
    try:
        count = len(approvers.chain(folder))
    except UsageError as error:
        return _finding("releases", FAIL, str(error), error.hint)
    return _finding("releases", OK, f"{many(count, 'line')} in {show_path(folder)}, chain whole")


def _terminal() -> Json:
    marks = approvers.agent_marks(os.environ)
    if marks:
        text = f"{', '.join(marks)} shows that an agent works here"
        return _finding("release", OK, f"{text}: a person releases paid runs elsewhere")
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return _finding("release", OK, "no terminal here: a person releases paid runs elsewhere")
    return _finding("release", OK, "a person can release paid runs at this terminal")
