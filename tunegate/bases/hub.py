"""A base model from the Hugging Face hub, at one exact commit."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from tunegate.bases import contents
from tunegate.errors import UsageError

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")

WANTED = ["*.json", "*.jinja", "*.safetensors", "merges.txt", "tokenizer.model"]
"""Patterns to fetch: never pickles, never code."""
UNWANTED = ["*/*", "consolidated*"]
"""Folders inside a repository hold other formats; `consolidated` files hold the weights again."""


def is_id(model: str) -> bool:
    """Does `model` read as `org/name`?"""
    return _ID.fullmatch(model) is not None


def obtain(model: str, revision: str | None, *, progress: Callable[[str, float], None]) -> Path:
    """The folder with `model`'s files at `revision`: from the local hub cache, else from the hub.

    A branch or tag can move, so only a commit of 40 hex digits is a revision. Raises UsageError:
    `extra_missing` without huggingface_hub, `base_invalid` for anything but a commit, and for files
    that are neither in the cache nor to be had.
    """
    if find_spec("huggingface_hub") is None:
        raise UsageError(
            f"{model} is a hub id, and huggingface_hub is not installed",
            kind="extra_missing",
            hint="pip install huggingface_hub; or name a folder that holds the model",
        )
    if revision is None or not _COMMIT.fullmatch(revision):
        raise UsageError(
            f"base.revision of {model} is {'missing' if revision is None else repr(revision)}: "
            "it must be a full commit, 40 hex digits",
            kind="base_invalid",
            hint=_cached_hint(model),
        )
    try:
        where = _snapshot(model, revision, local=True)
        contents.file_names(where)
    except (OSError, ValueError, UsageError) as local_error:
        progress(f"fetching {model}", 0.0)
        try:
            where = _snapshot(model, revision, local=False)
        except Exception as exc:
            # The client raises its own errors and its transport's. Where a local copy is there
            # but incomplete, that explains more.
            why = local_error if isinstance(local_error, UsageError) else exc
            raise UsageError(
                f"{model} at {revision} is not in the local hub cache and cannot be fetched: {why}",
                kind="base_invalid",
                hint=f"where there is a network: hf download {model} --revision {revision}",
            ) from exc
        progress(f"fetching {model}", 1.0)
    return where


def _snapshot(model: str, revision: str, *, local: bool) -> Path:
    from huggingface_hub import snapshot_download

    found = snapshot_download(
        model,
        revision=revision,
        local_files_only=local,
        allow_patterns=WANTED,
        ignore_patterns=UNWANTED,
    )
    return Path(found)


def _cached_hint(model: str) -> str:
    from huggingface_hub.constants import HF_HUB_CACHE

    snapshots = Path(HF_HUB_CACHE) / f"models--{model.replace('/', '--')}" / "snapshots"
    commits = sorted(path.name for path in snapshots.glob("*")) if snapshots.is_dir() else []
    if commits:
        return "in the local cache: " + ", ".join(f'"{commit}"' for commit in commits[:3])
    return f"the commits are listed at https://huggingface.co/{model}/commits/main"
