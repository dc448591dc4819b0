"""Text to token ids and back, through `tokenizers` alone: no torch, no transformers.

Special tokens are never added by `encode`; a chat template writes them into its text, and they are
recognised there, as a server that tokenises rendered text does.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING

from tunegate.errors import UsageError
from tunegate.types import Json, Turn
from tunegate.worker.template import Template, load_template

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Encoder

TOKEN_NAMES = ("bos_token", "eos_token", "pad_token", "unk_token")

MAX_CACHED_PIECES = 16_384
"""Texts between two special tokens whose ids are kept: the system prompt, labels, role names."""

RECENT_CHARACTERS = 1_000_000
"""Of the texts encoded last, so many are remembered with their ids, and up to twice as many: what
a trainer has just been fed is what a check compares it with.
"""


class Tokenizer:
    """Encodes, decodes, and knows the special tokens of one base model."""

    def __init__(
        self, encoder: Encoder, *, special_tokens: dict[str, str], vocab_size: int
    ) -> None:
        self.encoder = encoder
        self.special_tokens = special_tokens
        """Text by name, such as `eos_token`: what a chat template may refer to."""
        self.vocab_size = vocab_size
        described = json.loads(encoder.to_str())
        added = described.get("added_tokens") or []
        self.special_ids = frozenset(item["id"] for item in added if item.get("special"))
        self.added_texts = tuple(item["content"] for item in added)
        """Texts of the added tokens, control tokens among them."""
        self._splitter = _splitter(added) if _splits_cleanly(described, added) else None
        self._cache: dict[str, Sequence[int]] = {}
        self._recent = Recent(RECENT_CHARACTERS)
        self._byte_level = '"ByteLevel"' in json.dumps(described.get("decoder"))
        self._pieces = _pieces(encoder, self._byte_level, {int(item["id"]) for item in added})

    @property
    def eos_id(self) -> int | None:
        return self._named("eos_token")

    @property
    def bos_id(self) -> int | None:
        return self._named("bos_token")

    @property
    def pad_id(self) -> int | None:
        return self._named("pad_token")

    def _named(self, name: str) -> int | None:
        text = self.special_tokens.get(name)
        return None if text is None else self.token_id(text)

    def token_id(self, text: str) -> int | None:
        """Id of the token that is exactly `text`; None where there is none."""
        found: int | None = self.encoder.token_to_id(text)
        return found

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`; special tokens in the text are recognised, none is added."""
        return self.encode_batch([text])[0]

    def encode_raw(self, text: str) -> list[int]:
        """As a trainer encodes a text column: with what the tokenizer itself adds (a BOS)."""
        ids: list[int] = self.encoder.encode(text, add_special_tokens=True).ids
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, equal to `encode` of each.

        Where the tokenizer treats the text between two special tokens on its own, each such piece
        is encoded once and remembered, so a system prompt costs nothing after the first row.
        """
        if self._splitter is None:
            return [list(ids) for ids in self._encode_all(texts)]
        parts = [self._splitter.split(text) for text in texts]
        known = self._known(Counter(chain.from_iterable(parts)))
        out: list[list[int]] = []
        for row in parts:
            ids: list[int] = []
            for piece in row:
                ids.extend(known[piece])
            out.append(ids)
        return out

    def encode_parts(self, rows: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """Token ids of texts that follow each other, part by part.

        A part's ids never reach into the part before it: that one is what the model has already
        read. Tokenizers that treat the beginning of a text apart (a space before the first word)
        get each part behind the ones before it, and alone only where its first token would reach
        back.
        """
        if self._splitter is not None:
            flat = iter(self.encode_batch([text for row in rows for text in row]))
            return [[next(flat) for _ in row] for row in rows]
        grown = iter(self.encode_batch([text for row in rows for text in accumulate(row)]))
        out: list[list[list[int]]] = []
        for row in rows:
            before: list[int] = []
            parts: list[list[int]] = []
            for text in row:
                whole = next(grown)
                kept = whole[: len(before)] == before
                parts.append(whole[len(before) :] if kept else self.encode(text))
                before = whole
            out.append(parts)
        return out

    def _known(self, pieces: Counter[str]) -> dict[str, Sequence[int]]:
        """The ids of each piece. Those that occur twice are kept; a user's text rarely is."""
        new = [piece for piece in pieces if piece not in self._cache]
        known = {piece: self._cache[piece] for piece in pieces if piece in self._cache}
        known.update(zip(new, self._encode_all(new), strict=True))
        if len(self._cache) < MAX_CACHED_PIECES:
            self._cache.update((piece, known[piece]) for piece in new if pieces[piece] > 1)
        return known

    def _encode_all(self, texts: Sequence[str]) -> list[Sequence[int]]:
        recent = self._recent
        known = {text: ids for text in texts if (ids := recent.get(text)) is not None}
        new = [text for text in texts if text not in known]
        encodings = self.encoder.encode_batch_fast(new, add_special_tokens=False)
        for text, encoding in zip(new, encodings, strict=True):
            known[text] = recent.keep(text, encoding.ids)
        return [known[text] for text in texts]

    def decode(self, ids: Sequence[int], *, keep_specials: bool = True) -> str:
        """The text of the ids; what is no UTF-8 becomes the replacement mark."""
        if not keep_specials:
            ids = [token for token in ids if token not in self.special_ids]
        if not self._byte_level:  # its decoder takes off the space before the first word
            text: str = self.encoder.decode(list(ids), skip_special_tokens=False)
            return text
        return b"".join(self._pieces[token] for token in ids).decode("utf-8", errors="replace")

    def piece(self, token_id: int) -> bytes:
        """The bytes that one token stands for; empty for an id outside the vocabulary."""
        return self._pieces[token_id] if 0 <= token_id < len(self._pieces) else b""

    @property
    def pieces(self) -> Sequence[bytes]:
        """The bytes of each token by id, length `vocab_size`."""
        return self._pieces


class Recent:
    """The ids of texts that were encoded lately; the older half goes when a half is full."""

    def __init__(self, characters: int) -> None:
        self._limit = characters
        self._size = 0
        self._young: dict[str, Sequence[int]] = {}
        self._old: dict[str, Sequence[int]] = {}

    def get(self, text: str) -> Sequence[int] | None:
        found = self._young.get(text)
        return self._old.get(text) if found is None else found

    def keep(self, text: str, ids: Sequence[int]) -> Sequence[int]:
        """Remember the ids, four bytes each, and return them."""
        if self._size > self._limit:
            self._young, self._old, self._size = {}, self._young, 0
        self._size += len(text)
        packed = self._young[text] = array("I", ids)
        return packed


TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def load_tokenizer(base_dir: Path) -> Tokenizer:
    """Read tokenizer.json and the names of special tokens beside it; as long as these files stay
    as they are, the same object is returned.

    Raises UsageError (`base_invalid`) where a file is missing or unreadable.
    """
    paths = [base_dir / name for name in TOKENIZER_FILES]
    found = [path.stat() if path.is_file() else None for path in paths]
    return _load(base_dir, tuple(s and (s.st_ino, s.st_mtime_ns, s.st_size) for s in found))


@lru_cache(maxsize=2)
def _load(base_dir: Path, state: object) -> Tokenizer:
    """As `load_tokenizer`; `state` is that of the files, so that none is served stale."""
    from tokenizers import Tokenizer as Encoder

    path = base_dir / "tokenizer.json"
    if not path.is_file():
        raise UsageError(
            f"{base_dir} has no tokenizer.json",
            kind="base_invalid",
            hint="save the tokenizer with transformers' save_pretrained, which writes it",
        )
    try:
        encoder = Encoder.from_file(str(path))
    except Exception as error:
        raise UsageError(
            f"{path} is no tokenizer: {error}",
            kind="base_invalid",
            hint="fetch the model again, or name another as base.model",
        ) from error
    encoder.no_padding()
    encoder.no_truncation()
    config = read_json(base_dir / "tokenizer_config.json")
    fallback = read_json(base_dir / "special_tokens_map.json")
    tokens = {}
    for name in TOKEN_NAMES:
        value = config.get(name, fallback.get(name))
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str):
            tokens[name] = value
    return Tokenizer(
        encoder, special_tokens=tokens, vocab_size=encoder.get_vocab_size(with_added_tokens=True)
    )


def declared_stop_ids(base_dir: Path, *, tokenizer: Tokenizer) -> set[int]:
    """Ids that the base's own files stop on: what another server would read."""
    found: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        value = read_json(base_dir / name).get("eos_token_id")
        values = value if isinstance(value, list) else [value]
        found.update(int(item) for item in values if item is not None)
    if tokenizer.eos_id is not None:
        found.add(tokenizer.eos_id)
    return found


def stop_ids(base_dir: Path) -> set[int]:
    """Ids that end an answer when Tunegate generates: the declared ones and the turn end."""
    tokenizer = load_tokenizer(base_dir)
    found = declared_stop_ids(base_dir, tokenizer=tokenizer)
    template = load_template(base_dir, special_tokens=tokenizer.special_tokens)
    end = turn_end_id(tokenizer, template)
    return found if end is None else found | {end}


def turn_end_id(tokenizer: Tokenizer, template: Template) -> int | None:
    """The special token with which the template ends an assistant turn; None where it has none."""
    answer = "0a1b2c"
    text = template.render(
        [Turn("user", "x"), Turn("assistant", answer)], add_generation_prompt=False
    )
    _, found, rest = text.rpartition(answer)
    if not found:
        return None
    return next((token for token in tokenizer.encode(rest) if token in tokenizer.special_ids), None)


def read_json(path: Path) -> Json:
    """A JSON object from a file; empty where it is absent. Raises UsageError (`base_invalid`)."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}", kind="base_invalid") from error
    if not isinstance(value, dict):
        raise UsageError(f"{path} is not a JSON object", kind="base_invalid")
    return value


def _splitter(added: Sequence[Json]) -> re.Pattern[str] | None:
    """Splits a text at its added tokens and keeps them; longer tokens win over their prefixes."""
    texts = sorted((item["content"] for item in added), key=len, reverse=True)
    return re.compile("(" + "|".join(map(re.escape, texts)) + ")") if texts else None


def _splits_cleanly(described: Json, added: Sequence[Json]) -> bool:
    """Whether text around an added token is encoded as if it stood alone.

    True for byte-level tokenizers without a normalizer whose added tokens take no neighbouring
    spaces. Others (a space put before the first word, say) are encoded whole.
    """
    if described.get("normalizer") is not None or described["model"].get("type") != "BPE":
        return False
    if any(item.get("lstrip") or item.get("rstrip") or item.get("single_word") for item in added):
        return False
    before = described.get("pre_tokenizer") or {}
    steps = before.get("pretokenizers", [before])
    plain = {"Split", "Digits", "Punctuation", "ByteLevel"}
    return any(step.get("type") == "ByteLevel" for step in steps) and all(
        step.get("type") in plain and not step.get("add_prefix_space") for step in steps
    )


def _pieces(encoder: Encoder, byte_level: bool, added: set[int]) -> list[bytes]:
    """The bytes of every token by id.

    Byte-level alphabets are mapped back to bytes; the other alphabet in use (SentencePiece) writes
    a space as U+2581 and a bare byte as <0xNN>, in added tokens too (Gemma adds runs of spaces).
    """
    alphabet = _byte_alphabet() if byte_level else {}
    size = encoder.get_vocab_size(with_added_tokens=True)
    out: list[bytes] = []
    for token_id in range(size):
        text = encoder.id_to_token(token_id)
        if text is None:  # a hole in the vocabulary
            out.append(b"")
        elif byte_level:
            out.append(text.encode() if token_id in added else _byte_level(text, alphabet))
        elif re.fullmatch(r"<0x[0-9A-Fa-f]{2}>", text):
            out.append(bytes([int(text[3:5], 16)]))
        else:
            out.append(text.replace("\u2581", " ").encode())
    return out


def _byte_level(text: str, alphabet: dict[str, int]) -> bytes:
    try:
        return bytes(alphabet[character] for character in text)
    except KeyError:  # a token outside the byte alphabet stands for itself
        return text.encode()


def _byte_alphabet() -> dict[str, int]:
    """The byte that each character of GPT-2's printable alphabet stands for."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(code): code for code in printable}
    hidden = [code for code in range(256) if code not in set(printable)]
    table.update({chr(256 + offset): code for offset, code in enumerate(hidden)})
    return table
