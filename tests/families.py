"""Tiny random models of three families with their real tokenizers and templates, and data to match.

The tokenizers are their makers' and are not kept here: `fetch_tokenizers.py` fetches them once.

tokenizer_files(name)           the folder of one of them; the test skips where it is not at hand
make_family(name, folder)       a base folder: configuration, random weights, tokenizer, template
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from fetch_tokenizers import VARIABLE, default_folder

LLAMA3_ROPE = {
    "rope_type": "llama3", "rope_theta": 500_000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 256,
}  # fmt: skip
"""Stretched from 256 positions, so that the scaling is at work in short rows."""

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3": ("qwen3", {"tie_word_embeddings": True}),
    "gemma3": (
        "gemma3_text",
        {
            # Rows longer than the window, so that it is at work.
            "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"],
            "query_pre_attn_scalar": 16,
        },
    ),
    "llama3": ("llama", {"rope_parameters": LLAMA3_ROPE, "tie_word_embeddings": False}),
    "llama3_1": ("llama", {"rope_parameters": LLAMA3_ROPE, "tie_word_embeddings": False}),
}  # fmt: skip
"""Model type and settings of its own, by the tokenizer's name."""

STOPS = {
    "qwen3": ("<|im_end|>", "<|endoftext|>"),
    "gemma3": ("<eos>", "<end_of_turn>"),
    "llama3": ("<|end_of_text|>",),
    "llama3_1": ("<|end_of_text|>", "<|eot_id|>"),
}
"""What each family's own generation_config.json names, the early Llama 3 without its turn end."""

SAMPLING = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
            "repetition_penalty": 1.3}  # fmt: skip
"""Families ship such a set beside their weights; evaluation is greedy and must not take it over."""


def tokenizer_files(name: str) -> Path:
    """Folder with tokenizer.json and tokenizer_config.json; skips where it was not fetched."""
    folder = Path(os.environ.get(VARIABLE) or default_folder()) / name
    if not (folder / "tokenizer.json").is_file():
        pytest.skip(f"no tokenizer of {name}: python tests/fetch_tokenizers.py fetches it")
    return folder


def make_family(name: str, folder: Path, *, seed: int = 0, **settings: Any) -> Path:
    """A base folder as the family's maker publishes it, of few and random weights."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    source = tokenizer_files(name)
    folder.mkdir(parents=True, exist_ok=True)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(source / file, folder / file)
    ids = {
        item["content"]: item["id"]
        for item in json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    }
    stops = [ids[text] for text in STOPS[name]]
    kind, own = KINDS[name]
    common = {
        "vocab_size": max(ids.values()) + 64, "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "max_position_embeddings": 2048, "initializer_range": 0.125, "eos_token_id": stops,
        "bos_token_id": None, "pad_token_id": None,
    }  # fmt: skip
    torch.manual_seed(seed)
    config = AutoConfig.for_model(kind, **{**common, **own, **settings})
    model = AutoModelForCausalLM.from_config(config)
    # A trained embedding tells its tokens apart; one of the initializer's width does not.
    for embedding in (model.get_input_embeddings(), model.get_output_embeddings()):
        embedding.weight.data.normal_(0.0, 1.0)
    if kind == "gemma3_text":  # it scales what it embeds by the root of the width, here 8
        model.get_input_embeddings().weight.data /= 8
        model.model.norm.weight.data.fill_(7.0)  # and its norms by 1 + weight
    model.save_pretrained(folder)
    described = {"eos_token_id": stops, **SAMPLING}
    (folder / "generation_config.json").write_text(json.dumps(described))
    return folder
