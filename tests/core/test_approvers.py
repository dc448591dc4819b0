"""The person's act: a real terminal, agent marks, and the chain of releases."""

from __future__ import annotations

import os
import pty
import threading
from pathlib import Path

import pytest

from tunegate import approvers
from tunegate.errors import UsageError, WaitingForPerson

DIGEST = "a" * 60 + "beef"


def ask(answer: str, *, marks: list[str] | None = None) -> tuple[bool, str]:
    """Ask on a pseudo-terminal whose other end types `answer`; the answer and what was shown."""
    person, terminal = pty.openpty()
    shown: list[bytes] = []

    def type_answers() -> None:
        for line in answer.splitlines():
            while b"refuse: " not in b"".join(shown).rsplit(b"\x00", 1)[-1]:
                shown.append(os.read(person, 4096))
            shown.append(b"\x00")
            os.write(person, line.encode() + b"\n")

    typist = threading.Thread(target=type_answers, daemon=True)
    typist.start()
    try:
        agreed = approvers.ask_person(
            "the plan\n",
            ceiling="5",
            digest=DIGEST,
            marks=marks or [],
            command="tunegate release r",
            terminal=lambda: Path(os.ttyname(terminal)),
        )
    finally:
        typist.join(timeout=10)
        os.close(terminal)
        os.close(person)
    return agreed, b"".join(shown).decode()


def test_the_person_types_ceiling_and_digest() -> None:
    agreed, shown = ask("5 beef")
    assert agreed
    assert "the plan" in shown and "(5)" in shown


def test_the_person_may_refuse() -> None:
    assert ask("refuse")[0] is False


def test_wrong_answers_do_not_release() -> None:
    with pytest.raises(WaitingForPerson, match="three wrong answers"):
        ask("yes\n5\nbeef 5")


def test_a_mistake_may_be_mended() -> None:
    assert ask("5 bee\n5 beef")[0]


def test_an_agents_mark_stops_before_the_terminal_is_opened() -> None:
    def never() -> Path:
        raise AssertionError("the terminal was opened")

    with pytest.raises(WaitingForPerson, match="CLAUDECODE shows that an agent") as caught:
        approvers.ask_person(
            "",
            ceiling="5",
            digest=DIGEST,
            marks=["CLAUDECODE"],
            command="tunegate release r",
            terminal=never,
        )
    assert caught.value.exit_code == 4
    assert caught.value.hint is not None and "tunegate release r" in caught.value.hint


def test_without_a_terminal_it_waits(tmp_path: Path) -> None:
    with pytest.raises(WaitingForPerson, match="no terminal"):
        approvers.ask_person(
            "",
            ceiling="5",
            digest=DIGEST,
            marks=[],
            command="c",
            terminal=lambda: tmp_path / "none" / "tty",
        )


def test_marks_are_read_from_the_environment() -> None:
    assert approvers.agent_marks({"CODEX_THREAD_ID": "x", "PATH": "/bin"}) == ["CODEX_THREAD_ID"]
    assert approvers.agent_marks({"CLAUDECODE": ""}) == []


def test_the_chain_holds_and_a_changed_line_breaks_it(tmp_path: Path) -> None:
    for number in range(3):
        head = approvers.append(tmp_path, {"plan_digest": str(number)})
    assert head == approvers.head(tmp_path)
    assert [line["plan_digest"] for line in approvers.chain(tmp_path)] == ["0", "1", "2"]
    path = tmp_path / "releases.jsonl"
    path.write_text(path.read_text().replace('"plan_digest": "1"', '"plan_digest": "7"'))
    with pytest.raises(UsageError, match="chain is broken") as caught:
        approvers.chain(tmp_path)
    assert caught.value.where is not None and caught.value.where.endswith("releases.jsonl:3")


def test_the_persons_folder_follows_the_environment() -> None:
    assert approvers.person_dir({"TUNEGATE_HOME": "/x"}) == Path("/x")
    assert approvers.person_dir({"XDG_CONFIG_HOME": "/c"}) == Path("/c/tunegate")
