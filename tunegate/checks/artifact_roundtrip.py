"""The adapter on disk is the model that was trained, alone, merged and exported.

A pass proves, on a random model of the base's shape: the validation loss that the framework
reported for the checkpoint it chose is found again, within 0.01 % in float32, by PEFT and
transformers from the files alone: with the adapter on a fresh base, with it merged in, and from the
merged model written to disk and read back. The loss of the bare base is another one, so the adapter
does something. The adapter's configuration names the base and the revision that were frozen.

It does not prove that another serving engine applies the adapter: ask that engine for the same
probes.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from tunegate.checks import CheckInputs
from tunegate.checks._plain import apart, load_plain, mean_of, plain_losses, rows_of
from tunegate.types import Finding, Json, Status, Verdict
from tunegate.worker.model import quiet

WHERE = "machine"
ORDER = 120

TOLERANCE = 1e-4
"""Relative difference of a loss; in float32, other orders of summing differ by less."""

WAYS = {
    "adapter": "with the adapter from disk",
    "merged": "with the adapter merged into the base",
    "exported": "from the merged model written to disk",
}

NOT_CHECKED = ("whether another serving engine applies the adapter",)


def observe(inputs: CheckInputs) -> Json:
    """Compute the loss of the held rows from files alone, in each way."""
    rehearsal = inputs.rehearsed
    attempt = rehearsal.straight
    receipt = json.loads((attempt / "receipt.json").read_text())
    adapter_dir = attempt / receipt["adapter"]["path"]
    held = list(rows_of(rehearsal.job, "validation").values())
    losses = {"base": mean_of(plain_losses(load_plain(rehearsal.base_dir), held))}
    model = load_plain(rehearsal.base_dir, adapter_dir)
    losses["adapter"] = mean_of(plain_losses(model, held))
    model = model.merge_and_unload()
    losses["merged"] = mean_of(plain_losses(model, held))
    with TemporaryDirectory(dir=rehearsal.base_dir.parent) as folder, quiet():
        model.save_pretrained(folder)
        losses["exported"] = mean_of(plain_losses(load_plain(Path(folder)), held))
    config = json.loads((adapter_dir / "adapter_config.json").read_text())
    return {
        "trained": receipt["best"]["validation_loss"],
        "step": receipt["best"]["step"],
        "losses": losses,
        "names": {
            "base": config.get("base_model_name_or_path"),
            "revision": config.get("revision"),
        },
        "rows": [row.index for row in held],
    }


def judge(observation: Json, frozen: Json) -> Verdict:
    """Fail where a way back from disk gives another model, or the base's own."""
    trained, losses = float(observation["trained"]), observation["losses"]
    findings = [
        Finding(f"{text} the loss is {losses[way]:.5f}; in training it was {trained:.5f}")
        for way, text in WAYS.items()
        if not apart(losses[way], trained) <= TOLERANCE
    ]
    if apart(losses["base"], trained) <= TOLERANCE:
        findings.append(Finding("the tuned model has the loss of the base: the adapter is idle"))
    base = frozen["base"]
    expected = {"base": base["model"], "revision": base.get("revision")}
    for key, value in expected.items():
        if observation["names"][key] != value:
            findings.append(
                Finding(
                    f"the adapter's configuration names the {key} {observation['names'][key]!r}, "
                    f"not {value!r}",
                    change="whoever loads it takes the base that it names",
                )
            )
    worst = max(apart(losses[way], trained) for way in WAYS)
    return Verdict(
        check="artifact_roundtrip",
        status=Status.FAIL if findings else Status.PASS,
        summary=f"loss {trained:.4f} in training; from disk, merged and exported within "
        f"{worst:.1e}; the base has {losses['base']:.4f}",
        findings=tuple(findings),
        numbers={"trained": trained, **losses},
        not_checked=NOT_CHECKED,
    )
