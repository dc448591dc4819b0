"""Which modules get an adapter when none are written?"""

QUESTION = "Which modules get an adapter when none are written?"
AXIS = "train.lora.targets"
WHY = "Adapters on attention alone learn less than adapters on all linear modules."
PROVED_BY: str | None = "research"
VALUES: dict[str, str] = {
    "all_linear": "all linear modules",
    "attention_qv": "query and value projections",
    "attention_mlp": "the seven projections of attention and MLP",
    "must_be_given": "none: the run stops",
}
