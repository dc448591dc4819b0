"""The verbs about a whole run: go, status, demo."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import tunegate
from tunegate import stages
from tunegate.drive import Progress, Show, no_show
from tunegate.errors import ChangedSinceRelease, UsageError, boundary
from tunegate.stages import State
from tunegate.store import sha256_file
from tunegate.types import Json
from tunegate.verbs import evaluate, finish, prepare, release, train
from tunegate.verbs.halt import job_name, running_job
from tunegate.verbs.run import Result, Run, recommended, show_path

EXAMPLE = ("README.md", "answer.schema.json", "data", "prompts", "run.yaml")
"""What the triage task consists of; the run file comes last, so a torn copy is no run."""

MARKS = {
    State.DONE: "done",
    State.MISSING: "-",
    State.STALE: "stale",
    State.CLOSED: "closed",
    State.PARTLY: "partly",
}


def go(run: str | Path, *, show: Show = no_show) -> Result:
    """Run the allowed stages in order until one needs a person, fails, or the run is done."""
    opened = Run(run, show=show)
    lines: list[str] = []
    with opened.store.lock("go", name=".go.lock"):
        prepare.freeze(run, show=show)
        if stages.next_stage(Run(run).states()) is None:
            lines.append("everything was done already; nothing ran")
        for stage in stages.STAGES:
            if Run(run).states()[stage.name] is State.DONE:
                continue
            show(Progress(f"{stage.name}: {stage.about}"))
            done = _steps()[stage.name](run, show)
            lines.append(f"{stage.name:<9} {done.summary}")
        left = stages.next_stage(Run(run).states())
        if left is not None:
            raise ChangedSinceRelease(
                f"something changed while the run went on: {left.name} is no longer current",
                hint=f"tunegate go {opened.argument} brings it up to date",
            )
        finished = finish.report(run, show=show)
    opened = Run(run)
    report, decision = opened.store.read("report.json"), opened.store.read("decision.json")
    lines += ["", f"decision  {decision['next']}: {' '.join(decision['because'])}"]
    trained = opened.store.path(opened.store.read("trained.json")["adapter"]["path"])
    lines += [f"adapter   {show_path(trained)}", f"report    {finished.data['page']}"]
    return Result(
        "go",
        opened.argument,
        report["headline"],
        {
            "lines": lines,
            "decision": decision["next"],
            "page": finished.data["page"],
            **recommended(opened),
        },
        opened.next(),
    )


def _steps() -> dict[str, Callable[[str | Path, Show], Result]]:
    return {
        "freeze": lambda run, show: prepare.freeze(run, show=show),
        "research": lambda run, show: prepare.research(run, show=show),
        "check": lambda run, show: prepare.check(run, show=show),
        "wire": lambda run, show: train.wire(run, show=show),
        "baseline": lambda run, show: evaluate.eval(run, column="raw", show=show),
        "dry_run": lambda run, show: train.train(run, dry_run=True, show=show),
        "quote": lambda run, show: prepare.quote(run, show=show),
        "release": lambda run, show: release.release(run, show=show),
        "train": lambda run, show: train.train(run, show=show),
        "eval": lambda run, show: evaluate.eval(run, show=show),
        "decide": lambda run, show: finish.decide(run, show=show),
        "record": lambda run, show: finish.record(run, show=show),
    }


def status(run: str | Path, *, show: Show = no_show) -> Result:
    """Where the run stands, read from its folder alone; works on any run folder at any time."""
    opened = Run(run, show=show)
    found = opened.states()
    changed = _changed_inputs(opened)
    if changed:
        # Whatever was made from the old inputs is as stale as they are.
        made = (State.DONE, State.CLOSED)
        found |= {name: State.STALE for name, state in found.items() if state in made}
    lines = [f"  {MARKS[found[s.name]]:<7} {s.name:<9} {s.about}" for s in stages.STAGES]
    first = stages.next_stage(found)
    where = "the run is complete" if first is None else f"next is {first.name}: {first.about}"
    if first is not None and found[first.name] is State.CLOSED:
        where = f"{first.name} keeps the gate closed"
    running = running_job(opened)
    if running is not None:
        where = f"{job_name(running[1])} is running; tunegate watch {opened.argument} shows it"
    if changed:
        where = f"changed since it was frozen: {', '.join(changed)}"
    data: Json = {"lines": lines, "stages": {name: str(state) for name, state in found.items()}}
    if first is None and not changed:
        data |= recommended(opened)
    commands = tuple(stages.next_commands(found, opened.argument))
    return Result("status", opened.argument, f"{_name(opened)}: {where}", data, commands)


def _name(run: Run) -> str:
    """The run's name, from what was frozen where the run file is gone or wrong."""
    try:
        return run.spec.name
    except UsageError:
        return str(run.frozen["name"]) if run.store.exists("frozen.json") else run.folder.name


def _changed_inputs(run: Run) -> list[str]:
    """Row files that differ from what was frozen, or are gone."""
    try:
        files = run.frozen["data"].values()
    except UsageError:
        return []
    changed = []
    for file in files:
        path = run.source_dir / file["path"]
        if not path.is_file() or sha256_file(path) != file["sha256"]:
            changed.append(file["path"])
    return changed


def demo(folder: str | Path, *, show: Show = no_show) -> Result:
    """Copy the bundled triage task to `folder`, unless it stands there already, and run it."""
    target = Path(folder)
    if not (target / "run.yaml").is_file():
        if target.is_dir() and any(target.iterdir()):
            raise UsageError(
                f"{target} is not empty and holds no run",
                hint="name another folder: tunegate demo FOLDER",
            )
        with boundary(UsageError, f"write the demo to {target}"):
            # Inputs only: someone may have run the example where it lies.
            for name in EXAMPLE:
                source = example_dir() / name
                if source.is_dir():
                    shutil.copytree(source, target / name, dirs_exist_ok=True)
                else:
                    target.mkdir(parents=True, exist_ok=True)
                    shutil.copy(source, target / name)
        show(Progress(f"wrote the triage task to {show_path(target.resolve())}"))
    return go(target, show=show)


def example_dir() -> Path:
    """The triage task: inside the installed package, or in the checkout that is installed
    editable.
    """
    packaged = Path(str(resources.files("tunegate"))) / "examples" / "triage"
    checkout = Path(tunegate.__file__).parent.parent / "examples" / "triage"
    for place in (packaged, checkout):
        if (place / "run.yaml").is_file():
            return place
    raise UsageError(
        "this installation lacks the example", kind="file_missing", hint="reinstall tunegate"
    )
