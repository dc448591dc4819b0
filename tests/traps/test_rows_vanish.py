"""Rows of the file reach no batch: dropped for length, lost in silence, or replaced by others."""

from tests.stand_ins import Trainer, masked_by_prompt, run, triage, verdict
from tests.toys import chat
from tunegate.types import Status

LONG = chat("Tell me a tale.", "Once upon a time there was a tent. " * 12)


def rows(long, short=6):
    """Long rows first, then short ones in turn."""
    few = triage()
    return [LONG] * long + [few[n % len(few)] for n in range(short)]


def without_second(examples):
    return examples[:1] + examples[2:]


def first_twice(examples):
    return [examples[0], *examples[:1], *examples[2:]]


def test_too_many_dropped_rows_are_refused_and_listed(tmp_path):
    trainer = Trainer(masked_by_prompt, max_length=100, drop_long=True)
    found = verdict("length_audit", run(tmp_path, trainer=trainer, train=rows(2)))
    assert found.status == Status.FAIL
    assert found.numbers["lost"] == 2
    assert found.numbers["lost_lines"] == [1, 2]
    assert [finding.where for finding in found.findings[1:]] == [
        "data/train.jsonl:1",
        "data/train.jsonl:2",
    ]
    assert "longer than max_length" in found.findings[1].message


def test_a_half_percent_may_be_dropped_and_is_still_listed(tmp_path):
    trainer = Trainer(masked_by_prompt, max_length=100, drop_long=True)
    found = verdict("length_audit", run(tmp_path, trainer=trainer, train=rows(1, 199)))
    assert found.status == Status.PASS
    assert found.warnings[0].where == "data/train.jsonl:1"
    more = run(tmp_path / "more", trainer=trainer, train=rows(2, 198))
    assert verdict("length_audit", more).status == Status.FAIL


def test_a_row_lost_in_silence_is_named(tmp_path):
    found = verdict(
        "length_audit", run(tmp_path, trainer=Trainer(masked_by_prompt, order=without_second))
    )
    assert found.status == Status.FAIL
    assert found.numbers["lost_lines"] == [2]


def test_a_row_drawn_in_place_of_another_is_named(tmp_path):
    trainer = Trainer(masked_by_prompt, order=first_twice)
    found = verdict("length_audit", run(tmp_path, trainer=trainer, train=rows(0, 600)))
    assert found.status == Status.FAIL
    assert "more than once" in found.findings[0].message
    assert found.findings[0].where == "data/train.jsonl:1"


def test_nothing_left_is_refused(tmp_path):
    trainer = Trainer(masked_by_prompt, max_length=10, drop_long=True)
    inputs = run(tmp_path, trainer=trainer)
    assert verdict("length_audit", inputs).status == Status.FAIL
    for check in ("mask_exact", "stop_token", "render_parity"):
        assert verdict(check, inputs).status == Status.FAIL


def test_the_order_of_the_batches_does_not_matter(tmp_path):
    trainer = Trainer(masked_by_prompt, order=lambda examples: examples[::-1])
    inputs = run(tmp_path, trainer=trainer)
    assert verdict("length_audit", inputs).status == Status.PASS
    assert verdict("mask_exact", inputs).status == Status.PASS
