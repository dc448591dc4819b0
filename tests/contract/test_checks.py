"""Every file of `tunegate/checks` against its contract."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rehearsals import machine_inputs
from tests.stand_ins import JSON_TASK, Trainer, raw_text, run, triage
from tests.toys import chat
from tunegate.checks import MAX_FINDINGS, load, names, observe_all
from tunegate.checks._apart import MIN_ROWS, Apart, worth_it
from tunegate.errors import DataError, PluginError, UsageError
from tunegate.types import Status, Verdict

REPOSITORY = Path(__file__).resolve().parents[2]

LARGEST_OBSERVATION = 60_000
"""Bytes of stored JSON, whatever the size of the data."""


class Crashing:
    """A framework that cannot build its batches."""

    def batches(self, job):
        raise DataError("the columns are not what this trainer reads", where="data/train.jsonl:1")


class Foreign:
    """A framework that dies of an error of its own."""

    def batches(self, job):
        yield []
        raise ZeroDivisionError("inside the framework")


def stored(name, inputs):
    return json.loads(json.dumps(load(name).observe(inputs)))


def test_the_list_is_every_file_and_in_order():
    files = {path.stem for path in (REPOSITORY / "tunegate/checks").glob("[!_]*.py")}
    assert set(names()) == files
    orders = [load(name).ORDER for name in names()]
    assert orders == sorted(set(orders))


@pytest.mark.parametrize("name", names())
def test_a_check_says_what_a_pass_proves_and_what_not(name):
    text = sys.modules[f"tunegate.checks.{name}"].__doc__ or ""
    assert "A pass proves" in text
    assert "does not prove" in text
    assert load(name).WHERE in ("host", "machine")


@pytest.mark.parametrize("name", names("host"))
def test_a_verdict_is_pure_and_can_be_stored(tmp_path, name):
    inputs = run(tmp_path, splits={"test": [chat("Is it open?", "no")]})
    observation = stored(name, inputs)
    before = copy.deepcopy((observation, inputs.frozen))
    first = load(name).judge(observation, inputs.frozen)
    assert (observation, inputs.frozen) == before
    assert load(name).judge(observation, inputs.frozen) == first
    assert first.check == name
    assert first.not_checked
    text = json.dumps(first.to_json())
    assert json.dumps(Verdict.from_json(json.loads(text)).to_json()) == text


@pytest.mark.parametrize("name", names("host"))
def test_the_evidence_does_not_grow_with_the_file(tmp_path, name):
    rows = [chat(f"question {n % 40} of many", f"answer {n}") for n in range(400)]
    splits = {"test": rows, "slice:odd": rows}
    inputs = run(
        tmp_path, trainer=Trainer(raw_text), train=rows, splits=splits, task=JSON_TASK, group="id"
    )
    observation = stored(name, inputs)
    assert len(json.dumps(observation)) < LARGEST_OBSERVATION
    verdict = load(name).judge(observation, inputs.frozen)
    assert len(verdict.findings) <= MAX_FINDINGS
    assert len(verdict.warnings) <= MAX_FINDINGS


@pytest.mark.parametrize("framework", [Crashing(), Foreign()])
@pytest.mark.parametrize("name", ["mask_exact", "stop_token", "render_parity", "length_audit"])
def test_batches_that_cannot_be_built_are_no_pass_and_no_crash(tmp_path, name, framework):
    inputs = run(tmp_path, trainer=framework)
    found = load(name).judge(stored(name, inputs), inputs.frozen)
    assert found.status == Status.CANNOT_TELL
    assert found.findings
    assert "could not find out" in found.summary


def test_one_pass_gives_what_single_ones_give(tmp_path):
    inputs = run(tmp_path, splits={"test": triage()})
    together = observe_all(inputs, names=names("host"))
    assert list(together) == names("host")
    assert together == {name: load(name).observe(inputs) for name in names("host")}


def test_a_second_process_changes_nothing(tmp_path):
    rows = triage() * (1 + MIN_ROWS // len(triage()))
    inputs = run(tmp_path, train=rows, splits={"test": triage()[:5]})
    seen = []
    alone = {name: load(name).observe(inputs) for name in names("host")}
    inputs.job["threads"] = 2
    assert worth_it(inputs)
    beside = [name for name in names("host") if getattr(load(name), "APART", False)]
    with Apart(inputs, names=beside) as apart:
        assert json.dumps(apart.result()) == json.dumps({name: alone[name] for name in beside})
    together = observe_all(
        inputs, names=names("host"), told=lambda rows, text: seen.append((rows, text))
    )
    assert json.dumps(together) == json.dumps(alone)
    assert (len(rows), ", ".join(name for name in names("host") if name not in beside)) in seen
    assert seen[-1] == (None, ", ".join(beside))  # nothing was left for this process to observe


def test_what_fails_in_the_second_process_is_told_as_in_the_first(tmp_path):
    inputs = run(tmp_path, train=triage(), splits={"test": triage()})
    inputs.path("test").unlink()
    with Apart(inputs, names=["leak_check"]) as apart:
        assert apart.result() == {}
    inputs.frozen["data"]["train"]["rows"] = MIN_ROWS
    inputs.job["threads"] = 2
    with pytest.raises(UsageError) as alone:
        load("leak_check").observe(inputs)
    with pytest.raises(UsageError) as beside:
        observe_all(inputs, names=["mask_exact", "leak_check"])
    assert beside.value.to_json() == alone.value.to_json()


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(PluginError, match="loss_anchor, mask_exact") as caught:
        load("mask_exakt")
    assert caught.value.hint == "did you mean mask_exact?"


def test_a_part_of_a_check_is_no_check():
    with pytest.raises(PluginError):
        load("_pass")


def plug_in(folder: Path, source: str) -> None:
    """A distribution on disk that offers `colours` as a check."""
    (folder / "tunegate_colours.py").write_text(source, encoding="utf-8")
    about = folder / "tunegate_colours-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tunegate-colours\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[tunegate.checks]\ncolours = tunegate_colours\n")


@pytest.mark.parametrize("complete", [True, False])
def test_a_check_of_another_package_is_found_by_its_entry_point(tmp_path, complete):
    source = 'WHERE = "host"\nORDER = 99\ndef observe(inputs): return {}\n'
    if complete:
        source += "def judge(observation, frozen): return None\n"
    plug_in(tmp_path, source)
    done = subprocess.run(
        [sys.executable, "-c", "from tunegate.checks import load; print(load('colours').ORDER)"],
        env={"PYTHONPATH": f"{REPOSITORY}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    if complete:
        assert done.stdout == "99\n", done.stderr
    else:
        assert "lacks judge" in done.stderr


def test_no_check_of_the_host_needs_torch_or_transformers(tmp_path):
    """They run on a machine where neither can be imported."""
    run(tmp_path, splits={"test": [chat("Is it open?", "no")]})
    code = f"""
import sys
sys.modules["torch"] = sys.modules["transformers"] = None
from pathlib import Path
from tests.stand_ins import run, verdict
from tests.toys import chat
from tunegate.checks import names
inputs = run(Path({str(tmp_path)!r}), splits={{"test": [chat("Is it open?", "no")]}})
print([str(verdict(name, inputs).status) for name in names("host")])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == str(["pass"] * len(names("host"))), done.stderr


def test_every_check_has_a_trap_that_it_refuses():
    traps = "".join(path.read_text() for path in (REPOSITORY / "tests/traps").glob("test_*.py"))
    assert [name for name in names() if f'("{name}"' not in traps] == []


@pytest.mark.parametrize("name", names("machine"))
def test_a_check_of_the_machine_asks_for_a_rehearsal(tmp_path, name):
    with pytest.raises(UsageError, match="looks at a rehearsal"):
        load(name).observe(run(tmp_path))


@pytest.mark.parametrize("name", names("machine"))
def test_a_verdict_on_the_machine_is_pure_and_can_be_stored(rehearsed, name):
    job, rehearsal = rehearsed
    inputs = machine_inputs(job, rehearsal)
    observation = json.loads(json.dumps(load(name).observe(inputs)))
    assert len(json.dumps(observation)) < LARGEST_OBSERVATION
    before = copy.deepcopy((observation, job["frozen"]))
    first = load(name).judge(observation, job["frozen"])
    assert first.status is Status.PASS, first
    assert (observation, job["frozen"]) == before
    assert load(name).judge(observation, job["frozen"]) == first
    assert first.check == name and first.not_checked
    assert Verdict.from_json(json.loads(json.dumps(first.to_json()))).to_json() == first.to_json()
