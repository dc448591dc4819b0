"""Controls of settings, evaluation, base and training: odd, and right."""

from __future__ import annotations

import json
import shutil
from typing import Any

from bench.planted.cases import control
from bench.planted.first.bugs_training import weights
from bench.planted.project import Project, answer, turn
from bench.planted.variants import label_answers


@control("config")
def odd_two_targets_and_dropout(project: Project) -> None:
    """Adapters on two modules a block only, with dropout, and alpha equal to a high rank."""
    lora = {"rank": 64, "alpha": 64, "dropout": 0.1, "targets": ["q_proj", "v_proj"]}
    project.set("train.lora", lora)


@control("config")
def odd_epoch_and_a_half(project: Project) -> None:
    """One and a half epochs on a cosine, with a seed of one's own and no warm-up."""
    for key, value in {
        "epochs": 1.5,
        "schedule": "cosine",
        "seed": 12345,
        "warmup_steps": 0,
    }.items():
        project.set(f"train.{key}", value)


@control("config", freeze_first=("anchor",))
def odd_difference_from_the_anchor_allowed(project: Project) -> None:
    """The batch differs from the anchor's, and research.allow says why that is wanted."""
    project.set("train.batch_size", 8)
    project.twins.append(("anchor", {"batch_size": 4}))
    project.set("anchor", "anchor")
    reason = "the batch is what is tried here"
    axes = ("train.batch_size", "train.warmup_share")
    project.spec["research"]["allow"] = dict.fromkeys(axes, reason)


@control("config")
def odd_no_system_prompt(project: Project) -> None:
    """The task has no system prompt at all: the classes are learned, not read."""
    project.set("prompt.system", None)


@control("evaluation")
def odd_no_teacher_and_no_slices(project: Project) -> None:
    """There is nothing to compare with but the base, and one test file."""
    project.set("eval.teacher", None)
    project.set("eval.slices", None)


@control("evaluation")
def odd_teacher_makes_mistakes(project: Project) -> None:
    """The teacher's answers are partly wrong, in prose, fenced, or empty."""
    forms = (answer("invoice"), "I am not sure.", "```json\n" + answer("invoice") + "\n```", "")
    for place, row in enumerate(project.rows("teacher", every=3)):
        row["output"] = forms[place % len(forms)]


@control("evaluation")
def odd_bare_labels(project: Project) -> None:
    """The answers are bare class names, with no JSON and no schema."""
    label_answers(project)


@control("evaluation")
def odd_half_of_the_test_escapes(project: Project) -> None:
    """Half of the test belongs to the escape class, since the test is harder than the training."""
    for row in project.rows("test", every=2):
        row["messages"] = [
            turn("user", "By the way, " + row["messages"][0]["content"].swapcase()[::-1]),
            turn("assistant", answer("none_of_these")),
        ]
    project.teach()


@control("evaluation")
def odd_rules_of_all_kinds(project: Project) -> None:
    """The general slice uses every kind of rule."""
    checks: tuple[dict[str, Any], ...] = (
        {"equals": ["four", "4"]}, {"contains": ["sun"], "lacks": ["moon"]},
        {"contains_any": ["a", "b"]}, {"min_words": 2, "max_words": 9}, {"starts_with": "Yes"},
        {"ends_with": ["."]}, {"case": "upper"}, {"lines": 3}, {"choice": "C"},
    )  # fmt: skip
    project.splits["general"] = [
        {"id": f"general-{place}", "prompt": f"task {place}", "check": check}
        for place, check in enumerate(checks)
    ]
    project.teach()


@control("artefact")
def odd_weights_in_two_files(project: Project) -> None:
    """The base's weights lie in two files with an index, and in bfloat16."""
    from safetensors.torch import load_file, save_file

    path = project.base / "model.safetensors"
    tensors = {name: value.bfloat16() for name, value in load_file(path).items()}
    path.unlink()
    names = sorted(tensors)
    listed = {}
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        file = f"model-{number:05d}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, project.base / file, {"format": "pt"})
        listed.update(dict.fromkeys(part, file))
    size = sum(value.numel() * 2 for value in tensors.values())
    text = json.dumps({"metadata": {"total_size": size}, "weight_map": listed})
    (project.base / "model.safetensors.index.json").write_text(text)
    project.base_json("config.json", dtype="bfloat16")


@control("artefact")
def odd_files_beside_the_weights(project: Project) -> None:
    """The base's folder also holds a card, a licence, a hidden file and a script."""
    for name in ("README.md", "LICENSE", ".gitattributes", "convert.py"):
        (project.base / name).write_text("not read by anyone\n", encoding="utf-8")
    (project.base / "onnx").mkdir()
    shutil.copy(project.base / "config.json", project.base / "onnx/config.json")


@control("artefact")
def odd_template_in_the_tokenizer_config(project: Project) -> None:
    """The template stands in tokenizer_config.json, as older bases have it, and in a list."""
    path = project.base / "chat_template.jinja"
    listed = [{"name": "default", "template": path.read_text(encoding="utf-8")}]
    path.unlink()
    project.base_json("tokenizer_config.json", chat_template=listed)


@control("artefact", stage="wire")
def odd_large_weights(project: Project) -> None:
    """One norm of the base is scaled up and the next matrix down, which changes nothing."""

    def rescale(tensors: dict[str, Any]) -> None:
        for block in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"):
            name = f"model.layers.0.{block}.weight"
            tensors[name] = tensors[name] / 8
        name = "model.layers.0.input_layernorm.weight"
        tensors[name] = tensors[name] * 8

    weights(project, rescale)


@control("resume")
def odd_checkpoint_every_few_seconds(project: Project) -> None:
    """A crash may cost three seconds only, so checkpoints follow each other closely."""
    project.set("limits.minutes_at_risk", 0.05)


@control("resume")
def odd_validates_once_an_epoch(project: Project) -> None:
    """Validation comes at the end of an epoch only: its interval is longer than the run."""
    project.set("train.eval_every_steps", 1000)


@control("gradient", stage="wire")
def odd_base_knows_the_task(project: Project) -> None:
    """The base answers nearly every row rightly already, so the loss begins near zero."""
    shutil.copy(project.knowing / "model.safetensors", project.base / "model.safetensors")


@control("gradient", stage="wire")
def odd_nothing_at_all(project: Project) -> None:
    """The clean project."""
    project.set("name", "clean")


@control("gradient")
def odd_plain_third_party_framework(project: Project) -> None:
    """A third party's framework that does what the native one does."""
    project.plugin("""
        def prepare(worker):
            pass
    """)
