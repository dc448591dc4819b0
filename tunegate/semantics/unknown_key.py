"""What happens to a key that the framework does not know?"""

QUESTION = "What happens to a key that the framework does not know?"
AXIS = "settings.unknown"
WHY = "A misspelt key that is ignored leaves a default in force."
PROVED_BY: str | None = "research"
VALUES: dict[str, str] = {
    "error": "refused",
    "ignored": "ignored without a message",
}
