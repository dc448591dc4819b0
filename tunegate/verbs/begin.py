"""init: a run folder for one's own rows."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tunegate import bases, facts, starter
from tunegate.bases import bundled
from tunegate.checks._overlap import Overlaps, words
from tunegate.checks.leak_check import question
from tunegate.compare.wording import enumerated, many
from tunegate.drive import Progress, Show, no_show
from tunegate.errors import DataError, PlatformError, UsageError, boundary
from tunegate.research.evaluation import smallest_difference
from tunegate.spec import read_spec
from tunegate.starter import Looked
from tunegate.store import write_atomic
from tunegate.types import Row
from tunegate.verbs.run import Result, show_path
from tunegate.worker.rows import read_rows

BASE = bases.BUNDLED_PREFIX + "smollm2-135m-instruct"
ANSWERS = ("label", "json", "text")
ROUNDS = 5
"""So often rows that resemble training rows are looked for among those held out."""


@dataclass(frozen=True)
class Survey:
    """What `--train` holds, before anything is written."""

    path: Path
    looked: Looked
    answer: str
    escape: str | None


def survey(train: str | Path, *, answer: str | None = None, show: Show = no_show) -> Survey:
    """Read the training rows once. Raises DataError with file and line, UsageError."""
    path = Path(train)
    if answer is not None and answer not in ANSWERS:
        raise UsageError(f"no kind of answer is called {answer!r}", hint="label, json or text")
    looked = Looked()
    show(Progress(f"reading {path.name}"))
    for row in read_rows(path):
        if row.answer is None or not row.prompt:
            raise DataError(
                "a training row needs a question and an answer",
                where=f"{path}:{row.line}",
                hint='for example {"prompt": "...", "completion": "..."}',
            )
        looked.add(row)
    if not looked.rows:
        raise DataError(f"{path.name} has no rows", where=str(path), hint="one JSON object a line")
    kind = answer or looked.answer
    if kind == "json" and looked.objects < looked.rows:
        raise UsageError(
            f"{many(looked.rows - looked.objects, 'answer')} of {path.name} are no JSON object",
            hint=f"--answer {looked.answer}",
        )
    if kind == "label" and looked.answer != "label":
        raise UsageError(
            f"{path.name} has {len(looked.answers)} or more different answers in "
            f"{many(looked.rows, 'row')}, which are no labels",
            hint=f"--answer {looked.answer}",
        )
    labels = looked.labels() if kind == looked.answer else []
    return Survey(path, looked, kind, starter.escape_of(labels))


def init(
    folder: str | Path = ".",
    *,
    train: str | Path | None = None,
    validation: str | Path | None = None,
    test: str | Path | None = None,
    answer: str | None = None,
    escape: str | None = None,
    prompt: str | None = None,
    base: str | None = None,
    show: Show = no_show,
) -> Result:
    """Write a run file, a prompt and, where they are missing, validation and test rows.

    `train` has to be named. What is left out is read off its rows: the kind of answer, the classes,
    the escape class (`escape=""`: none), the prompt. Nothing that is there is written over.
    """
    if train is None:
        raise UsageError(
            "--train is missing: the file with your rows",
            hint="tunegate init FOLDER --train mine.jsonl; everything else has a default",
        )
    target = Path(folder)
    found = survey(train, answer=answer, show=show)
    chosen = found.escape if escape is None else escape or None
    if chosen is not None and chosen not in found.looked.labels():
        raise UsageError(
            f"no class is called {chosen!r}",
            hint="classes: " + enumerated(found.looked.labels(), most=30)
            if found.looked.labels()
            else "these answers have no classes; leave --escape out",
        )
    model = _base(base or BASE, target)
    files, said = _files(target, found, validation, test, show=show)
    texts = _texts(found, files, prompt)
    texts["run.yaml"] = starter.run_file(
        name=_name(target),
        looked=found.looked,
        answer=found.answer,
        files=files,
        base=model,
        escape=chosen,
    )
    for name, text in texts.items():
        write_atomic(target / name, text)
    read_spec(target / "run.yaml")  # what is handed over is right, or this is our own fault
    return _result(target, found, [*said, *_prompt_said(found, files)], list(texts), chosen)


def _result(
    target: Path, found: Survey, said: list[str], wrote: list[str], escape: str | None
) -> Result:
    looked, labels = found.looked, found.looked.labels()
    kind = (
        f"{found.answer}, {len(labels)} classes: {enumerated(labels)}" if labels else found.answer
    )
    lines = [f"answers    {kind}"]
    if labels:
        none = 'no class is named like "none of these"; --escape names one'
        lines.append(f"escape     {escape or none}")
    lines += said
    lines.append(f"wrote      {', '.join(show_path(target / name) for name in wrote)}")
    run = shlex.quote(show_path(target.resolve()))
    return Result(
        "init",
        run,
        f"{many(looked.rows, 'row')} read from {show_path(found.path)}",
        {
            "lines": lines,
            "answer": found.answer,
            "labels": labels[:50],
            "escape": escape,
            "files": wrote,
        },
        (f"tunegate go {run}",),
    )


def _name(target: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", target.resolve().name).strip("-._")
    return name[:60] or "run"


def _base(named: str, target: Path) -> tuple[str, str | None]:
    """Model and revision as the run file has them; `org/name@revision` names both."""
    if named.startswith(bases.BUNDLED_PREFIX):
        known = bundled.known()
        bundle = known.get(named.removeprefix(bases.BUNDLED_PREFIX))
        if bundle is None:
            raise UsageError(
                f"no bundled base model is called {named!r}",
                kind="unknown_name",
                hint="bundled: " + ", ".join(bases.BUNDLED_PREFIX + name for name in sorted(known)),
            )
        return named, bundle.revision
    if Path(named).is_dir():
        return os.path.relpath(Path(named).resolve(), target.resolve()), None
    model, at, revision = named.partition("@")
    if not at or not revision:
        raise UsageError(
            f"--base {named} is no folder, and a model of the hub needs its exact revision",
            hint=f"--base {model}@<commit of 40 digits>, or leave --base out for {BASE}",
        )
    return model, revision


def _texts(found: Survey, files: dict[str, str], prompt: str | None) -> dict[str, str]:
    """Small files to write; their names are put into `files`."""
    looked, out = found.looked, {}
    text = prompt or looked.system()
    if text is None and not looked.systems:
        text = starter.prompt_for(found.answer, looked.labels(), list(looked.keys))
    if text is not None:
        files["system"] = "prompts/system.txt"
        out[files["system"]] = text.rstrip("\n") + "\n"
    if found.answer == "json":
        files["schema"] = "answer.schema.json"
        out[files["schema"]] = json.dumps(looked.schema(), indent=2, ensure_ascii=False) + "\n"
    return out


def _prompt_said(found: Survey, files: Mapping[str, str]) -> list[str]:
    if "system" not in files:
        return ["prompt     rows have different system prompts, so there is no common one"]
    own = found.looked.system() is not None
    source = "the one of your rows" if own else "edit it to say what you want"
    return [f"prompt     {files['system']}: {source}"]


def _files(
    target: Path,
    found: Survey,
    validation: str | Path | None,
    test: str | Path | None,
    *,
    show: Show,
) -> tuple[dict[str, str], list[str]]:
    """The row files as run.yaml names them, and what is said about them.

    What is missing is split off and written into `data/`.
    """
    given = {"train": found.path, "validation": validation, "test": test}
    missing = [name for name, path in given.items() if path is None]
    names = ["run.yaml", "prompts/system.txt", "answer.schema.json"]
    names += [f"data/{name}.jsonl" for name in ("train", *missing)] if missing else []
    _refuse_to_overwrite(target, names)
    for path in (Path(p) for p in (validation, test) if p is not None):
        next(iter(read_rows(path)), None)  # there, and readable
    if missing and found.path.suffix in (".csv", ".json", ".parquet"):
        raise UsageError(
            f"init splits JSON Lines only, and {found.path.name} is none",
            hint="name all three files: --train FILE --validation FILE --test FILE",
        )
    files = {
        name: os.path.relpath(Path(path).resolve(), target.resolve())
        for name, path in given.items()
        if path is not None
    }
    if not missing:
        return files, []
    show(Progress("splitting the rows"))
    parts = _split(found, missing)
    counts = Counter(parts.values())
    if empty := [name for name in ("train", *missing) if not counts[name]]:
        raise UsageError(
            f"{many(found.looked.rows, 'different row')} are too few to split off "
            f"{enumerated(empty)}",
            where=str(found.path),
            hint="add rows, or name files of your own: --validation FILE --test FILE",
        )
    _write_parts(found.path, target / "data", parts, ["train", *missing])
    files |= {name: f"data/{name}.jsonl" for name in ("train", *missing)}
    made = ", ".join(f"{name} {many(counts[name], 'row')}" for name in ("train", *missing))
    return files, [
        f"split      {made}; rows with the same or nearly the same question stay together",
        f"           {show_path(found.path)} is as it was; the parts are copies",
    ]


def _refuse_to_overwrite(target: Path, names: list[str]) -> None:
    there = [name for name in names if (target / name).exists()]
    if there:
        raise UsageError(
            f"{enumerated([show_path(target / name) for name in there])} "
            f"{'is' if len(there) == 1 else 'are'} there already, and init writes over nothing",
            hint="name another folder: tunegate init FOLDER --train FILE",
        )


def _split(found: Survey, missing: list[str]) -> dict[int, str]:
    """The part of each line of the file."""
    rule = facts.load_all()["bands"]["evaluation"]
    needed = next(
        count
        for count in range(1, 10_000)
        if smallest_difference(
            count, discordance=rule["discordance"], power=rule["power"], alpha=rule["alpha"]
        )
        <= rule["largest_useful_difference"]
    )
    test, validation = starter.sizes(found.looked.rows, test_needed=needed)
    wanted = {"test": test, "validation": validation}
    rows = list(_kept(found))
    parts = starter.split(
        [(" ".join(words(said)) or said, label) for _, said, label in rows],
        parts={name: wanted[name] for name in wanted if name in missing},
    )
    return _apart({line: part for (line, _, _), part in zip(rows, parts, strict=True)}, rows)


def _kept(found: Survey) -> Iterator[tuple[int, str, str | None]]:
    """Line, question and class of every row."""
    for row in read_rows(found.path):
        yield row.line, question(row), _class(row, found)


def _class(row: Row, found: Survey) -> str | None:
    if found.answer == "label":
        return row.answer
    pointer = found.looked.pointer() if found.answer == "json" else None
    if pointer is None:
        return None
    return str(json.loads(row.answer or "{}").get(pointer[1:].replace("~1", "/")))


def _apart(parts: dict[int, str], rows: list[tuple[int, str, str | None]]) -> dict[int, str]:
    """The same, with held-out rows that nearly repeat one of another part put into training.

    By the comparison of `leak_check`, so that what is written passes it.
    """
    for _ in range(ROUNDS):
        overlaps = Overlaps(key=None)
        for part in ("test", "validation", "train"):
            for line, said, _ in rows:
                if parts[line] == part:
                    overlaps.add(part, line, said, {}, held=part != "train")
        close = [item for item in overlaps.to_json()["rows_found"] if item["kind"] != "short"]
        if not close:
            break
        for item in close:
            for line in item["lines"]:
                parts[line] = "train"
    return parts


def _write_parts(source: Path, folder: Path, parts: Mapping[int, str], names: list[str]) -> None:
    """Copy each line as it stands into the file of its part."""
    with boundary(PlatformError, f"write to {folder}"), ExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        out = {name: stack.enter_context((folder / f"{name}.jsonl").open("xb")) for name in names}
        for number, raw in enumerate(stack.enter_context(source.open("rb")), start=1):
            if number in parts:
                out[parts[number]].write(raw.rstrip(b"\r\n") + b"\n")
