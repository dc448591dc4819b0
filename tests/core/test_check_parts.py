"""Parts of the checks by property: the mask against other masks, overlap against brute force."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stand_ins import Trainer, masked_by_prompt, run, verdict
from tests.toys import chat, write_rows
from tunegate.checks._overlap import GRAM_SHARE, MIN_WORDS_NEAR, NEAR, Overlaps, words
from tunegate.checks._pass import RowFile, Seen
from tunegate.checks._sequences import GRAM, Sequences, grams
from tunegate.checks._splits import order_problem
from tunegate.types import IGNORED, Example, Row, Status

ROW = chat("Say yes: yes", "yes")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    inputs = run(tmp_path_factory.mktemp("run"), train=[ROW])
    (batch,) = Trainer(masked_by_prompt).batches(inputs.job)
    return inputs, batch[0]


class Fixed:
    """A trainer of one row, with the labels that it is given."""

    def __init__(self, example: Example, chosen: frozenset[int]) -> None:
        self.example, self.chosen = example, chosen

    def batches(self, job):
        ids = self.example.input_ids
        labels = [token if n in self.chosen else IGNORED for n, token in enumerate(ids)]
        yield [Example(0, ids, labels)]


@settings(max_examples=60)
@given(data=st.data())
def test_the_mask_passes_if_and_only_if_it_is_the_right_one(base, data):
    inputs, example = base
    right = frozenset(n for n, label in enumerate(example.labels) if label != IGNORED)
    size = len(example.input_ids)
    flips = data.draw(st.frozensets(st.integers(0, size - 1), max_size=3))
    chosen = right ^ flips
    newline = frozenset({size - 1})  # the template's newline after the end may be trained
    found = verdict("mask_exact", type(inputs)(inputs.frozen, Fixed(example, chosen), inputs.job))
    assert (found.status == Status.PASS) == (chosen in (right, right | newline))


WORDS = [f"w{n}" for n in range(30)]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=30)


@st.composite
def edited(draw, texts):
    """One of the texts with up to three words taken out or put in, in any order."""
    text = list(draw(st.sampled_from(texts)))
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            text.insert(draw(st.integers(0, len(text))), draw(st.sampled_from(WORDS)))
        elif len(text) > 1:
            text.pop(draw(st.integers(0, len(text) - 1)))
    return list(draw(st.permutations(text))) if draw(st.booleans()) else text


def one_word_apart(one, other):
    short, long = sorted((one, other), key=len)
    return len(short) + 1 == len(long) and short in (long[1:], long[:-1])


def share_sequences(one, other):
    """Whether half of the shorter text's sequences of `GRAM` words are in the other too."""
    first, second = (
        [tuple(text[n : n + GRAM]) for n in range(len(text) - GRAM + 1)] for text in (one, other)
    )
    both = len(set(first) & set(second))
    return both > 0 and both >= GRAM_SHARE * min(len(first), len(second))


@given(st.lists(st.sampled_from([IGNORED, 5]), max_size=12))
def test_runs_of_labels_are_those_that_a_plain_loop_finds(labels):
    seen = Seen(Row(0, 1, ()), Example(0, [5] * len(labels), labels), pieces=(), templates={})
    trained = [n for n, label in enumerate(labels) if label != IGNORED]
    assert [n for start, end in seen.supervised() for n in range(start, end)] == trained
    assert all(end < start for (_, end), (start, _) in pairwise(seen.supervised()))


@settings(max_examples=150)
@given(data=st.data(), held=st.lists(TEXTS, min_size=1, max_size=5))
def test_near_equality_misses_nothing_that_brute_force_finds(data, held):
    train = data.draw(st.lists(edited(held) | TEXTS, min_size=1, max_size=6))
    overlaps = Overlaps(key=None)
    for line, text in enumerate(held):
        overlaps.add("test", line, " ".join(text), {}, held=True)
    for line, text in enumerate(train):
        overlaps.add("train", line, " ".join(text), {}, held=False)
    got = {
        item["lines"][0]
        for item in overlaps.to_json()["rows_found"]
        if item["kind"] in ("exact", "plain", "near", "grams", "part")
    }
    want = set()
    for line, text in enumerate(held):
        for other in train:
            one, two = set(text), set(other)
            small = min(len(one), len(two))
            near = len(one & two) * NEAR.denominator >= len(one | two) * NEAR.numerator
            if text == other or (near and small >= MIN_WORDS_NEAR) or share_sequences(text, other):
                want.add(line)
    assert want <= got
    for line in got - want:  # found by sequences of words alone, or but for a word at an end
        assert len(held[line]) >= GRAM or any(one_word_apart(held[line], text) for text in train)


@given(
    st.lists(st.lists(st.sampled_from("ab"), min_size=GRAM, max_size=GRAM + 4), max_size=12),
    st.integers(1, 3),
)
def test_sequences_know_their_texts_and_which_are_in_many(texts, limit):
    index = Sequences(texts, limit=limit)
    for text in texts:
        assert index.known(text) == grams(text)
        for gram in grams(text):
            numbers = [n for n, other in enumerate(texts) if gram in grams(other)]
            common = len(numbers) > limit
            assert (gram in index.common) == common
            assert index.holding([gram]) == ([] if common else numbers)


@pytest.mark.parametrize("offset", range(2 * GRAM))
def test_a_shared_stretch_is_found_wherever_it_begins(offset):
    held = [f"held{n}" for n in range(GRAM)]
    around = [[f"{side}{n}" for n in range(offset)] for side in ("before", "behind")]
    overlaps = Overlaps(key=None)
    overlaps.add("test", 1, " ".join(held), {}, held=True)
    overlaps.add("train", 1, " ".join([*around[0], *held, *around[1]]), {}, held=False)
    (found,) = overlaps.to_json()["rows_found"]
    assert found["kind"] in ("exact", "grams")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Where's my ORDER?!", ["where", "s", "my", "order"]),
        ("Ｗhere  Straße", ["where", "strasse"]),
        ("雨衣ab", ["雨", "衣", "ab"]),
        ("...", []),
        ("ti\u200bcket pa\u00adrcel\ufeff", ["ticket", "parcel"]),
    ],
)
def test_words_drop_case_punctuation_and_width(text, found):
    assert words(text) == found


def test_rows_can_be_read_in_any_order(tmp_path):
    path = write_rows(tmp_path / "a.jsonl", [chat(f"q{n}", f"a{n}") for n in range(9)])
    path.write_text(path.read_text().replace("\n", "\n\n", 2))
    rows = RowFile(path, system="s")
    order = [4, 0, 8, 8, 3]
    got = [rows.get(n) for n in order]
    assert [row and row.answer for row in got] == [f"a{n}" for n in order]
    assert [row and row.line for row in got] == [7, 1, 11, 11, 6]
    assert rows.get(9) is None
    assert rows.get(-1) is None
    assert rows.count() == 9
    rows.close()


ROLES = st.lists(st.sampled_from(["system", "user", "assistant", "tool"]), max_size=7)


@given(ROLES)
def test_an_order_without_a_problem_alternates(roles):
    if order_problem(roles) is not None:
        return
    rest = [role for role in roles[roles[:1] == ["system"] :] if role != "tool"]
    assert rest[0] == "user"
    assert ("user", "user") not in pairwise(rest)
    assert "system" not in rest
