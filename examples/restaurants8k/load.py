"""Write the RESTAURANTS-8K split: what a guest's message gives for a booking, as JSON.

    python examples/restaurants8k/load.py --from FOLDER   a folder with train_0.json and test.json
    python examples/restaurants8k/load.py --fetch         the same from their public address
    python examples/restaurants8k/load.py --fetch --whole every row instead of a sample

Without either, it looks in the folder `restaurants8k` of the one that TUNEGATE_DATA names. The
files' SHA-256 and counts are checked, and the split is the same on every machine and Python: which
rows are taken, and their order, follow from the hash of each message. Standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMIT = "57ec275d8078af65b7731c2a98be812d844a6d6b"
REPOSITORY = "PolyAI-LDN/task-specific-datasets"
PLACE = "span_extraction/restaurant8k"
ADDRESS = f"https://raw.githubusercontent.com/{REPOSITORY}/{COMMIT}/{PLACE}"
MAX_BYTES = 10_000_000


@dataclass(frozen=True)
class Official:
    """One official file."""

    names: tuple[str, ...]
    """Its official name first, then another that a copy may have."""
    rows: int
    sha256: str


OFFICIAL = {
    "train": Official(
        ("train_0.json", "train.json"),
        8198,
        "90cb03e1cdd3ee141829605955a54d946308e1558250ca1e7413f260443bc6a4",
    ),
    "test": Official(
        ("test.json",),
        3731,
        "31dbbb2fa36319f9f1f2c3ed441619ebf6e081f82aefd484b98caf86cd826ab0",
    ),
}
FIELDS = ("people", "date", "time", "first_name", "last_name")
"""In the order in which every answer names them."""
SIZES: dict[str, int | None] = {"test": 300, "validation": 100, "train": 640}
WHOLE: dict[str, int | None] = {"test": None, "validation": 400, "train": None}
"""Rows of each split, in the order in which they are taken; None: all that may be taken."""
TOO_NEAR = 0.8
"""Share of words in common from which two messages count as one."""
STRETCH = 13
"""Words in a row; two messages that share half of the shorter one's stretches count as one."""

ATTRIBUTION = f"""\
# RESTAURANTS-8K

The rows in this folder come from RESTAURANTS-8K,
https://github.com/{REPOSITORY}/tree/{COMMIT}/{PLACE}

Coope, Farghly, Gerz, Vulić and Henderson: "Span-ConveRT: Few-shot Span Extraction for Dialog with
Pretrained Conversational Representations", ACL 2020, https://aclanthology.org/2020.acl-main.11/

Licence: Creative Commons Attribution 4.0 International,
https://creativecommons.org/licenses/by/4.0/

Changes made: spans were cut out and put into the form that Tunegate reads; what the desk had just
asked for stands in a line before the message; a message that is there more than once was taken
once; validation rows were held out of the training rows; training rows whose message is also in
the test rows, or almost is, were left out. Messages are unchanged, but for a carriage return in
one, which is now a space.
"""


@dataclass(frozen=True)
class Message:
    """What a guest wrote, what had been asked for, and what the message gives."""

    text: str
    asked: tuple[str, ...]
    fields: tuple[tuple[str, str], ...]

    @property
    def prompt(self) -> str:
        """The message as the model reads it."""
        text = re.sub(r"\s*\r\s*", " ", self.text)
        return f"Asked for: {', '.join(self.asked)}\n{text}" if self.asked else text


def main(arguments: list[str] | None = None) -> int:
    """Write data/ beside this script, or say what is wrong and return 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--from", dest="source", type=Path, help="folder of the official files")
    parser.add_argument("--fetch", action="store_true", help=f"read them from {ADDRESS}")
    parser.add_argument("--whole", action="store_true", help="every row instead of a sample")
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "data")
    options = parser.parse_args(arguments)
    try:
        contents = fetch() if options.fetch else local(options.source)
        official = {name: read(content, OFFICIAL[name]) for name, content in contents.items()}
        splits = select(official, WHOLE if options.whole else SIZES)
        write(splits, options.to)
    except (OSError, ValueError) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    train, test = shared(official)
    print(f"left out of train: {train} official rows whose message {test} test rows have, too")
    for name, rows in splits.items():
        print(f"{name}: {len(rows)} rows, {sum(not row.fields for row in rows)} with nothing given")
    return 0


def local(source: Path | None) -> dict[str, bytes]:
    """The official files' bytes from a folder, or from the one that TUNEGATE_DATA names."""
    if source is None:
        named = os.environ.get("TUNEGATE_DATA")
        if not named:
            raise ValueError("say where the files are: --from FOLDER, or --fetch to download them")
        source = Path(named) / "restaurants8k"
    found = {}
    for split, file in OFFICIAL.items():
        paths = [source / name for name in file.names]
        path = next((path for path in paths if path.is_file()), paths[0])
        found[split] = path.read_bytes()
    return found


def fetch() -> dict[str, bytes]:
    """The official files' bytes from their public address."""
    found: dict[str, bytes] = {}
    for split, file in OFFICIAL.items():
        with urllib.request.urlopen(f"{ADDRESS}/{file.names[0]}", timeout=60) as answer:
            found[split] = answer.read(MAX_BYTES)
    return found


def read(content: bytes, file: Official) -> list[Message]:
    """The messages of an official file; raises ValueError when it is not the pinned one."""
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise ValueError(f"not the official {file.names[0]}: SHA-256 is {found}, not {file.sha256}")
    rows = json.loads(content)
    if len(rows) != file.rows:
        raise ValueError(f"{file.names[0]} has {len(rows)} rows, not {file.rows}")
    return [message(row) for row in rows]


def message(row: dict[str, Any]) -> Message:
    """One official row; a span that starts at 0 leaves its start out."""
    text = row["userInput"]["text"]
    spans = {label["slot"]: label["valueSpan"] for label in row.get("labels", [])}
    given = {
        slot: text[span.get("startIndex", 0) : span["endIndex"]] for slot, span in spans.items()
    }
    asked = dict.fromkeys(row.get("context", {}).get("requestedSlots", []))
    return Message(
        text, tuple(asked), tuple((name, given[name]) for name in FIELDS if name in given)
    )


def shared(official: dict[str, list[Message]]) -> tuple[int, int]:
    """(train rows, test rows) whose message, case and punctuation apart, the other file has."""
    texts = {name: {plain(row.text) for row in rows} for name, rows in official.items()}
    both = texts["train"] & texts["test"]
    train, test = (
        sum(plain(row.text) in both for row in official[name]) for name in ("train", "test")
    )
    return train, test


def select(
    official: dict[str, list[Message]], sizes: dict[str, int | None]
) -> dict[str, list[Message]]:
    """Test rows first; then validation and training rows that no earlier split has, or almost has.

    No training row has the message of any official test row, whether or not that one is taken.
    """
    closed = {plain(row.text) for row in official["test"]}
    pools = {"test": official["test"]}
    pools["validation"] = pools["train"] = [
        row for row in official["train"] if plain(row.text) not in closed
    ]
    chosen: dict[str, list[Message]] = {}
    for split, count in sizes.items():
        held_out = [row for rows in chosen.values() for row in rows]
        rows = pick(pools[split], count, held_out)
        chosen[split] = sorted(rows, key=lambda row: rank(row.prompt, f"order of {split}"))
    return {split: chosen[split] for split in ("train", "validation", "test")}


def pick(rows: Sequence[Message], count: int | None, held_out: list[Message]) -> list[Message]:
    """The first `count` messages by rank, each once, that are not too near a held-out one."""
    taken: dict[str, Message] = {}
    texts = {plain(row.text) for row in held_out}
    long = [found for row in held_out if (found := stretches(row.prompt))]
    by_size: dict[int, list[set[str]]] = {}
    for row in held_out:
        own = words(row.prompt)
        by_size.setdefault(len(own), []).append(own)
    for row in sorted(rows, key=lambda row: rank(row.prompt, "choice")):
        if len(taken) == count:
            break
        key = plain(row.text) if count is not None else plain(row.prompt)
        if key in taken or plain(row.text) in texts or is_near(words(row.prompt), by_size):
            continue
        if not repeats(stretches(row.prompt), long):
            taken[key] = row
    if count is not None and len(taken) < count:
        raise ValueError(f"only {len(taken)} rows are left, {count} are needed")
    return list(taken.values())


def is_near(own: set[str], by_size: dict[int, list[set[str]]]) -> bool:
    """Has a held-out message (here by their number of words) TOO_NEAR of both's words in common?"""
    sizes = range(int(TOO_NEAR * len(own)), int(len(own) / TOO_NEAR) + 2)
    return any(
        len(own & other) >= TOO_NEAR * len(own | other)
        for size in sizes
        for other in by_size.get(size, ())
    )


def repeats(own: set[str], others: list[set[str]]) -> bool:
    """Has one of the others half of the shorter one's stretches in common?"""
    return bool(own) and any(2 * len(own & other) >= min(len(own), len(other)) for other in others)


def rank(text: str, purpose: str) -> str:
    """A number that orders texts without a random generator."""
    return hashlib.sha256(f"{purpose}\0{text}".encode()).hexdigest()


def plain(text: str) -> str:
    """The text without case, punctuation and spacing."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def words(text: str) -> set[str]:
    """The different words of a text."""
    return set(plain(text).split())


def stretches(text: str) -> set[str]:
    """Every STRETCH words in a row of a text."""
    row = plain(text).split()
    return {" ".join(row[start : start + STRETCH]) for start in range(len(row) - STRETCH + 1)}


def write(splits: dict[str, list[Message]], into: Path) -> None:
    """JSON Lines files of prompt and completion, and the attribution that the licence wants."""
    into.mkdir(parents=True, exist_ok=True)
    (into / "ATTRIBUTION.md").write_text(ATTRIBUTION, encoding="utf-8")
    for split, rows in splits.items():
        write_lines(into / f"{split}.jsonl", as_rows(split, rows))


def as_rows(split: str, rows: Iterable[Message]) -> Iterable[dict[str, str]]:
    """One Tunegate row a message. A field that is not given is left out of the answer."""
    for number, row in enumerate(rows, start=1):
        answer = json.dumps(dict(row.fields), ensure_ascii=False)
        yield {"id": f"{split}-{number:04}", "prompt": row.prompt, "completion": answer}


def write_lines(path: Path, rows: Iterable[dict[str, str]]) -> None:
    """Replace the file at once, so that a run never reads half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    temporary.write_text(lines, encoding="utf-8", newline="\n")
    temporary.replace(path)


if __name__ == "__main__":
    sys.exit(main())
