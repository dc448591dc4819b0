"""How are the labels of padding masked?"""

QUESTION = "How are the labels of padding masked?"
AXIS = "train.loss.padding"
WHY = "Where pad and end token are the same, masking by value also masks the end."
PROVED_BY: str | None = "stop_token"
VALUES: dict[str, str] = {
    "position": "by position",
    "value": "by the pad token's id",
    "none": "there is no padding",
}
