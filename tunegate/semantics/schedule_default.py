"""Which schedule and warm-up hold when none is written?"""

QUESTION = "Which schedule and warm-up hold when none is written?"
AXIS = "train.schedule"
WHY = "The same key has had three meanings in three versions of one library."
PROVED_BY: str | None = "research"
VALUES: dict[str, str] = {}
