"""Controls of masks, ends, packs, templates, lengths and tokens: odd, and right."""

from __future__ import annotations

import json

from bench.planted.cases import control
from bench.planted.first.bugs_text import (
    add_token,
    grow_embedding,
    tokenizer_json,
    training_template,
    write_tokenizer,
)
from bench.planted.project import Project, turn
from bench.planted.variants import conversations, free_text
from tests.toys import CHATML, GEMMA, LLAMA3, MISTRAL, SMOLLM2


@control("mask")
def odd_line_end_in_loss(project: Project) -> None:
    """The line end after the turn's end token carries loss too, as LLaMA-Factory does it."""
    project.plugin("""
        def row(example, tokenizer):
            end = spans(example.labels)[-1][1]
            labels = list(example.labels)
            labels[end:] = example.input_ids[end:]
            return replace(example, labels=labels)
    """)


@control("mask")
def odd_turns_of_weight_zero(project: Project) -> None:
    """Earlier answers have the weight 0 and carry no loss: they are wrong on purpose."""
    conversations(project)
    for row in project.rows("train"):
        row["messages"][1] = {**row["messages"][1], "weight": 0}


@control("mask")
def odd_loss_on_everything_declared(project: Project) -> None:
    """Training goes on with plain text, and the run file says that all of it carries loss."""
    free_text(project)
    for name in ("train", "validation"):
        project.splits[name] = [{"text": text} for text, _ in project.pairs(name)]
    project.set("train.loss", "all")
    project.set("eval.raw", {"shots": [0]})


@control("mask")
def odd_conversations_all_trained(project: Project) -> None:
    """Conversations of two exchanges whose answers all carry loss."""
    conversations(project)


@control("stop")
def odd_two_stop_tokens(project: Project) -> None:
    """The base stops on a list of two tokens; training ends answers with one of them."""
    ids = [project.token_id("<|im_end|>"), project.token_id("<|endoftext|>")]
    project.base_json("generation_config.json", eos_token_id=ids)


@control("stop")
def odd_no_pad_token(project: Project) -> None:
    """The tokenizer declares no pad token at all."""
    project.base_json("tokenizer_config.json", pad_token=None)


@control("stop")
def odd_pad_is_a_token_of_its_own(project: Project) -> None:
    """The pad token is neither the end token nor used in any text."""
    project.base_json("tokenizer_config.json", pad_token="<|pad|>")


@control("stop")
def odd_answer_speaks_of_tokens(project: Project) -> None:
    """Free answers explain what im_end, EOS and stop tokens are, in prose."""
    free_text(project)
    for row in project.rows("train", every=9):
        row["messages"][-1] = turn(
            "assistant", "The im_end marker, also called EOS or </end>, ends my turn. assistant"
        )


@control("packing")
def odd_rows_in_another_order(project: Project) -> None:
    """The framework gives its rows sorted by length, each once and with its own labels."""
    project.plugin("""
        def rows(examples, tokenizer):
            yield from sorted(examples, key=lambda e: (-len(e.input_ids), e.index))
    """)


@control("packing")
def odd_lengths_differ_widely(project: Project) -> None:
    """Rows of two words beside rows of three hundred, in batches of 8."""
    project.set("train.batch_size", 8)
    for row in project.rows("train", every=6):
        row["messages"][0]["content"] += " It rained, we walked on, and the path was lost." * 9


@control("template")
def odd_training_template_with_marks(project: Project) -> None:
    """Training's template has generation marks and other source, and prints the same text."""
    training_template(
        project,
        "{%- for m in messages -%}{{- '<|im_start|>' + m.role + '\\n' -}}"
        "{%- if m.role == 'assistant' -%}{%- generation -%}{{- m.content + '<|im_end|>' -}}"
        "{%- endgeneration -%}{%- else -%}{{- m.content + '<|im_end|>' -}}{%- endif -%}"
        "{{- '\\n' -}}{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}",
    )


@control("template")
def odd_default_line_that_is_not_used(project: Project) -> None:
    """The base's template has a default system line; every request here has its own."""
    project.template(SMOLLM2)


@control("template")
def odd_bos_in_the_template(project: Project) -> None:
    """A Llama-3 template prints the BOS, two line ends after each header, and ends with eot."""
    project.template(LLAMA3, bos_token="<bos>", eos_token="<|eot_id|>", pad_token="<|eot_id|>")
    project.base_json("generation_config.json", eos_token_id=project.token_id("<|eot_id|>"))


@control("template")
def odd_system_inside_the_user_turn(project: Project) -> None:
    """A Gemma template has no system role and puts the system text before the first question."""
    project.template(GEMMA, bos_token="<bos>", eos_token="<end_of_turn>", pad_token="<end_of_turn>")
    project.base_json("generation_config.json", eos_token_id=project.token_id("<end_of_turn>"))


@control("template")
def odd_space_before_the_answer(project: Project) -> None:
    """A Mistral template prints a space before each answer, with which its first token begins."""
    project.template(MISTRAL, bos_token="<bos>", eos_token="</s>", pad_token="</s>")
    project.base_json("generation_config.json", eos_token_id=project.token_id("</s>"))
    project.set("prompt.system", None)


@control("template")
def odd_rows_repeat_the_serving_prompt(project: Project) -> None:
    """Half of the rows carry the serving prompt themselves, word for word."""
    for row in project.rows("train", every=2):
        row["messages"].insert(0, turn("system", project.system.rstrip("\n")))


@control("template")
def odd_empty_think_block_in_both(project: Project) -> None:
    """The template opens every answer with an empty think block, in training and in serving."""
    block = "<think>\n\n</think>\n\n"
    source = CHATML.replace("'<|im_start|>assistant\n'", f"'<|im_start|>assistant\n{block}'")
    project.template(
        source.replace(
            "+ message['content']",
            "+ ('" + block + "' if message['role'] == 'assistant' else '') + message['content']",
        )
    )


@control("truncation")
def odd_one_very_long_row(project: Project) -> None:
    """One row is ten times as long as the others and fits the context."""
    project.rows("train")[50]["messages"][0]["content"] += " and so we went on" * 150


@control("truncation")
def odd_messages_of_one_character(project: Project) -> None:
    """Some messages are one character and belong to the escape class, which is right."""
    rows = [row for row in project.rows("train") if "none_of_these" in str(row["messages"][-1])]
    for row, text in zip(rows, "?!.k1", strict=False):
        row["messages"][0]["content"] = text


@control("truncation")
def odd_limit_equals_the_context(project: Project) -> None:
    """max_length is set to the whole context, far above what any row needs."""
    project.set("train.max_length", 2048)


@control("tokens")
def odd_scripts_of_the_world(project: Project) -> None:
    """Messages in Chinese, Arabic and Hindi, with emoji, joiners and accents made of two parts."""
    texts = (
        "我的帐篷什么时候到？",
        "أين طلبي من الأسبوع الماضي؟",
        "मेरा तंबू कहाँ है?",
        "wo ist mein Zelt 🏕️👩‍👩‍👧‍👦🇳🇴",
        "cafe\u0301 und Zu\u0308rich",
    )
    for place, row in enumerate(project.rows("train", every=4)):
        row["messages"][0]["content"] += f" {texts[place % len(texts)]}"


@control("tokens")
def odd_angle_brackets_in_texts(project: Project) -> None:
    """Messages hold HTML, templates and things that look like control tokens and are none."""
    for row in project.rows("train", every=5):
        row["messages"][0]["content"] += " <b>urgent</b> {{ name }} {% if %} <|order|> [INST <s >"


@control("tokens")
def odd_embedding_larger_than_the_vocabulary(project: Project) -> None:
    """The embedding has 64 rows more than the tokenizer has tokens: it was rounded up."""
    grow_embedding(project, rows=64)


@control("tokens")
def odd_reserved_tokens_never_used(project: Project) -> None:
    """The tokenizer reserves a token with an empty embedding row, which no text uses."""
    add_token(project, "<|reserved_0|>")
    grow_embedding(project, rows=1)


@control("tokens")
def odd_tokenizer_that_adds_a_bos(project: Project) -> None:
    """The tokenizer adds a BOS to plain text; the template prints its own, and servers know it."""
    encoder = tokenizer_json(project)
    place = project.token_id("<bos>")
    encoder["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}},
                   {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<bos>": {"id": "<bos>", "ids": [place], "tokens": ["<bos>"]}},
    }  # fmt: skip
    write_tokenizer(project, json.loads(json.dumps(encoder)))
    project.template("{{ bos_token }}" + CHATML, bos_token="<bos>")
