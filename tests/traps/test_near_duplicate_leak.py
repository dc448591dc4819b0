"""A test row is nearly a training row: a word changed, or a passage inside a longer text."""

import pytest

from tests.stand_ins import run, verdict
from tests.toys import chat
from tunegate.types import Status

TEXT = (
    "I ordered two rain jackets on the fourth of March and only one of them came, the parcel was "
    "sealed and the slip says that both were packed"
)
FRONT = (
    "Read the message below and name the person, the year and the city that it speaks of, as one "
    "line of JSON with these three keys and nothing else. The message: "
)


def leak(folder, train, test):
    rows = [chat(text, "x") for text in train]
    return verdict("leak_check", run(folder, train=rows, splits={"test": [chat(test, "x")]}))


def test_one_word_changed_is_refused(tmp_path):
    found = leak(tmp_path, [TEXT], TEXT.replace("fourth", "fifth"))
    assert found.status == Status.FAIL
    assert "in common" in found.findings[0].message


def test_words_in_another_order_are_refused(tmp_path):
    text = "could you please put a stop on my bank account"
    found = leak(tmp_path, [text], "could you put a stop on my bank account, please")
    assert found.status == Status.FAIL
    assert found.numbers["overlap"] == {"test and train": {"near": 1}}


def test_a_passage_inside_a_longer_text_is_refused(tmp_path):
    longer = f"Dear team of the shop. {TEXT}. " + "What shall I do now, and whom may I ask? " * 5
    found = leak(tmp_path, [TEXT], longer)
    assert found.status == Status.FAIL
    assert found.numbers["overlap"] == {"test and train": {"grams": 1}}


def test_an_instruction_before_every_question_is_no_leak(tmp_path):
    names = [f"Ada{n} moved to Town{n} in {1800 + n} to teach algebra" for n in range(24)]
    rows = [chat(FRONT + name, "x") for name in names]
    inputs = run(tmp_path, train=rows[:12], splits={"test": rows[12:]})
    assert verdict("leak_check", inputs).status == Status.PASS


def test_other_questions_about_the_same_thing_are_no_leak(tmp_path):
    train = ["what is my account balance at chase bank", "how much money is in my bank account"]
    found = leak(tmp_path, train, "what is my account balance at wells fargo bank")
    assert found.status == Status.PASS


def test_scripts_without_spaces_are_compared_by_character(tmp_path):
    text = "我在三月四日订了两件雨衣但是只收到了一件包裹封得很好单子上也写着两件都装了"
    assert leak(tmp_path, [text], text.replace("四", "五")).status == Status.FAIL


@pytest.mark.parametrize("mark", ["\u200b", "\u00ad", "\ufeff"])
def test_characters_that_show_nothing_hide_no_leak(tmp_path, mark):
    found = leak(tmp_path, [TEXT.replace("e", f"e{mark}")], TEXT)
    assert found.status == Status.FAIL
    assert found.numbers["overlap"] == {"test and train": {"plain": 1}}


@pytest.mark.parametrize(("train", "test"), [("{} please", "{}"), ("{}", "Hello, {}")])
def test_a_word_more_around_a_short_text_is_refused(tmp_path, train, test):
    text = "can I still cancel"
    found = leak(tmp_path, [train.format(text)], test.format(text))
    assert found.status == Status.FAIL
    assert found.numbers["overlap"] == {"test and train": {"part": 1}}


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("can I still cancel", "I can still cancel"),
        ("can I still cancel", "can I still not cancel"),
        ("can I cancel", "can I cancel please"),
        ("can I still cancel", "hello, can I still cancel please"),
    ],
)
def test_other_short_texts_are_no_leak(tmp_path, train, test):
    assert leak(tmp_path, [train], test).status == Status.PASS


def test_a_short_instruction_before_every_question_is_no_leak(tmp_path):
    front = "Sort this customer message of our shop into one class: "
    rows = [chat(f"{front}tent {n}", "x") for n in range(24)]
    inputs = run(tmp_path, train=rows[:12], splits={"test": rows[12:]})
    assert verdict("leak_check", inputs).status == Status.PASS
    same = run(tmp_path / "same", train=rows[:13], splits={"test": rows[12:]})
    assert verdict("leak_check", same).status == Status.FAIL


def test_an_instruction_before_every_test_question_hides_no_leak(tmp_path):
    front = "Sort this customer message of our shop into one class: "
    test = [chat(f"{front}tent {n}", "x") for n in range(12)]
    found = leak(tmp_path, [TEXT], front + TEXT)
    assert found.status == Status.FAIL
    short = "could you please put a stop on my bank account"
    splits = {"test": [*test, chat(front + short, "x")]}
    inputs = run(tmp_path / "b", train=[chat(short.upper(), "x")], splits=splits)
    assert verdict("leak_check", inputs).numbers["overlap"] == {"test and train": {"plain": 1}}
