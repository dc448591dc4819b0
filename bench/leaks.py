"""leak_check over many rows: time, memory, which planted leaks it finds and what it finds besides.

    python -m bench.leaks [--rows 1000000] [--held 10000] [--peer] [--keep FILE]

Rows are invented, about 150 words or 200 tokens each. Of the test rows, the first thousands are put
into the training rows again, each sort of change `PLANTED` times; a false alarm is any other row
that is found. Some sorts are no leaks by the check's definition and are told apart as controls.

The peer (`--peer`, needs `pip install rensa`) is MinHash with locality-sensitive hashing in Rust:
the same rows, read and cut into words alike, 128 permutations over the sets of words, a match at an
estimated Jaccard of `PEER_SHARE`. Each part runs in a process of its own. CPU seconds are user and
system; where other work shares the machine, only they mean something.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any

from bench.checks import described, peak_mib, timed
from tests.stand_ins import run
from tunegate import frameworks
from tunegate.checks import CheckInputs
from tunegate.checks._overlap import Overlaps, words
from tunegate.checks.leak_check import question
from tunegate.types import Json
from tunegate.worker.rows import read_rows

PLANTED = 200
PEER_SHARE = 0.8
LOOKALIKE = str.maketrans("aeo", "\u0430\u0435\u043e")

_ENDINGS = [f"{a}{b}{c}" for a in "lmnrst" for b in "aeiou" for c in ("", "ck", "nd", "st", "ring")]
_STEMS = [f"{a}{b}" for a in "bdfgk" for b in "aeiou"]
_VOCABULARY = [f"{a}{b}{c}" for a in ["", *_STEMS[:9]] for b in _STEMS for c in _ENDINGS]
_WEIGHTS = list(accumulate(1 / (place + 5) for place in range(len(_VOCABULARY))))

Change = Callable[[list[str], random.Random], str]


def texts(count: int, *, seed: int) -> Iterator[list[str]]:
    """Texts of 100 to 200 words drawn by a rough Zipf law."""
    dice = random.Random(seed)
    for _ in range(count):
        yield dice.choices(_VOCABULARY, cum_weights=_WEIGHTS, k=dice.randint(100, 200))


def invented(count: int, dice: random.Random) -> list[str]:
    """`count` words that nothing else in the rows holds."""
    return [f"{dice.choice(_VOCABULARY)}{dice.randrange(10**6)}" for _ in range(count)]


def replaced(share: float) -> Change:
    """A change of so many of the words, at places drawn by lot."""

    def change(said: list[str], dice: random.Random) -> str:
        out = list(said)
        places = dice.sample(range(len(out)), round(share * len(out)))
        for place, word in zip(places, invented(len(places), dice), strict=True):
            out[place] = word
        return " ".join(out)

    return change


def within(words_kept: Callable[[int], int]) -> Change:
    """A stretch of the text in the middle of 150 other words."""

    def change(said: list[str], dice: random.Random) -> str:
        size = words_kept(len(said))
        start = dice.randint(0, len(said) - size)
        return " ".join(
            [*invented(75, dice), *said[start : start + size], *invented(75, dice)],
        )

    return change


def marked(said: list[str], _: random.Random) -> str:
    """Other case, other punctuation."""
    return ". ".join(word.title() for word in said) + "!"


LEAKS: dict[str, Change] = {
    "the same text": lambda said, _: " ".join(said),
    "other case and punctuation": marked,
    "letters of other alphabets that look alike": lambda said, _: " ".join(said).translate(
        LOOKALIKE
    ),
    "3 % of words replaced": replaced(0.03),
    "10 % of words replaced": replaced(0.1),
    "inside a longer row": within(lambda size: size),
    "two thirds of it inside another row": within(lambda size: 2 * size // 3),
}

CONTROLS: dict[str, Change] = {
    "40 % of words replaced": replaced(0.4),
    "13 words in a row in common": within(lambda _: 13),
    "a quarter of it inside another row": within(lambda size: size // 4),
}


def make(folder: Path, *, count: int, held: int) -> Json:
    """Write a run of `count` training rows; the sort of each planted test row by its line."""
    changes = LEAKS | CONTROLS
    test = list(texts(held, seed=1))
    sorts = [name for name in changes for _ in range(PLANTED)]
    if held < len(sorts) or count < len(sorts):
        raise SystemExit(f"at least {len(sorts)} rows and held-out rows are needed")
    dice = random.Random(2)
    planted = [changes[name](said, dice) for name, said in zip(sorts, test, strict=False)]
    plain = (" ".join(said) for said in texts(count - len(planted), seed=3))
    found = run(
        folder, train=[_row("0", planted[0])], splits={"test": [_row("0", planted[0])]}, task=None
    )
    (folder / "job.json").write_text(json.dumps(found.job))
    frozen = found.frozen["data"]
    _write(found.path("train"), chain(planted, plain))
    _write(found.path("test"), map(" ".join, test))
    return {"folder": str(folder), "sorts": sorts, "files": sorted(frozen)}


def _row(name: str, said: str) -> Json:
    turns = [{"role": "user", "content": said}, {"role": "assistant", "content": "yes"}]
    return {"id": name, "messages": turns}


def _write(path: Path, rows: Iterator[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number, said in enumerate(rows):
            file.write(json.dumps(_row(str(number), said), ensure_ascii=False) + "\n")


class Counted(Overlaps):
    """Overlaps of which all found lines are kept, not only those that evidence shows."""

    def lines(self) -> list[int]:
        """Lines of the test rows that are like a training row."""
        self.to_json()
        found = self._found.get(("test", "train"), {})
        return sorted(item["lines"][0] for item in found.values())


def ours(made: CheckInputs) -> list[int]:
    """Lines of the test rows that leak_check finds, as its `observe` does it."""
    overlaps = Counted(key=None)
    for split in ("test", "train"):
        for row in read_rows(made.path(split)):
            overlaps.add(split, row.line, question(row), {}, held=split == "test")
    return overlaps.lines()


def peer(made: CheckInputs) -> list[int]:
    """Lines of the test rows that rensa's MinHash finds."""
    from rensa import RMinHash, RMinHashLSH  # type: ignore[import-not-found]

    def signed(said: str) -> Any:
        out = RMinHash(num_perm=128, seed=1)
        out.update(list(set(words(said))))
        return out

    index, kept, found = RMinHashLSH(threshold=PEER_SHARE, num_perm=128, num_bands=16), {}, set()
    for row in read_rows(made.path("test")):
        kept[row.line] = signed(question(row))
        index.insert(row.line, kept[row.line])
    for row in read_rows(made.path("train")):
        sign = signed(question(row))
        found |= {n for n in index.query(sign) if kept[n].jaccard(sign) >= PEER_SHARE}
    return sorted(found)


def reading(made: CheckInputs) -> list[int]:
    """Reading the rows and nothing else, which both have to do."""
    return [sum(1 for _ in read_rows(made.path(split))) for split in ("test", "train")]


PARTS = {"reading": reading, "leak_check": ours, "rensa": peer}


def apart(part: str, folder: Path) -> Json:
    """Seconds, peak memory and what was found of one part, in a process of its own."""
    command = [sys.executable, "-m", "bench.leaks", "--part", part, "--run", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: Json = json.loads(done.stdout)
    return found


def recall(lines: list[int], sorts: list[str]) -> Json:
    """Share of each sort that was found; how many rows were found that nobody planted."""
    named = [sorts[line - 1] if line <= len(sorts) else None for line in lines]
    return {
        "leaks": {name: named.count(name) / PLANTED for name in LEAKS},
        "controls": {name: named.count(name) / PLANTED for name in CONTROLS},
        "false_alarms": named.count(None),
    }


def compare(folder: Path, *, count: int, held: int, parts: list[str]) -> Json:
    """All parts over the same rows, told as they come."""
    sorts = make(folder, count=count, held=held)["sorts"]
    out: Json = {"rows": count, "held_rows": held, "parts": {}}
    for part in parts:
        found = apart(part, folder)
        lines = found.pop("lines")
        print(
            f"{part:<11}{found['wall_s']:8.1f} s wall {found['cpu_s']:8.1f} s CPU "
            f"{(count + held) / found['cpu_s']:9,.0f} rows/s CPU {found['peak_mib']:7.0f} MiB",
            flush=True,
        )
        if part in ("leak_check", "rensa"):
            found |= recall(lines, sorts)
            for kind in ("leaks", "controls"):
                for name, share in found[kind].items():
                    print(f"    {kind[:-1]:<8} {name:<44}{100 * share:6.1f} % found")
            print(f"    false alarms: {found['false_alarms']}")
        out["parts"][part] = found
    return out


def main() -> None:
    """Compare, or measure one part where this is the process of one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--held", type=int, default=10_000)
    parser.add_argument("--peer", action="store_true", help="measure rensa beside it")
    parser.add_argument("--keep", type=Path, help="file for the result; the code is committed")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part is not None:
        job = json.loads((asked.run / "job.json").read_text())
        made = CheckInputs(job["frozen"], frameworks.load("native"), job)
        lines, seconds = timed(lambda: PARTS[asked.part](made))
        print(json.dumps({**seconds, "peak_mib": peak_mib(), "lines": lines}))
        return
    about = described() if asked.keep is not None else {}
    about["command"] = f"python -m bench.leaks --rows {asked.rows} --held {asked.held}"
    parts = list(islice(PARTS, 3 if asked.peer else 2))
    with tempfile.TemporaryDirectory() as folder:
        found = compare(Path(folder), count=asked.rows, held=asked.held, parts=parts)
    if asked.keep is not None:
        asked.keep.parent.mkdir(parents=True, exist_ok=True)
        asked.keep.write_text(json.dumps({**about, **found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
