"""No token carries loss: the marker that finds the answer tokenises differently in the text."""

from tests.stand_ins import Trainer, marker_not_found, run, verdict
from tunegate.types import Status


def test_rows_without_loss_are_refused(tmp_path):
    inputs = run(tmp_path, trainer=Trainer(marker_not_found))
    found = verdict("mask_exact", inputs)
    assert found.status == Status.FAIL
    assert found.numbers["problems"] == {"no_loss": 6}
    assert "marker" in (found.hint or "")
    assert verdict("stop_token", inputs).status == Status.FAIL
