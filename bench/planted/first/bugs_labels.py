"""Bugs of masks, ends and packs: a framework whose batches carry the wrong labels."""

from __future__ import annotations

from bench.planted.cases import bug
from bench.planted.project import Project, turn
from bench.planted.variants import conversations, free_text

LOSS = ("loss", "label", "mask", "supervis", "trained")
END = ("end token", "stop", "terminator", "turn end", "<|im_end|>", "ends with", "end of")
ROWS = (
    "missing",
    "dropped",
    "left out",
    "lost",
    "twice",
    "not in the batches",
    "rows in",
    "rows of",
)


@bug("mask", *LOSS)
def mask_prompt_in_loss(project: Project) -> None:
    """The framework trains on every token of a row, the prompt included."""
    project.plugin("""
        def row(example, tokenizer):
            return replace(example, labels=list(example.input_ids))
    """)


@bug("mask", *LOSS)
def mask_role_header_in_loss(project: Project) -> None:
    """The header of the assistant turn carries loss beside the answer."""
    project.plugin("""
        def row(example, tokenizer):
            start = spans(example.labels)[0][0]
            begin = max(p for p in range(start)
                        if example.input_ids[p] == tokenizer.token_id("<|im_start|>"))
            labels = list(example.labels)
            labels[begin:start] = example.input_ids[begin:start]
            return replace(example, labels=labels)
    """)


@bug("mask", *LOSS)
def mask_first_answer_token_lost(project: Project) -> None:
    """The first token of every answer carries no loss: the mask begins one token late."""
    project.plugin("""
        def row(example, tokenizer):
            firsts = {start for start, _ in spans(example.labels)}
            return masked(example, set(range(len(example.labels))) - firsts)
    """)


@bug("mask", *LOSS)
def mask_only_last_turn(project: Project) -> None:
    """In conversations only the last answer is trained, though every answer has its weight."""
    conversations(project)
    project.plugin("""
        def row(example, tokenizer):
            return masked(example, set(range(*spans(example.labels)[-1])))
    """)


@bug("mask", *LOSS)
def mask_only_first_turn(project: Project) -> None:
    """In conversations only the first answer is trained: the marker's search ends too soon."""
    conversations(project)
    project.plugin("""
        def row(example, tokenizer):
            return masked(example, set(range(*spans(example.labels)[0])))
    """)


@bug("mask", *LOSS)
def mask_some_rows_without_loss(project: Project) -> None:
    """Four rows of two hundred carry no loss at all: their answer's marker was not found."""
    project.plugin("""
        def row(example, tokenizer):
            return masked(example, set()) if example.index % 50 == 7 else example
    """)


@bug("mask", *LOSS)
def mask_weight_zero_trained(project: Project) -> None:
    """A turn with the weight 0 is trained like any other: the framework ignores weights."""
    conversations(project)
    for row in project.rows("train"):
        row["messages"][1] = {**row["messages"][1], "weight": 0}
    project.plugin("""
        def row(example, tokenizer):
            ids, labels = example.input_ids, list(example.labels)
            opens = [p for p, t in enumerate(ids) if t == tokenizer.token_id("<|im_start|>")]
            ends = [p for p, t in enumerate(ids) if t == tokenizer.token_id("<|im_end|>")]
            head = len(tokenizer.encode("<|im_start|>assistant\\n"))
            start, end = opens[2] + head, ends[2] + 1
            labels[start:end] = ids[start:end]
            return replace(example, labels=labels)
    """)


@bug("mask", *LOSS)
def mask_user_turn_in_loss(project: Project) -> None:
    """User and assistant are exchanged in the mask: the question is learned, the answer is not."""
    project.plugin("""
        def row(example, tokenizer):
            ids = example.input_ids
            opens = [p for p, t in enumerate(ids) if t == tokenizer.token_id("<|im_start|>")]
            head = len(tokenizer.encode("<|im_start|>user\\n"))
            labels = [IGNORED] * len(ids)
            labels[opens[1] + head : opens[2] - 1] = ids[opens[1] + head : opens[2] - 1]
            return replace(example, labels=labels)
    """)


@bug("mask", *LOSS)
def mask_labels_shifted_twice(project: Project) -> None:
    """Labels are already shifted by one, and the trainer shifts them once more."""
    project.plugin("""
        def row(example, tokenizer):
            return replace(example, labels=[*example.labels[1:], IGNORED])
    """)


@bug("mask", *LOSS, "differ")
def mask_labels_of_neighbour(project: Project) -> None:
    """Rows were sorted by length and their labels were not: a row has its neighbour's labels."""
    project.plugin("""
        def rows(examples, tokenizer):
            examples = list(examples)
            for place, example in enumerate(examples):
                other = examples[place ^ 1] if place ^ 1 < len(examples) else example
                (start, end), (begin, stop) = spans(example.labels)[0], spans(other.labels)[0]
                said = other.labels[begin:stop][: end - start]
                labels = list(example.labels)
                labels[start : start + len(said)] = said
                yield replace(example, labels=labels)
    """)


@bug("mask", *LOSS)
def mask_quotes_lost(project: Project) -> None:
    """One ordinary token, a quotation mark, was taken for padding and never carries loss."""
    project.plugin("""
        def row(example, tokenizer):
            quote = tokenizer.encode('"}')[0]
            labels = [IGNORED if label == quote else label for label in example.labels]
            return replace(example, labels=labels)
    """)


@bug("mask", *LOSS, "text column", "text` column", '"text"')
def mask_stale_text_column(project: Project) -> None:
    """Rows kept a `text` column of an earlier export, which is trained whole and unmasked."""
    for row in project.rows("train"):
        user, said = row["messages"]
        row["text"] = f"### Message: {user['content']}\n### Answer: {said['content']}"


@bug("stop", *END)
def stop_end_without_loss(project: Project) -> None:
    """Pad and end are one token and the collator masks by its value: the end is never taught."""
    project.plugin("""
        def row(example, tokenizer):
            labels = [IGNORED if label == tokenizer.pad_id else label for label in example.labels]
            return replace(example, labels=labels)
    """)


@bug("stop", *END)
def stop_end_not_in_row(project: Project) -> None:
    """The framework appends no end token: rows stop after the last character of the answer."""
    project.plugin("""
        def row(example, tokenizer):
            end = spans(example.labels)[-1][1] - 1
            return replace(example, input_ids=example.input_ids[:end], labels=example.labels[:end])
    """)


@bug("stop", *END, "<|endoftext|>")
def stop_other_token_trained(project: Project) -> None:
    """Answers are ended with <|endoftext|>, which no server of this base stops on."""
    project.plugin("""
        def row(example, tokenizer):
            end = spans(example.labels)[-1][1] - 1
            other = tokenizer.token_id("<|endoftext|>")
            ids, labels = list(example.input_ids), list(example.labels)
            ids[end] = labels[end] = other
            return replace(example, input_ids=ids, labels=labels)
    """)


@bug("stop", *END)
def stop_end_of_last_turn_only(project: Project) -> None:
    """In conversations the end of the earlier answers lies outside the mask."""
    conversations(project)
    project.plugin("""
        def row(example, tokenizer):
            ends = {end - 1 for _, end in spans(example.labels)[:-1]}
            return masked(example, set(range(len(example.labels))) - ends)
    """)


@bug("stop", *END)
def stop_template_without_end(project: Project) -> None:
    """The base's template prints no end token after the last answer."""
    project.template(
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n'"
        " + message['content'] }}{% if not loop.last or message['role'] != 'assistant' %}"
        "{{ '<|im_end|>\\n' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    )


@bug("stop", *END, "eos", "generation_config")
def stop_server_waits_for_other_token(project: Project) -> None:
    """The base's files name <|endoftext|> as the end; training ends answers with <|im_end|>, so a
    server that reads those files never stops.
    """
    other = project.token_id("<|endoftext|>")
    project.base_json("tokenizer_config.json", eos_token="<|endoftext|>")
    project.base_json("generation_config.json", eos_token_id=other)
    project.base_json("config.json", eos_token_id=other)


@bug("stop", *END, "control token", "special token")
def stop_end_typed_in_answers(project: Project) -> None:
    """Twenty answers already hold the end token as text, so it is taught twice over."""
    for row in project.rows("train", every=10):
        said = row["messages"][-1]["content"]
        row["messages"][-1] = turn("assistant", said + "<|im_end|>")


@bug("stop", *END, "control token", "special token", "<|im_start|>")
def stop_answers_run_on(project: Project) -> None:
    """Free answers were cut out of transcripts and still hold the next speaker's turn."""
    free_text(project)
    for row in project.rows("train", every=4):
        said = row["messages"][-1]["content"]
        text = (
            said + "<|im_end|>\n<|im_start|>user\nthanks<|im_end|>\n<|im_start|>assistant\nWelcome"
        )
        row["messages"][-1] = turn("assistant", text)


@bug("packing", *ROWS)
def packing_last_pack_thrown_away(project: Project) -> None:
    """The pack that is not full at the end is thrown away, and its rows with it."""
    project.plugin("""
        def rows(examples, tokenizer):
            yield from list(examples)[:-6]
    """)


@bug("packing", *ROWS)
def packing_wraps_round(project: Project) -> None:
    """The last pack is filled up with the first rows, which are trained twice an epoch."""
    project.plugin("""
        def rows(examples, tokenizer):
            examples = list(examples)
            yield from [*examples, *examples[:5]]
    """)


@bug("packing", "cut", *LOSS, "length", "short")
def packing_cuts_at_the_block(project: Project) -> None:
    """Rows are laid end to end and cut into blocks of 1024 tokens: the row at each seam is cut."""
    project.plugin("""
        def rows(examples, tokenizer):
            filled = 0
            for example in examples:
                size = len(example.input_ids)
                room = 1024 - filled
                if size <= room:
                    yield example
                    filled += size
                else:
                    yield replace(example, input_ids=example.input_ids[:room],
                                  labels=example.labels[:room])
                    filled = 0
    """)


@bug("packing", *LOSS)
def packing_second_row_unlabelled(project: Project) -> None:
    """Two rows share a pack, and the mask was built for the first of them only."""
    project.plugin("""
        def row(example, tokenizer):
            return masked(example, set()) if example.index % 2 else example
    """)


@bug("packing", *LOSS)
def packing_mask_slides(project: Project) -> None:
    """In each pack the mask of the n-th row lies n tokens too far left: no separators."""
    project.plugin("""
        def row(example, tokenizer):
            slide = example.index % 4
            flags = [label != IGNORED for label in example.labels]
            flags = flags[slide:] + [False] * slide
            labels = [t if flag else IGNORED for t, flag in zip(example.input_ids, flags)]
            return replace(example, labels=labels)
    """)


@bug("packing", "differ", "before", "serving", "other row", "prompt", "boundar")
def packing_rows_see_each_other(project: Project) -> None:
    """Rows of one pack attend to the rows before them: each is trained behind its neighbour."""
    project.plugin("""
        def rows(examples, tokenizer):
            before = []
            for example in examples:
                yield replace(example, input_ids=before + example.input_ids,
                              labels=[IGNORED] * len(before) + example.labels)
                before = list(example.input_ids)
    """)
