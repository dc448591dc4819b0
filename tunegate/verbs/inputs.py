"""The facts that freezing needs, gathered from disk: hashes, token counts, the base, versions.

Token counts of a file are taken over from the frozen file that stands there when neither the file
nor what renders it has changed, so that a verb on an unchanged run costs no tokenising.
"""

from __future__ import annotations

import platform as host_platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunegate import bases, environments, facts, frameworks, platforms
from tunegate.compare.wording import many
from tunegate.drive import Progress
from tunegate.errors import DataError, SpecError, UsageError
from tunegate.freeze import Facts, FileFacts, resolve_task
from tunegate.spec import place
from tunegate.store import digest_of, sha256_file
from tunegate.types import Json
from tunegate.verbs.rowfacts import Reader
from tunegate.verbs.run import Run, cache_dir
from tunegate.worker.template import (
    TEMPLATE_FILE,
    Template,
    template_source,
    training_template,
)
from tunegate.worker.tokens import Tokenizer, load_tokenizer, stop_ids, turn_end_id

if TYPE_CHECKING:
    from tunegate.specmodel import Spec

PACKAGES = ("torch", "transformers", "peft", "tokenizers", "safetensors", "llguidance", "jinja2")


def gather(run: Run) -> Facts:
    """Read everything that the run file names. Raises UsageError kinds with file and line."""
    spec, folder = run.spec, run.source_dir
    # Unknown names are told before anything is unpacked or read.
    with _at(run.file, "train", "framework"):
        frameworks.load(spec.train.framework)
    with _at(run.file, "platform"):
        platforms.load(spec.platform)
    _lineage_is_sound(run)
    base = resolve_base(run)
    _targets_exist(spec, base, run.file)
    with _at(run.file, "base", "model"):
        tokenizer = load_tokenizer(base.dir)
    prompt = _prompt(spec, folder)
    template = _template(spec, folder, base.dir)
    known = _known_counts(run, template, prompt)
    schema = _schema(spec, folder)
    reader = Reader(
        run=run,
        tokenizer=tokenizer,
        template=_compiled(spec, folder, base.dir, template, tokenizer),
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
    with _at(run.file, "base", "model"):
        return bases.resolve(
            run.spec.base.model,
            run.spec.base.revision,
            cache_dir=cache_dir(),
            folder=run.source_dir,
            progress=lambda text, share: run.show(Progress(text, share, 1.0)),
        )


@contextmanager
def _at(file: Path, *keys: str) -> Iterator[None]:
    """Give an error that names no place the place of a key of the run file."""
    try:
        yield
    except UsageError as error:
        error.where = error.where or place(file, *keys)
        raise


def _targets_exist(spec: Spec, base: bases.Base, file: Path) -> None:
    missing = [name for name in spec.train.lora.targets or () if name not in base.linear_modules]
    if missing:
        raise SpecError(
            f"train.lora.targets names {missing[0]!r}, which is no linear module of the base",
            where=place(file, "train", "lora", "targets"),
            hint="its modules: " + ", ".join(sorted(base.linear_modules)),
        )


def _enough_examples(spec: Spec, train: FileFacts, file: Path) -> None:
    most = max(spec.eval.raw.shots)
    if most > train.rows:
        raise SpecError(
            f"eval.raw.shots asks for {many(most, 'worked example')}, and {train.path} has "
            f"{many(train.rows, 'row')}",
            where=place(file, "eval", "raw", "shots"),
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
    if not text.strip():
        raise UsageError(
            f"{spec.prompt.system} is empty",
            where=str(folder / spec.prompt.system),
            hint="write the serving prompt, or take prompt.system out of the run file",
        )
    return {"system": text, "sha256": digest_of(text)}


def _text(path: Path, *, whole: bool = False) -> str:
    """A prompt file's text, without the line end that editors leave at its end; of a template,
    the `whole` text.
    """
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise UsageError(
            f"{path.name} is not UTF-8 text: byte 0x{raw[exc.start]:02x}",
            where=f"{path}:{raw.count(bytes([10]), 0, exc.start) + 1}",
            hint="save the file as UTF-8",
        ) from exc
    if text.startswith("\ufeff"):
        raise UsageError(
            f"{path.name} begins with a byte-order mark, which would be read as part of it",
            where=f"{path}:1",
            hint="save it as UTF-8 without a byte-order mark",
        )
    line, nul, _ = text.partition("\0")
    if nul:
        raise UsageError(
            f"{path.name} holds a NUL character",
            where=f"{path}:{line.count(chr(10)) + 1}",
            hint="write the file again as plain text in UTF-8",
        )
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as Python reads text
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


def _compiled(
    spec: Spec, folder: Path, base_dir: Path, template: Json, tokenizer: Tokenizer
) -> Template:
    """The template that training renders with, tried on a question and an answer."""
    named = spec.train.chat_template
    file = folder / named if named else base_dir / TEMPLATE_FILE
    try:
        made = training_template({"template": template}, special_tokens=tokenizer.special_tokens)
        turn_end_id(tokenizer, made)
    except DataError as error:
        line = (error.where or "").removeprefix("line ")
        where = f"{file}:{line}" if line else str(file)
        raise DataError(error.message, where=where, hint=error.hint) from error
    return made


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
        raise SpecError(
            f"not JSON: {exc.msg[0].lower()}{exc.msg[1:]}",
            where=f"{path}:{exc.lineno}:{exc.colno}",
            hint="the file holds one JSON Schema; mend it at this place",
        ) from exc
    except RecursionError as exc:
        raise SpecError(
            "nested too deeply to be a JSON Schema", where=str(path), hint="use $defs and $ref"
        ) from exc
    except SchemaError as exc:
        raise SpecError(
            f"not a JSON Schema: at {exc.json_path}, {exc.message[:300]}",
            where=str(path),
            hint="mend it there; https://json-schema.org/draft/2020-12 says what is allowed",
        ) from exc
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
