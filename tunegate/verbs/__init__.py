"""What Tunegate does: the functions that the command line, Python and agents call, each under one
name.

    from tunegate import verbs
    verbs.check("runs/triage")

Every verb takes the run (a run file or the folder that holds run.yaml), does its one thing, writes
its one file, and returns a `Result`; what goes wrong is a `TunegateError` with kind, hint and exit
code.
"""

from tunegate.verbs.begin import init
from tunegate.verbs.doctor import doctor
from tunegate.verbs.evaluate import eval
from tunegate.verbs.finish import decide, record, report
from tunegate.verbs.go import demo, go, status
from tunegate.verbs.halt import resume, stop
from tunegate.verbs.prepare import check, freeze, quote, research
from tunegate.verbs.reference import explain, schema
from tunegate.verbs.release import parse_waivers, release
from tunegate.verbs.run import Result
from tunegate.verbs.train import train, wire
from tunegate.verbs.watch import watch

__all__ = [
    "Result",
    "check",
    "decide",
    "demo",
    "doctor",
    "eval",
    "explain",
    "freeze",
    "go",
    "init",
    "parse_waivers",
    "quote",
    "record",
    "release",
    "report",
    "research",
    "resume",
    "schema",
    "status",
    "stop",
    "train",
    "watch",
    "wire",
]
