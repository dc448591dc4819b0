"""Lines and progress that a worker leaves for the driver."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tunegate.worker.emit import Emit, write_json


def shown(folder: Path) -> dict[str, float | str | None]:
    return dict(json.loads((folder / "progress.json").read_text()))


def test_progress_is_rare_but_its_ends_are_shown(tmp_path: Path) -> None:
    emit = Emit(tmp_path)
    emit.progress("train", 1, 100, loss=2.0, rows=8)
    first = shown(tmp_path)
    assert first == {
        "phase": "train", "done": 1, "total": 100, "loss": 2.0, "rows_per_s": None, "eta_s": None,
    }  # fmt: skip
    emit.progress("train", 2, 100, loss=1.0, rows=8)
    assert shown(tmp_path) == first
    emit.progress("validate", 0, 10)
    assert shown(tmp_path)["phase"] == "validate"
    emit.progress("validate", 10, 10)
    assert shown(tmp_path)["done"] == 10


def test_a_phase_that_is_taken_up_again_keeps_its_rate(tmp_path: Path) -> None:
    emit = Emit(tmp_path)
    emit.progress("train", 0, 100, rows=8)
    time.sleep(0.02)
    emit.progress("train", 10, 100, rows=8)
    emit.progress("validate", 0, 1)
    time.sleep(0.2)
    emit.progress("train", 10, 100, rows=8)
    rate, eta_s = shown(tmp_path)["rows_per_s"], shown(tmp_path)["eta_s"]
    assert isinstance(rate, float) and isinstance(eta_s, float)
    assert rate > 8 * 10 / 0.2, "the validation's time is not the training's"
    assert abs(eta_s - 90 * 8 / rate) < 0.1


def test_lines_are_appended_and_stamped(tmp_path: Path) -> None:
    emit = Emit(tmp_path / "new")
    emit.metric({"step": 1, "loss": 0.5})
    emit.metric({"step": 2, "loss": 0.25})
    lines = [json.loads(text) for text in (tmp_path / "new/metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["loss"]) for line in lines] == [(1, 0.5), (2, 0.25)]
    assert 0 <= lines[0]["t_s"] <= lines[1]["t_s"]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"a": 1})
    write_json(tmp_path / "a.json", {"ü": 2})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"ü": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
