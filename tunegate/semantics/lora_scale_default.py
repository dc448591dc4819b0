"""What is alpha divided by rank when alpha is not written?"""

QUESTION = "What is alpha divided by rank when alpha is not written?"
AXIS = "train.lora.alpha"
WHY = "The scale multiplies the learning rate."
PROVED_BY: str | None = "research"
VALUES: dict[str, str] = {}
