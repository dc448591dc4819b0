"""Kill -9 at random moments of whole runs, and whether each still ends in the same report.

    python -m bench.kills --kills 60 --seed 1             on a tiny model that is made on the spot
    python -m bench.kills --run examples/triage/run.yaml --kills 4      each in another stage

The reference is one run that nobody disturbs. Every other run is killed several times, the
command, its worker or both, and taken up again each time with the same command. A moment is drawn
from the whole time of the reference; the kill comes so long after its stage began. Then everything
that a run says is compared, times apart: report, decision, answers, losses, the adapter's bytes.
Ends with code 1 where anything differs.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

from kills import WHOM, Kill, differences, outcome, stage_of, strike  # noqa: E402
from shell import Shell  # noqa: E402
from toys_model import make_base, make_run  # noqa: E402

from tunegate import stages  # noqa: E402
from tunegate.verbs.go import EXAMPLE  # noqa: E402
from tunegate.verbs.run import Run, cache_dir  # noqa: E402

EACH = 5
"""Kills of one run."""

LONG_S = 5.0
"""A stage that takes less is not aimed at in a run of one's own: the moment would be missed."""

Moment = Callable[[Path], bool]


def main() -> None:
    """Print a line a kill, the table, and what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run", type=Path, help="a run file beside its inputs, as in examples/")
    options = parser.parse_args()
    dice = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        shell = Shell(folder)
        if options.run:
            # The unpacked base is taken from where it is kept between runs.
            shell.environment["TUNEGATE_CACHE"] = str(cache_dir())
            chains = one_chain(shell, options.run, folder, kills=options.kills, dice=dice)
        else:
            chains = many_chains(shell, folder, kills=options.kills, dice=dice)
        sys.exit(summarise(list(chains)))


def many_chains(
    shell: Shell, folder: Path, *, kills: int, dice: random.Random
) -> Iterator[tuple[list[Kill], list[str]]]:
    """The kills of each tiny run, and what it ended differently in."""
    base = make_base(folder / "base")
    reference = fresh(folder / "reference", base)
    times = timed(shell, reference)
    expected = outcome(reference)
    done = 0
    while done < kills:
        run = fresh(folder / f"run-{done}", base)
        whole = sum(seconds for _, seconds in times)
        drawn = sorted(dice.uniform(0, whole) for _ in range(min(EACH, kills - done)))
        hits = strikes(shell, run, [at(times, moment) for moment in drawn], dice=dice)
        done += len(hits)
        yield hits, finish(shell, run, expected)
        shutil.rmtree(run)


def one_chain(
    shell: Shell, file: Path, folder: Path, *, kills: int, dice: random.Random
) -> Iterator[tuple[list[Kill], list[str]]]:
    """One run that is killed once in each of so many stages."""
    reference = copy_inputs(file, folder / "reference")
    long = [(name, seconds) for name, seconds in timed(shell, reference) if seconds > LONG_S]
    if len(long) < kills:
        sys.exit(f"only {len(long)} stages take over {LONG_S:.0f} s: {', '.join(dict(long))}")
    chosen = sorted(dice.sample(range(len(long)), kills))
    run = copy_inputs(file, folder / "killed")
    moments = [inside(long[at][0], dice.uniform(0.0, 0.8) * long[at][1]) for at in chosen]
    hits = strikes(shell, run, moments, dice=dice)
    yield hits, finish(shell, run, outcome(reference))


def strikes(
    shell: Shell, run: Path, moments: Sequence[Moment], *, dice: random.Random
) -> list[Kill]:
    """Kill at each moment in turn; a run that ends before is left alone."""
    hits = []
    for moment in moments:
        kill = strike(
            shell, run, when=lambda now=moment: now(run), whom=dice.choice(WHOM), look_s=0.05
        )
        if kill is None:
            break
        say(f"{run.name}: killed {kill.whom} after {kill.after_s:.1f} s, in {kill.stage}")
        hits.append(kill)
    return hits


def finish(shell: Shell, run: Path, expected: dict[str, object]) -> list[str]:
    """Take the run up once more, and say what differs."""
    try:
        shell.run("go", run)
        found = differences(expected, outcome(run))
    except AssertionError as error:
        found = [str(error)]
    say(f"{run.name}: {'; '.join(found) or 'the same'}")
    return found


def at(times: Sequence[tuple[str, float]], moment_s: float) -> Moment:
    """The moment of a run that lies so far into the reference."""
    for stage, seconds in times:
        if moment_s < seconds:
            return inside(stage, moment_s)
        moment_s -= seconds
    return inside("report", 0.0)


def inside(stage: str, seconds: float) -> Moment:
    """So many seconds after the stage began, or in its end where it takes less."""
    began: list[float] = []

    def now(run: Path) -> bool:
        if stage_of(run).partition(",")[0] != stage:
            return bool(began)
        began.append(time.monotonic())
        return began[-1] - began[0] >= seconds

    return now


def fresh(folder: Path, base: Path) -> Path:
    """A tiny run with all its inputs."""
    folder.mkdir()
    make_run(folder, base)
    return folder


def copy_inputs(file: Path, target: Path) -> Path:
    """The inputs of a run as the demo copies them; nothing that it made."""
    target.mkdir()
    for name in EXAMPLE:
        source = file.parent / name
        if source.is_dir():
            shutil.copytree(source, target / name)
        elif source.is_file():
            shutil.copy(source, target / name)
    return target


def timed(shell: Shell, run: Path) -> list[tuple[str, float]]:
    """Run `go`; seconds of each stage in order, the report last, from the times of their files."""
    began = time.time()
    shell.run("go", run)
    ended = time.time()
    opened = Run(run)
    ends = [(opened.store.path(s.writes).stat().st_mtime, s.name) for s in stages.STAGES]
    ends = [(began, ""), *sorted(ends), (ended, "report")]
    times = [(name, end - begin) for (begin, _), (end, name) in itertools.pairwise(ends)]
    say(f"undisturbed: {ended - began:.1f} s; " + ", ".join(f"{n} {s:.1f}" for n, s in times))
    return times


def summarise(chains: Sequence[tuple[list[Kill], list[str]]]) -> int:
    """Print stage x outcome; 1 where a run ended differently."""
    killed: Counter[str] = Counter()
    same: Counter[str] = Counter()
    for hits, found in chains:
        killed.update(hit.stage for hit in hits)
        same.update(hit.stage for hit in hits if not found)
    print(f"{'stage':<16}{'kills':>6}{'same end':>10}")
    for stage in dict.fromkeys([*(s.name for s in stages.STAGES), *sorted(killed)]):
        if killed[stage]:
            print(f"{stage:<16}{killed[stage]:>6}{same[stage]:>10}")
    whom = Counter(hit.whom for hits, _ in chains for hit in hits)
    print(f"{'all':<16}{killed.total():>6}{same.total():>10}")
    print(", ".join(f"{name} {count}" for name, count in whom.most_common()))
    for hits, found in chains:
        for difference in found:
            print(f"killed in {', '.join(hit.stage for hit in hits)}: {difference}")
    return int(any(found for _, found in chains))


def say(text: str) -> None:
    """Progress, apart from the table."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
