"""No text of one split is in another, word for word or nearly.

A pass proves, over every row of every pair of splits among training, validation, test and slices,
that no question (all that is said to the model, the system prompt apart; of training rows an
assistant turn without weight as well, by itself)
- is the same text,
- has the same words in the same order, four or more, case and punctuation apart,
- has, in eight words or more, nearly the same set of words (nine tenths of both together), or
  shares half of the shorter row's sequences of 13 words,
- has, in four to seven words, the same words in the same order but for one before or behind them,
and that no group key of the data (`data.group`) is in two splits. Sequences that many rows of a
split share, and beginnings that more than one in twenty rows share, such as an instruction in front
of every question, count for nothing; nor do characters that show nothing.

Training, validation and test must be apart, and training apart from the slices; overlap between
validation, test and slices is told as a warning where a slice is part of it, unless more than half
of the slice is in validation, which chooses the checkpoint.

It does not prove that no paraphrase or translation leaked, nor that the base model has never read
the test set; answers are not compared, since labels repeat.

Memory follows the rows that are not training rows, about 5 kB for one of 150 words; training rows
are streamed. Nothing is missed within the definition above. A MinHash library is many times faster
and was not chosen: it misses some by chance and every text inside a longer one
(`bench/leaks.py` measures both).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from tunegate.checks import MAX_FINDINGS, CheckInputs
from tunegate.checks._overlap import (
    GRAM_SHARE,
    MIN_WORDS_NEAR,
    MIN_WORDS_PLAIN,
    NEAR_SHARE,
    Overlaps,
)
from tunegate.checks._pass import described
from tunegate.errors import DataError
from tunegate.types import Finding, Json, Row, Status, Verdict
from tunegate.worker.rows import columns_of, read_rows

WHERE = "host"
ORDER = 60
APART = True

MOSTLY = 0.5
"""Share of a slice that may be in validation as well."""

NOT_CHECKED = (
    "paraphrases and translations",
    "what the base model has read before",
    "overlap of answers: labels repeat",
)


def observe(inputs: CheckInputs) -> Json:
    """Compare the questions of every pair of splits."""
    frozen = inputs.frozen
    splits = [name for name in frozen["data"] if name != "teacher"]
    files = {name: frozen["data"][name]["path"] for name in splits}
    group = (frozen["settings"].get("data") or {}).get("group")
    overlaps = Overlaps(key=group)
    counts: dict[str, int] = {}
    try:
        for split in sorted(splits, key=lambda name: name == "train"):  # training rows are streamed
            counts[split] = 0
            for row in read_rows(inputs.path(split), columns=columns_of(frozen, split)):
                counts[split] += 1
                held = split != "train"
                overlaps.add(split, row.line, question(row), row.meta, held=held)
                if not held:
                    for text in silent(row):
                        overlaps.add(split, row.line, text, {}, held=False)
    except DataError as error:
        told = described(error, inputs.path(split), files[split])
        return {"error": told, "rows": counts}
    return {"error": None, "rows": counts, "files": files, "group": group, **overlaps.to_json()}


def question(row: Row) -> str:
    """All that is said to the model in a row, the system prompt apart."""
    said = [turn.content for turn in row.turns if turn.role not in ("system", "assistant")]
    return "\n".join(said) if said else row.text or ""


def silent(row: Row) -> Iterator[str]:
    """What assistant turns without weight say: the model reads it as it reads a question."""
    for turn in row.turns:
        if turn.role == "assistant" and not turn.weight and turn.content.strip():
            yield turn.content


def closes_gate(one: str, other: str) -> bool:
    """Whether overlap between these two splits makes the figures wrong."""
    pair = {one, other}
    return "train" in pair or pair == {"validation", "test"}


def judge(observation: Json, frozen: Json) -> Verdict:
    """Fails on any overlap that makes a figure of the report wrong."""
    error = observation["error"]
    if error is not None:
        found = Finding(error["message"], where=error["where"], change="see data_lint")
        return Verdict(
            check="leak_check",
            status=Status.CANNOT_TELL,
            summary=f"the rows cannot all be read: {error['message']}",
            findings=(found,),
            not_checked=NOT_CHECKED,
        )
    findings: list[Finding] = []
    warnings: list[Finding] = []
    if observation["group"] is not None and not observation["grouped"]:
        findings.append(_absent_group(observation["group"]))
    mostly = set(_mostly_validation(observation))
    for item in observation["rows_found"]:
        closed = _closes(item["splits"], mostly) and item["kind"] != "short"
        (findings if closed else warnings).append(_finding(item, observation["files"]))
    for item in observation["groups"]:
        closed = closes_gate(*item["splits"])
        (findings if closed else warnings).append(_group(item, observation))
    pairs = list(combinations(observation["rows"], 2))
    common: dict[str, Any] = {
        "check": "leak_check",
        "numbers": {"rows": observation["rows"], "overlap": observation["overlap"]},
        "warnings": tuple(warnings[:MAX_FINDINGS]),
        "not_checked": NOT_CHECKED,
    }
    if findings:
        shown = ", ".join(f"{name}: {count}" for name, count in _closing(observation, mostly))
        summary = f"rows of one split are in another ({shown})" if shown else findings[0].message
        return Verdict(
            status=Status.FAIL,
            summary=summary,
            findings=tuple(findings[:MAX_FINDINGS]),
            hint=findings[0].change,
            **common,
        )
    total = sum(observation["rows"].values())
    summary = f"{len(pairs)} pairs of splits, {total:,} rows: no overlap that touches a figure"
    return Verdict(status=Status.PASS, summary=summary, **common)


def _closes(splits: Sequence[str], mostly: set[str]) -> bool:
    """As `closes_gate`, or a slice (one of `mostly`) that is for the most part validation."""
    one, other = splits
    return closes_gate(one, other) or ("validation" in splits and bool(mostly & {one, other}))


def _mostly_validation(observation: Json) -> Iterator[str]:
    """Slices of which more than half of the rows are in validation."""
    for name, kinds in observation["overlap"].items():
        splits = name.split(" and ")
        part = next((split for split in splits if split.startswith("slice:")), None)
        if part is not None and "validation" in splits:
            count = sum(number for kind, number in kinds.items() if kind != "short")
            if count > MOSTLY * observation["rows"][part]:
                yield part


def _closing(observation: Json, mostly: set[str]) -> Iterator[tuple[str, int]]:
    for name, kinds in observation["overlap"].items():
        count = sum(number for kind, number in kinds.items() if kind != "short")
        if count and _closes(name.split(" and "), mostly):
            yield name, count
    keys = sum(closes_gate(*item["splits"]) for item in observation["groups"])
    if keys:
        yield "group keys", keys


def _absent_group(group: str) -> Finding:
    return Finding(
        f"no row has the key {group!r}, so sources cannot be kept apart",
        where="run.yaml: data.group",
        change="name a key that the rows have, or leave data.group out",
    )


_KINDS = {
    "exact": "the same text",
    "plain": "the same words, case and punctuation apart,",
    "short": "the same few words, case and punctuation apart,",
    "near": "nearly the same words",
    "grams": "long stretches of the same text",
    "part": "the same few words, but for one before or behind them,",
}


def _finding(item: Json, files: Json) -> Finding:
    (one, other), (line, other_line) = item["splits"], item["lines"]
    there = f"{files[other]}:{other_line}"
    message = f"{_KINDS[item['kind']]} as in {there} ({other}): {item['text']!r}"
    if item["kind"] in ("near", "grams"):
        message += f" against {item['other_text']!r}, {100 * item['share']:.0f} % in common"
    change = f"remove {there} or this row"
    if "train" in item["splits"]:
        line_of_train = f"{files['train']}:{line if one == 'train' else other_line}"
        change = f"remove {line_of_train} from the training rows"
    return Finding(message, where=f"{files[one]}:{line}", change=change)


def _group(item: Json, observation: Json) -> Finding:
    one, other = item["splits"]
    return Finding(
        f"{item['count']:,} values of {observation['group']!r} are in {one} and in {other}, "
        f"such as {item['example']!r}",
        where=observation["files"][one],
        change="keep all rows of one source in one split",
    )


LIMITS = {
    "near_share": NEAR_SHARE,
    "gram_share": GRAM_SHARE,
    "min_words_near": MIN_WORDS_NEAR,
    "min_words_plain": MIN_WORDS_PLAIN,
}
"""The thresholds, for documentation."""
