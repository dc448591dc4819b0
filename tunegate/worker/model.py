"""Base models and adapters: load, attach, save, merge; and a tiny model made on the spot."""

from __future__ import annotations

import json
import math
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunegate.errors import ChangedSinceRelease, TrainerError, UsageError, boundary
from tunegate.types import Json
from tunegate.worker import attention, lora

if TYPE_CHECKING:
    import torch
    from torch import Tensor

ADAPTER_FILE = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"

PLAIN_CAUSAL = frozenset(
    {"llama", "mistral", "qwen2", "qwen3", "smollm3", "olmo2", "granite", "phi3"}
)
"""Model types of plain causal attention; a test compares each with transformers."""

LENGTH_BOUND_ROPE = frozenset({"dynamic", "longrope"})
"""Rotary embeddings that change with the longest position of the batch: a pack would alter them."""

TINY = {
    "hidden_size": 32, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
}  # fmt: skip
"""1.6 million weights under a vocabulary of 49,152. Below 32 a random embedding has tokens that no
hidden state can prefer to all others, so that an adapter alone could not learn them."""


@dataclass
class Base:
    """A causal language model that is ready to run."""

    model: Any
    """transformers' model, or PEFT's around it."""
    device: torch.device
    plain: str | None
    """Why rows are padded and not packed; None where they are packed."""


def precision_dtype(precision: str) -> torch.dtype:
    """The torch type of `fp32` or `bf16`. Raises UsageError: fp16 would need a loss scaler."""
    import torch

    known = {"fp32": torch.float32, "bf16": torch.bfloat16}
    if precision not in known:
        raise UsageError(
            f"the native trainer runs in fp32 or bf16, not {precision}",
            hint="set train.precision to fp32, or to bf16 where the processor has it",
        )
    return known[precision]


def pick_device() -> torch.device:
    """The first GPU where there is one, else the CPU."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def why_plain(config: Any) -> str | None:
    """Why rows of this architecture cannot be packed; None where they can."""
    kind = config.model_type
    if kind not in PLAIN_CAUSAL:
        return f"the attention of {kind} was not compared with the packed one"
    if set(getattr(config, "layer_types", None) or ["full_attention"]) != {"full_attention"}:
        return "some layers attend through a window"
    if kind != "qwen2" and kind != "qwen3" and getattr(config, "sliding_window", None):
        return "its attention has a window"
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") in LENGTH_BOUND_ROPE:
        return f"its rotary embedding ({rope['rope_type']}) depends on the longest row of a batch"
    return None


def load_base(base_dir: Path, *, precision: str = "fp32", packed: bool = True) -> Base:
    """Load the model of a folder, offline and without code from it.

    Raises UsageError (`base_invalid`) where the folder does not hold a model of this form.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    attention.register()
    device = pick_device()
    with boundary(UsageError, f"load the base model from {base_dir}"), quiet():
        config = AutoConfig.from_pretrained(base_dir, local_files_only=True)
        plain = why_plain(config) if packed else "packing was not asked for"
        model = AutoModelForCausalLM.from_pretrained(
            base_dir,
            dtype=precision_dtype(precision),
            attn_implementation="sdpa" if plain else attention.NAME,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
        )
    model.config.use_cache = False
    # `generate` fills in what the base's own file says: sampling, and a repetition penalty, which
    # would count in greedy decoding too. Only stop tokens are taken from there, by `stop_ids`.
    model.generation_config = GenerationConfig()
    return Base(model=model.to(device).eval(), device=device, plain=plain)


def attach_lora(
    base: Base, settings: Mapping[str, Any], *, seed: int, name: str, revision: str | None
) -> None:
    """Put a fresh LoRA adapter on the base; the base's own weights are frozen.

    `settings` is `train.lora`: rank, alpha, dropout, targets. `name` and `revision` say in the
    adapter's configuration which base it belongs to. Raises UsageError for a target that matches
    no module.
    """
    import torch
    from peft import LoraConfig, get_peft_model

    targets = list(settings["targets"])
    present = {path.rpartition(".")[2] for path, _ in base.model.named_modules()}
    if missing := [target for target in targets if target not in present]:
        raise UsageError(f"train.lora.targets: the base has no module {', '.join(missing)}")
    config = LoraConfig(
        r=settings["rank"],
        lora_alpha=settings["alpha"],
        lora_dropout=settings["dropout"],
        target_modules=targets,
        task_type="CAUSAL_LM",
    )
    lora.fuse(config)
    torch.manual_seed(seed)
    with quiet():
        base.model = get_peft_model(base.model, config)
    base.model.peft_config["default"].base_model_name_or_path = name
    base.model.peft_config["default"].revision = revision


def adapter_tensors(model: Any) -> dict[str, Tensor]:
    """The adapter's tensors under the names that PEFT saves them by."""
    from peft import get_peft_model_state_dict

    state = get_peft_model_state_dict(model, save_embedding_layers=False)
    return {key: state[key].detach().contiguous() for key in sorted(state)}


def adapter_config(model: Any) -> Json:
    """The content of adapter_config.json, its target modules written out and in order."""
    raw = model.peft_config["default"].to_dict()
    raw["target_modules"] = sorted(raw["target_modules"])
    raw["inference_mode"] = True
    return {key: value for key, value in raw.items() if _is_json(value)}


def set_adapter(model: Any, tensors: Mapping[str, Tensor]) -> None:
    """Give the attached adapter these values. Raises TrainerError where the names differ."""
    import torch

    own = adapter_tensors(model)
    _compare_keys(set(own), set(tensors), "the adapter's file")
    with torch.no_grad():
        for key, tensor in own.items():
            tensor.copy_(tensors[key])


def b_norm(tensors: Mapping[str, Tensor]) -> float:
    """Norm of all B matrices: 0 for a fresh adapter, above 0 as soon as it was trained."""
    squares = (float(t.double().pow(2).sum()) for key, t in tensors.items() if "lora_B" in key)
    return math.sqrt(sum(squares))


def load_merged(base_dir: Path, adapter_dir: Path | None, *, precision: str = "fp32") -> Base:
    """The base with an adapter from disk merged into it, in fp32, then cast.

    Raises TrainerError where the adapter's file lacks a tensor that its configuration names, or
    holds one that it does not: PEFT alone would only warn.
    """
    if adapter_dir is None:
        return load_base(base_dir, precision=precision)
    from peft import PeftModel
    from safetensors.torch import load_file

    base = load_base(base_dir)
    with boundary(TrainerError, f"load the adapter from {adapter_dir}"), quiet():
        stored = set(load_file(adapter_dir / ADAPTER_FILE))
        peft = PeftModel.from_pretrained(base.model, str(adapter_dir), is_trainable=False)
        _compare_keys(set(adapter_tensors(peft)), stored, str(adapter_dir / ADAPTER_FILE))
        base.model = peft.merge_and_unload().to(precision_dtype(precision)).eval()
    return base


def _compare_keys(expected: set[str], found: set[str], where: str) -> None:
    if expected == found:
        return
    lacking, foreign = sorted(expected - found), sorted(found - expected)
    raise ChangedSinceRelease(
        f"{where}: {len(lacking)} tensors are missing ({', '.join(lacking[:3])}) "
        f"and {len(foreign)} are unknown ({', '.join(foreign[:3])})",
        hint="the adapter was made for another base or other target modules",
    )


def write_tiny_base(base_dir: Path, out_dir: Path, *, seed: int) -> None:
    """A random model of the base's architecture and tokenizer, of about a million weights.

    An adapter learns a few rows on it by heart within seconds.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(base_dir, local_files_only=True)
    for key, value in TINY.items():
        if hasattr(config, key):
            setattr(config, key, value)
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[: config.num_hidden_layers]
    config.tie_word_embeddings = True
    config.initializer_range = TINY["hidden_size"] ** -0.5
    torch.manual_seed(seed)
    with quiet():
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        model.get_input_embeddings().weight.data.normal_(0.0, 1.0)
        model.save_pretrained(out_dir)
    for path in base_dir.iterdir():
        if path.suffix in (".json", ".jinja") and not (out_dir / path.name).exists():
            shutil.copyfile(path, out_dir / path.name)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


@contextmanager
def quiet() -> Iterator[None]:
    """Without the progress bars and notices of transformers and PEFT, which are for notebooks."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
