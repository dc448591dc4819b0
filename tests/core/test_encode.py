"""Templates, token ids, and rows as trainers see them."""

import pytest

from tests import toys
from tests.toys import make_tokenizer_dir
from tunegate.errors import DataError, UsageError
from tunegate.types import IGNORED, Row, Turn
from tunegate.worker.encode import encode_row, encode_rows, prompt_ids
from tunegate.worker.template import Template, load_template
from tunegate.worker.tokens import Recent, declared_stop_ids, load_tokenizer, stop_ids

CONVERSATION = (
    Turn("user", "Where is my order?"),
    Turn("assistant", '{"intent": "order_status"}'),
    Turn("user", "And the other?"),
    Turn("assistant", "yes é中"),
)
FAMILIES = {
    "chatml": (toys.CHATML, {}),
    "smollm2": (toys.SMOLLM2, {}),
    "llama3": (toys.LLAMA3, {"bos_token": "<bos>", "eos_token": "<|eot_id|>"}),
    "gemma": (toys.GEMMA, {"bos_token": "<bos>", "eos_token": "<end_of_turn>"}),
    "mistral": (toys.MISTRAL, {"bos_token": "<bos>", "eos_token": "</s>"}),
}


def family(path, name):
    template, tokens = FAMILIES[name]
    base = make_tokenizer_dir(path / name, template=template, **tokens)
    tokenizer = load_tokenizer(base)
    return base, tokenizer, load_template(base, special_tokens=tokenizer.special_tokens)


def row(*turns, text=None):
    return Row(index=0, line=1, turns=tuple(turns), text=text)


def spans(example):
    """The supervised runs of an example as lists of ids."""
    runs, last = [], None
    for position, label in enumerate(example.labels):
        if label == IGNORED:
            continue
        assert label == example.input_ids[position]
        if last != position - 1:
            runs.append([])
        runs[-1].append(label)
        last = position
    return runs


@pytest.mark.parametrize("name", FAMILIES)
def test_each_answer_and_its_end_are_trained_and_nothing_else(tmp_path, name):
    _, tokenizer, template = family(tmp_path, name)
    example = encode_row(row(*CONVERSATION), tokenizer=tokenizer, template=template)
    end = tokenizer.special_tokens["eos_token"]
    lead = " " if name == "mistral" else ""
    assert [tokenizer.decode(span) for span in spans(example)] == [
        f'{lead}{{"intent": "order_status"}}{end}',
        f"{lead}yes é中{end}",
    ]
    rendered = template.render(CONVERSATION, add_generation_prompt=False)
    assert rendered.startswith(tokenizer.decode(example.input_ids))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_row_begins_with_what_serving_sends(tmp_path, name):
    _, tokenizer, template = family(tmp_path, name)
    example = encode_row(row(*CONVERSATION), tokenizer=tokenizer, template=template)
    first = example.labels.index(spans(example)[0][0])
    served = prompt_ids(CONVERSATION[:1], tokenizer=tokenizer, template=template)
    assert example.input_ids[:first] == served


def test_an_answer_that_merges_with_its_prompt_is_cut_where_serving_cuts(tmp_path):
    # "\n" ends the prompt and begins the answer: as one text they would be one token.
    _, tokenizer, template = family(tmp_path, "chatml")
    turns = (Turn("user", "x"), Turn("assistant", "\n\n1"))
    example = encode_row(row(*turns), tokenizer=tokenizer, template=template)
    served = prompt_ids(turns[:1], tokenizer=tokenizer, template=template)
    assert example.input_ids[: len(served)] == served
    assert tokenizer.decode(spans(example)[0]) == "\n\n1<|im_end|>"


def test_turns_of_weight_zero_carry_no_loss(tmp_path):
    _, tokenizer, template = family(tmp_path, "chatml")
    turns = (CONVERSATION[0], Turn("assistant", "silent", 0.0), *CONVERSATION[2:])
    example = encode_row(row(*turns), tokenizer=tokenizer, template=template)
    assert [tokenizer.decode(span) for span in spans(example)] == ["yes é中<|im_end|>"]


def test_an_end_token_inside_the_answer_does_not_end_it(tmp_path):
    _, tokenizer, template = family(tmp_path, "chatml")
    turns = (Turn("user", "x"), Turn("assistant", "a<|im_end|>b"))
    example = encode_row(row(*turns), tokenizer=tokenizer, template=template)
    assert tokenizer.decode(spans(example)[0]) == "a<|im_end|>b<|im_end|>"


def test_raw_text_is_trained_whole_with_the_end_token(tmp_path):
    _, tokenizer, template = family(tmp_path, "chatml")
    example = encode_row(
        row(*CONVERSATION, text="raw text"), tokenizer=tokenizer, template=template
    )
    assert example.labels == example.input_ids == [*tokenizer.encode("raw text"), tokenizer.eos_id]


def test_loss_on_all_and_the_length_limit(tmp_path):
    _, tokenizer, template = family(tmp_path, "chatml")
    example = encode_row(
        row(*CONVERSATION), tokenizer=tokenizer, template=template, loss="all", max_length=8
    )
    assert example.labels == example.input_ids
    assert example.dropped == "longer than max_length, 8 tokens"


def test_many_rows_are_encoded_as_one_by_one(tmp_path):
    _, tokenizer, template = family(tmp_path, "llama3")
    rows = [
        Row(n, n + 1, (Turn("system", "s"), Turn("user", f"q{n % 7}"), Turn("assistant", f"a{n}")))
        for n in range(300)
    ]
    together = list(encode_rows(rows, tokenizer=tokenizer, template=template))
    assert together == [encode_row(one, tokenizer=tokenizer, template=template) for one in rows]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            "{% for m in messages %}{{ m.role + ':' + m.content + '\n' }}{% endfor %}",
            "no stop token",
        ),
        (
            "{% for m in messages %}{{ m.role + ':' + m.content }}<|im_end|>{% endfor %}"
            "{% if add_generation_prompt %}assistant:<think>{% endif %}",
            "not the beginning of the training text",
        ),
        (
            "{% for m in messages %}{{ m.role + ':' + m.content | upper }}<|im_end|>{% endfor %}"
            "{% if add_generation_prompt %}assistant:{% endif %}",
            "changes the answer's text",
        ),
        ("{{ raise_exception('no user turns here') }}", "no user turns here"),
    ],
)
def test_a_template_that_cannot_be_cut_is_refused_not_guessed(tmp_path, template, message):
    tokenizer = load_tokenizer(make_tokenizer_dir(tmp_path))
    with pytest.raises(DataError, match=message):
        encode_row(row(*CONVERSATION[:2]), tokenizer=tokenizer, template=Template(template))


def test_a_template_that_rewrites_earlier_answers_is_refused(tmp_path):
    source = (
        "{% for m in messages %}{{ m.role + ':' }}"
        "{% if m.role == 'assistant' and loop.last %}<think></think>{% endif %}"
        "{{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
    )
    tokenizer = load_tokenizer(make_tokenizer_dir(tmp_path))
    with pytest.raises(DataError, match="rewrites the turns before turn 4") as caught:
        encode_row(row(*CONVERSATION), tokenizer=tokenizer, template=Template(source))
    assert caught.value.where == "line 1"


def test_stop_ids_hold_the_files_and_the_turn_end(tmp_path):
    base = make_tokenizer_dir(
        tmp_path,
        template=toys.LLAMA3,
        bos_token="<bos>",
        eos_token="<|endoftext|>",
        stop_tokens=["<|endoftext|>", "</s>"],
    )
    tokenizer = load_tokenizer(base)
    named = {tokenizer.token_id(text) for text in ("<|endoftext|>", "</s>")}
    assert declared_stop_ids(base, tokenizer=tokenizer) == named
    assert stop_ids(base) == named | {tokenizer.token_id("<|eot_id|>")}


def test_splitting_at_special_tokens_changes_no_id(tmp_path):
    tokenizer = load_tokenizer(make_tokenizer_dir(tmp_path))
    texts = [
        "<|im_start|>user\n\n 12  x<|im_end|>\n<|im_start|>assistant\n",
        "<|im_start|><|im_start|> <|im_end|> é\u0301中",
        "",
        "plain",
    ]
    whole = [tokenizer.encoder.encode(text, add_special_tokens=False).ids for text in texts]
    assert tokenizer.encode_batch(texts) == whole == tokenizer.encode_batch(texts)
    assert [tokenizer.decode(ids) for ids in whole] == texts
    assert tokenizer.decode(whole[0], keep_specials=False) == "user\n\n 12  x\nassistant\n"


def test_texts_encoded_lately_are_remembered_within_bounds(tmp_path):
    tokenizer = load_tokenizer(make_tokenizer_dir(tmp_path))
    texts = [f"Where is order {number}?<|im_end|>" for number in range(50)]
    first = tokenizer.encode_batch(texts)
    first[0].append(7)  # a caller's list is its own
    assert tokenizer.encode_batch(texts)[0] == first[0][:-1]
    recent = Recent(characters=100)
    for number in range(200):
        recent.keep(f"{number:010}", [number])
        kept = [n for n in range(number + 1) if recent.get(f"{n:010}") is not None]
        assert len(kept) <= 23
        assert list(recent.get(f"{number:010}")) == [number]


def test_a_tokenizer_is_read_once_and_again_when_its_files_change(tmp_path):
    base = make_tokenizer_dir(tmp_path)
    first = load_tokenizer(base)
    assert load_tokenizer(base) is first
    config = base / "tokenizer_config.json"
    config.write_text(config.read_text().replace("<|im_end|>", "<|eot_id|>"))
    assert load_tokenizer(base).eos_id == first.token_id("<|eot_id|>") != first.eos_id


def test_a_base_without_its_files_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"no tokenizer\.json") as caught:
        load_tokenizer(tmp_path)
    assert caught.value.kind == "base_invalid"
    base = make_tokenizer_dir(tmp_path / "b", template=None)
    with pytest.raises(UsageError, match="no chat template"):
        load_template(base, special_tokens={})


@pytest.mark.parametrize("name", FAMILIES)
def test_rendering_and_ids_equal_those_of_transformers(tmp_path, name):
    transformers = pytest.importorskip("transformers")
    base, tokenizer, template = family(tmp_path, name)
    theirs = transformers.AutoTokenizer.from_pretrained(str(base))
    for turns in (CONVERSATION[:1], CONVERSATION[:3], CONVERSATION):
        messages = [{"role": turn.role, "content": turn.content} for turn in turns]
        for generation in (False, True):
            text = template.render(turns, add_generation_prompt=generation)
            assert text == theirs.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=generation
            )
            assert tokenizer.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.eos_id == theirs.eos_token_id
    assert tokenizer.vocab_size == len(theirs)


def test_the_generation_tag_clock_and_filters_render_as_in_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    source = (
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% if m.role == 'user' %}"
        "{% continue %}{% endif %}{% set ns.n = ns.n + 1 %}{% generation %}"
        "{{ m | tojson(indent=2) }}{{ ns.n }}<|im_end|>{% endgeneration %}{% endfor %}"
        "{{ strftime_now('%Y') }}"
        "{% if tools is none %}no tools{% endif %}"
    )
    base = make_tokenizer_dir(tmp_path, template=source)
    theirs = transformers.AutoTokenizer.from_pretrained(str(base))
    messages = [{"role": turn.role, "content": turn.content} for turn in CONVERSATION]
    template = Template(source)
    assert template.reads_clock
    assert template.render(CONVERSATION, add_generation_prompt=False) == (
        theirs.apply_chat_template(messages, tokenize=False)
    )


def test_a_template_that_opens_an_answer_after_every_row_trains_each_answer(tmp_path):
    """Early Llama 3: the text of a row goes on where the next prompt has a user turn."""
    source = toys.LLAMA3.replace("{% if add_generation_prompt %}", "").replace("{% endif %}", "")
    base = make_tokenizer_dir(tmp_path, template=source, bos_token="<bos>")
    tokenizer = load_tokenizer(base)
    template = load_template(base, special_tokens=tokenizer.special_tokens)
    example = encode_row(row(*CONVERSATION), tokenizer=tokenizer, template=template)
    assert [tokenizer.decode(span) for span in spans(example)] == [
        f"{turn.content}<|eot_id|>" for turn in CONVERSATION if turn.role == "assistant"
    ]
    whole = template.render(CONVERSATION, add_generation_prompt=False)
    assert example.input_ids == tokenizer.encode(whole)
    served = prompt_ids(CONVERSATION[:3], tokenizer=tokenizer, template=template)
    assert example.input_ids[: len(served)] == served


def test_a_date_that_is_given_stops_the_clock():
    source = (
        "{% if date_string is not defined %}{% set date_string = strftime_now('%Y') %}{% endif %}"
        "{% for m in messages %}{{ date_string + m.content }}{% endfor %}"
    )
    assert Template(source).reads_clock
    fixed = Template(source, {"date_string": "26 Jul 2024 "})
    assert not fixed.reads_clock
    assert fixed.render(CONVERSATION[:1], add_generation_prompt=True).startswith("26 Jul 2024 W")
