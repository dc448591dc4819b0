"""The verbs that look things up: explain, schema."""

from __future__ import annotations

import json
from pathlib import Path

from tunegate.drive import Show, no_show
from tunegate.errors import EXIT_CODES, UsageError
from tunegate.kinds import KINDS
from tunegate.store import write_atomic
from tunegate.verbs.run import Result, cache_dir, show_path


def explain(kind: str, *, show: Show = no_show) -> Result:
    """What an error kind means, its exit code, and the way out."""
    if kind not in KINDS:
        import difflib

        near = difflib.get_close_matches(kind, KINDS, n=1)
        raise UsageError(
            f"no error kind is called {kind!r}",
            kind="unknown_name",
            hint=f"did you mean {near[0]}?" if near else "known: " + ", ".join(sorted(KINDS)),
        )
    about = KINDS[kind]
    codes = {code: EXIT_CODES[code] for code in about.exit_codes}
    lines = [f"exit code {code}: {meaning}" for code, meaning in codes.items()]
    return Result(
        "explain",
        None,
        f"{kind}: {about.meaning}",
        {
            "lines": [*lines, f"what to do: {about.remedy}"],
            "kind": kind,
            "exit_codes": list(codes),
            "remedy": about.remedy,
        },
    )


def schema(file: str | Path | None = None, *, show: Show = no_show) -> Result:
    """The JSON Schema of a run file, written to `file` and returned as text.

    Left out, `file` is one in the cache folder: the schema is larger than the JSON output may be.
    """
    from tunegate.specmodel import json_schema

    found = json_schema()
    text = json.dumps(found, indent=2, ensure_ascii=False)
    target = Path(file) if file is not None else cache_dir() / "run.schema.json"
    write_atomic(target, text + "\n")
    return Result(
        "schema",
        None,
        f"wrote {show_path(target)}; an editor reads it by this first line of the run file:",
        {
            "lines": [f"# yaml-language-server: $schema={target}"],
            "file": str(target),
            "dialect": found["$schema"],
        },
        text=text if file is None else None,
    )
