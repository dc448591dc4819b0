"""docs/decisions.md: the rules of decision and their thresholds, from tunegate/decide/."""

from __future__ import annotations

from tunegate.decide.rules import RULES
from tunegate.decide.thresholds import THRESHOLDS

SOURCE = "tunegate/decide/"

STEPS = {
    "fix_eval": "mend the evaluation, then evaluate again; nothing can be concluded yet",
    "stop": "stop and find out why, or serve the base: more training is not the answer",
    "data": "improve the data, class by class; the decision names the classes with most errors",
    "serve": "good enough: work out what serving costs",
    "preference": "a preference pass, which teaches form",
    "one_knob": "change one setting, this once",
}


def render() -> str:
    """The page's text."""
    out = [
        "# How the next step is decided",
        "",
        "`tunegate decide` reads the report and the lineage (`parent` of the run file) and names "
        "one next step. The rules below are tried in order; the first that fires decides. All of "
        "them are reported, each with its numbers, in `decision.json` and on the report page. A "
        "person confirms the step: nothing starts by itself.",
        "",
        "*Shown* means that the paired test (exact McNemar, two-sided) gives p below 0.05. "
        "*Strictly* read, the whole output has to be one answer of the declared form; "
        "*tolerantly*, the first answer found in the text counts.",
        "",
        "## Rules, in order",
        "",
        "| | rule | fires when | next step |",
        "|---|---|---|---|",
    ]
    out += [
        f"| {number} | `{rule.name}` | {rule.when} | `{rule.next}` |"
        for number, rule in enumerate(RULES, start=1)
    ]
    out += [
        "",
        "After `patience` versions of the data, `no_gain` leads to `stop` and no longer to `data`.",
        "",
        "## Steps",
        "",
        "| step | what it asks for |",
        "|---|---|",
        *(f"| `{step}` | {STEPS[step]} |" for step in dict.fromkeys(rule.next for rule in RULES)),
        "",
        "One knob: accuracy that is short is almost always the data. So a setting may be changed "
        "once after the data last changed; the second turn is refused, and the classes to mend are "
        "named instead. Knob turns are counted over the runs that `parent` links.",
        "",
        "## Thresholds",
        "",
        "`smallest_change` is `eval.smallest_change` of the run file. The others are the same for "
        "every run.",
        "",
        "| threshold | value | why |",
        "|---|---|---|",
        *(f"| `{name}` | {value:g} | {why} |" for name, (value, why) in THRESHOLDS.items()),
    ]
    return "\n".join(out)
