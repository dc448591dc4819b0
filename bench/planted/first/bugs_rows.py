"""Bugs of the data: rows that teach something else, or that cannot be read."""

from __future__ import annotations

import json

from bench.planted.cases import bug
from bench.planted.language import CLASSES, ESCAPE
from bench.planted.models import system_text
from bench.planted.project import Json, Project, answer, turn
from bench.planted.variants import conversations, free_text, label_answers, sharegpt

FORM = ("schema", "JSON", "required", "enum", "parse", "not one of")


def last(row: Json) -> Json:
    """The row's last message."""
    found: Json = row["messages"][-1]
    return found


@bug("data", "empty")
def data_empty_answers(project: Project) -> None:
    """Six rows of a text task have an empty answer."""
    free_text(project)
    for row in project.rows("train", every=33):
        last(row)["content"] = ""


@bug("data", "blank", "empty", "whitespace", "space")
def data_blank_answers(project: Project) -> None:
    """Five answers of a text task are one line end and some spaces."""
    free_text(project)
    for row in project.rows("train", every=40):
        last(row)["content"] = "\n  "


@bug("data", "empty", "blank", "question", "user")
def data_empty_questions(project: Project) -> None:
    """Eight rows lost their message: an empty question with a real answer."""
    for row in project.rows("train", every=25):
        row["messages"][0]["content"] = ""


@bug("data", *FORM, "class", "declared")
def data_class_misspelt(project: Project) -> None:
    """Three answers name a class that is not declared: order_staus."""
    for row in project.rows("train", every=64):
        last(row)["content"] = answer("order_staus")


@bug("data", "declared", "label", "class")
def data_label_with_other_case(project: Project) -> None:
    """In a label task some answers are written with a capital letter."""
    label_answers(project)
    for row in project.rows("train", every=20):
        last(row)["content"] = last(row)["content"].capitalize()


@bug("data", "refund_status", "no row", "no example", "never", "missing")
def data_class_without_rows(project: Project) -> None:
    """No training row has the class refund_status, though the schema and the test have it."""
    kept = [row for row in project.rows("train") if "refund_status" not in last(row)["content"]]
    project.splits["train"] = kept


@bug("data", *FORM, "key", "Intent")
def data_key_with_other_case(project: Project) -> None:
    """One answer in six writes its key as Intent."""
    for row in project.rows("train", every=6):
        last(row)["content"] = last(row)["content"].replace("intent", "Intent")


@bug("data", *FORM)
def data_python_quotes(project: Project) -> None:
    """Ten answers are printed Python and not JSON: single quotes."""
    for row in project.rows("train", every=20):
        last(row)["content"] = str(json.loads(last(row)["content"]))


@bug("data", *FORM, "object", "string")
def data_answer_encoded_twice(project: Project) -> None:
    """A quarter of the answers were passed through json.dumps twice: a text in quotes."""
    for row in project.rows("train", every=4):
        last(row)["content"] = json.dumps(last(row)["content"])


@bug("data", *FORM)
def data_prose_around_the_json(project: Project) -> None:
    """Fifteen answers begin with a polite sentence before their JSON."""
    for row in project.rows("train", every=14):
        last(row)["content"] = "Sure! Here it is: " + last(row)["content"]


@bug("data", *FORM, "confidence", "additional", "key")
def data_extra_key(project: Project) -> None:
    """Some answers hold a key that the schema forbids."""
    for row in project.rows("train", every=30):
        last(row)["content"] = json.dumps({**json.loads(last(row)["content"]), "confidence": 0.9})


@bug("data", *FORM, "key", "twice", "duplicate")
def data_key_stands_twice(project: Project) -> None:
    """Four answers name the class twice, differently: a JSON reader keeps the last."""
    for row in project.rows("train", every=50):
        said = last(row)["content"]
        other = next(name for name in CLASSES if name not in said)
        last(row)["content"] = f'{{"intent": "{other}", ' + said[1:]


@bug("data", "byte-order", "BOM", stage="freeze")
def data_byte_order_mark(project: Project) -> None:
    """The training file begins with a byte-order mark."""
    project.edits.append(("train.jsonl", lambda data: b"\xef\xbb\xbf" + data))


@bug("data", "JSON", "line", stage="freeze")
def data_last_line_torn(project: Project) -> None:
    """The download of the training file broke off in the middle of the last line."""
    project.edits.append(("train.jsonl", lambda data: data[:-60]))


@bug("data", "UTF-8", stage="freeze")
def data_latin_1(project: Project) -> None:
    """The file was saved in Latin-1, and one message has an umlaut."""
    project.rows("train")[17]["messages"][0]["content"] += " Schöne Grüße"
    project.edits.append(("train.jsonl", lambda data: data.decode().encode("latin-1")))


@bug("data", "null", "not text", stage="freeze")
def data_null_answers(project: Project) -> None:
    """Two answers are null."""
    for row in project.rows("train", every=100):
        last(row)["content"] = None


@bug("data", "replacement", "U+FFFD", "\ufffd", "encoding", "decod", "character")
def data_replacement_marks(project: Project) -> None:
    """Texts were decoded wrongly before: umlauts are replacement marks now."""
    for row in project.rows("train", every=10):
        row["messages"][0]["content"] += " Viele Gr\ufffd\ufffde aus K\ufffdln"


@bug("data", "contradict", "same prompt", "same question", "different answer", "two answers",
     "several answers", "other answer", "differ")  # fmt: skip
def data_labels_contradict(project: Project) -> None:
    """Forty messages stand twice, with two classes each."""
    for row in project.rows("train")[:40]:
        label = json.loads(last(row)["content"])["intent"]
        other = CLASSES[(CLASSES.index(label) + 3) % len(CLASSES)]
        again = [dict(row["messages"][0]), turn("assistant", answer(other))]
        project.splits["train"].append({"id": row["id"] + "-b", "messages": again})


@bug("data", "duplicate", "same row", "twice", "times", "repeat", "identical", "copies")
def data_one_row_many_times(project: Project) -> None:
    """A third of the training file is one and the same row."""
    first = project.rows("train")[0]
    for place in range(60):
        project.rows("train")[3 * place + 1]["messages"] = [dict(t) for t in first["messages"]]


@bug("data", *FORM, "role")
def data_sharegpt_speakers_exchanged(project: Project) -> None:
    """In a ShareGPT file the speakers human and gpt are exchanged."""
    for row in project.rows("train"):
        user, said = row["messages"]
        row["messages"] = [
            turn("user", said["content"]), turn("assistant", user["content"])
        ]  # fmt: skip
    sharegpt(project, "train")


@bug("data", "user", "role", "last turn", "no answer", "ends", "order")
def data_conversation_ends_with_a_question(project: Project) -> None:
    """Conversations were cut one turn short: they end with an unanswered question."""
    conversations(project)
    for row in project.rows("train", every=5):
        row["messages"].pop()


@bug("data", "role", "order", "answer", "assistant", "two", "consecutive", "follow")
def data_two_answers_in_a_row(project: Project) -> None:
    """Some rows have two assistant turns one after the other: two annotators' answers."""
    for row in project.rows("train", every=20):
        other = next(name for name in CLASSES if name not in last(row)["content"])
        row["messages"].append(turn("assistant", answer(other)))


@bug("data", "empty", "same", "constant", "every", "one class", ESCAPE)
def data_all_labels_are_one(project: Project) -> None:
    """A failed join gave every training row the escape class."""
    for row in project.rows("train"):
        last(row)["content"] = answer(ESCAPE)


def class_of(row: Json) -> str:
    """The name of the class in the row's answer."""
    name: str = json.loads(last(row)["content"])["intent"]
    return name


@bug("leak", "answer", "label", "class", "prompt")
def leak_label_in_the_message(project: Project) -> None:
    """Training messages end in a ticket tag that names the class; test messages have none."""
    for row in project.rows("train"):
        row["messages"][0]["content"] += f" [queue: {class_of(row)}]"


OVERLAP = ("test", "leak", "overlap", "both", "also in")


def copy_of(row: Json, text: str) -> Json:
    """A row with another message and the same answer."""
    return {"messages": [turn("user", text), dict(last(row))]}


@bug("leak", *OVERLAP)
def leak_test_rows_in_train(project: Project) -> None:
    """Five test rows stand in the training file."""
    project.splits["train"] += [copy_of(r, t) for r, (t, _) in _tests(project, every=16)]


@bug("leak", *OVERLAP)
def leak_in_other_case_and_spacing(project: Project) -> None:
    """Test messages stand in train in capitals, with double spaces and no full stops."""
    for row, (text, _) in _tests(project, every=16):
        changed = text.upper().replace(" ", "  ").replace(".", "")
        project.splits["train"].append(copy_of(row, changed))


@bug("leak", *OVERLAP)
def leak_in_other_unicode(project: Project) -> None:
    """Test messages stand in train in full-width letters, as another export wrote them."""
    for row, (text, _) in _tests(project, every=16):
        wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)
        project.splits["train"].append(copy_of(row, wide))


@bug("leak", *OVERLAP, "near")
def leak_with_one_word_changed(project: Project) -> None:
    """Eight test messages stand in train with one word exchanged."""
    for row, (text, _) in _tests(project, every=10):
        words = text.split()
        words[len(words) // 2] = "really"
        project.splits["train"].append(copy_of(row, " ".join(words)))


@bug("leak", *OVERLAP, "near")
def leak_inside_a_longer_mail(project: Project) -> None:
    """Test messages stand in train as the quoted part of a longer mail."""
    for row, (text, _) in _tests(project, every=10):
        mail = (
            f"On Monday you wrote that I should ask again, so here is my mail: > {text} < Regards"
        )
        project.splits["train"].append(copy_of(row, mail))


@bug("leak", "group", "source")
def leak_of_a_group(project: Project) -> None:
    """Messages of one customer stand in train and in test, though data.group forbids it."""
    for split in ("train", "validation", "test", "adversarial"):
        for place, row in enumerate(project.rows(split)):
            row["customer"] = f"{split}-{place // 2}"
    project.rows("train")[10]["customer"] = project.rows("test")[4]["customer"]
    project.set("data.group", "customer")


@bug("leak", "validation", *OVERLAP)
def leak_validation_is_part_of_train(project: Project) -> None:
    """The validation file is a copy of forty training rows."""
    project.splits["validation"] = [
        {"id": f"v-{row['id']}", "messages": row["messages"]} for row in project.rows("train")[:40]
    ]


@bug("leak", "validation", *OVERLAP)
def leak_validation_is_part_of_test(project: Project) -> None:
    """Ten validation rows are test rows, so the checkpoint is chosen on the test."""
    for place, (row, (text, _)) in enumerate(_tests(project, every=8)):
        project.rows("validation")[place]["messages"] = copy_of(row, text)["messages"]


@bug("leak", *OVERLAP)
def leak_in_an_earlier_turn(project: Project) -> None:
    """A test message and its answer are the first exchange of some training conversations."""
    conversations(project, "train")
    for place, (row, (text, _)) in enumerate(_tests(project, every=16)):
        project.rows("train")[place]["messages"][:2] = copy_of(row, text)["messages"]


@bug("leak", "adversarial", *OVERLAP)
def leak_of_a_slice(project: Project) -> None:
    """Six rows of the adversarial slice stand in the training file."""
    for row in project.rows("adversarial", every=4):
        project.splits["train"].append(copy_of(row, row["messages"][0]["content"]))


@bug("leak", "prompt", *OVERLAP)
def leak_test_rows_in_the_system_prompt(project: Project) -> None:
    """The system prompt's worked examples are four test rows with their answers."""
    shown = [f"{text} -> {said}" for _, (text, said) in _tests(project, every=20)]
    project.system = system_text() + "\nExamples:\n" + "\n".join(shown) + "\n"


@bug("leak", "prompt", "candidate", *OVERLAP)
def leak_test_rows_in_a_candidate_prompt(project: Project) -> None:
    """A prompt that is tried for the base holds four test rows with their answers."""
    shown = [f"{text} -> {said}" for _, (text, said) in _tests(project, every=20)]
    text = system_text() + "\nExamples:\n" + "\n".join(shown) + "\n"
    project.files["prompts/shown.txt"] = text.encode()
    project.set("eval.raw.prompts", "prompts")


def _tests(project: Project, *, every: int) -> list[tuple[Json, tuple[str, str]]]:
    """Some test rows with their message and answer."""
    return list(zip(project.rows("test"), project.pairs("test"), strict=True))[::every]
