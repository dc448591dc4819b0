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
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tunegate.checks._characters import LOOKALIKES, visible
from tunegate.checks._sequences import GRAM, Sequences, shared
from tunegate.types import Json

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


@dataclass(slots=True)
class _Text:
    """A row as it is compared. Of a held-out one this is what stays in memory."""

    split: str
    line: int
    key: int
    """Hash of the whole text."""
    start: str
    empty: bool
    words: list[str]
    own: frozenset[str] | None = None
    """The words that may tell of a near text, where these are not all that it has."""


class Overlaps:
    """Collects rows, held-out splits first, and finds those that overlap across splits."""

    def __init__(self, *, key: str | None) -> None:
        self.key = key
        self._held: list[_Text] = []
        self._vocabulary: dict[str, str] = {}
        self._index: _Index | None = None
        self._prefixes: frozenset[int] = frozenset()
        self._groups: dict[str, set[str]] = {}
        self._found: dict[tuple[str, str], dict[int, Json]] = defaultdict(dict)

    def add(self, split: str, line: int, text: str, meta: Mapping[str, Any], *, held: bool) -> None:
        """Take in one row. Rows with `held=False` come after all others."""
        if self.key is not None and meta.get(self.key) is not None:
            self._group(split, str(meta[self.key]), held=held)
        empty = not text or text.isspace()
        row = _Text(split, line, hash(text), text[:TEXT_LIMIT], empty, words(text))
        if held:
            know = self._vocabulary.setdefault
            row.words = [know(word, word) for word in row.words]
            self._held.append(row)
        elif not empty:
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
            self._index = _Index([row for row in self._held if not row.empty])
            for row in self._index.rows:
                self._compare(row, self._index)
        return self._index

    def _compare(self, row: _Text, index: _Index) -> None:
        for number, kind, share in index.matches(row):
            other = index.rows[number]
            if (other.split, other.line) >= (row.split, row.line) and row.split != "train":
                continue  # each pair of held-out rows once
            self._note(row, other, number, kind, share)

    def _note(self, row: _Text, other: _Text, number: int, kind: str, share: float) -> None:
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
            "text": other.start,
            "other_text": row.start,
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
    """Held-out rows by their words, by sequences of words and by their rarest words.

    About 36 bytes a word of a row, texts and all: 5 kB for one of 150 words.
    """

    def __init__(self, rows: Sequence[_Text]) -> None:
        self.rows = rows
        self._plain: dict[int, list[int]] = defaultdict(list)
        self._longer: dict[tuple[str, ...], list[int]] = defaultdict(list)
        """By the short texts that they would be with one word less at an end."""
        for number, row in enumerate(rows):
            self._plain[hash(tuple(row.words))].append(number)
            for part in _parts(row.words):
                self._longer[part].append(number)
        limit = max(COMMON_ROWS, COMMON_SHARE * len(rows))
        self._sequences = Sequences([row.words for row in rows], limit=limit)
        self._rank = _ranks(rows)
        # By size, so that only sets of a size that can be near are looked at.
        self._rare: dict[int, tuple[array[int], array[int]]] = {}
        for size, number in sorted((self._keep_own(row), n) for n, row in enumerate(rows)):
            row = rows[number]
            for rank in self._prefix(set(row.words) if row.own is None else row.own):
                sizes, numbers = self._rare.setdefault(rank, (array("I"), array("I")))
                sizes.append(size)
                numbers.append(number)

    def _keep_own(self, row: _Text) -> int:
        """Keep the words that a row is compared by where they are not all; their number."""
        own = self._own(row.words, self._sequences.known(row.words))
        if len(own) != len(set(row.words)):
            row.own = own
        return len(own)

    def _own(self, said: Sequence[str], found: Sequence[int]) -> frozenset[str]:
        """The words that stand in no common sequence; empty where they are too few to compare."""
        kept: Iterable[str] = said
        common = self._sequences.common
        if common and not common.isdisjoint(found):
            inside = bytearray(len(said))
            for start, gram in enumerate(found):
                if gram in common:
                    inside[start : start + GRAM] = b"\1" * GRAM
            kept = [word for word, covered in zip(said, inside, strict=True) if not covered]
        own = frozenset(kept)
        return own if len(own) >= MIN_WORDS_NEAR else frozenset()

    def _prefix(self, own: Set[str]) -> list[int]:
        """Ranks of a set's rarest words, of which a near-equal set has `PREFIX_SHARED` too.

        Words that no held-out row has are the rarest and have no rank.
        """
        size = len(own)
        keep = size - _share_of(size) + PREFIX_SHARED if size else 0
        ranks = sorted(filter(None, map(self._rank.get, own)))
        unknown = size - len(ranks)
        return [] if unknown > keep - PREFIX_SHARED else ranks[: keep - unknown]

    def matches(self, row: _Text) -> Iterator[tuple[int, str, float]]:
        """Held-out rows of other splits that overlap with `row`: number, kind, share in common."""
        done: set[int] = set()
        same = list(self._same_words(row.words))
        for number in same:
            if self.rows[number].key == row.key and self.rows[number].split != row.split:
                done.add(number)
                yield number, "exact", 1.0
        kind = "plain" if len(row.words) >= MIN_WORDS_PLAIN else "short"
        for number in same if row.words else ():
            if self.rows[number].split != row.split and number not in done:
                done.add(number)
                yield number, kind, 1.0
        for number in self._one_word_apart(row.words):
            if self.rows[number].split != row.split and number not in done:
                done.add(number)
                yield number, "part", 1.0
        if len(row.words) < MIN_WORDS_NEAR:
            return
        found = self._sequences.known(row.words)
        for number, share in self._sharing_grams(row, found):
            if number not in done:
                done.add(number)
                yield number, "grams", share
        for number, share in self._near(row, found):
            if number not in done:
                yield number, "near", share

    def _same_words(self, said: list[str]) -> Iterator[int]:
        """Rows that have these words, no more and no fewer, in this order."""
        for number in self._plain.get(hash(tuple(said)), ()):
            if self.rows[number].words == said:
                yield number

    def _one_word_apart(self, said: list[str]) -> Iterator[int]:
        """Rows that are this short text, or hold it, but for one word before or behind."""
        for part in _parts(said):
            yield from self._same_words(list(part))
        if MIN_WORDS_PART <= len(said) <= MAX_WORDS_PART:
            yield from self._longer.get(tuple(said), ())

    def _sharing_grams(self, row: _Text, found: Sequence[int]) -> Iterator[tuple[int, float]]:
        times = Counter(self._sequences.holding(found)) if found else {}
        for number, count in sorted(times.items()):
            other = self.rows[number]
            fewest = min(len(found), len(other.words) - GRAM + 1)
            if other.split == row.split or count < GRAM_SHARE * fewest:
                continue
            share = shared(row.words, other.words, without=self._sequences.common) / fewest
            if share >= GRAM_SHARE:
                yield number, min(1.0, share)

    def _near(self, row: _Text, found: Sequence[int]) -> Iterator[tuple[int, float]]:
        own = self._own(row.words, found)
        size = len(own)
        least, most = _share_of(size), size * NEAR.denominator // NEAR.numerator
        holding: list[int] = []
        for rank in self._prefix(own):
            sizes, numbers = self._rare.get(rank, _NOWHERE)
            holding += numbers[bisect_left(sizes, least) : bisect_right(sizes, most)]
        for number, count in Counter(holding).items():
            other = self.rows[number]
            if count < PREFIX_SHARED or other.split == row.split:
                continue
            theirs = frozenset(other.words) if other.own is None else other.own
            both = len(own & theirs)
            either = size + len(theirs) - both
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


_NOWHERE: tuple[array[int], array[int]] = (array("I"), array("I"))


def _ranks(rows: Sequence[_Text]) -> dict[str, int]:
    """Place of each word from the rarest on, counted from 1."""
    times = Counter(word for row in rows for word in set(row.words))
    ordered = sorted(times, key=lambda word: (times[word], word))
    return {word: rank for rank, word in enumerate(ordered, start=1)}
