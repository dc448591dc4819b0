"""Ids beyond the embedding matrix, and control tokens that the base never learned."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.stand_ins import JSON_TASK, Trainer, masked_by_prompt, run, triage, verdict
from tunegate.checks._weights import embeddings
from tunegate.types import Example, Status


def write_embeddings(base_dir: Path, rows: list[list[float]], *, dtype: str = "F32") -> None:
    """A safetensors file with nothing but input embeddings, written by hand."""
    pack = {
        "F32": lambda value: struct.pack("<f", value),
        "F16": lambda value: struct.pack("<e", value),
        "BF16": lambda value: struct.pack("<f", value)[2:],
    }[dtype]
    data = b"".join(pack(value) for row in rows for value in row)
    entry = {"dtype": dtype, "shape": [len(rows), len(rows[0])], "data_offsets": [0, len(data)]}
    header = json.dumps({"model.embed_tokens.weight": entry}).encode()
    content = len(header).to_bytes(8, "little") + header + data
    (base_dir / "model.safetensors").write_bytes(content)


def base_of(inputs) -> Path:
    return Path(inputs.frozen["base"]["dir"])


def learned(inputs, *, except_for: str = "", norm: float = 0.001) -> None:
    """Embeddings of norm 2, but for one token."""
    size = inputs.tokenizer.vocab_size
    rows = [[2.0, 0.0, 0.0]] * size
    if except_for:
        rows[inputs.tokenizer.token_id(except_for)] = [norm, 0.0, 0.0]
    write_embeddings(base_of(inputs), rows)


def inputs_of(tmp_path, **more):
    return run(tmp_path, train=triage(), task=JSON_TASK, **more)


def test_known_control_tokens_pass(tmp_path):
    inputs = inputs_of(tmp_path)
    learned(inputs)
    found = verdict("token_census", inputs)
    assert found.status is Status.PASS
    assert "<|im_end|>" in found.summary
    assert not any("norms" in text for text in found.not_checked)


def test_a_turn_mark_that_the_base_never_saw_is_refused(tmp_path):
    inputs = inputs_of(tmp_path)
    learned(inputs, except_for="<|im_start|>")
    found = verdict("token_census", inputs)
    assert found.status is Status.FAIL
    assert "hardly trained on <|im_start|>" in found.findings[0].message


def test_a_somewhat_smaller_norm_is_no_fault(tmp_path):
    inputs = inputs_of(tmp_path)
    learned(inputs, except_for="<|im_end|>", norm=0.5)
    assert verdict("token_census", inputs).status is Status.PASS


def test_a_faint_token_that_no_row_holds_is_no_fault(tmp_path):
    inputs = inputs_of(tmp_path)
    unused = sorted(inputs.tokenizer.special_ids)
    text = next(t for t in map(inputs.tokenizer.decode, ([i] for i in unused)) if "im_" not in t)
    learned(inputs, except_for=text)
    assert verdict("token_census", inputs).status is Status.PASS


@pytest.mark.parametrize("token", [10**6, -1])
def test_an_id_without_an_embedding_is_refused(tmp_path, token):
    def foreign(row, tokenizer, template):
        example = masked_by_prompt(row, tokenizer, template)
        return Example(row.index, [token, *example.input_ids[1:]], example.labels)

    found = verdict("token_census", inputs_of(tmp_path, trainer=Trainer(foreign)))
    assert found.status is Status.FAIL
    assert f"token {token} has no row in the base's embeddings" in found.findings[0].message
    assert found.findings[0].where.endswith("train.jsonl:1")


def test_without_weights_it_says_what_it_could_not_read(tmp_path):
    found = verdict("token_census", inputs_of(tmp_path))
    assert found.status is Status.PASS
    assert "the norms of embeddings: no weights here" in found.not_checked


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_norms_are_read_from_every_type(tmp_path, dtype):
    write_embeddings(tmp_path, [[3.0, 4.0], [0.0, 0.5]], dtype=dtype)
    matrix = embeddings(tmp_path)
    assert [matrix.norm(0), matrix.norm(1)] == [5.0, 0.5]
