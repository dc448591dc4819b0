"""What does a run that resumes from a checkpoint restore?"""

QUESTION = "What does a run that resumes from a checkpoint restore?"
AXIS = "train.resume"
WHY = "Weights-only checkpoints restart optimizer and learning rate without a word."
PROVED_BY: str | None = None
VALUES: dict[str, str] = {
    "exact": "weights, optimizer, schedule, data order and random state",
    "epoch": "weights, optimizer and schedule; data order from the epoch's start",
    "weights": "weights only",
}
