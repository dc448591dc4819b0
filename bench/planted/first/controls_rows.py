"""Controls of data, leaks and tools: odd, and right."""

from __future__ import annotations

import json

from bench.planted.cases import control
from bench.planted.first.bugs_rows import class_of, last
from bench.planted.first.bugs_text import rename
from bench.planted.language import ESCAPE
from bench.planted.project import Project, turn
from bench.planted.variants import (
    alpaca,
    call,
    conversations,
    free_text,
    function,
    prompt_completion,
    sharegpt,
    tools,
)


@control("data")
def odd_no_ids_and_odd_metadata(project: Project) -> None:
    """Training rows have no ids; other keys are empty, null, nested or of mixed types."""
    metas = (
        {},
        {"meta": None},
        {"meta": {}, "tags": []},
        {"meta": {"a": [1, {"b": None}]}, "n": 0},
    )
    for place, row in enumerate(project.rows("train")):
        row.pop("id")
        row.update(metas[place % len(metas)])


@control("data")
def odd_one_question_several_answers(project: Project) -> None:
    """In a task of free text one question has five answers, all of them good."""
    free_text(project)
    for place, row in enumerate(project.rows("train", every=20)):
        row["messages"][0]["content"] = "Write me a line for a postcard from the mountains."
        last(row)["content"] = f"Day {place + 1}: the air is clear and the soup is hot."


@control("data")
def odd_crlf_inside_strings(project: Project) -> None:
    """Messages were written on Windows and hold CRLF and tabs, as their users will send them."""
    for row in project.rows("train", every=3):
        text = row["messages"][0]["content"]
        row["messages"][0]["content"] = text.replace(". ", ".\r\n\t")


@control("data")
def odd_blank_lines_in_the_file(project: Project) -> None:
    """The file has blank lines, CRLF line ends, and no line end after the last row."""
    project.edits.append(
        ("train.jsonl", lambda data: data.replace(b"}\n", b"}\r\n\r\n").rstrip(b"\r\n"))
    )


@control("data")
def odd_labels_with_umlauts(project: Project) -> None:
    """Three classes have umlauts or spaces in their names."""
    names = {
        "return_item": "rückgabe",
        "change_address": "adresse ändern",
        "invoice": "große rechnung",
    }
    rename(project, names)


@control("data")
def odd_answers_over_several_lines(project: Project) -> None:
    """Every answer is JSON over three lines with an indent, in every split alike."""
    for split in ("train", "validation", "test", "adversarial"):
        for row in project.rows(split):
            last(row)["content"] = json.dumps(json.loads(last(row)["content"]), indent=2)
    project.teach()


@control("data")
def odd_classes_out_of_balance(project: Project) -> None:
    """The escape class has two thirds of the training rows, as in the shop's real mail."""
    rows = project.rows("train")
    project.splits["train"] = [
        row for place, row in enumerate(rows) if class_of(row) == ESCAPE or place % 6 == 0
    ] + [
        {"id": f"more-{place}", "messages": [turn("user", _chatter(place)), dict(last(rows[7]))]}
        for place in range(60)
    ]


def _chatter(place: int) -> str:
    things = (
        "cloud",
        "river",
        "goat",
        "ferry",
        "bridge",
        "stone",
        "church",
        "orchard",
        "mill",
        "barn",
    )
    verbs = ("painted", "photographed", "dreamt of", "sang about", "described", "sketched")
    where = ("near the fjord", "at dawn", "with my uncle", "last winter", "behind the school")
    return (
        f"Yesterday I {verbs[place % 6]} a {things[place % 10]} {where[place % 5]}, "
        f"{place + 2} times over, and thought you should know."
    )


@control("data")
def odd_sharegpt_file(project: Project) -> None:
    """Training and validation are ShareGPT files."""
    sharegpt(project, "train", "validation")


@control("data")
def odd_forms_mixed(project: Project) -> None:
    """Training is in alpaca form, validation and test are prompts with completions."""
    alpaca(project, "train")
    prompt_completion(project, "validation", "test")


@control("data")
def odd_answers_quote_the_message(project: Project) -> None:
    """Free answers repeat a part of the message word for word, and name roles in prose."""
    free_text(project)
    for row in project.rows("train", every=5):
        text = row["messages"][0]["content"]
        last(row)["content"] = f'You, the user, wrote: "{text}". The system will answer.'


@control("data")
def odd_exact_repeats_of_two_rows(project: Project) -> None:
    """Two of two hundred rows stand twice with the same answer, since two customers wrote so."""
    for place in (20, 90):
        row = project.rows("train")[place]
        project.splits["train"].append({**row, "id": row["id"] + "-again"})


@control("leak")
def odd_same_sentence_other_slots(project: Project) -> None:
    """Train and test share sentences of a form, with other things and numbers in them."""
    things = {"train": ("tent", "stove", "rope", "hat"), "test": ("bike", "pump", "bell", "tyre")}
    for split, names in things.items():
        for place, row in enumerate(project.rows(split)):
            if class_of(row) == "return_item":
                number = 7000 + place if split == "train" else 3000 + 7 * place
                text = f"Return of {names[place % 4]}, {number}"
                row["messages"][0]["content"] = f"{text}: {names[(place // 4) % 4]} instead"


@control("leak")
def odd_one_signature_under_all(project: Project) -> None:
    """Every message of every split ends with the same legal notice of forty words."""
    notice = (
        " -- This message is confidential and meant for its addressee alone; whoever has it by "
        "mistake is asked to tell the sender, to delete it, and to use nothing that it says. "
        "Think of the forest before you print this mail."
    )
    for split in ("train", "validation", "test", "adversarial"):
        for row in project.rows(split):
            row["messages"][0]["content"] += notice


@control("leak")
def odd_groups_kept_apart(project: Project) -> None:
    """Rows name their customer, each customer's rows lie in one split, some have no name."""
    for split in ("train", "validation", "test", "adversarial"):
        for place, row in enumerate(project.rows(split)):
            row["customer"] = f"{split[:2]}-{place // 3}"
    project.set("data.group", "customer")


@control("leak")
def odd_answers_shared_by_splits(project: Project) -> None:
    """In a task of free text the same twelve long answers stand in train and in test."""
    free_text(project)
    for split in ("train", "validation", "test", "adversarial"):
        for row in project.rows(split):
            name = class_of(row).replace("_", " ")
            last(row)["content"] = (
                f"Thank you for writing about {name}. A colleague of the {name} desk will look at "
                "it within two working days and write to the address that we have on file."
            )
    project.teach()


@control("tools")
def odd_tools_as_usual(project: Project) -> None:
    """Rows that call tools, with arguments as JSON text, as OpenAI writes them."""
    tools(project)


@control("tools")
def odd_arguments_as_objects(project: Project) -> None:
    """The arguments of calls are objects, as templates want them, and not JSON text."""
    tools(project)
    for split in ("train", "validation", "test", "adversarial"):
        for row in project.rows(split):
            used = row["messages"][1]["tool_calls"][0]["function"]
            used["arguments"] = json.loads(used["arguments"])


@control("tools")
def odd_two_calls_at_once(project: Project) -> None:
    """Some turns call two tools at once, and both results follow."""
    tools(project)
    for place, row in enumerate(project.rows("train", every=5)):
        both = [
            call("find_order", {"number": place}, id="call_1"),
            call("search_shop", {"words": "wool hat", "limit": 2}, id="call_2"),
        ]
        results = [
            turn("tool", json.dumps({"order": place}), tool_call_id="call_1"),
            turn("tool", json.dumps({"found": 2}), tool_call_id="call_2"),
        ]
        row["messages"][1:3] = [turn("assistant", "", tool_calls=both), *results]


@control("tools")
def odd_tools_that_nobody_calls(project: Project) -> None:
    """Some rows have tools and answer without one, which is what should be learned."""
    tools(project)
    for row in project.rows("train", every=3):
        row["messages"][1:] = [turn("assistant", "Hello! What is your order number?")]


@control("tools")
def odd_tool_without_arguments(project: Project) -> None:
    """A tool takes no arguments and is called with an empty object."""
    tools(project)
    for row in project.rows("train", every=4):
        row["tools"] = [*row["tools"], function("opening_hours")]
        row["messages"][1]["tool_calls"] = [call("opening_hours", {})]
        row["messages"][2] = turn("tool", '{"open": "9 to 17"}', tool_call_id="call_1")
        row["messages"][3] = turn("assistant", "We are open from 9 to 17.")


@control("tools")
def odd_texts_in_many_scripts_in_calls(project: Project) -> None:
    """Arguments and results hold quotes, umlauts, emoji and line ends."""
    tools(project)
    for row in project.rows("train", every=6):
        words = {"words": 'ein "großes" Zelt 🏕️\nin grün', "limit": 1}
        text = json.dumps(words, ensure_ascii=False)
        row["messages"][1]["tool_calls"] = [call("search_shop", text)]
        row["messages"][2]["content"] = json.dumps({"treffer": ["Zelt “Nord”"]}, ensure_ascii=False)


@control("data")
def odd_conversation_repeats_a_question(project: Project) -> None:
    """In some conversations the user asks the same thing twice and gets the same answer."""
    conversations(project)
    for row in project.rows("train", every=4):
        row["messages"][2:4] = [dict(t) for t in row["messages"][:2]]
