"""The rows are what the task says: readable, in order, not empty, not repeated, answers that fit.

A pass proves, for every row of every split: it parses; its roles come in an order that every
trainer keeps; no text is empty; its system turn, where it has one, is the frozen prompt; its answer
is what the task declares (JSON that fits the schema with keys written in one case and a class at
the class pointer, or a declared label), every answer that carries loss and every one that is
compared with; that every declared label has training rows; that what is scored can be: known
rules of the right kind, one id a row over test and slices, and one answer of the teacher for each
of them. It proves as well that a split repeats few of its rows, and that few rows contradict
another (the same question with another label), case, spacing and layout apart: of each sort fewer
than three rows or at most one in a hundred, which are told as warnings. Slices may hold more.

It does not prove that a label is right, only that it may be one. Warnings name what is odd and may
be meant: few rows of a label, labels spoken in the questions, two layouts of JSON, long rows.

Memory does not grow with the rows: from 20,000 on their hashes go into a temporary file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tunegate.checks import MAX_FINDINGS, CheckInputs
from tunegate.checks._gold import Gold, gold_errors, gold_warnings
from tunegate.checks._splits import Split, control_pattern
from tunegate.errors import DataError
from tunegate.types import Finding, Json, Status, Verdict
from tunegate.worker.rows import columns_of, is_lines, raw_lines, scan_rows

WHERE = "host"
ORDER = 50
APART = True

MAX_SHARE = 0.01
"""Share of rows that may be repeated, or contradict another row, before figures are bent."""

MIN_ROWS = 3
"""So few repeated or contradicting rows are told and do not close the gate."""

FEW_ROWS = 8
"""Training rows of a label below which it is named: too few to learn it from."""

LABEL_SPOKEN_SHARE = 0.5
"""Share of questions that hold their own label above which it is named."""

NOT_CHECKED = (
    "whether the labels are right",
    "whether the texts resemble what the model will meet",
)


def observe(inputs: CheckInputs) -> Json:
    """Read every row of every split."""
    frozen = inputs.frozen
    task = frozen["settings"]["task"]
    gold = Gold(teacher=(frozen["data"].get("teacher") or {}).get("path"))
    control = control_pattern(inputs.tokenizer.added_texts)
    kinds = (frozen["settings"].get("eval") or {}).get("slices") or {}
    splits: Json = {}
    for name in sorted(frozen["data"], key=lambda name: name == "teacher"):
        kind = (kinds.get(name.removeprefix("slice:")) or {}).get("kind")
        split = Split(name, task=task, system=inputs.system, kind=kind, control=control)
        splits[name] = _observe_split(inputs, split, gold)
    return {
        "splits": splits,
        "gold": gold.to_json(),
        "declared": Split("train", task=task, system=None).targets.declared,
        "escape": task.get("escape"),
        "optional_keys": _has_optional_keys(task.get("schema") or {}),
        "has_prompt": inputs.system is not None,
        "named_files": {name: frozen["data"][name]["path"] for name in splits},
    }


def _observe_split(inputs: CheckInputs, split: Split, gold: Gold) -> Json:
    name, path = split.name, inputs.path(split.name)
    file = inputs.frozen["data"][name]["path"]
    for item in scan_rows(path, columns=columns_of(inputs.frozen, name)):
        if isinstance(item, DataError):
            line = int((item.where or ":0").rpartition(":")[2])
            hint = f" ({item.hint})" if item.hint else ""
            split.problem("unreadable", line, f"{item.message}{hint}")
        elif name == "teacher":
            gold.answered(item)
        else:
            split.add(item)
            if name == "test" or name.startswith("slice:"):
                gold.add(name, file, item)
    ends = {"crlf": 0, "lf": 0}
    for _, _, raw in raw_lines(path) if is_lines(path) else ():
        ends["crlf" if raw.endswith(b"\r\n") else "lf"] += 1
    split.close()
    return {**split.to_json(), "line_ends": ends}


def judge(observation: Json, frozen: Json) -> Verdict:
    """Fails on rows that break a rule; tells of those that are odd."""
    errors: list[Finding] = []
    warnings: list[Finding] = []
    for name, seen in observation["splits"].items():
        file = observation["named_files"][name]
        for kind, rows in seen["problems"].items():
            _sort(kind, rows, name, file, seen, errors, warnings)
            if kind == "personal" and frozen["settings"].get("data", {}).get("may_leave"):
                errors.append(_may_leave(file, rows[0], seen["counts"][kind]))
        if name != "teacher":
            errors += _whole_errors(name, file, seen)
            warnings += _whole_warnings(name, file, seen, observation)
    loss = frozen["settings"]["train"].get("loss")
    raw = observation["splits"].get("validation", {"problems": {}})["problems"].get("raw_text")
    if raw and loss == "answer":
        errors += _raw_validation(raw, observation["named_files"]["validation"])
    errors += gold_errors(observation["gold"])
    warnings += gold_warnings(observation["gold"])
    errors += _key_drift(observation)
    errors += _other_line_ends(observation)
    errors += _label_errors(observation)
    warnings += _label_warnings(observation)
    rows = {name: seen["rows"] for name, seen in observation["splits"].items() if name != "teacher"}
    train = observation["splits"].get("train")
    common: dict[str, Any] = {
        "check": "data_lint",
        "numbers": {
            "rows": rows,
            "problems": {n: seen["counts"] for n, seen in observation["splits"].items()},
            "labels": train["targets"]["labels"] if train else {},
            "warnings": len(warnings),
        },
        "warnings": tuple(warnings[:MAX_FINDINGS]),
        "not_checked": NOT_CHECKED,
    }
    total = sum(rows.values())
    listed = f"{len(errors):,}" if len(errors) < MAX_FINDINGS else f"{MAX_FINDINGS} and more"
    if errors:
        return Verdict(
            status=Status.FAIL,
            summary=f"{listed} {'thing is' if len(errors) == 1 else 'things are'} wrong in "
            f"{total:,} rows, first: {errors[0].message}",
            findings=tuple(errors[:MAX_FINDINGS]),
            hint=errors[0].change,
            **common,
        )
    summary = f"{total:,} rows in {len(rows)} splits follow the task; {len(warnings)} warnings"
    return Verdict(status=Status.PASS, summary=summary, **common)


_RULES: dict[str, tuple[str, str]] = {
    "unreadable": ("{detail}", "mend or remove the line"),
    "roles": ("the roles are out of order: {detail}", "order the turns user, assistant, user, …"),
    "no_answer": ("{detail}", "add the assistant turn or remove the row"),
    "empty_user": ("{detail} is an empty question", "write it or remove the row"),
    "empty_assistant": ("{detail} is an empty answer", "write it or remove the row"),
    "empty_system": ("{detail} is an empty system turn", "remove the turn"),
    "empty_tool": ("{detail} is an empty tool result", "write it or remove the row"),
    "target": ("{detail}", "mend the answer, or declare what it is in the task"),
    "system": ("the system turn is not the frozen prompt: {detail}", "remove it from the row"),
    "same_id": ("the id {detail}", "give each row an id of its own"),
    "repeated": ("the row is a repetition of {detail}", "remove one of the two"),
    "conflict": ("the same question has the answer {detail}", "decide which is right"),
    "rule": ("{detail}", "mend the row's check"),
    "raw_text": ("the row has a text column, which is trained whole", "see mask_exact"),
    "control_token": (
        "a text holds {detail}, which the tokenizer reads as a control token",
        "remove it, unless the row is about it",
    ),
    "foreign_token": (
        "a text holds {detail}, a control token of other models",
        "remove it, unless the row is about it",
    ),
    "nul": ("{detail} holds a NUL character", "remove it"),
    "secret": (
        "what looks like a key stands in {detail}",
        "revoke it and take it out of the data: a model repeats what it learned",
    ),
    "personal": (
        "what looks like personal data or a password stands in {detail}",
        "replace it by an invented value, unless it is meant and may be learned",
    ),
    "system_in_user": (
        "the question repeats the system prompt, which serving sends as a system turn",
        "take it out of the question, unless serving repeats it too",
    ),
    "odd_character": ("a text holds {detail}", "save the texts from their source again, as UTF-8"),
    "carriage_return": ("{detail} has carriage returns", "save the texts with plain newlines"),
}
"""What a kind of problem says of one row, and what to change."""

_TOLD = {
    "raw_text",
    "control_token",
    "foreign_token",
    "odd_character",
    "personal",
    "system_in_user",
}
"""Kinds that are never more than a warning."""


def _sort(
    kind: str,
    rows: list[Json],
    name: str,
    file: str,
    seen: Json,
    errors: list[Finding],
    warnings: list[Finding],
) -> None:
    """Put the rows of one kind of problem among the errors or the warnings."""
    what, change = _RULES[kind]
    if kind == "raw_text" and name not in ("train", "validation"):
        what, change = "the row has a text column, which evaluation ignores", "remove the column"
    count = seen["counts"][kind]
    found = [
        Finding(what.format(detail=row["detail"]), where=f"{file}:{row['line']}", change=change)
        for row in rows
    ]
    few = count < MIN_ROWS or count <= MAX_SHARE * seen["rows"]
    told = kind in _TOLD or (kind in ("repeated", "conflict") and few)
    if kind == "carriage_return":
        told = not seen["counts"].get("plain_newline")
    if name.startswith("slice:") and kind in ("empty_user", "system", "repeated", "conflict"):
        told = True  # slices may hold such rows on purpose
    if not told:
        errors.extend(found)
    elif found:
        first = found[0]
        more = f"; {count:,} rows of {name} are like it" if count > 1 else ""
        warnings.append(Finding(first.message + more, first.where, first.change))


def _whole_errors(name: str, file: str, seen: Json) -> Iterator[Finding]:
    """What is wrong with a split as a whole."""
    if seen["rows"] == 0:
        yield Finding("the file has no rows", file, "put rows into it, or leave the split out")
    if name == "train" and seen["rows"] >= MIN_ROWS:
        if seen["one_question"]:
            yield Finding("every row asks the same question", file, "check the question's column")
        if seen["one_answer"]:
            yield Finding("every row has the same answer", file, "check the answer's column")
    keys = list(seen["targets"]["key_sets"])
    folded = {keys_.casefold() for keys_ in keys}
    if len(folded) < len(keys):
        yield Finding(
            f"answers write their keys in more than one case: {' against '.join(keys)}",
            file,
            "write every key the same way in all answers",
        )


def _may_leave(file: str, row: Json, count: int) -> Finding:
    """Personal data in a run whose data may go to somebody else."""
    return Finding(
        f"what looks like personal data stands in {count:,} places, first in {row['detail']}, and "
        "the run file says that the data may leave this machine",
        where=f"{file}:{row['line']}",
        change="set data.may_leave to false, take it out, or waive the check with the reason",
    )


def _other_line_ends(observation: Json) -> Iterator[Finding]:
    """Training texts with carriage returns where the texts of evaluation have plain newlines."""
    counts = {name: seen["counts"] for name, seen in observation["splits"].items()}
    train = counts.get("train", {})
    if not train.get("carriage_return") or train.get("plain_newline"):
        return  # two styles inside training rows are told as such
    for name, other in counts.items():
        if other.get("plain_newline") and not other.get("carriage_return"):
            yield Finding(
                f"training texts have carriage returns, those of {name} have plain newlines",
                where=observation["named_files"]["train"],
                change="save the texts with plain newlines",
            )


def _raw_validation(rows: list[Json], file: str) -> Iterator[Finding]:
    """Validation rows whose loss would be that of other tokens than training's."""
    for row in rows:
        yield Finding(
            "the row has a text column, on which the validation loss would be measured whole",
            where=f"{file}:{row['line']}",
            change='remove the "text" column from the validation rows',
        )


def _has_optional_keys(schema: Json) -> bool:
    """The schema says itself which keys an answer may leave out, and takes no others."""
    required, known = schema.get("required", ()), schema.get("properties", {})
    return schema.get("additionalProperties") is False and len(required) < len(known)


def _key_drift(observation: Json) -> Iterator[Finding]:
    """Splits whose answers write the same keys in another case."""
    known: dict[str, tuple[str, str]] = {}
    for name, seen in observation["splits"].items():
        for keys in seen["targets"]["key_sets"]:
            first, other = known.setdefault(keys.casefold(), (keys, name))
            if first != keys and other != name:
                yield Finding(
                    f"answers write their keys in another case than in {other}: "
                    f"{keys} against {first}",
                    where=observation["named_files"][name],
                    change="write every key the same way in all answers",
                )


def _whole_warnings(name: str, file: str, seen: Json, observation: Json) -> Iterator[Finding]:
    targets = seen["targets"]
    if seen["line_ends"]["crlf"]:
        yield Finding(f"{seen['line_ends']['crlf']:,} lines end in CRLF", file, "save with LF")
    if len(targets["key_sets"]) > 1 and not observation.get("optional_keys"):
        shown = "; ".join(f"{keys} ({count:,})" for keys, count in targets["key_sets"].items())
        yield Finding(f"answers have different sets of keys: {shown}", file)
    if len(targets["styles"]) > 1:
        shown = ", ".join(f"{style} ({count:,})" for style, count in targets["styles"].items())
        yield Finding(f"answers lay out JSON in different ways: {shown}", file, "use one layout")
    if targets["escaped"] and targets["raw_letters"]:
        message = f"{targets['escaped']:,} answers escape letters as \\uXXXX, others do not"
        yield Finding(message, file, "write letters as they are")
    padded, answers = seen["counts"].get("padded_answers", 0), seen["counts"].get("answers", 0)
    if 0 < padded < answers:
        message = f"{padded:,} of {answers:,} answers begin or end with space, the others do not"
        yield Finding(message, file, "write all answers alike: the model learns the space too")
    for key, near in seen["misspelled"]:
        message = f"the key {key!r} means nothing here and is kept as it is"
        yield Finding(message, file, f"did you mean {near!r}?")
    for column in seen["constant_columns"]:
        yield Finding(f"the column {column!r} is the same in all rows", file)
    for row in seen["long_rows"][:3]:
        message = f"the row has {row['characters']:,} characters, the median has {row['median']:,}"
        yield Finding(message, f"{file}:{row['line']}", "look whether it is meant")
    labelled = sum(targets["labels"].values())
    spoken = seen["counts"].get("label_in_question", 0)
    if labelled and spoken > LABEL_SPOKEN_SHARE * labelled:
        message = f"{spoken:,} of {labelled:,} questions hold the words of their own label"
        yield Finding(message, file, "see that the answer is not given away by the question")
    if name == "train" and not observation["has_prompt"] and seen["systems"] == 1:
        message = "all rows have one system turn, which no prompt file of the run holds"
        yield Finding(message, file, "put it into a file and name that as prompt.system")


def _label_errors(observation: Json) -> Iterator[Finding]:
    declared, train = observation["declared"], observation["splits"].get("train")
    if not declared or train is None:
        return
    escape = observation["escape"]
    if escape is not None and escape not in declared:
        yield Finding(
            f"the escape class {escape!r} is no declared label", "run.yaml: task.escape", None
        )
    labels = train["targets"]["labels"]
    missing = [label for label in declared if label not in labels]
    if missing and train["targets"]["answers"]:
        shown = ", ".join(repr(label) for label in missing[:MAX_FINDINGS])
        yield Finding(
            f"{len(missing)} declared labels have no training row: {shown}",
            observation["named_files"]["train"],
            "add rows of these labels, or take them out of the schema",
        )


def _label_warnings(observation: Json) -> Iterator[Finding]:
    declared = observation["declared"] or ()
    for name in ("train", "validation", "test"):
        seen = observation["splits"].get(name)
        if seen is None or not seen["targets"]["answers"]:
            continue
        labels, file = seen["targets"]["labels"], observation["named_files"][name]
        if name == "train":
            few = [
                f"{label!r} {labels[label]}"
                for label in declared
                if 0 < labels.get(label, 0) < FEW_ROWS
            ]
            if few:
                yield Finding(f"labels with few training rows: {', '.join(few)}", file, "add rows")
            continue
        absent = [repr(label) for label in declared if label not in labels]
        if absent:
            message = f"labels without a row in {name}, so that nothing is measured of them: "
            yield Finding(message + ", ".join(absent), file, "add rows of these labels")
