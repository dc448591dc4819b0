"""Which tokens carry loss when nothing is said?"""

QUESTION = "Which tokens carry loss when nothing is said?"
AXIS = "train.loss"
WHY = (
    "A port that loses the mask trains the model to write prompts; nine tenths of the "
    "gradient can go there."
)
PROVED_BY: str | None = "mask_exact"
VALUES: dict[str, str] = {
    "answers": "answers only, whatever the row's form",
    "answers_but_text": "answers only; a row of raw text is trained whole",
    "completions": (
        "answers only where prompt and completion stand apart; messages and raw text are "
        "trained whole"
    ),
    "all": "every token",
}
