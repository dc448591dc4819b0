"""How much of the model do the adapters reach? Pure: counts come from the base model's header."""

from __future__ import annotations

from collections.abc import Mapping

from tunegate.research.answers import Questions
from tunegate.types import Json, Status


def coverage(
    frozen: Json, facts: Mapping[str, Json], questions: Questions
) -> tuple[Json, list[str]]:
    """Matches of each target pattern, and the problems that no answer can mend.

    A pattern matches modules of that very name, or a dotted path that ends in it. PEFT fails only
    if no pattern at all matches, so each one is counted here.
    """
    targets: list[str] = frozen["settings"]["train"]["lora"]["targets"]
    modules: Mapping[str, int] = frozen["base"]["linear_modules"]
    layers = frozen["base"]["layers"]
    heads = set(facts["protocol"]["head_modules"])
    counts = {target: _matched(target, modules) for target in targets}
    problems = [
        f"train.lora.targets: `{target}` matches no module; this model has {', '.join(modules)}"
        for target, count in counts.items()
        if count == 0
    ]
    # Names alone do not say which blocks a module lies in, so this is the least share they reach.
    share = max((min(1.0, count / layers) for count in counts.values()), default=0.0)
    rule = facts["bands"]["coverage"]
    low = share < rule["layers_share_at_least"]
    if low and not problems:
        why = f"adapters may reach only {share:.0%} of {layers} blocks; {rule['reason']}"
        question = "why are so few blocks enough?"
        low = not questions.ask(
            "train.lora.coverage", question=question, why=why, source=rule["source"]
        )
    counted = [n for n in modules if n not in heads or _is_reached(n, targets)]
    total = sum(modules[name] for name in counted)
    matched = sum(counts.values())
    return {
        "targets": {
            target: {"modules": count, "layers_share": round(min(1.0, count / layers), 4)}
            for target, count in counts.items()
        },
        "modules": matched,
        "modules_share": round(matched / total, 4) if total else 0.0,
        "layers_share": round(share, 4),
        "not_targeted": [n for n in counted if not _is_reached(n, targets)],
        "verdict": str(Status.FAIL if problems or low else Status.PASS),
        "reason": rule["reason"],
        "source": rule["source"],
    }, problems


def _matched(target: str, modules: Mapping[str, int]) -> int:
    return sum(count for name, count in modules.items() if _is_reached(name, [target]))


def _is_reached(name: str, targets: list[str]) -> bool:
    return any(target == name or target.endswith(f".{name}") for target in targets)
