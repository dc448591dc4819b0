"""Version bounds of the framework in use, and known issues that match this run. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tunegate.research.answers import Questions
from tunegate.research.settings import packages, value_at
from tunegate.types import Json, Status
from tunegate.versions import in_range


def versions(
    frozen: Json, facts: Mapping[str, Json], questions: Questions
) -> tuple[list[Json], list[str]]:
    """Lines {framework, package, installed, requires, verdict, source}, and problems.

    A framework whose bounds are not known raises a question.
    """
    framework, installed = frozen["settings"]["train"]["framework"], packages(frozen)
    bounds = [
        row
        for row in facts["versions"]["rows"]
        if row["framework"] == framework and _applies(row["versions"], installed.get(framework))
    ]
    if not bounds:
        questions.ask(
            f"versions.{framework}",
            question="with which versions of its packages was it seen to work?",
            why=f"no version bounds are known for {framework}",
        )
        return [], []
    lines, problems = [], []
    for row in bounds:
        for package, requires in row["requires"].items():
            version = installed.get(package)
            holds = in_range(version, requires)
            verdict = {True: Status.PASS, False: Status.FAIL, None: Status.CANNOT_TELL}[holds]
            if holds is not True:
                problems.append(
                    f"{package} {version or 'is not installed'}: {framework} needs {requires}"
                )
            lines.append(
                {
                    "framework": framework,
                    "package": package,
                    "installed": version,
                    "requires": requires,
                    "verdict": str(verdict),
                    "source": row["source"],
                }
            )
    return lines, problems


def known_issues(frozen: Json, facts: Mapping[str, Json], questions: Questions) -> list[Json]:
    """Issues whose framework, version and settings match, with what catches each.

    One that no check catches raises a question.
    """
    matched = []
    for row in facts["known_issues"]["rows"]:
        if not _matches(row, frozen):
            continue
        caught = list(row["caught_by"])
        if not caught:
            questions.ask(
                f"issue.{row['id']}",
                question="how is it kept from happening here?",
                why=f"{row['symptom']} ({row['address']})",
                source=row["source"],
            )
        matched.append(
            {
                "id": row["id"],
                "package": row["package"],
                "installed": packages(frozen).get(row["package"]),
                "versions": row["versions"],
                "symptom": row["symptom"],
                "address": row["address"],
                "caught_by": caught,
                "source": row["source"],
            }
        )
    return matched


def _matches(row: Json, frozen: Json) -> bool:
    if row["framework"] not in ("*", frozen["settings"]["train"]["framework"]):
        return False
    when = row.get("when", {})
    if any(value_at(frozen, key) != value for key, value in when.items()):
        return False
    version = packages(frozen).get(row["package"])
    # A package that is not installed cannot show the issue; an odd version may.
    return version is not None and in_range(version, row["versions"]) is not False


def _applies(versions: str | None, installed: str | None) -> bool:
    return versions is None or in_range(installed, versions) is True
