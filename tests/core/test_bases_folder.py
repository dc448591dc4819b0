"""A folder as a base model: what is read from it, what is refused, and how it is pinned."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.toys import make_tokenizer_dir
from tunegate.bases import Base, digests, resolve
from tunegate.errors import UsageError

HIDDEN, LAYERS = 8, 2


def make_folder(path: Path, *, tied: bool = False, dtype: Any = np.float16) -> Path:
    """A complete base model folder whose weights are zeros."""
    make_tokenizer_dir(path)
    config = json.loads((path / "config.json").read_text())
    config.update(
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        vocab_size=16,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
    )
    (path / "config.json").write_text(json.dumps(config))
    tensors = {"model.embed_tokens.weight": np.zeros((16, HIDDEN), dtype)}
    tensors["lm_head.weight"] = np.zeros((16, HIDDEN), dtype)
    for layer in range(LAYERS):
        block = f"model.layers.{layer}"
        tensors[f"{block}.input_layernorm.weight"] = np.zeros((HIDDEN,), np.float32)
        tensors[f"{block}.self_attn.q_proj.weight"] = np.zeros((HIDDEN, HIDDEN), dtype)
        tensors[f"{block}.mlp.down_proj.weight"] = np.zeros((HIDDEN, 4), dtype)
    save_file(tensors, path / "model.safetensors")
    return path


def split(path: Path) -> None:
    """Turn the single weight file of a folder into two with an index."""
    tensors = load_file(path / "model.safetensors")
    (path / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"model-1-of-2.safetensors": names[:3], "model-2-of-2.safetensors": names[3:]}
    for part, held in parts.items():
        save_file({name: tensors[name] for name in held}, path / part)
    index = {"weight_map": {name: part for part, held in parts.items() for name in held}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))


def find(path: Path, revision: str | None = None, *, cache: Path | None = None) -> Base:
    return resolve(
        path.name, revision, cache_dir=cache or path.parent / "cache", folder=path.parent
    )


@pytest.mark.parametrize(("tied", "parameters"), [(False, 464), (True, 336)])
def test_facts_of_a_folder_come_from_its_headers(
    odd_path: Path, tied: bool, parameters: int
) -> None:
    base = find(make_folder(odd_path / "model", tied=tied))
    assert base.dir == odd_path / "model"
    assert base.architecture == "LlamaForCausalLM"
    assert (base.layers, base.hidden, base.vocab, base.context) == (LAYERS, HIDDEN, 16, 64)
    assert base.linear_modules == {"down_proj": 2, "q_proj": 2}
    assert base.dtype == "fp16"
    assert base.tied is tied
    # 2 * 16*8 embedding and head (once where tied) + 2 * (8 norm + 8*8 + 8*4)
    assert base.parameters == parameters


def test_a_split_model_is_the_same_model(tmp_path: Path) -> None:
    whole = find(make_folder(tmp_path / "whole"))
    split(make_folder(tmp_path / "parts"))
    parts = find(tmp_path / "parts")
    assert parts.parameters == whole.parameters
    assert parts.linear_modules == whole.linear_modules
    assert {"model-1-of-2.safetensors", "model-2-of-2.safetensors"} <= parts.files.keys()


def test_facts_nested_under_text_config_are_found(tmp_path: Path) -> None:
    path = make_folder(tmp_path / "model")
    config = json.loads((path / "config.json").read_text())
    nested = {"architectures": ["SomeMultimodal"], "text_config": config}
    (path / "config.json").write_text(json.dumps(nested))
    base = find(path)
    assert base.architecture == "SomeMultimodal"
    assert base.hidden == HIDDEN


def test_json_form_holds_every_field(tmp_path: Path) -> None:
    base = find(make_folder(tmp_path / "model"))
    stored = json.loads(json.dumps(base.to_json()))
    assert stored["dir"] == str(tmp_path / "model")
    assert Base(**{**stored, "dir": Path(stored["dir"])}) == base


def drop(name: str) -> Callable[[Path], None]:
    return lambda path: (path / name).unlink()


def pickled(path: Path) -> None:
    (path / "model.safetensors").rename(path / "pytorch_model.bin")


def cut_short(path: Path) -> None:
    whole = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(whole[:-10])


def not_safetensors(path: Path) -> None:
    (path / "model.safetensors").write_bytes(b"\xff" * 100)


def lfs_pointer(path: Path) -> None:
    (path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")


def lost_part(path: Path) -> None:
    split(path)
    (path / "model-2-of-2.safetensors").unlink()


def lost_tensor(path: Path) -> None:
    split(path)
    tensors = load_file(path / "model-2-of-2.safetensors")
    tensors.popitem()
    save_file(tensors, path / "model-2-of-2.safetensors")


def outside(path: Path) -> None:
    index = {"weight_map": {"x": "../model.safetensors"}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))


def adapter(path: Path) -> None:
    (path / "config.json").rename(path / "adapter_config.json")


def no_layers(path: Path) -> None:
    config = json.loads((path / "config.json").read_text())
    del config["num_hidden_layers"]
    (path / "config.json").write_text(json.dumps(config))


def torn_config(path: Path) -> None:
    (path / "config.json").write_text('{"hidden_size": ')


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (drop("config.json"), "no config.json"),
        (drop("tokenizer.json"), "no tokenizer.json"),
        (drop("chat_template.jinja"), "no chat template"),
        (drop("model.safetensors"), "no weights"),
        (adapter, "no config.json"),
        (pickled, "pickled (pytorch_model.bin)"),
        (cut_short, "its header wants"),
        (not_safetensors, "not a safetensors file"),
        (lfs_pointer, "Git LFS pointer"),
        (lost_part, "model-2-of-2.safetensors"),
        (lost_tensor, "tensors that no file holds"),
        (outside, "is not there"),
        (no_layers, "num_hidden_layers"),
        (torn_config, "cannot be read as JSON"),
    ],
)
def test_a_folder_that_cannot_serve_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], says: str
) -> None:
    path = make_folder(tmp_path / "model")
    damage(path)
    with pytest.raises(UsageError) as caught:
        find(path)
    assert caught.value.kind == "base_invalid"
    assert says in str(caught.value)


def test_an_adapter_folder_says_so(tmp_path: Path) -> None:
    path = make_folder(tmp_path / "model")
    adapter(path)
    with pytest.raises(UsageError) as caught:
        find(path)
    assert "adapter" in (caught.value.hint or "")


def test_a_pickle_beside_safetensors_is_left_alone(tmp_path: Path) -> None:
    path = make_folder(tmp_path / "model")
    (path / "training_args.bin").write_bytes(b"never read")
    base = find(path)
    assert "training_args.bin" not in base.files


@pytest.mark.parametrize("name", ["tokenizer_config.json", "chat_template.json"])
@pytest.mark.parametrize("named", [False, True])
def test_the_template_may_stand_in_other_files(tmp_path: Path, name: str, named: bool) -> None:
    path = make_folder(tmp_path / "model")
    text = (path / "chat_template.jinja").read_text()
    (path / "chat_template.jinja").unlink()
    value: Any = [{"name": "default", "template": text}] if named else text
    config = json.loads((path / name).read_text()) if (path / name).exists() else {}
    (path / name).write_text(json.dumps({**config, "chat_template": value}))
    assert name in find(path).files


def test_content_pins_a_folder(tmp_path: Path) -> None:
    path = make_folder(tmp_path / "model")
    pinned = find(path).revision
    assert pinned.startswith("sha256:")
    assert find(path, pinned).revision == pinned
    (path / "README.md").write_text("not part of the model")
    assert find(path, pinned).revision == pinned
    (path / "chat_template.jinja").write_text("{{ messages }}")
    with pytest.raises(UsageError) as caught:
        find(path, pinned)
    assert caught.value.kind == "base_invalid"
    assert find(path).revision in (caught.value.hint or "")


def test_the_same_content_elsewhere_has_the_same_revision(tmp_path: Path) -> None:
    assert find(make_folder(tmp_path / "a")).revision == find(make_folder(tmp_path / "b")).revision


def test_hashes_are_remembered_and_renewed(tmp_path: Path) -> None:
    path, cache = make_folder(tmp_path / "model"), tmp_path / "cache"
    heard: list[str] = []

    def listen(doing: str, share: float) -> None:
        assert 0 <= share <= 1
        heard.append(doing)

    def once() -> int:
        heard.clear()
        resolve("model", None, cache_dir=cache, folder=tmp_path, progress=listen)
        return len(heard)

    total = once()
    assert total == len(find(path, cache=cache).files)
    assert once() == 0
    # The same size and the modification time put back, as a copying tool would: still seen.
    before = (path / "config.json").stat()
    text = (path / "config.json").read_text()
    (path / "config.json").write_text(text.replace("LlamaForCausalLM", "MistrForCausalLM"))
    os.utime(path / "config.json", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert once() == 1
    for memory in (cache / "hashes").iterdir():
        memory.write_text("[torn")
    assert once() == total


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    path = make_folder(tmp_path / "model")
    (tmp_path / "file").write_text("")
    assert find(path, cache=tmp_path / "file").revision == find(path).revision


def test_content_digest_covers_names_and_hashes() -> None:
    one = digests.of_content({"a": "1", "b": "2"})
    assert one == digests.of_content({"b": "2", "a": "1"})
    assert len({one, digests.of_content({"a": "2", "b": "1"}), digests.of_content({"a": "1"})}) == 3


@pytest.mark.parametrize("model", ["./absent", "absent", "a/b/c", "~nobody-here/x"])
def test_a_path_that_is_not_there_is_refused(tmp_path: Path, model: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(model, None, cache_dir=tmp_path, folder=tmp_path)
    assert caught.value.kind == "file_missing"
    assert "bundled:smollm2-135m-instruct" in (caught.value.hint or "")
