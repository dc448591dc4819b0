"""Bugs of the run file and of the evaluation."""

from __future__ import annotations

from bench.planted.cases import bug
from bench.planted.language import CLASSES
from bench.planted.project import Project, answer, turn


@bug("config", "learning_rat", "unknown key", stage="freeze")
def config_key_misspelt(project: Project) -> None:
    """The learning rate's key lacks its last letter."""
    project.spec["train"]["learning_rat"] = project.spec["train"].pop("learning_rate")


@bug("config", "epochs", "twice", "duplicate", stage="freeze")
def config_key_stands_twice(project: Project) -> None:
    """The run file sets epochs twice, to different numbers."""
    project.edits.append(
        ("run.yaml", lambda data: data.replace(b'"epochs": 2,', b'"epochs": 2,\n  "epochs": 20,'))
    )


@bug("config", "learning_rate", "learning rate", stage="research")
def config_rate_far_too_high(project: Project) -> None:
    """The learning rate is 0.3, a slip of the decimal point, and nobody vouches for it."""
    project.set("train.learning_rate", 0.3)
    project.set("research.answers", {})


@bug("config", "learning_rate", "learning rate", stage="research")
def config_rate_of_a_full_fine_tune(project: Project) -> None:
    """The learning rate of a full fine-tune was kept for an adapter."""
    project.set("train.learning_rate", 1e-6)
    project.set("research.answers", {})


@bug("config", "alpha", stage="research")
def config_adapter_scaled_to_nothing(project: Project) -> None:
    """Alpha is 0.01 at rank 16, so that the adapter hardly counts."""
    project.set("train.lora", {"rank": 16, "alpha": 0.01})


@bug("config", "warmup", "warm-up", stage="research")
def config_warmup_is_the_run(project: Project) -> None:
    """The warm-up, copied from a longer run, lasts longer than this one."""
    project.set("train.warmup_steps", 500)


@bug("config", "gate_projj", stage="freeze")
def config_target_misspelt(project: Project) -> None:
    """One of the adapter's targets is misspelt; a trainer would pass over it in silence."""
    project.set("train.lora", {"targets": ["q_proj", "gate_projj"]})


@bug("config", "fp16", "precision", "float16", stage="research")
def config_fp16_on_a_processor(project: Project) -> None:
    """The precision was copied from a GPU run: fp16, on a machine without one."""
    project.set("train.precision", "fp16")


@bug("config", "batch_size", stage="research", freeze_first=("anchor",))
def config_anchor_has_another_batch(project: Project) -> None:
    """The run is to be comparable with an anchor whose batch is four times smaller."""
    project.set("train.batch_size", 8)
    project.twins.append(("anchor", {"batch_size": 2}))
    project.set("anchor", "anchor")


@bug("config", "steps", stage="research")
def config_hardly_any_steps(project: Project) -> None:
    """One epoch in batches of 32 leaves seven optimizer steps."""
    project.set("train.batch_size", 32)
    project.set("train.epochs", 1)


@bug("config", "epochs", stage="research")
def config_forty_epochs(project: Project) -> None:
    """Forty passes over two hundred rows, which learns them by heart."""
    project.set("train.epochs", 40)


@bug("config", "escape", "none_of_those")
def config_escape_not_declared(project: Project) -> None:
    """The escape class is not among the schema's values."""
    project.set("task.escape", "none_of_those")


@bug("config", "class", "/label", "pointer")
def config_pointer_leads_nowhere(project: Project) -> None:
    """task.class points at a key that no answer has."""
    project.set("task.class", "/label")


@bug("config", "exchange_item", "billing", "prompt names", "prompt lists")
def config_prompt_names_other_classes(project: Project) -> None:
    """The serving prompt lists two classes that the schema does not have, and lacks two it has."""
    for old, new in {"return_item": "exchange_item", "invoice": "billing"}.items():
        project.system = project.system.replace(old, new)


@bug("config", "schema", "priority")
def config_schema_of_an_older_task(project: Project) -> None:
    """The schema file is an older one: it wants a number `priority` that no answer has."""
    assert project.schema is not None
    project.schema["properties"]["priority"] = {"type": "number"}
    project.schema["required"].append("priority")


@bug("evaluation", "test", "rows", stage="research")
def evaluation_test_too_small(project: Project) -> None:
    """Ten test rows, which cannot show the gain that is hoped for."""
    project.splits["test"] = project.rows("test")[:10]
    project.teach()


@bug("evaluation", "max_new_tokens", "new tokens", "cut")
def evaluation_answers_get_cut(project: Project) -> None:
    """max_new_tokens is smaller than every reference answer."""
    project.set("eval.max_new_tokens", 4)


@bug("evaluation", "teacher")
def evaluation_teacher_of_other_rows(project: Project) -> None:
    """The teacher's answers carry the ids of another test file."""
    for row in project.rows("teacher"):
        row["id"] = row["id"].replace("test-", "heldout-")


@bug("evaluation", "teacher")
def evaluation_teacher_lacks_rows(project: Project) -> None:
    """The teacher's file ends after fifty rows: its job was stopped."""
    project.splits["teacher"] = project.rows("teacher")[:50]


@bug("evaluation", "rule", "contain", "check")
def evaluation_rule_misspelt(project: Project) -> None:
    """A row of the general slice has the rule `contain`, which there is not."""
    project.rows("general")[0]["check"] = {"contain": ["hello"]}


@bug("evaluation", "schema", "declared", "class", "enum", "shipping")
def evaluation_gold_not_declared(project: Project) -> None:
    """Three test rows have a reference answer whose class is not declared: nobody can be right."""
    for row in project.rows("test", every=30):
        row["messages"][-1] = turn("assistant", answer("shipping"))


@bug("evaluation", "id", "ids", "twice", "duplicate")
def evaluation_ids_twice(project: Project) -> None:
    """Two test files were joined, and ids stand twice."""
    for place, row in enumerate(project.rows("test")):
        row["id"] = f"test-{place % 40}"


@bug("evaluation", "answer", "assistant", "completion", stage="freeze")
def evaluation_test_without_answers(project: Project) -> None:
    """The test file holds questions only."""
    for row in project.rows("test"):
        row["messages"].pop()


@bug("evaluation", "class", "majority")
def evaluation_test_of_one_class(project: Project) -> None:
    """Every test row has one class: the file was sorted and cut."""
    for row in project.rows("test"):
        row["messages"][-1] = turn("assistant", answer(CLASSES[0]))
    project.teach()


@bug("evaluation", "class")
def evaluation_validation_of_one_class(project: Project) -> None:
    """Every validation row has one class, so the checkpoint is chosen on that class alone."""
    for row in project.rows("validation"):
        row["messages"][-1] = turn("assistant", answer(CLASSES[0]))


@bug("evaluation", "slice", "adversarial", "overlap", "same")
def evaluation_slice_is_the_test(project: Project) -> None:
    """The adversarial slice is the test file under another name."""
    project.splits["adversarial"] = [
        {"id": f"a-{row['id']}", "messages": row["messages"]} for row in project.rows("test")
    ]
    project.teach()


@bug("evaluation", "twice", "duplicate", "same", "repeat", "times")
def evaluation_test_rows_repeat(project: Project) -> None:
    """The test file is twenty rows, four times over under other ids: its intervals are wrong."""
    for place, row in enumerate(project.rows("test")):
        row["messages"] = [dict(t) for t in project.rows("test")[place % 20]["messages"]]
    project.teach()
