"""Do several rows share one sequence?"""

QUESTION = "Do several rows share one sequence?"
AXIS = "train.packing"
WHY = "Rows that see each other teach false contexts, and packing changes the number of steps."
PROVED_BY: str | None = "mask_exact"
VALUES: dict[str, str] = {
    "off": "one row a sequence",
    "prefix_shared": (
        "rows share the computation of their common beginning and never see each other"
    ),
    "isolated": "packed, each row sees only itself",
    "open": "packed, rows see each other",
}
