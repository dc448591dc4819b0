"""Where a run stands follows from digests alone."""

from __future__ import annotations

from tunegate.stages import STAGES, Seen, State, next_commands, next_stage, states


def complete() -> tuple[dict[str, Seen], dict[str, str | None]]:
    """A run in which every stage has just been written."""
    current: dict[str, str | None] = {name: f"d:{name}" for stage in STAGES for name in stage.reads}
    current.update({stage.writes: f"d:{stage.writes}" for stage in STAGES})
    seen = {
        stage.name: Seen(digest=current[stage.writes], read={n: current[n] for n in stage.reads})
        for stage in STAGES
    }
    return seen, current


def test_an_empty_folder_starts_with_freeze() -> None:
    found = states({}, {})
    assert set(found.values()) == {State.MISSING}
    stage = next_stage(found)
    assert stage is not None and stage.name == "freeze"
    assert next_commands(found, "runs/a")[0] == "tunegate go runs/a"


def test_a_complete_run_has_nothing_left() -> None:
    found = states(*complete())
    assert set(found.values()) == {State.DONE}
    assert next_stage(found) is None
    assert next_commands(found, "runs/a") == ["tunegate report runs/a"]


def test_a_changed_evaluation_leaves_the_training_alone() -> None:
    seen, current = complete()
    current["frozen.json#evaluation"] = "other"
    found = states(seen, current)
    assert found["train"] is State.DONE and found["wire"] is State.DONE
    assert found["baseline"] is State.STALE and found["eval"] is State.STALE
    assert found["record"] is State.STALE


def test_a_changed_setting_makes_everything_after_it_stale() -> None:
    seen, current = complete()
    current["frozen.json"] = current["frozen.json#training"] = "other"
    found = states(seen, current)
    assert found["train"] is State.STALE and found["release"] is State.STALE
    assert found["decide"] is State.STALE
    assert found["baseline"] is State.DONE


def test_a_failed_check_closes_the_gate() -> None:
    seen, current = complete()
    seen["check"] = Seen(digest=seen["check"].digest, read=seen["check"].read, is_open=False)
    found = states(seen, current)
    assert found["check"] is State.CLOSED
    stage = next_stage(found)
    assert stage is not None and stage.name == "check"


def test_an_interrupted_stage_is_told_from_a_missing_one() -> None:
    seen, current = complete()
    seen["train"] = Seen(partly=True)
    assert states(seen, current)["train"] is State.PARTLY


def test_every_input_is_written_by_an_earlier_stage() -> None:
    written: set[str] = set()
    for stage in STAGES:
        for name in stage.reads:
            assert name.partition("#")[0] in written, (stage.name, name)
        written.add(stage.writes)
