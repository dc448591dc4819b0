"""Every tensor that is meant to train moves, and no other one is there.

A pass proves, on a random model of the base's shape: after the rehearsal the adapter holds exactly
the tensors that `train.lora.targets` and the base's own weights imply, all of them finite and in
float32; each B matrix left zero; each A matrix moved between the middle and the end; and the
gradient norm of every step was above zero and finite.

It does not prove that the learning rate suits the task: the wire test learns 20 rows by heart.
"""

from __future__ import annotations

import json
from pathlib import Path

from tunegate.checks import CheckInputs
from tunegate.types import Finding, Json, Status, Verdict

WHERE = "machine"
ORDER = 100

NOT_CHECKED = ("whether the learning rate suits the task: the wire test looks at that",)


def observe(inputs: CheckInputs) -> Json:
    """Look at the adapter in the middle and at the end of the rehearsal."""
    import torch
    from safetensors.torch import load_file

    rehearsal = inputs.rehearsed
    targets = set(rehearsal.job["frozen"]["settings"]["train"]["lora"]["targets"])
    expected = {
        f"base_model.model.{path}.lora_{side}.weight"
        for path in _linear_modules(rehearsal.base_dir)
        if path.rpartition(".")[2] in targets
        for side in "AB"
    }
    half = load_file(rehearsal.half_adapter)
    full = load_file(rehearsal.newest_adapter(rehearsal.halved))
    both = sorted(set(half) & set(full))
    still = [
        key
        for key in both
        if (
            bool((full[key] == 0).all()) if ".lora_B." in key else torch.equal(half[key], full[key])
        )
    ]
    norms = [step["grad_norm"] for step in rehearsal.steps(rehearsal.straight)]
    return {
        "tensors": len(full),
        "missing": sorted(expected - set(full)),
        "unexpected": sorted(set(full) - expected),
        "still": still,
        "not_finite": [key for key in full if not bool(torch.isfinite(full[key]).all())],
        "dtypes": sorted({str(tensor.dtype) for tensor in full.values()}),
        "grad_norms": norms,
    }


def _linear_modules(base_dir: Path) -> list[str]:
    """Paths of the modules with a weight matrix, from the header of the weights' file alone."""
    paths = []
    for file in sorted(base_dir.glob("*.safetensors")):
        with file.open("rb") as handle:
            header = json.loads(handle.read(int.from_bytes(handle.read(8), "little")))
        paths += [
            name.removesuffix(".weight")
            for name, entry in header.items()
            if name.endswith(".weight") and len(entry.get("shape", ())) == 2
        ]
    return paths


def judge(observation: Json, frozen: Json) -> Verdict:
    """Fail where a tensor is missing, foreign, still, not finite or of an odd type."""
    found = observation
    texts = {
        "missing": "is to be trained and is not in the adapter",
        "unexpected": "is in the adapter and was not asked for",
        "still": "did not move: no gradient reaches it",
        "not_finite": "holds values that are not finite",
    }
    findings = [
        Finding(f"{name} {text}", change="compare train.lora.targets with the base's modules")
        for key, text in texts.items()
        for name in found[key][:5]
    ]
    if found["dtypes"] != ["torch.float32"]:
        findings.append(
            Finding(
                f"the adapter's weights are {', '.join(found['dtypes'])}, and small updates are "
                "lost in less than float32"
            )
        )
    dead = [n for n in found["grad_norms"] if not 0 < n < float("inf")]
    if dead or not found["grad_norms"]:
        findings.append(
            Finding(f"the gradient norm was {dead[0] if dead else 'never logged'} in a step")
        )
    moved = found["tensors"] - len(found["still"])
    return Verdict(
        check="grad_probe",
        status=Status.FAIL if findings else Status.PASS,
        summary=f"{moved} of {found['tensors']} adapter tensors moved in "
        f"{len(found['grad_norms'])} steps",
        findings=tuple(findings[:20]),
        numbers={"tensors": found["tensors"], "moved": moved},
        not_checked=NOT_CHECKED,
    )
