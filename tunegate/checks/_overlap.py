"""Which texts of several splits are equal or nearly equal.

Held-out rows are kept in an index; training rows are streamed against it, so memory follows the
held-out splits. Near equality of word sets uses prefix filtering (Bayardo et al. 2007; with k
common words: Wang, Li and Feng 2012): two sets with Jaccard t share k words among the first
|s| - ceil(t |s|) + k of each in any common order, so with the rarest words first almost nothing has
to be compared, and nothing is missed as it would be by hashing.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tunegate.checks._characters import LOOKALIKES, visible
from tunegate.types import Json

GRAM = 13
"""Words in a sequence; the length that GPT-3's contamination study used."""

PROBE = 4
PROBE_STEP = GRAM - PROBE + 1
"""Of every `GRAM` words in a row, one sequence of `PROBE` words begins at a multiple of the step:
where no held-out row has any of those, there is no sequence of `GRAM` words in common either.
"""

GRAM_SHARE = 0.5
"""Of the shorter row's sequences, the share that makes two rows overlap."""

NEAR = Fraction(9, 10)
NEAR_SHARE = float(NEAR)
"""Jaccard of two word sets that makes them nearly equal."""

PREFIX_SHARED = 2
"""Rare words that two sets must share before they are compared."""

MIN_WORDS_NEAR = 8
"""Shorter texts are compared for equality only: short generic ones resemble each other."""

MIN_WORDS_PLAIN = 4
"""Shorter texts that are equal but for case and punctuation are told and do not close the gate."""

MIN_WORDS_PART, MAX_WORDS_PART = 4, 7
"""Words of a short text that is the same as another but for one word before or behind it."""

MIN_WORDS_PREFIX, PREFIX_ROWS_SHARE = 6, 0.05
"""A beginning of so many words, in more of the held-out rows than this share, is an instruction."""

COMMON_ROWS, COMMON_SHARE = 5, 0.005
"""A sequence in more rows of the held-out splits than both of these is no sign of a leak."""

MAX_FOUND = 60
TEXT_LIMIT = 160

_ASCII_WORD = re.compile(r"[a-z0-9_]+")
_SCRIPTS = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_SCRIPTS}]|[^\W{_SCRIPTS}]+")
"""Scripts that write no spaces count each character as a word."""


def words(text: str) -> list[str]:
    """The words of a text, case, punctuation and spacing taken away."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    plain = visible(unicodedata.normalize("NFKC", text)).casefold()
    return _WORD.findall(plain.translate(LOOKALIKES))


def shared_prefixes(rows: Sequence[Sequence[str]]) -> frozenset[int]:
    """Hashes of the beginnings, `MIN_WORDS_PREFIX` words and more, that many rows share."""
    limit = max(COMMON_ROWS, PREFIX_ROWS_SHARE * len(rows))
    found: set[int] = set()
    alive = [(row, hash(tuple(row[: MIN_WORDS_PREFIX - 1]))) for row in rows]
    size = MIN_WORDS_PREFIX
    while alive:
        grown = [(row, hash((key, row[size - 1]))) for row, key in alive if len(row) >= size]
        times = Counter(key for _, key in grown)
        alive = [(row, key) for row, key in grown if times[key] > limit]
        found.update(key for _, key in alive)
        size += 1
    return frozenset(found)


def without_prefix(row: list[str], prefixes: frozenset[int]) -> list[str]:
    """The words behind the longest shared beginning; all of them where nothing else is there."""
    if not prefixes or len(row) < MIN_WORDS_PREFIX:
        return row
    key, size = hash(tuple(row[: MIN_WORDS_PREFIX - 1])), MIN_WORDS_PREFIX - 1
    while size < len(row):
        key = hash((key, row[size]))
        if key not in prefixes:
            break
        size += 1
    return row[size:] if MIN_WORDS_PREFIX <= size < len(row) else row


@dataclass
class _Held:
    """A row of a held-out split."""

    split: str
    line: int
    text: str
    words: list[str]
    grams: list[int] = field(default_factory=list)
    own: frozenset[str] = frozenset()


class Overlaps:
    """Collects rows, held-out splits first, and finds those that overlap across splits."""

    def __init__(self, *, key: str | None) -> None:
        self.key = key
        self._held: list[_Held] = []
        self._index: _Index | None = None
        self._prefixes: frozenset[int] = frozenset()
        self._groups: dict[str, set[str]] = {}
        self._found: dict[tuple[str, str], dict[int, Json]] = defaultdict(dict)

    def add(self, split: str, line: int, text: str, meta: Mapping[str, Any], *, held: bool) -> None:
        """Take in one row. Rows with `held=False` come after all others."""
        if self.key is not None and meta.get(self.key) is not None:
            self._group(split, str(meta[self.key]), held=held)
        row = _Held(split, line, text, words(text))
        if held:
            self._held.append(row)
        elif text.strip():
            index = self._ready()
            row.words = without_prefix(row.words, self._prefixes)
            self._compare(row, index)

    def _group(self, split: str, name: str, *, held: bool) -> None:
        """Keep a group's name; one of training rows only where another split has it too."""
        names = self._groups.setdefault(split, set())
        if held or any(name in other for other in self._groups.values()):
            names.add(name)

    def _ready(self) -> _Index:
        """The index over the held-out rows, which are compared with each other as it is made."""
        if self._index is None:
            self._prefixes = shared_prefixes([row.words for row in self._held])
            for row in self._held:
                row.words = without_prefix(row.words, self._prefixes)
            self._index = _Index([row for row in self._held if row.text.strip()])
            for row in self._index.rows:
                self._compare(row, self._index)
        return self._index

    def _compare(self, row: _Held, index: _Index) -> None:
        for number, kind, share in index.matches(row):
            other = index.rows[number]
            if (other.split, other.line) >= (row.split, row.line) and row.split != "train":
                continue  # each pair of held-out rows once
            self._note(row, other, number, kind, share)

    def _note(self, row: _Held, other: _Held, number: int, kind: str, share: float) -> None:
        """Keep the strongest match of a held-out row with each other split."""
        found = self._found[other.split, row.split]
        known = found.get(number)
        if known is not None and _RANK[known["kind"]] <= _RANK[kind]:
            return
        found[number] = {
            "splits": [other.split, row.split],
            "lines": [other.line, row.line],
            "kind": kind,
            "share": round(share, 3),
            "text": other.text[:TEXT_LIMIT],
            "other_text": row.text[:TEXT_LIMIT],
        }

    def to_json(self) -> Json:
        """Counts by pair of splits, the first matches of each, and shared group keys."""
        self._ready()
        overlap: dict[str, dict[str, int]] = {}
        shown: list[Json] = []
        for (one, other), found in sorted(self._found.items()):
            overlap[f"{one} and {other}"] = dict(Counter(item["kind"] for item in found.values()))
            ranked = sorted(found.values(), key=lambda item: _RANK[item["kind"]])
            shown += ranked[: max(1, MAX_FOUND // len(self._found))]
        return {
            "overlap": overlap,
            "rows_found": sorted(shown, key=lambda item: _RANK[item["kind"]]),
            "groups": list(self._shared_groups()),
            "grouped": sorted(self._groups),
        }

    def _shared_groups(self) -> Iterator[Json]:
        splits = sorted(self._groups)
        for number, one in enumerate(splits):
            for other in splits[number + 1 :]:
                shared = self._groups[one] & self._groups[other]
                if shared:
                    yield {"splits": [one, other], "count": len(shared), "example": min(shared)}


_RANK = {"exact": 0, "plain": 1, "grams": 2, "near": 3, "part": 4, "short": 5}


class _Index:
    """Held-out rows by text, by words, by sequences of words and by their rarest words."""

    def __init__(self, rows: Sequence[_Held]) -> None:
        self.rows = rows
        self._texts: dict[str, list[int]] = defaultdict(list)
        self._plain: dict[tuple[str, ...], list[int]] = defaultdict(list)
        self._longer: dict[tuple[str, ...], list[int]] = defaultdict(list)
        """By the short texts that they would be with one word less at an end."""
        for number, row in enumerate(rows):
            self._texts[row.text].append(number)
            self._plain[tuple(row.words)].append(number)
            for part in _parts(row.words):
                self._longer[part].append(number)
        self._common, self._grams = self._index_grams()
        self._probes = {probe for row in rows for probe in _probes(row.words, step=1)}
        self._rank = _ranks(rows)
        for row in rows:
            row.own = self._own(row)
        # By size, so that only sets of a size that can be near are looked at.
        self._rare: dict[int, tuple[list[int], list[int]]] = {}
        for number, row in sorted(enumerate(rows), key=lambda item: len(item[1].own)):
            for rank in self._prefix(row.own):
                sizes, numbers = self._rare.setdefault(rank, ([], []))
                sizes.append(len(row.own))
                numbers.append(number)

    def _index_grams(self) -> tuple[set[int], dict[int, list[int]]]:
        """Sequences that many rows share, and the rows of each of the others."""
        found: dict[int, list[int]] = defaultdict(list)
        for number, row in enumerate(self.rows):
            row.grams = _grams(row.words)
            for gram in set(row.grams):
                found[gram].append(number)
        limit = max(COMMON_ROWS, COMMON_SHARE * len(self.rows))
        common = {gram for gram, where in found.items() if len(where) > limit}
        for gram in common:
            del found[gram]
        return common, found

    def _own(self, row: _Held) -> frozenset[str]:
        """The words that stand in no common sequence; empty where they are too few to compare."""
        kept: Iterable[str] = row.words
        if self._common and not self._common.isdisjoint(row.grams):
            inside = bytearray(len(row.words))
            for start, gram in enumerate(row.grams):
                if gram in self._common:
                    inside[start : start + GRAM] = b"\1" * GRAM
            kept = [word for word, covered in zip(row.words, inside, strict=True) if not covered]
        own = frozenset(kept)
        return own if len(own) >= MIN_WORDS_NEAR else frozenset()

    def _prefix(self, own: frozenset[str]) -> list[int]:
        """Ranks of a set's rarest words, of which a near-equal set has `PREFIX_SHARED` too.

        Words that no held-out row has are the rarest and have no rank.
        """
        size = len(own)
        keep = size - _share_of(size) + PREFIX_SHARED if size else 0
        ranks = sorted(filter(None, map(self._rank.get, own)))
        unknown = size - len(ranks)
        return [] if unknown > keep - PREFIX_SHARED else ranks[: keep - unknown]

    def matches(self, row: _Held) -> Iterator[tuple[int, str, float]]:
        """Held-out rows of other splits that overlap with `row`: number, kind, share in common."""
        done: set[int] = set()
        for number in self._texts.get(row.text, ()):
            if self.rows[number].split != row.split:
                done.add(number)
                yield number, "exact", 1.0
        if row.words:
            kind = "plain" if len(row.words) >= MIN_WORDS_PLAIN else "short"
            for number in self._plain.get(tuple(row.words), ()):
                if self.rows[number].split != row.split and number not in done:
                    done.add(number)
                    yield number, kind, 1.0
        for number in self._one_word_apart(row.words):
            if self.rows[number].split != row.split and number not in done:
                done.add(number)
                yield number, "part", 1.0
        if len(row.words) < MIN_WORDS_NEAR:
            return
        if not row.grams and not self._probes.isdisjoint(_probes(row.words, step=PROBE_STEP)):
            row.grams = _grams(row.words)
        for number, share in self._sharing_grams(row):
            if number not in done:
                done.add(number)
                yield number, "grams", share
        for number, share in self._near(row):
            if number not in done:
                yield number, "near", share

    def _one_word_apart(self, said: Sequence[str]) -> Iterator[int]:
        """Rows that are this short text, or hold it, but for one word before or behind."""
        for part in _parts(said):
            yield from self._plain.get(part, ())
        if MIN_WORDS_PART <= len(said) <= MAX_WORDS_PART:
            yield from self._longer.get(tuple(said), ())

    def _sharing_grams(self, row: _Held) -> Iterator[tuple[int, float]]:
        known = self._grams
        hits = [gram for gram in row.grams if gram in known]
        if not hits:
            return
        times: Counter[int] = Counter()
        for gram in set(hits):
            times.update(known[gram])
        size = len(row.grams)
        for number, count in times.items():
            other = self.rows[number]
            share = count / min(size, len(other.grams))
            if other.split != row.split and share >= GRAM_SHARE:
                yield number, min(1.0, share)

    def _near(self, row: _Held) -> Iterator[tuple[int, float]]:
        own = row.own or self._own(row)
        size = len(own)
        least, most = _share_of(size), size * NEAR.denominator // NEAR.numerator
        shared: Counter[int] = Counter()
        for rank in self._prefix(own):
            sizes, numbers = self._rare.get(rank, _NOWHERE)
            shared.update(numbers[bisect_left(sizes, least) : bisect_right(sizes, most)])
        for number, count in shared.items():
            other = self.rows[number]
            if count < PREFIX_SHARED or other.split == row.split:
                continue
            both = len(own & other.own)
            either = size + len(other.own) - both
            if both * NEAR.denominator >= either * NEAR.numerator:
                yield number, both / either


def _parts(said: Sequence[str]) -> set[tuple[str, ...]]:
    """The short texts that are left where one word at an end is taken away."""
    if not MIN_WORDS_PART <= len(said) - 1 <= MAX_WORDS_PART:
        return set()
    return {tuple(said[1:]), tuple(said[:-1])}


def _share_of(size: int) -> int:
    """The fewest words that a set of `size` and a near-equal one have in common."""
    return -(-size * NEAR.numerator // NEAR.denominator)


_NOWHERE: tuple[list[int], list[int]] = ([], [])


def _ranks(rows: Sequence[_Held]) -> dict[str, int]:
    """Place of each word from the rarest on, counted from 1."""
    times = Counter(word for row in rows for word in set(row.words))
    ordered = sorted(times, key=lambda word: (times[word], word))
    return {word: rank for rank, word in enumerate(ordered, start=1)}


def _probes(found: Sequence[str], *, step: int) -> Iterator[int]:
    """Hashes of the sequences of `PROBE` words that begin at every `step`-th word."""
    return (hash(tuple(found[n : n + PROBE])) for n in range(0, len(found) - PROBE + 1, step))


def _grams(found: Sequence[str]) -> list[int]:
    """Hashes of the sequences of 13 words, of length max(0, words - 12)."""
    return [hash(tuple(found[n : n + GRAM])) for n in range(len(found) - GRAM + 1)]
