"""Which template turns a conversation into text?"""

QUESTION = "Which template turns a conversation into text?"
AXIS = "template"
WHY = "A template that differs from serving's teaches a format that nobody will send."
PROVED_BY: str | None = "render_parity"
VALUES: dict[str, str] = {
    "tokenizer": "the Jinja template beside the tokenizer",
    "registry": "the framework's own template, by name",
    "coded": "written in the framework's code",
    "none": "none: texts are joined as they are",
}
