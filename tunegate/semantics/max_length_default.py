"""Which length limit holds when none is written, in tokens?"""

QUESTION = "Which length limit holds when none is written, in tokens?"
AXIS = "train.max_length"
WHY = "Limits of 512 or 1024 cut or drop rows that another framework trains whole."
PROVED_BY: str | None = "length_audit"
VALUES: dict[str, str] = {}
