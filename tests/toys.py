"""Small real things that tests build on the spot: a tokenizer with control tokens, templates, rows.

make_tokenizer_dir(path, template=CHATML)   tokenizer.json and everything beside it
write_rows(path, rows)                      a JSON Lines file
chat(user, answer, system=...)              one row in messages form
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content']"
    " + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

SMOLLM2 = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}\
{{ '<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""
"""The template that SmolLM2-135M-Instruct ships, with its default system line."""

LLAMA3 = (
    "{{- bos_token }}{% for message in messages %}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
    " + message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)

GEMMA = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first = messages[0]['content'] + '\n\n' -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set first = '' -%}
    {%- set rest = messages -%}
{%- endif -%}
{%- for message in rest -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\n' }}
    {{- (first if loop.first else '') + message['content'] | trim + '<end_of_turn>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}
"""

MISTRAL = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token }}"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}"
    "{% endfor %}"
)

CONTROL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|pad|>",
    "<bos>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "</s>",
)

_CORPUS = (
    "Where is my order? It was due on Monday and nothing has come.",
    "I want to return the boots, they are two sizes too small.",
    'Reply with one line of JSON and nothing else: {"intent": "order_status"}',
    '{"intent": "return_item"} {"intent": "none_of_these"} {"name": "Ada", "year": 1843}',
    "You sort messages that customers send to the support of an outdoor shop.",
    "Extract the person and the year. user system assistant answer question",
    "The quick brown fox jumps over the lazy dog, and 0123456789 sheep are counted.",
)


@lru_cache(maxsize=4)
def _encoder_json(vocab_size: int) -> str:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    encoder = Tokenizer(models.BPE())
    encoder.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    encoder.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[
            AddedToken(text, special=True, normalized=False) for text in CONTROL_TOKENS
        ],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    encoder.train_from_iterator(_CORPUS * 4, trainer)
    text: str = encoder.to_str()
    return text


def make_tokenizer_dir(
    path: Path,
    *,
    template: str | None = CHATML,
    eos_token: str = "<|im_end|>",
    pad_token: str | None = "<|im_end|>",
    bos_token: str | None = None,
    stop_tokens: Sequence[str] | None = None,
    vocab_size: int = 512,
) -> Path:
    """A folder that `load_tokenizer` and transformers' AutoTokenizer both read: a byte-level BPE of
    about `vocab_size` tokens with the control tokens of four model families, trained on the spot.

    pad = eos by default, as in SmolLM2. `stop_tokens` go into generation_config.json (the eos token
    when left out). config.json describes no weights; whoever makes a model there overwrites it.
    """
    path.mkdir(parents=True, exist_ok=True)
    text = _encoder_json(vocab_size)
    (path / "tokenizer.json").write_text(text, encoding="utf-8")
    ids = {item["content"]: item["id"] for item in json.loads(text)["added_tokens"]}
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": eos_token,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 2048,
    }
    if pad_token is not None:
        config["pad_token"] = pad_token
    if bos_token is not None:
        config["bos_token"] = bos_token
    stops = [ids[token] for token in (stop_tokens if stop_tokens is not None else [eos_token])]
    _write(path / "tokenizer_config.json", config)
    _write(
        path / "generation_config.json", {"eos_token_id": stops[0] if len(stops) == 1 else stops}
    )
    _write(
        path / "config.json",
        {
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "vocab_size": len(json.loads(text)["model"]["vocab"]),
            "eos_token_id": ids[eos_token],
            "max_position_embeddings": 2048,
        },
    )
    if template is not None:
        (path / "chat_template.jinja").write_text(template, encoding="utf-8")
    return path


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """A JSON Lines file of the rows; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def chat(user: str, answer: str, *, system: str | None = None, **meta: Any) -> dict[str, Any]:
    """One row in messages form; `meta` are further keys of the row."""
    turns = [{"role": "user", "content": user}, {"role": "assistant", "content": answer}]
    if system is not None:
        turns.insert(0, {"role": "system", "content": system})
    return {"messages": turns, **meta}


def make_sentencepiece_dir(path: Path, *, template: str = MISTRAL) -> Path:
    """As `make_tokenizer_dir`, but of the SentencePiece kind: a space is written as U+2581 and one
    is put before the first word, bytes outside the vocabulary are <0xNN>.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    make_tokenizer_dir(path, template=template, eos_token="</s>", bos_token="<bos>", pad_token=None)
    encoder = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    encoder.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    encoder.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    controls = [AddedToken(text, special=True, normalized=False) for text in CONTROL_TOKENS]
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=["<unk>", *(f"<0x{code:02X}>" for code in range(256)), *controls],
        show_progress=False,
    )
    encoder.train_from_iterator(_CORPUS * 4, trainer)
    described = json.loads(encoder.to_str())
    for item in described["added_tokens"]:  # bytes are ordinary tokens, not control tokens
        item["special"] = not item["content"].startswith("<0x")
    described["added_tokens"] = [item for item in described["added_tokens"] if item["special"]]
    _write(path / "tokenizer.json", described)
    ends = {item["content"]: item["id"] for item in described["added_tokens"]}
    _write(path / "generation_config.json", {"eos_token_id": ends["</s>"]})
    _write(path / "config.json", {"model_type": "llama", "eos_token_id": ends["</s>"]})
    return path
