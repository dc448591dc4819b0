"""Gate 3. No function here releases a paid run without a person at a terminal."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from tunegate import approvers, checks, gate, stages
from tunegate.compare.wording import many
from tunegate.drive import Show, no_show
from tunegate.errors import ChangedSinceRelease, GateClosed, Problem, UsageError, WaitingForPerson
from tunegate.store import digest_of
from tunegate.types import Json
from tunegate.verbs.prepare import ensure_frozen, run_checks
from tunegate.verbs.run import Result, Run, now, show_path

CHAINED = ("plan_digest", "decision", "level", "approver", "nonce", "waived", "not_after")
"""What of a release stands in the person's chain, and must stand there still when it is used."""

BOUND = (
    "research.json",
    "evidence/checks.json",
    "evidence/wire.json",
    "evidence/dry_run.json",
    "quote.json",
)


def release(
    run: str | Path,
    *,
    waive: Mapping[str, str] | None = None,
    show: Show = no_show,
) -> Result:
    """Release the run: by policy where it costs nothing, else by a person at a terminal.

    `waive` maps the name of a check to the reason for waiving it, which only a person may do.
    """
    opened = Run(run, show=show)
    with opened.store.lock("release"):
        ensure_frozen(opened)
        _refuse_unknown_waivers(waive or {})
        # Evidence is not trusted twice: what the checks say now is what counts.
        run_checks(opened)
        content = run_release(opened, waived=dict(waive or {}))
    return Result(
        "release",
        opened.argument,
        f"released at level {content['level']}: {content['why']}",
        {
            key: content[key]
            for key in ("level", "plan_digest", "not_after", "waived", "chain_head")
        },
        opened.next(),
    )


def _refuse_unknown_waivers(waived: Mapping[str, str]) -> None:
    known = [*checks.names(), "wire", "research", "quote"]
    for name in waived:
        if name not in known:
            raise UsageError(
                f"nothing is called {name!r} that could be waived",
                kind="unknown_name",
                hint="known: " + ", ".join(known),
            )


def run_release(run: Run, *, waived: Mapping[str, str]) -> Json:
    """Bind the plan and write release.json. Raises GateClosed, WaitingForPerson."""
    _refuse_open_gates(run, waived)
    plan = current_plan(run, waived)
    digest = digest_of(plan)
    level, why = gate.required_level(plan)
    command = f"tunegate release {run.argument}" + "".join(
        f' --waive {name}="{reason}"' for name, reason in waived.items()
    )
    if level >= 2:
        raise WaitingForPerson(
            f"{why}, so a signature is needed (level 2), which this version does not offer",
            hint="lower limits.money to at most 5 and limits.hours to at most 2",
        )
    decision = "release"
    if level == 1:
        agreed = approvers.ask_person(
            screen(run, plan, digest, why),
            ceiling=plan["money_ceiling"],
            digest=digest,
            marks=approvers.agent_marks(os.environ),
            command=command,
        )
        decision = "release" if agreed else "refuse"
    content = _write(run, plan, digest, level=level, why=why, decision=decision)
    if decision == "refuse":
        raise GateClosed("a person refused the release", kind="release_refused")
    return content


def _refuse_open_gates(run: Run, waived: Mapping[str, str]) -> None:
    documents = {name: run.store.read(name) if run.store.exists(name) else None for name in BOUND}
    problems = gate.gate_problems(
        research=documents["research.json"],
        checks=documents["evidence/checks.json"],
        wire=documents["evidence/wire.json"],
        quote=documents["quote.json"],
        waived=waived,
    )
    missing = [name for name in BOUND if documents[name] is None]
    problems += [f"{name} is missing" for name in missing]
    stale = [
        name for name in BOUND if documents[name] and not _is_current(run, documents[name] or {})
    ]
    problems += [f"{name} is stale" for name in stale]
    if problems:
        kind = "check_failed" if not missing else "check_missing"
        raise GateClosed(
            f"the gates are closed: {many(len(problems), 'point')}",
            kind="check_stale" if stale else kind,
            problems=[Problem(text) for text in problems],
            hint=_what_to_run(run, [*missing, *stale]),
        )


def _what_to_run(run: Run, names: list[str]) -> str:
    """The commands that make what is missing or stale; a failed check can only be waived."""
    commands = [s.command for s in stages.STAGES if s.writes in names]
    if not commands:
        return "mend what failed; a person may waive a check by name, with a reason"
    verbs = [f"tunegate {text.replace(' ', f' {run.argument} ', 1)}" if " " in text
             else f"tunegate {text} {run.argument}" for text in commands]  # fmt: skip
    return "; ".join(verbs)


def _is_current(run: Run, content: Json) -> bool:
    return all(run.store.digest(name) == digest for name, digest in content["read"].items())


def current_plan(run: Run, waived: Mapping[str, str]) -> Json:
    """What a release would bind now."""
    return gate.plan(
        frozen=run.frozen,
        digests={name: run.store.digest(name) for name in BOUND},
        quote=run.store.read("quote.json"),
        code=run.code,
        waived=waived,
    )


def screen(run: Run, plan: Json, digest: str, why: str) -> str:
    """One screen: what will run, on what evidence, at what price."""
    quote = run.store.read("quote.json")
    verdicts = {
        **run.store.read("evidence/checks.json")["verdicts"],
        **run.store.read("evidence/wire.json")["verdicts"],
    }
    lines = [
        f"Release of {plan['name']}  ({run.argument})",
        f"  base      {run.frozen['base']['model']} {run.frozen['base']['revision']}",
        f"  where     {plan['offer']['platform']}: {plan['offer']['device']}, "
        f"{plan['offer']['price_per_h']} {plan['currency']} an hour ({plan['offer']['source']})",
        f"  expected  {60 * quote['hours']['value']:.1f} min, "
        f"{quote['money']['value']} {plan['currency']}",
        f"  ceiling   {plan['money_ceiling']} {plan['currency']}, {plan['hours_ceiling']} h",
        f"  at risk   {plan['minutes_at_risk']} min of work",
        "  evidence",
        *(f"    {v['status']:<12}{name}: {v['summary']}" for name, v in verdicts.items()),
    ]
    lines += [f"  WAIVED    {name}: {reason}" for name, reason in plan["waived"].items()]
    lines += [
        f"  why you   {why}",
        f"  chain     {approvers.head(run.person_dir)[:12] or 'empty'}",
        f"  digest    {digest}",
    ]
    # Nothing from a file may move the cursor or hide a line.
    plain = ("".join(c if c.isprintable() else "?" for c in line) for line in lines)
    return "\n".join(plain) + "\n"


def _write(run: Run, plan: Json, digest: str, *, level: int, why: str, decision: str) -> Json:
    at = now()
    payload = {
        "plan": plan,
        "plan_digest": digest,
        "decision": decision,
        "level": level,
        "why": why,
        "approver": "policy" if level == 0 else os.environ.get("USER", "unknown"),
        "money_ceiling": plan["money_ceiling"],
        "not_after": (at + gate.RELEASE_LIFE).isoformat(),
        "nonce": secrets.token_hex(8),
        "waived": plan["waived"],
    }
    event = {key: payload[key] for key in CHAINED}
    head = approvers.append(run.person_dir, {**event, "at": at.isoformat(), "run": str(run.folder)})
    return run.store.write(
        "release.json",
        {**payload, "chain_head": head},
        read=("frozen.json", *BOUND),
        made=run.made("release"),
    )


def authorise(run: Run) -> tuple[Json, Json]:
    """The quote and the release that let training start now.

    A run that costs nothing is released by policy on the spot; for all others the release must
    stand.
    Raises: WaitingForPerson, ChangedSinceRelease, GateClosed.
    """
    if not run.store.exists("quote.json"):
        raise GateClosed(
            "there is no quote yet", kind="check_missing", hint=f"tunegate go {run.argument}"
        )
    release = run.store.read("release.json") if run.store.exists("release.json") else None
    waived = release["waived"] if release else {}
    plan = current_plan(run, waived)
    problems = _problems(run, release, plan) if release else []
    if release is None or (release["level"] == 0 and not waived and problems):
        # Level 0 is policy, not an act: it is given again for the inputs of now.
        release = run_release(run, waived={})
        plan = current_plan(run, {})
        problems = _problems(run, release, plan)
    if not problems:
        return run.store.read("quote.json"), release
    changed = gate.changed_parts(release["plan"], plan)
    kind = "changed_since_release" if changed else "release_expired"
    if release["decision"] != "release":
        raise GateClosed("a person refused the release", kind="release_refused")
    raise ChangedSinceRelease(
        "the release does not hold: " + "; ".join(problems),
        kind=kind,
        problems=[Problem(f"changed: {name}") for name in changed[:10]],
        hint=f"a person releases again: tunegate release {run.argument}",
        where=show_path(run.store.path("release.json")),
    )


def _problems(run: Run, release: Json, plan: Json) -> list[str]:
    """Why a release does not hold: by the person's own chain as much as by its own words."""
    problems = gate.release_problems(
        release,
        plan_digest=digest_of(plan),
        now=now(),
        spent=[n for n in run.store.attempts() if _used(run, n, release["nonce"])],
    )
    wanted = {key: release[key] for key in CHAINED}
    if not any(
        all(line.get(k) == v for k, v in wanted.items()) for line in approvers.chain(run.person_dir)
    ):
        problems.append("it does not stand in the person's chain of releases")
    level, why = gate.required_level(plan)
    if release["level"] < level:
        problems.append(f"it was given at level {release['level']}, and {why}")
    return problems


def _used(run: Run, number: int, nonce: str) -> bool:
    import json

    path = run.store.path(f"attempts/{number}/job.json")
    try:
        return bool(json.loads(path.read_text())["release_nonce"] == nonce)
    except (OSError, ValueError, KeyError):
        return False


def parse_waivers(texts: tuple[str, ...]) -> dict[str, str]:
    """`check=reason` -> {check: reason}. Raises UsageError where the reason is missing."""
    out = {}
    for text in texts:
        name, _, reason = text.partition("=")
        if len(reason.strip()) < 5:
            raise UsageError(
                f"a waiver needs a reason, got {text!r}",
                hint='--waive leak_check="rows are paraphrases"',
            )
        out[name.strip()] = reason.strip()
    return out
