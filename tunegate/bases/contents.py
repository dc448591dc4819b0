"""What a base model's folder holds, read from its configuration and its safetensors headers."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from tunegate.errors import UsageError
from tunegate.types import Json

DECIDING = (
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
    "merges.txt",
    "model.safetensors.index.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
)
"""Files besides the weights that decide what a model or its tokenizer does."""

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
DTYPES = {"F32": "fp32", "BF16": "bf16", "F16": "fp16"}
MAX_HEADER_BYTES = 100_000_000
"""Limit of the safetensors format itself."""


def file_names(where: Path) -> list[str]:
    """Names of the files that make up the base model in `where`, sorted.

    Raises UsageError (`base_invalid`) where the folder cannot serve as a base: no configuration,
    no fast tokenizer, no chat template, no safetensors weights, or only a part of them.
    """
    if not (where / "config.json").is_file():
        adapter = (where / "adapter_config.json").is_file()
        raise _invalid(
            where,
            "it has no config.json",
            "this folder holds an adapter: name the model that it was trained on"
            if adapter
            else "name the folder that save_pretrained wrote, or that holds the hub's files",
        )
    if not (where / "tokenizer.json").is_file():
        raise _invalid(
            where,
            "it has no tokenizer.json",
            "write one with AutoTokenizer.from_pretrained(folder).save_pretrained(folder)",
        )
    if chat_template(where) is None:
        raise _invalid(
            where,
            "it has no chat template (chat_template.jinja, or in tokenizer_config.json)",
            "take the instruct variant of the model, or put its chat_template.jinja beside it",
        )
    weights = _weights(where)
    return sorted({*weights, *(name for name in DECIDING if (where / name).is_file())})


def chat_template(where: Path) -> str | None:
    """The default chat template of the folder; transformers gives its own file precedence."""
    own = where / "chat_template.jinja"
    if own.is_file():
        return _template_text(own)
    for name in ("chat_template.json", "tokenizer_config.json"):
        if (where / name).is_file():
            template = _json(where / name).get("chat_template")
            if isinstance(template, list):  # several named templates
                named = {entry.get("name"): entry.get("template") for entry in template}
                template = named.get("default")
            if isinstance(template, str):
                return template
    return None


def _template_text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise _invalid(path, f"it is not UTF-8 ({exc.reason}, byte {exc.start + 1:,})") from exc
    if text.startswith("\ufeff"):
        raise _invalid(
            path,
            "it begins with a byte-order mark, which would stand before every prompt",
            "save it as UTF-8 without a byte-order mark",
        )
    return text


def describe(where: Path) -> Json:
    """The facts of `Base` that the folder's files state: all fields from `architecture` on."""
    config = _json(where / "config.json")
    text = config.get("text_config", config)  # models with several modalities nest it
    tensors: dict[str, dict[str, Any]] = {}
    for name in _weights(where):
        tensors.update(_header(where / name))
    expected = _json(where / INDEX)["weight_map"] if (where / INDEX).is_file() else {}
    if missing := sorted(expected.keys() - tensors.keys()):
        raise _invalid(where, f"{INDEX} names tensors that no file holds, such as {missing[0]}")
    tied = bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False)))
    if tied:
        tensors.pop("lm_head.weight", None)  # a stored copy of the embedding is not a second matrix
    stored: Counter[str] = Counter()
    for tensor in tensors.values():
        stored[tensor["dtype"]] += _elements(tensor)
    most = stored.most_common(1)[0][0]
    architectures = config.get("architectures") or [config.get("model_type")]
    return {
        "architecture": str(architectures[0]),
        "parameters": sum(stored.values()),
        "layers": _number(where, text, "num_hidden_layers", "n_layer"),
        "hidden": _number(where, text, "hidden_size", "n_embd"),
        "vocab": _number(where, text, "vocab_size"),
        "context": _number(where, text, "max_position_embeddings", "n_positions"),
        "dtype": DTYPES.get(most, most.lower()),
        "linear_modules": _linear_modules(tensors),
        "tied": tied,
    }


def _linear_modules(tensors: dict[str, dict[str, Any]]) -> dict[str, int]:
    # Inside the blocks, so below a number in the name; embeddings and output head lie outside.
    counts: Counter[str] = Counter()
    for name, tensor in tensors.items():
        match = re.search(r"\.\d+\..*?(\w+)\.weight$", name)
        if match and len(tensor["shape"]) == 2:
            counts[match[1]] += 1
    return dict(sorted(counts.items()))


def _weights(where: Path) -> list[str]:
    """The weight files that a loader reads: those of the index, else the single file."""
    if (where / INDEX).is_file():
        names = sorted(set(_json(where / INDEX).get("weight_map", {}).values()))
        for name in names:
            if Path(name).name != name or not (where / name).is_file():
                raise _invalid(where, f"{name}, which {INDEX} names, is not there")
        if names:
            return names
    if (where / SINGLE).is_file():
        return [SINGLE]
    pickled = sorted(path.name for glob in PICKLED for path in where.glob(glob))
    if pickled:
        raise _invalid(
            where,
            f"its weights are pickled ({pickled[0]}), and loading a pickle runs the code in it",
            "take a safetensors version of the model, or convert it where you trust the file: "
            "AutoModelForCausalLM.from_pretrained(folder).save_pretrained(new_folder)",
        )
    raise _invalid(where, f"it has no weights: neither {SINGLE} nor {INDEX}")


def _header(path: Path) -> dict[str, dict[str, Any]]:
    """Tensor name to {dtype, shape, data_offsets} of one safetensors file, and is it whole?"""
    size = path.stat().st_size
    with path.open("rb") as stream:
        start = stream.read(8)
        if start == b"version ":
            raise _invalid(path, "it is a Git LFS pointer, not the file", "run: git lfs pull")
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > min(size - 8, MAX_HEADER_BYTES):
            raise _invalid(path, "it is cut short or not a safetensors file", "fetch it again")
        try:
            header = json.loads(stream.read(length))
        except ValueError:
            raise _invalid(
                path, "its safetensors header cannot be read", "fetch it again"
            ) from None
    header.pop("__metadata__", None)
    end = max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
    if not header or size != 8 + length + end:
        raise _invalid(
            path, f"it has {size} bytes where its header wants {8 + length + end}", "fetch it again"
        )
    return dict(header)


def _elements(tensor: dict[str, Any]) -> int:
    count = 1
    for extent in tensor["shape"]:
        count *= extent
    return count


def _number(where: Path, config: Json, *keys: str) -> int:
    for key in keys:
        if isinstance(value := config.get(key), int):
            return value
    raise _invalid(where / "config.json", f"it does not say {' or '.join(keys)}")


def _json(path: Path) -> Json:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise _invalid(path, f"it cannot be read as JSON: {exc}") from exc
    if not isinstance(raw, dict):
        raise _invalid(path, "it does not hold a JSON object")
    return raw


def _invalid(where: Path, why: str, hint: str | None = None) -> UsageError:
    return UsageError(
        f"{where} cannot be a base model: {why}",
        kind="base_invalid",
        hint=hint or "fetch the model again, or name another as base.model",
    )
