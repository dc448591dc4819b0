"""Sequences of words that texts have in common, from an index of eight bytes a sequence.

A text that shares none is told from the others by probes of four words: a bit map knows those of
all texts in the index, and of every `GRAM` words in a row one probe begins at a multiple of
`PROBE_STEP`. So no stretch is missed; probes and keys of sequences that agree by chance are
compared word by word in the end.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

GRAM = 13
"""Words in a sequence; the length that GPT-3's contamination study used."""

PROBE = 4
PROBE_STEP = GRAM - PROBE + 1

PROBE_BITS = 16
"""Bits of the map for each probe in it; about one probe in sixteen is taken for another then."""

_PART = (1 << 12) - 1
"""Bits of a key that say in which part of the index it is."""

_HIGH = (1 << 64) - (1 << 24)
_NUMBER = (1 << 24) - 1
"""An entry has the highest 40 bits of its key and the number of the text, below 2 to the 24th."""

_KEY = _HIGH | _PART


def grams(words: Sequence[str]) -> list[int]:
    """Keys, 52 bits each, of the sequences of `GRAM` words, of length max(0, words - 12)."""
    return [hash(tuple(words[n : n + GRAM])) & _KEY for n in range(len(words) - GRAM + 1)]


def shared(one: Sequence[str], other: Sequence[str], *, without: frozenset[int]) -> int:
    """Sequences of `GRAM` words in both texts, word by word, but for the keys `without`."""
    texts = (
        {tuple(words[n : n + GRAM]) for n in range(len(words) - GRAM + 1)} for words in (one, other)
    )
    both = set.intersection(*texts)
    return sum(hash(gram) & _KEY not in without for gram in both)


class Sequences:
    """The texts, by number, in which each sequence of `GRAM` words stands."""

    def __init__(self, texts: Sequence[Sequence[str]], *, limit: float) -> None:
        """Sequences in more than `limit` texts, of one at least, go into `common` alone."""
        self._parts = [array("Q") for _ in range(_PART + 1)]
        for number, words in enumerate(texts):
            for gram in set(grams(words)):
                self._parts[gram & _PART].append((gram & _HIGH) | number)
        for place, part in enumerate(self._parts):
            self._parts[place] = array("Q", sorted(part))
        self.common = frozenset(self._common(max(1, int(limit))))
        self._bits = bytearray(_map_size(texts))
        self._mask = len(self._bits) - 1
        for words in texts:
            for probe in _probes(words, step=1):
                self._bits[probe >> 3 & self._mask] |= 1 << (probe & 7)

    def _common(self, limit: int) -> Iterator[int]:
        """A run of more than `limit` entries of one key covers a multiple of it."""
        for place, part in enumerate(self._parts):
            for start in range(0, len(part), limit):
                high = part[start] & _HIGH
                first = bisect_left(part, high)
                if first + limit < len(part) and part[first + limit] & _HIGH == high:
                    yield high | place

    def holding(self, found: Iterable[int]) -> list[int]:
        """The number of each text that a sequence is in, once for each; common ones apart."""
        out = []
        for gram in set(found) - self.common:
            part, high = self._parts[gram & _PART], gram & _HIGH
            place = bisect_left(part, high)
            while place < len(part) and part[place] & _HIGH == high:
                out.append(part[place] & _NUMBER)
                place += 1
        return out

    def known(self, words: Sequence[str]) -> list[int]:
        """`grams` of a text that shares one, a common one too; nothing of any other text."""
        for place, probe in enumerate(_probes(words, step=PROBE_STEP)):
            if not self._bits[probe >> 3 & self._mask] >> (probe & 7) & 1:
                continue
            middle = place * PROBE_STEP
            around = words[max(0, middle - PROBE_STEP + 1) : middle + GRAM]
            if any(map(self._has, grams(around))):
                return grams(words)
        return []

    def _has(self, gram: int) -> bool:
        part, high = self._parts[gram & _PART], gram & _HIGH
        place = bisect_left(part, high)
        return place < len(part) and part[place] & _HIGH == high


def _probes(words: Sequence[str], *, step: int) -> Iterable[int]:
    """Hashes of the sequences of `PROBE` words that begin at every `step`-th word."""
    return (hash(tuple(words[n : n + PROBE])) for n in range(0, len(words) - PROBE + 1, step))


def _map_size(texts: Sequence[Sequence[str]]) -> int:
    """Bytes of the bit map: a power of two."""
    bits = PROBE_BITS * sum(max(0, len(words) - PROBE + 1) for words in texts)
    return int(1 << max(6, (bits // 8).bit_length()))
