"""What this machine is, what it used, and whether an adapter changes what the model says."""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from tunegate.types import IGNORED, Example, Json
from tunegate.worker.model import Base, pick_device
from tunegate.worker.step import first_logits

PACKAGES = (
    "torch",
    "transformers",
    "peft",
    "trl",
    "accelerate",
    "datasets",
    "safetensors",
    "tokenizers",
    "jinja2",
    "llguidance",
    "numpy",
)


def environment() -> dict[str, str]:
    """Version of each package that can change a result, and of Python."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def device_name() -> str:
    """The GPU's name, or the number of CPU threads and the processor."""
    import torch

    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    return f"{torch.get_num_threads()} CPU threads, {_processor()}"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as handle:
            for line in handle:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def peak_memory_gib() -> float:
    """Most memory that this process ever held: of the GPU where there is one, else resident."""
    import torch

    if torch.cuda.is_available():
        return round(torch.cuda.max_memory_allocated() / 2**30, 3)
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30, 3)


def device_memory_gib() -> float | None:
    """Memory of the GPU where there is one, else of the machine; None where it is not told."""
    import torch

    if torch.cuda.is_available():
        return round(torch.cuda.mem_get_info()[1] / 2**30, 3)
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 3)
    except (ValueError, OSError):
        return None


def effect(base: Base, rows: Sequence[Example]) -> Json:
    """On how many prompts the adapter changes the logits of the answer's first token.

    A change counts above a thousandth of the logits' own spread: rounding stays far below it.
    """
    prompts = [row.input_ids[: _answer_at(row)] for row in rows]
    with_adapter = first_logits(base, prompts)
    with base.model.disable_adapter():
        without = first_logits(base, prompts)
    moved = (with_adapter - without).abs().amax(dim=1) > 1e-3 * without.std(dim=1)
    return {"probes": len(prompts), "changed": int(moved.sum())}


def _answer_at(row: Example) -> int:
    """Place of the first supervised token, which something stands before."""
    return next(place for place in range(1, len(row.labels)) if row.labels[place] != IGNORED)


def machine() -> Json:
    """The result of a `probe` job: device, versions, arithmetic that is fast here."""
    import torch

    device = pick_device()
    speeds = {name: _gflops(name) for name in ("float32", "bfloat16")}
    return {
        "device": device_name(),
        "kind": device.type,
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gflops": speeds,
        "environment": environment(),
    }


def _gflops(dtype: str) -> float:
    """Rate of a product of 512 x 512 matrices, the best of three short runs."""
    import torch

    size, best = 512, 0.0
    a = torch.ones(size, size, dtype=getattr(torch, dtype), device=pick_device())
    for _ in range(4):  # the first one warms up
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < 0.05:
            (a @ a)[0, 0].item()
            count += 1
        best = max(best, 2e-9 * size**3 * count / (time.perf_counter() - began))
    return round(best, 1)
