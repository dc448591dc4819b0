"""What ends a trained answer?"""

QUESTION = "What ends a trained answer?"
AXIS = "terminator"
WHY = "Without a trained end token the model never stops."
PROVED_BY: str | None = "stop_token"
VALUES: dict[str, str] = {
    "template": "the turn end that the template prints, trained",
    "template_and_text": (
        "the turn end that the template prints, trained; raw text gets the end token"
    ),
    "appended": "the tokenizer's end token, added where it is missing",
    "completions": "the end token, added to completions but not to raw text",
}
