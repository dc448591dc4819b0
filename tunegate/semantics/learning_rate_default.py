"""Which peak learning rate holds when none is written?"""

QUESTION = "Which peak learning rate holds when none is written?"
AXIS = "train.learning_rate"
WHY = "Full fine-tune rates leave an adapter unchanged; the defaults differ by a factor of 40."
PROVED_BY: str | None = "research"
VALUES: dict[str, str] = {}
