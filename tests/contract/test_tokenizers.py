"""Real tokenizers and templates through `tokenizers` and Jinja alone: as transformers has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from families import STOPS, tokenizer_files

from tunegate.types import Turn
from tunegate.worker.template import load_template
from tunegate.worker.tokens import load_tokenizer, turn_end_id

transformers = pytest.importorskip("transformers")

TEXTS = (
    "a 1 22 333 4444 12345678901",
    "🙂👩‍👩‍👧‍👦 flags 🇳🇴",
    "zero\u200bwidth\u200d\ufeffx",
    "a\r\nb\r\n\r\nc\r",
    " " * 90 + "x" + " " * 77 + "\n\n\n\n   5",
    "  lead and trail  ",
    "",
    "\t\t\tx\n \n",
    "日本語 中文 한국어",
    "é e\u0301 ﬁ Å",
    "I'LL don't 's",
    "<|im_end|> <end_of_turn> <|eot_id|> <bos>x<think>\n\n</think>",
    '{"a": [1, 2.5e-3, null],\n  "b": "\\u00e9"}',
    "\u2028para\u2029 \xa0nbsp\x00nul\x7f",
    "https://a.b/c?d=e&f=%20",
    "<0x0A> <unk>",
    "\ud7ff\U0010ffff",
    "אבג مرحبا ไทย",
    "a" * 300,
)
TURNS = (
    Turn("system", "S s "), Turn("user", " hi "), Turn("assistant", '{"a": 1}'), Turn("user", "x"),
    Turn("assistant", "y"),
)  # fmt: skip


@pytest.mark.parametrize("name", STOPS)
def test_ids_text_and_rendering(name: str) -> None:
    folder: Path = tokenizer_files(name)
    own = load_tokenizer(folder)
    theirs: Any = transformers.AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        ids = own.encode(text)
        assert ids == theirs(text, add_special_tokens=False)["input_ids"], text
        assert own.encode_raw(text) == theirs(text)["input_ids"], text
        shown = own.decode(ids)
        assert shown == theirs.decode(ids, clean_up_tokenization_spaces=False), text
        assert b"".join(own.piece(token) for token in ids).decode() == shown, text
    template = load_template(folder, special_tokens=own.special_tokens)
    for turns in (TURNS, TURNS[1:], TURNS[:2], TURNS[1:2]):
        messages = [{"role": turn.role, "content": turn.content} for turn in turns]
        for opened in (False, True):
            text = template.render(turns, add_generation_prompt=opened)
            assert text == theirs.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=opened
            )
            assert own.encode(text) == theirs.apply_chat_template(
                messages, add_generation_prompt=opened, return_dict=False
            )
    end = turn_end_id(own, template)
    assert end is not None and own.decode([end]) in ("<|im_end|>", "<end_of_turn>", "<|eot_id|>")
