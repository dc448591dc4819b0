"""One clean toy project in a folder, and the ways in which a case may change it.

200 chat rows to train on, 40 to validate, 80 to test, JSON answers of eight classes with an escape
class and a schema, an adversarial and a general slice, a teacher, a system prompt, a run file and a
base folder of its own. Rows and settings are held as values until `save` writes them.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.planted import plugin
from bench.planted.language import CLASSES, ESCAPE, messages
from bench.planted.models import system_text

Json = dict[str, Any]
SIZES = {"train": 200, "validation": 40, "test": 80, "adversarial": 24}
TOY = {"answer": "a toy model of 0.3 M weights needs more", "source": "trials with this model"}
RULES = (
    ("say hello", {"contains": ["hello"]}),
    ("say yes or no", {"contains_any": ["yes", "no"]}),
    ("name one colour in one word", {"max_words": 1}),
    ("which is larger? A) 2 B) 7. Answer with the letter.", {"choice": "B"}),
)


def answer(label: str) -> str:
    """The JSON answer that names a class."""
    return json.dumps({"intent": label})


def turn(role: str, content: Any, **more: Any) -> Json:
    """One message."""
    return {"role": role, "content": content, **more}


class Project:
    """The files of one run, to be changed and then saved."""

    def __init__(self, folder: Path, *, knowing: Path) -> None:
        self.folder = folder
        self.base = folder / "base"
        self.knowing = knowing
        self.dice = random.Random(0)
        self.splits: dict[str, list[Json]] = {}
        self.files: dict[str, bytes] = {}
        """Bytes by path that are written last, over what is there."""
        self.edits: list[tuple[str, Callable[[bytes], bytes]]] = []
        """Changes of a written file's bytes, by path."""
        self.spec: Json = {}
        self.schema: Json | None = None
        self.system = system_text() + "\n"
        self.plugin_dir: Path | None = None
        self.twins: list[tuple[str, Json]] = []
        """Runs on the same inputs, such as an anchor: folder and keys that differ."""

    @classmethod
    def make(cls, folder: Path, *, base: Path, knowing: Path) -> Project:
        """The clean project."""
        folder.mkdir(parents=True)
        shutil.copytree(base, folder / "base")
        project = cls(folder, knowing=knowing)
        for name, count in SIZES.items():
            project.splits[name] = [
                {"id": f"{name}-{place}", "messages": _pair(text, answer(label))}
                for place, (text, label) in enumerate(messages(count, split=name, seed=0))
            ]
        project.splits["general"] = [
            {"id": f"general-{place}", "prompt": text, "check": check}
            for place, (text, check) in enumerate(RULES)
        ]
        project.teach()
        project.declare(CLASSES, escape=ESCAPE)
        project.spec = _spec()
        return project

    def teach(self, spell: Callable[[str], str] = str) -> None:
        """Let the teacher answer every row that is evaluated, as the rows now stand."""
        teacher = [{"id": row["id"], "output": "hello, yes"} for row in self.splits["general"]]
        for name in ("test", "adversarial"):
            for row in self.splits.get(name, ()):
                teacher.append({"id": row["id"], "output": spell(row["messages"][-1]["content"])})
        self.splits["teacher"] = teacher

    def declare(self, labels: tuple[str, ...], *, escape: str) -> None:
        """The schema of the answers, and the escape class among its values."""
        self.schema = {
            "type": "object",
            "properties": {"intent": {"enum": list(labels)}},
            "required": ["intent"],
            "additionalProperties": False,
        }
        if self.spec:
            self.set("task.escape", escape)

    def set(self, key: str, value: Any) -> None:
        """Set a dotted key of the run file; None takes it out."""
        *above, last = key.split(".")
        inner = self.spec
        for name in above:
            inner = inner.setdefault(name, {})
        if value is None:
            inner.pop(last, None)
        else:
            inner[last] = value

    def answer_question(self, question: str, text: str) -> None:
        """Answer a question of gate 1 in the run file."""
        self.spec["research"]["answers"][question] = {"answer": text, "source": "trials, see notes"}

    def rows(self, split: str, *, every: int = 1, start: int = 0) -> list[Json]:
        """Some rows of a split, themselves and not copies."""
        return self.splits[split][start::every]

    def pairs(self, split: str) -> list[tuple[str, str]]:
        """The message and the answer of each row of a split in its first form."""
        return [
            (row["messages"][0]["content"], row["messages"][-1]["content"])
            for row in self.splits[split]
        ]

    def each(self, *splits: str, do: Callable[[Json], Json]) -> None:
        """Put `do` of each row in its place, in the splits named."""
        for name in splits:
            self.splits[name] = [do(row) for row in self.splits[name]]

    def template(self, source: str, **tokens: str) -> None:
        """Give the base another chat template, and other special tokens by name."""
        (self.base / "chat_template.jinja").write_text(source, encoding="utf-8")
        self.base_json("tokenizer_config.json", **tokens)

    def base_json(self, name: str, **changes: Any) -> None:
        """Change keys of a JSON file of the base; None takes one out."""
        path = self.base / name
        merged = {**json.loads(path.read_text(encoding="utf-8")), **changes}
        kept = {key: value for key, value in merged.items() if value is not None}
        path.write_text(json.dumps(kept, indent=1), encoding="utf-8")

    def token_id(self, text: str) -> int:
        """Id of a control token of the base."""
        encoder = json.loads((self.base / "tokenizer.json").read_text(encoding="utf-8"))
        return next(int(t["id"]) for t in encoder["added_tokens"] if t["content"] == text)

    def plugin(self, body: str) -> None:
        """Train with a third party's framework whose module holds `body`."""
        self.plugin_dir = self.folder / "site"
        plugin.write(self.plugin_dir, body)
        self.set("train.framework", plugin.NAME)
        self.answer_question(f"versions.{plugin.NAME}", "the versions that are installed here")

    def save(self) -> None:
        """Write everything."""
        for name, rows in self.splits.items():
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (self.folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
        if self.schema is not None:
            (self.folder / "schema.json").write_text(json.dumps(self.schema), encoding="utf-8")
        (self.folder / "system.txt").write_text(self.system, encoding="utf-8")
        # JSON is YAML, so a run file can be written without a YAML library.
        text = json.dumps(self.spec, indent=1, ensure_ascii=False)
        (self.folder / "run.yaml").write_text(text, encoding="utf-8")
        for name, data in self.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        for name, change in self.edits:
            path = self.folder / name
            before = path.read_bytes()
            after = change(before)
            if after == before:
                raise ValueError(f"{name}: the change of the case changes nothing")
            path.write_bytes(after)
        for name, changes in self.twins:
            self._save_twin(self.folder / name, changes)

    def _save_twin(self, folder: Path, changes: Json) -> None:
        folder.mkdir()
        for path in [p for p in self.folder.iterdir() if p.suffix in (".jsonl", ".json", ".txt")]:
            shutil.copy(path, folder)
        shutil.copytree(self.base, folder / "base")
        train = {**self.spec["train"], **changes}
        kept = {key: self.spec[key] for key in self.spec if key != "anchor"}
        text = json.dumps({**kept, "name": "twin", "train": train}, indent=1)
        (folder / "run.yaml").write_text(text, encoding="utf-8")


def _pair(text: str, said: str) -> list[Json]:
    return [turn("user", text), turn("assistant", said)]


def _spec() -> Json:
    return {
        "name": "toy",
        "task": {"answer": "json", "schema": "schema.json", "class": "/intent", "escape": ESCAPE},
        "data": {"train": "train.jsonl", "validation": "validation.jsonl"},
        "prompt": {"system": "system.txt"},
        "base": {"model": "base"},
        "train": {"epochs": 2, "learning_rate": 5e-3, "precision": "fp32"},
        "eval": {
            "test": "test.jsonl",
            "slices": {"adversarial": "adversarial.jsonl", "general": "general.jsonl"},
            "raw": {"shots": [0, 2]},
            "teacher": {"predictions": "teacher.jsonl"},
        },
        "research": {"answers": {"train.learning_rate": TOY}},
        "limits": {"minutes_at_risk": 1},
    }
