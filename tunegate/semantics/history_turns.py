"""Which assistant turns of a conversation carry loss?"""

QUESTION = "Which assistant turns of a conversation carry loss?"
AXIS = "train.loss.turns"
WHY = (
    "A framework that trains the last turn only sees a fraction of the tokens of one that "
    "trains all."
)
PROVED_BY: str | None = "mask_exact"
VALUES: dict[str, str] = {
    "all": "every assistant turn",
    "weighted": "every assistant turn, except those with weight 0",
    "last": "the last assistant turn",
}
