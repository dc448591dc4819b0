"""What happens to a row that is longer than the limit?"""

QUESTION = "What happens to a row that is longer than the limit?"
AXIS = "train.max_length.excess"
WHY = "Cut answers and dropped rows are silent in most frameworks."
PROVED_BY: str | None = "length_audit"
VALUES: dict[str, str] = {
    "cut_end": "its end is cut; a row without labels left is dropped",
    "drop": "the row is dropped",
    "split": "prompt and answer are both cut",
    "refuse": "the run stops",
}
