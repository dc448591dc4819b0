"""The facts that freezing needs, gathered from disk: hashes, token counts, the base, versions.

Token counts of a file are taken over from the frozen file that stands there when neither the file
nor what renders it has changed, so that a verb on an unchanged run costs no tokenising.
"""

from __future__ import annotations

import platform as host_platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunegate import bases, environments, facts, frameworks, platforms
from tunegate.compare.wording import many
from tunegate.drive import Progress
from tunegate.errors import SpecError, UsageError
from tunegate.freeze import Facts, FileFacts, resolve_task
from tunegate.store import digest_of, sha256_file
from tunegate.types import Json
from tunegate.verbs.rowfacts import Reader
from tunegate.verbs.run import Run, cache_dir
from tunegate.worker.template import template_source, training_template
from tunegate.worker.tokens import Tokenizer, load_tokenizer, stop_ids

if TYPE_CHECKING:
    from tunegate.specmodel import Spec

PACKAGES = ("torch", "transformers", "peft", "tokenizers", "safetensors", "llguidance", "jinja2")


def gather(run: Run) -> Facts:
    """Read everything that the run file names. Raises UsageError kinds with file and line."""
    spec, folder = run.spec, run.source_dir
    # Unknown names are told before anything is unpacked or read.
    frameworks.load(spec.train.framework)
    platforms.load(spec.platform)
    _lineage_is_sound(run)
    base = resolve_base(run)
    _targets_exist(spec, base, run.file)
    tokenizer = load_tokenizer(base.dir)
    prompt = _prompt(spec, folder)
    template = _template(spec, folder, base.dir)
    known = _known_counts(run, template, prompt)
    schema = _schema(spec, folder)
    reader = Reader(
        run=run,
        tokenizer=tokenizer,
        template=training_template({"template": template}, special_tokens=tokenizer.special_tokens),
        system=prompt["system"],
        task=resolve_task(spec, schema),
        known=known,
    )
    files = {name: reader.facts(name, path) for name, path in data_files(spec).items()}
    _enough_examples(spec, files["train"], run.file)
    return Facts(
        files=files,
        kinds=reader.kinds,
        base=_base_facts(base),
        tokenizer=_tokenizer_facts(base.dir, tokenizer),
        template=template,
        prompt=prompt,
        candidates=_candidates(spec, folder, prompt),
        schema=schema,
        environment=_environment(),
        trainer=_trainer(run),
        device=device(),
        tables=facts.load_all(),
    )


def resolve_base(run: Run) -> bases.Base:
    """The base model on this machine, unpacked or fetched where that is needed."""
    return bases.resolve(
        run.spec.base.model,
        run.spec.base.revision,
        cache_dir=cache_dir(),
        folder=run.source_dir,
        progress=lambda text, share: run.show(Progress(text, share, 1.0)),
    )


def _targets_exist(spec: Spec, base: bases.Base, file: Path) -> None:
    missing = [name for name in spec.train.lora.targets or () if name not in base.linear_modules]
    if missing:
        raise SpecError(
            f"train.lora.targets names {missing[0]!r}, which is no linear module of the base",
            where=str(file),
            hint="its modules: " + ", ".join(sorted(base.linear_modules)),
        )


def _enough_examples(spec: Spec, train: FileFacts, file: Path) -> None:
    most = max(spec.eval.raw.shots)
    if most > train.rows:
        raise SpecError(
            f"eval.raw.shots asks for {many(most, 'worked example')}, and {train.path} has "
            f"{many(train.rows, 'row')}",
            where=str(file),
            hint=f"shots of at most {train.rows}; [0] tries no worked examples",
        )


def _lineage_is_sound(run: Run) -> None:
    """Parents exist, were frozen, and do not go round in a circle."""
    seen, current = {run.folder}, run
    while current.spec.parent is not None:
        parent = Run(current.source_dir / current.spec.parent)
        if parent.folder in seen:
            raise SpecError(
                "`parent` leads back to this run", where=str(run.file), hint="name an earlier run"
            )
        if not parent.store.exists("frozen.json"):
            raise SpecError(
                f"the parent {parent.argument} was never frozen",
                where=str(run.file),
                hint=f"tunegate freeze {parent.argument}",
            )
        seen.add(parent.folder)
        current = parent


def data_files(spec: Spec) -> dict[str, str]:
    """Name and path of every row file, relative to the run file's folder."""
    out = {"train": spec.data.train, "validation": spec.data.validation, "test": spec.eval.test}
    out.update({f"slice:{name}": path for name, path in spec.eval.slices.items()})
    if spec.eval.teacher:
        out["teacher"] = spec.eval.teacher.predictions
    return out


def _known_counts(run: Run, template: Json, prompt: Json) -> Mapping[str, Json]:
    """Facts of files in the frozen file that stands, if the same text renders them now."""
    if not run.store.exists("frozen.json"):
        return {}
    try:
        old = run.store.read("frozen.json")
    except UsageError:
        return {}
    same = old["template"] == template and old["prompt"] == prompt
    same = same and old["settings"]["train"]["loss"] == (run.spec.train.loss or "answer")
    same = same and old["settings"]["data"].get("columns") == run.spec.data.columns
    same = same and old["base"]["model"] == run.spec.base.model
    return dict(old["data"]) if same else {}


def _prompt(spec: Spec, folder: Path) -> Json:
    if spec.prompt.system is None:
        return {"system": None, "sha256": digest_of(None)}
    text = _text(folder / spec.prompt.system)
    return {"system": text, "sha256": digest_of(text)}


def _text(path: Path, *, whole: bool = False) -> str:
    """A prompt file's text, without the line end that editors leave at its end; of a template,
    the `whole` text.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise UsageError(
            f"{path.name} is not UTF-8 text", where=str(path), hint="save the file as UTF-8"
        ) from exc
    if text.startswith("\ufeff"):
        raise UsageError(
            f"{path.name} begins with a byte-order mark, which would be read as part of it",
            where=str(path),
            hint="save it as UTF-8 without a byte-order mark",
        )
    return text if whole else text.rstrip("\n")


def _candidates(spec: Spec, folder: Path, prompt: Json) -> list[Json]:
    found: list[Json] = []
    if prompt["system"] is not None:
        found.append({"name": "serving", "sha256": prompt["sha256"], "text": prompt["system"]})
    named = spec.eval.raw.prompts
    for item in [named] if isinstance(named, str) else named or []:
        path = folder / item
        for file in sorted(path.glob("*.txt")) if path.is_dir() else [path]:
            text = _text(file)
            if all(candidate["text"] != text for candidate in found):
                name, digest = file.stem, digest_of(text)
                if any(candidate["name"] == name for candidate in found):
                    name = f"{name}-{digest[:6]}"
                found.append({"name": name, "sha256": digest, "text": text})
    return found or [{"name": "none", "sha256": digest_of(None), "text": None}]


def _template(spec: Spec, folder: Path, base_dir: Path) -> Json:
    source = template_source(base_dir)
    training = None
    if spec.train.chat_template is not None:
        training = _text(folder / spec.train.chat_template, whole=True)
    found: Json = {"sha256": digest_of(source), "source": source, "training_source": training}
    if kwargs := spec.prompt.chat_template_kwargs:
        # What serving renders is the template with these, so its digest is of both.
        found |= {"sha256": digest_of([source, kwargs]), "kwargs": dict(kwargs)}
    return found


def _schema(spec: Spec, folder: Path) -> Json | None:
    import json

    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    if spec.task.schema_ is None:
        return None
    path = folder / spec.task.schema_
    try:
        schema = json.loads(_text(path, whole=True))
        Draft202012Validator.check_schema(schema)
    except json.JSONDecodeError as exc:
        raise SpecError(f"not JSON: {exc.msg}", where=f"{path}:{exc.lineno}:{exc.colno}") from exc
    except SchemaError as exc:
        raise SpecError(f"not a JSON Schema: {exc.message}", where=str(path)) from exc
    return dict(schema)


def _base_facts(base: bases.Base) -> Json:
    return {
        "model": base.model,
        "revision": base.revision,
        "dir": str(base.dir),
        "files": dict(base.files),
        "architecture": base.architecture,
        "parameters": base.parameters,
        "layers": base.layers,
        "hidden": base.hidden,
        "vocab": base.vocab,
        "context": base.context,
        "dtype": base.dtype,
        "linear_modules": dict(base.linear_modules),
    }


def _tokenizer_facts(base_dir: Path, tokenizer: Tokenizer) -> Json:
    return {
        "sha256": sha256_file(base_dir / "tokenizer.json"),
        "eos_token": tokenizer.special_tokens.get("eos_token"),
        "eos_id": tokenizer.eos_id,
        "pad_id": tokenizer.pad_id,
        "bos_id": tokenizer.bos_id,
        "stop_ids": sorted(stop_ids(base_dir)),
    }


def _environment() -> dict[str, str | None]:
    return {**versions_of(PACKAGES), "python": host_platform.python_version()}


def _trainer(run: Run) -> Json | None:
    """The framework's own environment: its lock and versions; None where it has none."""
    return None if run.environment is None else environments.described(run.environment)


def versions_of(packages: Iterable[str]) -> dict[str, str | None]:
    """Installed versions; None where a package is not there."""
    found: dict[str, Any] = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def device() -> Json:
    """What this machine computes with, as the precision table asks for it."""
    return {"kind": "cpu", "bf16_native": _bf16_native()}


def _bf16_native() -> bool:
    """Whether the processor multiplies bf16 itself; others emulate it, 18 times slower."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return any(flag in text for flag in ("avx512_bf16", "amx_bf16"))
