"""Write the CLINC150 banking split: 15 banking intents and what lies outside them.

    python examples/clinc150/load.py --from FOLDER   official data_full.json (or a folder with it)
    python examples/clinc150/load.py --fetch         the same from its public address

Without either, it looks in the folder `clinc150` of the one that TUNEGATE_DATA names. The file's
SHA-256 and counts are checked, and the split is the same on every machine and Python: which rows
are taken, and their order, follow from the hash of each text. Standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import urllib.request
from collections.abc import Iterable
from pathlib import Path

COMMIT = "828f8093932c8fe6ca7936c3d2e52903b1c523de"
ADDRESS = f"https://raw.githubusercontent.com/clinc/oos-eval/{COMMIT}/data/data_full.json"
SHA256 = "36923c3705a59e08fe9c3883d8bc2dd966ef93e22cb78ac41171782a698d56e0"
MAX_BYTES = 10_000_000
COUNTS = {
    "train": 15000,
    "val": 3000,
    "test": 4500,
    "oos_train": 100,
    "oos_val": 100,
    "oos_test": 1000,
}
BANKING = (  # domains.json of the same commit
    "freeze_account",
    "routing",
    "pin_change",
    "bill_due",
    "pay_bill",
    "account_blocked",
    "interest_rate",
    "min_payment",
    "bill_balance",
    "transfer",
    "order_checks",
    "balance",
    "spending_history",
    "transactions",
    "report_fraud",
)
ESCAPE = "out_of_scope"

# Rows an intent, and rows outside all intents. None: every official row.
SIZES = {"train": (20, 60), "validation": (5, 25), "test": (None, 150)}
OFFICIAL = {
    "train": ("train", "oos_train"),
    "validation": ("val", "oos_val"),
    "test": ("test", "oos_test"),
}
TOO_NEAR = 0.7
"""Share of common three-letter pieces from which two texts count as one."""

ATTRIBUTION = f"""\
# CLINC150, banking intents and out-of-scope queries

The rows in this folder come from CLINC150 ("oos-eval"),
https://github.com/clinc/oos-eval/tree/{COMMIT}

Larson, Mahendran, Peper, Clarke, Lee, Hill, Kummerfeld, Leach, Laurenzano, Tang and Mars:
"An Evaluation Dataset for Intent Classification and Out-of-Scope Prediction", EMNLP-IJCNLP 2019,
https://aclanthology.org/D19-1131/

Licence: Creative Commons Attribution 3.0 Unported, https://creativecommons.org/licenses/by/3.0/

Changes made: the 15 intents of the banking domain and a part of the out-of-scope queries were
selected, `oos` was renamed `{ESCAPE}`, and each row was put into the form that Tunegate reads.
Texts are unchanged. Training and validation rows that stand almost word for word in the test split
were left out.
"""

Query = tuple[str, str]
"""Text and intent."""


def main(arguments: list[str] | None = None) -> int:
    """Write data/ beside this script, or say what is wrong and return 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--from", dest="source", type=Path, help="official file or its folder")
    parser.add_argument("--fetch", action="store_true", help=f"read {ADDRESS}")
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "data")
    options = parser.parse_args(arguments)
    try:
        official = read(fetch() if options.fetch else local(options.source))
        splits = select(official)
        write(splits, options.to)
    except (OSError, ValueError) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    for name, rows in splits.items():
        print(f"{name}: {len(rows)} rows")
    return 0


def local(source: Path | None) -> bytes:
    """The official file's bytes from a path, or from the folder that TUNEGATE_DATA names."""
    if source is None:
        named = os.environ.get("TUNEGATE_DATA")
        if not named:
            raise ValueError("say where the file is: --from PATH, or --fetch to download it")
        source = Path(named) / "clinc150"
    if source.is_dir():
        source /= "data_full.json"
    return source.read_bytes()


def fetch() -> bytes:
    """The official file's bytes from its public address."""
    with urllib.request.urlopen(ADDRESS, timeout=60) as answer:
        content: bytes = answer.read(MAX_BYTES)
    return content


def read(content: bytes) -> dict[str, list[Query]]:
    """The official splits; raises ValueError when this is not the pinned file."""
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise ValueError(f"not the official data_full.json: SHA-256 is {found}, not {SHA256}")
    official = {
        name: [(text, intent) for text, intent in rows]
        for name, rows in json.loads(content).items()
    }
    counts = {name: len(rows) for name, rows in official.items()}
    if counts != COUNTS:
        raise ValueError(f"rows are {counts}, not {COUNTS}")
    return official


def select(official: dict[str, list[Query]]) -> dict[str, list[Query]]:
    """Test first; then training and validation rows that are not almost rows of the test split."""
    chosen: dict[str, list[Query]] = {}
    for split in ("test", "validation", "train"):
        held_out = [pieces(text) for rows in chosen.values() for text, _ in rows]
        a_class, outside = SIZES[split]
        inside_name, outside_name = OFFICIAL[split]
        taken: list[Query] = []
        for intent in BANKING:
            own = [row for row in official[inside_name] if row[1] == intent]
            taken += pick(own, a_class, held_out)
        unknown = [(text, ESCAPE) for text, _ in official[outside_name]]
        taken += pick(unknown, outside, held_out)
        chosen[split] = sorted(taken, key=lambda row: rank(row[0], f"order of {split}"))
    return {split: chosen[split] for split in SIZES}


def pick(rows: list[Query], count: int | None, held_out: list[set[str]]) -> list[Query]:
    """The first `count` rows by rank that are not too near a held-out text; all for None."""
    if count is None:
        return rows
    taken: list[Query] = []
    for text, intent in sorted(rows, key=lambda row: rank(row[0], "choice")):
        if len(taken) == count:
            break
        if not any(near(pieces(text), other) for other in held_out):
            taken.append((text, intent))
    if len(taken) < count:
        raise ValueError(f"only {len(taken)} rows of {rows[0][1]} are left, {count} are needed")
    return taken


def rank(text: str, purpose: str) -> str:
    """A number that orders texts without a random generator."""
    return hashlib.sha256(f"{purpose}\0{text}".encode()).hexdigest()


def pieces(text: str) -> set[str]:
    """Three-letter pieces of the normalised text."""
    plain = f" {re.sub(r'[^a-z0-9]+', ' ', text.lower()).strip()} "
    return {plain[start : start + 3] for start in range(len(plain) - 2)}


def near(one: set[str], other: set[str]) -> bool:
    """Have the two texts TOO_NEAR of their pieces in common?"""
    return len(one & other) >= TOO_NEAR * len(one | other)


def write(splits: dict[str, list[Query]], into: Path) -> None:
    """JSON Lines files of prompt and completion, and the attribution that the licence wants."""
    into.mkdir(parents=True, exist_ok=True)
    (into / "ATTRIBUTION.md").write_text(ATTRIBUTION, encoding="utf-8")
    for split, rows in splits.items():
        write_lines(into / f"{split}.jsonl", as_rows(split, rows))


def as_rows(split: str, rows: list[Query]) -> Iterable[dict[str, str]]:
    """One Tunegate row a query."""
    for number, (text, intent) in enumerate(rows, start=1):
        answer = json.dumps({"intent": intent})
        yield {"id": f"{split}-{number:04}", "prompt": text, "completion": answer}


def write_lines(path: Path, rows: Iterable[dict[str, str]]) -> None:
    """Replace the file at once, so that a run never reads half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    temporary.write_text(lines, encoding="utf-8", newline="\n")
    temporary.replace(path)


if __name__ == "__main__":
    sys.exit(main())
