"""Results, errors and progress as text for a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import IO, Any, Self

from tunegate.drive import Progress
from tunegate.errors import TunegateError

QUIET_LINE_S = 15.0
"""Without a terminal, one phase prints at most one line in this many seconds."""


def error(exc: TunegateError) -> str:
    """`error:` with every problem, then `hint:`."""
    lines = [f"error: {exc}"]
    lines += [f"  {problem}" for problem in exc.problems if str(problem) != str(exc)]
    if exc.hint:
        lines.append(f"hint: {exc.hint}")
    return "\n".join(lines)


def result(found: Any) -> str:
    """The summary, the verb's own lines, and what may be run next."""
    if found.text is not None:
        return str(found.text)
    lines = [found.summary]
    lines += [str(line) for line in found.data.get("lines", ())]
    lines += [f"warning: {text}" for text in found.data.get("warnings", ())]
    if found.data.get("recommended"):
        lines.append(f"next: {found.data['recommended']}")
    elif found.next:
        lines.append(f"next: {found.next[0]}")
    return "\n".join(lines)


def clock(seconds: float) -> str:
    """Seconds as `m:ss`."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"


class ProgressLines:
    """A live bar on a terminal; elsewhere a line when a phase begins and now and then after."""

    def __init__(self, stream: IO[str], *, live: bool) -> None:
        self.stream = stream
        self.live = live
        self.phase: str | None = None
        self.printed_at = 0.0
        self.began = time.monotonic()
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def show(self, progress: Progress) -> None:
        if self.live:
            self._show_live(progress)
            return
        now = time.monotonic()
        if progress.phase == self.phase and now - self.printed_at < QUIET_LINE_S:
            return
        self.phase, self.printed_at = progress.phase, now
        self.stream.write(f"[{clock(now - self.began)}] {self._line(progress)}\n")
        self.stream.flush()

    @staticmethod
    def _line(progress: Progress) -> str:
        parts = [progress.phase]
        if progress.total and progress.total > 1:
            parts.append(f"{progress.done:.0f}/{progress.total:.0f}")
        elif progress.total:
            parts.append(f"{100 * progress.done / progress.total:.0f} %")
        if progress.text:
            parts.append(progress.text)
        if progress.eta_s:
            parts.append(f"{clock(progress.eta_s)} left")
        return "  ".join(parts)

    def _show_live(self, progress: Progress) -> None:
        if self.bar is None:
            self._open()
        if progress.phase != self.phase:
            if self.task is not None:
                self.bar.update(
                    self.task,
                    completed=self.bar.tasks[-1].total or 1,
                    total=self.bar.tasks[-1].total or 1,
                )
            self.phase = progress.phase
            self.task = self.bar.add_task(progress.phase, total=progress.total, detail="")
        detail = progress.text + (f"  {clock(progress.eta_s)} left" if progress.eta_s else "")
        self.bar.update(self.task, completed=progress.done, total=progress.total, detail=detail)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self.bar = Progress(
            TextColumn("{task.description:<28}"),
            BarColumn(bar_width=28),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}"),
            console=Console(file=self.stream),
        )
        self.bar.start()
