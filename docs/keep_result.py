"""Keep the record of a finished run, so that docs/results.md can show its figures.

    python docs/keep_result.py examples/clinc150 "tunegate go examples/clinc150/run.yaml"

Writes docs/results/<name>.json: the run's record.json as it stands, and the command that made it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


def main() -> None:
    """Copy the record. A record of uncommitted code is refused: nobody could repeat it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("command", help="the command that made it, as it was typed")
    options = parser.parse_args()
    record = json.loads((options.run / "record.json").read_text(encoding="utf-8"))
    if record["made"]["dirty"] is not False:
        parser.error("the record was made from uncommitted code; commit, then run it again")
    result = {"command": options.command, "record": record}
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{record['name']}.json"
    file.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {file}; now `make docs`")


if __name__ == "__main__":
    main()
