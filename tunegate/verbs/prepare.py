"""The free stages: freeze, research (gate 1), check (gate 2), quote."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tunegate import checks, facts, frameworks, memory, platforms
from tunegate import freeze as freezing
from tunegate import quote as quoting
from tunegate import research as researching
from tunegate.compare.wording import many
from tunegate.drive import Progress, Show, no_show
from tunegate.errors import ChangedSinceRelease, GateClosed, Problem, UsageError
from tunegate.store import digest_of
from tunegate.types import Json, Status, Verdict
from tunegate.verbs.batches import batches_of
from tunegate.verbs.inputs import device, gather, resolve_base
from tunegate.verbs.run import Result, Run, now, show_path

SECTIONS = ("frozen.json#training", "frozen.json#evaluation")
"""What the checks look at."""

QUIET_S = 2.0
"""Checks that are done sooner show no bar."""


def freeze(run: str | Path, *, show: Show = no_show) -> Result:
    """Pin every input of the run by digest and resolve every setting with its reason."""
    opened = Run(run, show=show)
    with opened.store.lock("freeze"):
        frozen = ensure_frozen(opened)
    files = frozen["data"]
    return Result(
        "freeze",
        opened.argument,
        f"frozen: {many(files['train']['rows'], 'training row')}, "
        f"{many(files['test']['rows'], 'test row')}, "
        f"base {frozen['base']['model']}, digest {frozen['digest'][:12]}",
        {"file": show_path(opened.store.path("frozen.json")), "digest": frozen["digest"]},
        opened.next(),
    )


def ensure_frozen(run: Run) -> Json:
    """Write frozen.json if its inputs have changed, and return it."""
    frozen = freezing.freeze(run.spec, gather(run), folder=str(run.source_dir), digest=digest_of)
    # Where the run and the base lie is no input of the run, and changes when a folder is moved.
    frozen.pop("folder")
    frozen["base"].pop("dir")
    frozen["research"] = _research_inputs(run)
    # What the framework cannot do is told now, and not when it starts.
    frameworks.load(run.spec.train.framework).render(frozen)
    content = run.store.write("frozen.json", frozen, made=run.made("freeze"))
    run.reset()
    return content


def _research_inputs(run: Run) -> Json:
    """What gate 1 is told beside the settings; it is bound like everything else."""
    research = run.spec.research
    anchor = _anchor(run)
    return {
        "answers": {name: item.model_dump() for name, item in research.answers.items()},
        "allow": dict(research.allow),
        "anchor": anchor["digest"] if anchor else None,
    }


def research(run: str | Path, *, show: Show = no_show) -> Result:
    """Gate 1: settings with their reasons, bands, coverage, what the test set can show."""
    opened = Run(run, show=show)
    with opened.store.lock("research"):
        ensure_frozen(opened)
        found = run_research(opened)
    if found["verdict"] != Status.PASS:
        raise GateClosed(
            f"gate 1 is closed: {many(len(found['problems']), 'open point')}",
            kind="research_open",
            problems=[Problem(text) for text in found["problems"]],
            hint="answer them in the run file under research.answers, each with its source",
            where=show_path(opened.store.path("research.json")),
        )
    return Result(
        "research",
        opened.argument,
        f"gate 1 passes: {len(found['effective'])} settings; the test set shows differences from "
        f"{100 * found['evaluation']['smallest_detectable_difference']:.1f} points",
        {
            "lines": [
                *map(_choice_line, opened.frozen["choices"]),
                f"all settings, bands and sources: {show_path(opened.store.path('research.json'))}",
            ],
            "warnings": found["warnings"],
            "evaluation": found["evaluation"],
        },
        opened.next(),
    )


def _choice_line(choice: Json) -> str:
    value = choice["value"]
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"  {choice['key']} = {text}: {choice['reason']}"


def run_research(run: Run) -> Json:
    """Write research.json for the frozen run."""
    anchor = _anchor(run)
    told = run.frozen["research"]
    payload = researching.research(
        run.frozen,
        facts.load_all(),
        anchor=anchor,
        answers=told["answers"],
        allow=told["allow"],
        tables=_semantics(run.frozen, anchor),
        device=device(),
    )
    return run.store.write(
        "research.json", payload, read=("frozen.json",), made=run.made("research")
    )


def _anchor(run: Run) -> Json | None:
    if run.spec.anchor is None:
        return None
    other = Run(run.source_dir / run.spec.anchor)
    if not other.store.exists("frozen.json"):
        raise UsageError(
            f"the anchor {other.argument} was never frozen",
            hint=f"tunegate freeze {other.argument}",
        )
    return other.frozen


def _semantics(*runs: Json | None) -> dict[str, Any]:
    """What holds in the frameworks of the runs, by the questions of semantics/."""
    names = {run["settings"]["train"]["framework"] for run in runs if run is not None}
    loaded = {name: frameworks.load(name) for name in names}
    return {name: getattr(item, "DRIVEN", item.SEMANTICS) for name, item in loaded.items()}


def check(run: str | Path, *, only: Sequence[str] = (), show: Show = no_show) -> Result:
    """Gate 2 on evidence: every check over every row, none of which needs a GPU."""
    opened = Run(run, show=show)
    with opened.store.lock("check"):
        ensure_frozen(opened)
        verdicts = run_checks(opened, only=only)
    bad = [verdict for verdict in verdicts if verdict.status is not Status.PASS]
    if bad:
        raise closed(opened, bad)
    return Result(
        "check",
        opened.argument,
        f"gate 2: {many(len(verdicts), 'check')} passed",
        {
            "verdicts": {
                v.check: {"status": str(v.status), "summary": v.summary} for v in verdicts
            },
            "warnings": [f"{v.check}: {w.message}" for v in verdicts for w in v.warnings][:10],
            "folder": show_path(opened.store.path("evidence")),
        },
        opened.next(),
    )


def closed(run: Run, bad: Sequence[Verdict]) -> GateClosed:
    """The error that names what each failed check saw, row by row."""
    problems = []
    for verdict in bad:
        problems.append(Problem(f"{verdict.check} {verdict.status}: {verdict.summary}"))
        for finding in verdict.findings[:3]:
            change = f" -> {finding.change}" if finding.change else ""
            problems.append(Problem(finding.message + change, _short_place(finding.where)))
    worst = bad[0]
    return GateClosed(
        f"gate 2 is closed: {', '.join(verdict.check for verdict in bad)}",
        kind="check_failed" if worst.status is Status.FAIL else "check_missing",
        problems=problems,
        hint=worst.hint or f"the evidence is in {show_path(run.store.path('evidence'))}",
    )


def _short_place(where: str | None) -> str | None:
    if where is None or not where.startswith("/"):
        return where
    path, _, line = where.rpartition(":")
    return f"{show_path(Path(path))}:{line}" if line.isdigit() else where


def run_checks(run: Run, *, only: Sequence[str] = ()) -> list[Verdict]:
    """Observe and judge; one evidence file a check, then the table of all."""
    names = checks.names("host")
    unknown = [name for name in only if name not in names]
    if unknown:
        raise UsageError(
            f"no check is called {unknown[0]!r}",
            kind="unknown_name",
            hint="known: " + ", ".join(names),
        )
    frozen = worker_frozen(run)
    job = train_job(run, frozen)
    wanted = list(only or names)
    with batches_of(run, job) as framework:
        inputs = checks.CheckInputs(frozen=frozen, framework=framework, job=job)
        run.show(Progress("checking", 0, None, ", ".join(wanted)))
        observations = checks.observe_all(inputs, names=wanted, told=_progress(run, frozen))
    table = _table(run)
    verdicts = []
    for name in wanted:
        verdict = checks.load(name).judge(observations[name], frozen)
        run.store.write(
            f"evidence/{name}.json",
            {"observation": observations[name], "verdict": verdict.to_json()},
            read=SECTIONS,
            made=run.made("check"),
        )
        table[name] = verdict.to_json()
        verdicts.append(verdict)
    if set(names) <= set(table):
        run.store.write(
            "evidence/checks.json",
            {"verdicts": {name: table[name] for name in names}},
            read=SECTIONS,
            made=run.made("check"),
        )
    return verdicts


def _progress(run: Run, frozen: Json) -> checks.Told:
    """Shows how many training rows were looked at, once that takes longer than `QUIET_S`."""
    began, total = time.monotonic(), frozen["data"]["train"]["rows"]

    def told(rows: int | None, text: str) -> None:
        if time.monotonic() - began >= QUIET_S:
            run.show(Progress("checking", total if rows is None else rows, total, text))

    return told


def _table(run: Run) -> dict[str, Json]:
    """Verdicts whose evidence is still current, by check."""
    found = {}
    for name in checks.names("host"):
        file = f"evidence/{name}.json"
        if run.store.exists(file):
            content = run.store.read(file)
            if all(
                run.store.digest(source) == digest for source, digest in content["read"].items()
            ):
                found[name] = content["verdict"]
    return found


def worker_frozen(run: Run) -> Json:
    """frozen.json with the places of the run and the base filled in, as the worker reads it."""
    frozen = dict(run.frozen)
    frozen["folder"] = str(run.source_dir)
    base = resolve_base(run)
    if dict(base.files) != frozen["base"]["files"]:
        raise ChangedSinceRelease(
            f"the base model in {base.dir} is not the one that was frozen",
            hint=f"tunegate freeze {run.argument}",
        )
    frozen["base"] = {**frozen["base"], "dir": str(base.dir)}
    return frozen


def train_job(run: Run, frozen: Json) -> Json:
    """The part of a training job that does not depend on the attempt."""
    return {
        "format": 1,
        "kind": "train",
        "frozen": frozen,
        "data_dir": str(run.source_dir),
        "threads": threads(),
        "run_digest": run.frozen["digest"],
    }


def threads() -> int:
    """Cores that this process may use."""
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quote(run: str | Path, *, show: Show = no_show) -> Result:
    """Hours, money, checkpoint interval and what a crash may cost, each number with its basis."""
    opened = Run(run, show=show)
    with opened.store.lock("quote"):
        ensure_frozen(opened)
        found = run_quote(opened)
    hours, money = found["hours"], found["money"]
    return Result(
        "quote",
        opened.argument,
        f"about {60 * hours['value']:.1f} min and {money['value']} {money['currency']}, "
        f"checkpoint every {found['checkpoint']['every_s']:.0f} s",
        {
            "lines": ["memory:", *memory.table(found["memory"])],
            "hours": hours,
            "money": money,
            "checkpoint": found["checkpoint"],
            "memory": found["memory"],
        },
        opened.next(),
    )


def run_quote(run: Run) -> Json:
    """Write quote.json from the wire test's measurements and the platform's offer."""
    host = platforms.load(run.frozen["settings"]["platform"])
    offer = host.offer(at=now().isoformat(), folder=run.folder)
    wire = run.store.read("evidence/wire.json") if run.store.exists("evidence/wire.json") else None
    payload = quoting.quote(run.frozen, wire["observation"] if wire else None, offer.to_json())
    limits = run.frozen["settings"]["limits"]
    if float(limits["money"]) and limits["currency"] != offer.currency:
        raise UsageError(
            f"limits.money is in {limits['currency']}, and the platform's prices are in "
            f"{offer.currency}",
            hint="write the limit in the platform's currency",
        )
    if payload.get("verdict") == Status.CANNOT_TELL:
        raise GateClosed(
            "nothing was measured yet, so time and money cannot be told",
            kind="check_missing",
            hint=f"tunegate wire {run.argument}",
        )
    return run.store.write(
        "quote.json", payload, read=("frozen.json", "evidence/wire.json"), made=run.made("quote")
    )
