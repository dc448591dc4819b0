"""One attempt at training: what is counted, when it is saved and validated, and its receipt.

Every trainer that runs here shares this, so that checkpoints, metrics and receipt mean the same
whichever of them computed the steps.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from tunegate.errors import BudgetReached, ChangedSinceRelease, TrainerError
from tunegate.types import Example, Json
from tunegate.worker import checkpoint, probe
from tunegate.worker.emit import Emit, now_iso, write_durably, write_json
from tunegate.worker.feed import Order
from tunegate.worker.model import ADAPTER_FILE, Base, b_norm, set_adapter
from tunegate.worker.step import StepResult

PROBES = 8
"""Training prompts on which the adapter must change the answer's first logits."""

RECENT = 20
"""So many of the latest steps and saves tell what the next ones may take."""


class Engine(Protocol):
    """What computes the steps."""

    @property
    def base(self) -> Base:
        """The model with its adapter, as it is now."""
        ...

    def write(self, folder: Path) -> None:
        """Write adapter, optimizer and generators: all that an exact resume needs."""
        ...

    def restore(self, folder: Path) -> None:
        """Take up what `write` wrote."""
        ...

    def validation_loss(self, watch: Callable[[int], None]) -> float:
        """Mean over all supervised tokens of the held-out rows."""
        ...


class Attempt:
    """One attempt. `state` is what a checkpoint stores beside the tensors."""

    def __init__(
        self, job: Json, emit: Emit, engine: Engine, rows: list[Example], held: list[Example]
    ) -> None:
        self.job, self.emit, self.engine = job, emit, engine
        self.rows, self.held = rows, held
        self.dir = Path(job["attempt_dir"])
        self.settings: Json = job["frozen"]["settings"]["train"]
        self.order = Order(len(rows), self.settings["batch_size"], self.settings["seed"])
        self.planned = self.order.total_steps(self.settings)
        self.every_s = float(job.get("checkpoint_every_s") or math.inf)
        self.ceiling_s = float(job.get("ceiling_s") or math.inf)
        self.risk_s = 60 * float(job["frozen"]["settings"]["limits"]["minutes_at_risk"])
        self.started = now_iso()
        self.step_s: list[float] = []
        self.save_s: list[float] = []
        self.saved_at = time.monotonic()
        self.best_dir: Path | None = None
        self.told_to_stop = False
        self.state: Json = {
            "step": 0, "training": job.get("training") or job["run_digest"], "best": None,
            "rows_seen": 0, "tokens": 0, "answer_tokens": 0, "first_loss": None, "last_loss": None,
            "grad_norm_min": None, "grad_norm_max": None, "train_s": 0.0,
        }  # fmt: skip

    @contextmanager
    def running(self) -> Iterator[int]:
        """Ready to train; gives the first step that is left. A TERM is heeded after the step."""
        (self.dir / checkpoint.FOLDER).mkdir(parents=True, exist_ok=True)
        previous = signal.signal(signal.SIGTERM, self._stop)
        try:
            self._take_up()
            self._need_room()
            yield self.state["step"] + 1
        finally:
            signal.signal(signal.SIGTERM, previous)

    def _stop(self, *_: Any) -> None:
        self.told_to_stop = True

    def after_step(
        self, result: StepResult, batch: Sequence[Example], *, rate: float, took_s: float
    ) -> None:
        """Count a step on the rows of `batch`, then save and validate where that is due.

        Raises, after a checkpoint, KeyboardInterrupt where the process was told to stop, and
        BudgetReached where `ceiling_s` seconds are trained.
        """
        step = self.state["step"] + 1
        self.step_s.append(took_s)
        self._count(step, result, batch, rate=rate)
        if step == self.job.get("stop_after"):
            self.told_to_stop = True
        validate = self._validates(step)
        due = time.monotonic() - self.saved_at >= self._interval_s()
        ends = self.told_to_stop or (self.emit.t_s > self.ceiling_s and step < self.planned)
        # The first step is saved too: a save that cannot work must fail before hours are spent.
        if validate or due or ends or step in (1, self.planned):
            self._save()
        if ends:
            self._end_early(step)
        if validate:
            self._validate()

    def _end_early(self, step: int) -> None:
        if self.told_to_stop:
            self.emit.log(f"told to stop; step {step} is saved")
            raise KeyboardInterrupt
        # The driver keeps the ceiling too; this holds where the driver has died.
        raise BudgetReached(
            f"stopped at step {step} of {self.planned}: {self.emit.t_s / 3600:.3g} h are "
            f"trained, and the ceiling is {self.ceiling_s / 3600:.3g} h",
            hint="that step is saved; raise limits.hours, and tunegate go trains on from it",
        )

    def _interval_s(self) -> float:
        """Seconds between checkpoints: as quoted, or fewer where steps and saves take longer here.

        What a crash loses at worst is what was done since the last save, one more step, and the
        save that it interrupts; all of it must fit into the minutes at risk.
        """
        slowest_s = max(self.step_s[-RECENT:]) + max(self.save_s[-RECENT:], default=0.0)
        return min(self.every_s, self.risk_s - slowest_s)

    def _need_room(self) -> None:
        """Refuse to begin where the checkpoints of the whole run do not fit on the disk.

        Raises TrainerError (`disk_full`) before the first step.
        """
        needed = checkpoint.most_bytes(self.engine.base.model)
        needed -= checkpoint.folder_bytes(self.dir / checkpoint.FOLDER)
        free = shutil.disk_usage(self.dir).free
        if free < needed:
            raise TrainerError(
                f"checkpoints and adapter take {needed / 2**20:.1f} MiB more, and "
                f"{free / 2**20:.1f} MiB are free in {self.dir}",
                kind="disk_full",
                hint="make room, then run the same command again",
            )

    def _count(
        self, step: int, result: StepResult, batch: Sequence[Example], *, rate: float
    ) -> None:
        state = self.state
        state["step"] = step
        state["rows_seen"] += len(batch)
        state["tokens"] += result.tokens
        state["answer_tokens"] += result.answer_tokens
        state["last_loss"] = result.loss
        if state["first_loss"] is None:
            state["first_loss"] = result.loss
        norms = [n for n in (state["grad_norm_min"], state["grad_norm_max"]) if n is not None]
        state["grad_norm_min"] = min([*norms, result.grad_norm])
        state["grad_norm_max"] = max([*norms, result.grad_norm])
        self.emit.metric(
            {
                "step": step,
                "loss": result.loss,
                "grad_norm": result.grad_norm,
                "learning_rate": rate,
                "tokens": result.tokens,
                "answer_tokens": result.answer_tokens,
                "rows": len(batch),
                "row_ids": [example.index for example in batch],
            }
        )
        self.emit.progress(
            "train", step, self.planned, loss=result.loss, rows=self.settings["batch_size"]
        )

    def _validates(self, step: int) -> bool:
        every = self.settings["eval_every_steps"]
        due = self.order.ends_epoch(step) or step == self.planned or (every and step % every == 0)
        return bool(self.held and due)

    def _save(self) -> None:
        self.state["train_s"] = self.emit.t_s
        line = checkpoint.save(
            self.dir, self.engine.write, self.state, best_dir=self.best_dir, emit=self.emit
        )
        self.line = line
        self.saved_at = time.monotonic()
        self.save_s.append(line["save_s"])
        folder = self.dir / line["path"]
        if not self.held:  # nothing to choose by: the newest is the best
            self.state["best"] = {"step": line["step"], "validation_loss": None}
            self.best_dir = folder
        elif self.best_dir is not None:
            self.best_dir = folder / "best"
        self._prune()

    def _prune(self) -> None:
        best = self.state["best"]
        checkpoint.prune(self.dir, step=self.state["step"], best=best["step"] if best else None)

    def _validate(self) -> None:
        """Validation loss of the step that was just saved; the best one's adapter is remembered."""
        step = self.state["step"]
        loss = self.engine.validation_loss(
            lambda done: self.emit.progress("validate", done, len(self.held))
        )
        self.emit.metric({"step": step, "validation_loss": loss})
        self.emit.line("checkpoints.jsonl", {**self.line, "validation_loss": loss}, sync=True)
        self.emit.log(f"step {step}: validation loss {loss:.4f}")
        best = self.state["best"]
        if best is None or loss < best["validation_loss"]:
            self.state["best"] = {"step": step, "validation_loss": loss}
            self.best_dir = self.dir / self.line["path"]
            self._prune()

    def _take_up(self) -> None:
        """Go on where an earlier process of this attempt stood, if one did.

        Lines past the checkpoint are forgotten; the seconds that they took are not, since they were
        spent: `t_s` goes on from them, and a line says where.
        """
        named = self.job.get("resume_from")
        folder = self._restore(Path(named)) if named else None
        step = self.state["step"]
        spent_s = max(self.state["train_s"], _last_t_s(self.dir / "metrics.jsonl"))
        resumed = {"step": step, "t_s": round(spent_s, 3), "resumed": True}
        _forget_after(self.dir / "metrics.jsonl", step, add=resumed if spent_s else None)
        _forget_after(self.dir / "checkpoints.jsonl", step)
        self.emit.count_from(spent_s)
        if folder is None:
            return
        self.emit.log(f"goes on after step {step} from {folder.name}")
        if (folder / "best").is_dir():
            self.best_dir = folder / "best"
        if folder.parent == self.dir / checkpoint.FOLDER:
            lines = (self.dir / "checkpoints.jsonl").read_text().splitlines()
            self.line = json.loads(lines[-1])
            self._prune()
        else:
            self._save()
        if self._validates(step):  # it was saved before it was validated
            self._validate()

    def _restore(self, named: Path) -> Path | None:
        """Restore the named checkpoint; where it is damaged, the newest whole one before it.

        None where none is whole, so that training begins anew. A damaged checkpoint from elsewhere
        is refused: nobody knows what lies before it.
        """
        own = named.parent == self.dir / checkpoint.FOLDER
        for folder in checkpoint.up_to(named) if own else [named]:
            damage = checkpoint.damage(folder)
            if damage is None:
                self.state = checkpoint.read(folder, training=self.state["training"])
                self.engine.restore(folder)
                return folder
            if not own:
                raise ChangedSinceRelease(
                    damage, kind="checkpoint_damaged", hint="name another checkpoint"
                )
            self.emit.log(f"{damage}: takes the one before it")
        self.emit.log("no whole checkpoint is left: begins anew")
        return None

    def finish(self) -> None:
        """Place the best adapter, load it back, and write down what happened."""
        from safetensors.torch import load_file

        assert self.best_dir is not None
        adapter = checkpoint.place_adapter(self.best_dir, self.dir / "adapter")
        tensors = load_file(self.dir / "adapter" / ADAPTER_FILE)
        set_adapter(self.engine.base.model, tensors)
        norm = b_norm(tensors)
        state = self.state
        receipt = {
            "planned_steps": self.planned,
            "steps": state["step"],
            **{key: state[key] for key in (
                "first_loss", "last_loss", "grad_norm_min", "grad_norm_max", "rows_seen", "tokens",
                "answer_tokens", "best",
            )},
            "losses_finite": all(map(math.isfinite, (state["first_loss"], state["last_loss"]))),
            # B starts at zero, so that any norm above it is training.
            "adapter": {**adapter, "changed": norm > 0, "b_norm": norm},
            "effect": probe.effect(self.engine.base, self.rows[:PROBES]),
            "started": self.started,
            "ended": now_iso(),
            "train_s": self.emit.t_s,
            "peak_memory_gib": probe.peak_memory_gib(),
            "step_s_median": _median(self.step_s),
            "save_s_median": _median(self.save_s),
            "environment": probe.environment(),
            "worker_sha256": self.job.get("worker_sha256"),
            "device": probe.device_name(),
        }  # fmt: skip
        write_json(self.dir / "receipt.json", receipt)


def _median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 4) if values else None


def _last_t_s(path: Path) -> float:
    """The latest time that metrics.jsonl tells, in seconds; 0 where it holds none."""
    return max((float(row["t_s"]) for _, row in _rows(path)), default=0.0)


def _rows(path: Path) -> list[tuple[bytes, Json]]:
    """Lines of a JSONL file and what they say; a line that a crash has torn is none."""
    found = []
    for line in path.read_bytes().splitlines() if path.is_file() else []:
        with contextlib.suppress(ValueError):
            found.append((line, json.loads(line)))
    return found


def _forget_after(path: Path, step: int, *, add: Json | None = None) -> None:
    """Drop the lines of later steps, and this step's validation, which is done again.

    `add` is appended in the same stroke.
    """
    kept = [
        line
        for line, row in _rows(path)
        if row["step"] < step or (row["step"] == step and row.get("validation_loss") is None)
    ]
    kept += [json.dumps(add).encode()] if add else []
    if kept or path.is_file():
        write_durably(path, b"".join(line + b"\n" for line in kept))
