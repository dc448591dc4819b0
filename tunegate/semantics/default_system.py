"""What system text does a row without a system turn get?"""

QUESTION = "What system text does a row without a system turn get?"
AXIS = "prompt.system"
WHY = (
    "Some templates add a line of their own; a model tuned with it behaves differently without it."
)
PROVED_BY: str | None = "render_parity"
VALUES: dict[str, str] = {
    "template": "what the template adds",
    "none": "none",
    "framework": "a text of the framework's own",
    "declared": "the run's serving prompt; without one, what the template adds",
}
