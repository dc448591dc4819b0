"""In which arithmetic are the base model's weights held when none is written?"""

QUESTION = "In which arithmetic are the base model's weights held when none is written?"
AXIS = "train.precision"
WHY = "Defaults moved between library versions, and 4-bit bases differ from 16-bit ones."
PROVED_BY: str | None = "research"
VALUES: dict[str, str] = {
    "hardware": "chosen by what the device has instructions for",
    "fp32": "32 bit",
    "checkpoint": "the checkpoint's own",
    "bf16": "bf16 everywhere",
    "4bit": "4 bit, with 16-bit arithmetic",
}
