"""Bugs of base, training and adapter: what only shows when something is trained."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from bench.planted.cases import bug
from bench.planted.project import Project

RESUME = ("resum", "optimizer", "moment", "schedule", "checkpoint")
LEARNS = ("gradient", "learn", "adapter", "weights", "loss", "exact")


def weights(project: Project, change: Callable[[dict[str, Any]], None]) -> None:
    """Change tensors of the base, which are numpy arrays here."""
    from safetensors.numpy import load_file, save_file

    path = project.base / "model.safetensors"
    tensors = dict(load_file(path))
    change(tensors)
    path.unlink()
    save_file(tensors, path, metadata={"format": "pt"})


@bug("artefact", "nan", "finite", "diverg", "base", stage="wire")
def artefact_base_holds_a_nan(project: Project) -> None:
    """One weight of the base is not a number: a bad block of the download."""

    def spoil(tensors: dict[str, Any]) -> None:
        name = "model.layers.1.mlp.down_proj.weight"
        tensors[name] = tensors[name].copy()
        tensors[name][3, 5] = float("nan")

    weights(project, spoil)


@bug("artefact", "safetensors", "base", "incomplete", "truncat", "short", stage="freeze")
def artefact_base_file_cut_off(project: Project) -> None:
    """The download of the weights broke off: the file lacks its last quarter."""
    path = project.base / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[: 3 * len(data) // 4])


@bug("artefact", "model-00002", "missing", "shard", "index", stage="freeze")
def artefact_shard_missing(project: Project) -> None:
    """The weights' index names a second file that is not there."""
    (project.base / "model.safetensors").rename(project.base / "model-00001-of-00002.safetensors")
    listed = {
        "model.embed_tokens.weight": "model-00001-of-00002.safetensors",
        "model.norm.weight": "model-00002-of-00002.safetensors",
    }
    text = json.dumps({"metadata": {"total_size": 1}, "weight_map": listed})
    (project.base / "model.safetensors.index.json").write_text(text)


@bug("artefact", "layer", "missing", "weights", stage="wire")
def artefact_layer_not_in_the_file(project: Project) -> None:
    """config.json counts three layers and the file holds two: the third would be random."""
    project.base_json("config.json", num_hidden_layers=3, layer_types=None)


@bug("artefact", "tokenizer", "loss", "vocab", stage="wire")
def artefact_tokenizer_of_another_model(project: Project) -> None:
    """The tokenizer has the right size and is another model's: its ids mean other texts here."""
    path = project.base / "tokenizer.json"
    encoder = json.loads(path.read_text(encoding="utf-8"))
    control = {item["id"] for item in encoder["added_tokens"]}
    vocab = encoder["model"]["vocab"]
    texts = [text for text, place in vocab.items() if place not in control]
    places = [vocab[text] for text in texts]
    random.Random(0).shuffle(places)
    vocab.update(zip(texts, places, strict=True))
    path.write_text(json.dumps(encoder, ensure_ascii=False), encoding="utf-8")


@bug("artefact", *LEARNS, stage="wire")
def artefact_adapter_saved_untrained(project: Project) -> None:
    """The trainer saves the adapter with B still zero: what it trained is another object."""
    project.plugin("""
        def prepare(worker):
            from tunegate.worker import checkpoint

            real = checkpoint.adapter_tensors
            checkpoint.adapter_tensors = lambda model: {
                name: value * 0 if "lora_B" in name else value
                for name, value in real(model).items()
            }
    """)


@bug("artefact", "key", "adapter", "name", stage="wire")
def artefact_adapter_under_other_names(project: Project) -> None:
    """The saved adapter's keys have another prefix, so that no module of the base takes them."""
    project.plugin("""
        def prepare(worker):
            from tunegate.worker import checkpoint

            real = checkpoint.adapter_tensors
            checkpoint.adapter_tensors = lambda model: {
                name.replace("model.layers", "model.language_model.layers"): value
                for name, value in real(model).items()
            }
    """)


@bug("resume", *RESUME, stage="wire")
def resume_loses_the_moments(project: Project) -> None:
    """After a resume the optimizer begins anew: its moments and counts are zero."""
    project.plugin("""
        def prepare(worker):
            from tunegate.worker import checkpoint

            real = checkpoint.restore

            def restore(folder, stepper, *, training):
                state = real(folder, stepper, training=training)
                for kept in stepper.optimizer.state.values():
                    for value in kept.values():
                        value.zero_()
                return state

            checkpoint.restore = restore
    """)


@bug("resume", *RESUME, "learning rate", stage="wire")
def resume_restarts_the_schedule(project: Project) -> None:
    """After a resume the learning rate starts again at its warm-up."""
    project.plugin("""
        def prepare(worker):
            from tunegate.worker import checkpoint

            restore, rate, done = checkpoint.restore, worker.learning_rate, [0]

            def remembered(*arguments, **named):
                state = restore(*arguments, **named)
                done[0] = state["step"]
                return state

            checkpoint.restore = remembered
            worker.learning_rate = lambda step, **named: rate(step - done[0], **named)
    """)


@bug("resume", *RESUME, "order", "rows", stage="wire")
def resume_repeats_rows(project: Project) -> None:
    """After a resume the data begins from the start: some rows come twice, others never."""
    project.plugin("""
        def prepare(worker):
            from tunegate.worker import checkpoint

            restore, done = checkpoint.restore, [0]

            def remembered(*arguments, **named):
                state = restore(*arguments, **named)
                done[0] = state["step"]
                return state

            class FromTheStart(worker.Order):
                def batch(self, step):
                    return super().batch(step - done[0])

            checkpoint.restore, worker.Order = remembered, FromTheStart
    """)


@bug("gradient", *LEARNS, stage="wire")
def gradient_base_is_dead(project: Project) -> None:
    """The last norm of the base is all zeros: every logit is zero and no gradient flows."""

    def silence(tensors: dict[str, Any]) -> None:
        tensors["model.norm.weight"] = tensors["model.norm.weight"] * 0

    weights(project, silence)


@bug("gradient", *LEARNS, "learning rate", stage="wire")
def gradient_rate_is_zero(project: Project) -> None:
    """The framework's schedule gives zero at every step; the loss wobbles with the batches."""
    project.plugin("""
        def prepare(worker):
            worker.learning_rate = lambda step, **named: 0.0
    """)


@bug("gradient", *LEARNS, "target", "q_proj", stage="wire")
def gradient_one_target_of_seven(project: Project) -> None:
    """Only the adapters of q_proj are trained; the others that were asked for stay frozen."""
    project.plugin("""
        def prepare(worker):
            from tunegate.worker import model

            real = worker.build_stepper

            def build(job, base_dir, emit):
                stepper = real(job, base_dir, emit)
                for name, weight in stepper.base.model.named_parameters():
                    if "q_proj" not in name:
                        weight.requires_grad_(False)
                return stepper

            worker.build_stepper = build
    """)


@bug("gradient", "batch", "accumul", "optimizer", "step", stage="wire")
def gradient_a_step_for_each_row(project: Project) -> None:
    """Accumulation is ignored: the optimizer steps after each row and not after the batch."""
    project.plugin("""
        def prepare(worker):
            class Impatient(worker.Stepper):
                def update(self, examples, *, rate):
                    for example in examples[:-1]:
                        super().update([example], rate=rate)
                    return super().update(examples[-1:], rate=rate)

            worker.Stepper = Impatient
    """)
