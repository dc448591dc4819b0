"""Faults that people bring, each planted into a run folder that is right otherwise.

`CASES` lists them: what is planted, and what the command line has to answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.toys_model import toy_rows

Plant = Callable[[Path], Any]


@dataclass(frozen=True)
class Case:
    """One fault and its answer."""

    name: str
    plant: Plant
    where: str | None
    """End of the place that is named; None where there is none."""
    says: tuple[str, ...]
    """Parts of the error's text."""
    hint: str
    """Part of the hint: the next command, or the change."""
    kind: str = "data_invalid"
    code: int = 2
    command: tuple[str, ...] = ("freeze",)


def lines(folder: Path, name: str = "train.jsonl") -> list[bytes]:
    return (folder / name).read_bytes().splitlines(keepends=True)


def change(folder: Path, **keys: Any) -> None:
    """Merge keys into the run file."""
    spec = json.loads((folder / "run.yaml").read_text())
    for key, value in keys.items():
        spec[key] = {**spec.get(key, {}), **value} if isinstance(value, dict) else value
    (folder / "run.yaml").write_text(json.dumps(spec, indent=1, ensure_ascii=False))


def run_file(**keys: Any) -> Plant:
    return lambda folder: change(folder, **keys)


def put(name: str, raw: bytes | str) -> Plant:
    """The file with this content."""
    data = raw.encode() if isinstance(raw, str) else raw
    return lambda folder: (folder / name).write_bytes(data)


def as_train(name: str, raw: bytes | str, **keys: Any) -> Plant:
    """Training rows of another kind of file."""

    def plant(folder: Path) -> None:
        put(name, raw)(folder)
        change(folder, data={"train": name, **keys})

    return plant


def line(number: int, raw: bytes | str | dict[str, Any]) -> Plant:
    """One line of the training file in place of its own."""
    text = json.dumps(raw) if isinstance(raw, dict) else raw
    data = text.encode() if isinstance(text, str) else text

    def plant(folder: Path) -> None:
        found = lines(folder)
        found[number - 1] = data + b"\n"
        (folder / "train.jsonl").write_bytes(b"".join(found))

    return plant


def whole(rewrite: Callable[[bytes], bytes], name: str = "train.jsonl") -> Plant:
    """A file's bytes, rewritten."""
    return lambda folder: (folder / name).write_bytes(rewrite((folder / name).read_bytes()))


def instead(make: Callable[[Path], Any]) -> Plant:
    """Something else where the training file was."""

    def plant(folder: Path) -> None:
        path = folder / "train.jsonl"
        path.unlink()
        make(path)

    return plant


def said(user: str, answer: str) -> dict[str, str]:
    return {"prompt": user, "completion": answer}


ANSWER = '{"intent": "invoice"}'
CELL = '"{""intent"": ""invoice""}"'
ARRAY = json.dumps(toy_rows(12, seed=1, prefix="t"), indent=1)
NAMED = {"prompt": "question", "completion": "reply"}
LINT, LEAK = (("check", "--only", check) for check in ("data_lint", "leak_check"))
CLOSED: dict[str, Any] = {"kind": "check_failed", "code": 3}
SPEC: dict[str, Any] = {"kind": "spec_invalid"}
GONE: dict[str, Any] = {"kind": "file_missing"}
USAGE: dict[str, Any] = {"kind": "usage"}
BASE: dict[str, Any] = {"kind": "base_invalid"}
NAME: dict[str, Any] = {"kind": "unknown_name"}
KEYS, PATHS = "tunegate schema prints every key", "relative to the folder"
INIT = "tunegate init FOLDER --train ROWS"
UTF8, AGAIN = "save the file as UTF-8", "write or copy the file again"
ROLES = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"},
         {"role": "assistant", "content": ANSWER}]  # fmt: skip
NEAR_TURN = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "wieght": 0}]

FILES = [
    Case("missing", instead(lambda path: None), "run.yaml:10:3",
         ("`data.train`: no such file, train.jsonl",), PATHS, **GONE),
    Case("misspelt", run_file(data={"train": "trian.jsonl"}), "run.yaml:10:3",
         ("no such file, trian.jsonl; did you mean train.jsonl?",), PATHS, **GONE),
    Case("empty", put("train.jsonl", b""), "train.jsonl", ("train.jsonl has no rows",),
         "docs/data.md"),
    Case("blank lines", put("train.jsonl", b"\n \n"), "train.jsonl", ("has no rows",),
         "docs/data.md"),
    Case("folder", instead(Path.mkdir), "run.yaml:10:3", ("a folder where a file was expected",),
         PATHS, **GONE),
    Case("link loop", instead(lambda path: path.symlink_to(path.name)), "run.yaml:10:3",
         ("a link that leads nowhere, train.jsonl",), PATHS, **GONE),
    Case("dangling link", instead(lambda path: path.symlink_to("gone.jsonl")), "run.yaml:10:3",
         ("a link that leads nowhere, train.jsonl",), PATHS, **GONE),
]  # fmt: skip

ENCODINGS = [
    Case("mark", whole(lambda raw: b"\xef\xbb\xbf" + raw), "train.jsonl:1",
         ("begins with a byte-order mark",), "save it as UTF-8 without a byte-order mark"),
    Case("utf-16", whole(lambda raw: raw.decode().encode("utf-16")), "train.jsonl:1",
         ("the file is UTF-16, not UTF-8",), "iconv -f UTF-16 -t UTF-8"),
    Case("utf-16 without mark", whole(lambda raw: raw.decode().encode("utf-16-le")),
         "train.jsonl:1", ("the file is UTF-16, not UTF-8",), "iconv -f UTF-16 -t UTF-8"),
    Case("latin-1", line(5, b'{"prompt": "caf\xe9", "completion": "x"}'), "train.jsonl:5",
         ("not UTF-8: byte 0xe9, the line's 16th",), UTF8),
    Case("NUL in a line", line(5, b'{"prompt": "a\x00"}'), "train.jsonl:5",
         ("the line holds NUL bytes",), AGAIN),
    Case("NUL at the end", whole(lambda raw: raw + bytes(100)), "train.jsonl:13",
         ("the line holds NUL bytes",), AGAIN),
    Case("carriage returns alone", whole(lambda raw: raw.replace(b"\n", b"\r")), "train.jsonl:1",
         ("not JSON: extra data",), r"tr '\r' '\n' < FILE > NEW"),
    Case("prompt with a mark", put("system.txt", b"\xef\xbb\xbfSort."), "system.txt:1",
         ("system.txt begins with a byte-order mark",), "without a byte-order mark", **USAGE),
    Case("prompt in latin-1", put("system.txt", b"Sort\nth\xe9m."), "system.txt:2",
         ("system.txt is not UTF-8 text: byte 0xe9",), UTF8, **USAGE),
    Case("prompt in utf-16", put("system.txt", "Sort.".encode("utf-16")), "system.txt:1",
         ("system.txt is not UTF-8 text: byte 0xff",), UTF8, **USAGE),
    Case("prompt with NUL", put("system.txt", b"Sort\nit\x00."), "system.txt:2",
         ("system.txt holds a NUL character",), "plain text in UTF-8", **USAGE),
    Case("empty prompt", put("system.txt", b"\n"), "system.txt", ("system.txt is empty",),
         "take prompt.system out of the run file", **USAGE),
    Case("schema with a mark", put("schema.json", b"\xef\xbb\xbf{}"), "schema.json:1",
         ("schema.json begins with a byte-order mark",), "without a byte-order mark", **USAGE),
    Case("schema in latin-1", put("schema.json", b'{"a":\n"\xe9"}'), "schema.json:2",
         ("schema.json is not UTF-8 text",), UTF8, **USAGE),
    Case("schema that is no JSON", put("schema.json", b'{"a":\n 1,}'), "schema.json:2:4",
         ("not JSON: expecting property name",), "mend it at this place", **SPEC),
    Case("schema of no type", put("schema.json", b'{"type": "objct"}'), "schema.json",
         ("not a JSON Schema: at $.type, 'objct'",), "mend it there", **SPEC),
    Case("schema without a bottom", put("schema.json", b'{"a":' * 100_000), "schema.json",
         ("nested too deeply to be a JSON Schema",), "$defs", **SPEC),
]  # fmt: skip

ROWS = [
    Case("broken JSON", line(5, '{"prompt": "a", "completion": "b"'), "train.jsonl:5",
         ("not JSON: expecting ',' delimiter, at column 34",), "does not end on its line"),
    Case("comma after a row", line(5, json.dumps(said("a", "b")) + ","), "train.jsonl:5",
         ("not JSON: extra data",), "rows are not separated by commas"),
    Case("printed dict", line(5, "{'prompt': 'a'}"), "train.jsonl:5", ("not JSON: ",),
         "json.dumps"),
    Case("JSON over several lines", put("train.jsonl", ARRAY), "train.jsonl:1",
         ("JSON over several lines",), "is read from a file named .json"),
    Case("NaN", line(5, '{"prompt": "a", "completion": "b", "score": NaN}'), "train.jsonl:5",
         ("NaN is no JSON number; write null, or leave the key out",), "mend the line"),
    Case("key twice", line(5, '{"prompt": "a", "prompt": "b"}'), "train.jsonl:5",
         ("the key 'prompt' stands twice",), "mend the line"),
    Case("number as answer", line(5, {"prompt": "a", "completion": 5}), "train.jsonl:5",
         ('"completion" is a number, not text',), 'write it as text: "5"'),
    Case("null as answer", line(5, {"prompt": "a", "completion": None}), "train.jsonl:5",
         ('"completion" is a null, not text',), "write the text, or take the row out"),
    Case("object as answer", line(5, {"prompt": "a", "completion": {"intent": "invoice"}}),
         "train.jsonl:5", ('"completion" is a JSON object, not text',), "written as a string"),
    Case("near-miss key", line(5, {"promt": "a", "completion": "b"}), "train.jsonl:5",
         ("its keys are completion, promt",), 'rename "promt" to "prompt"'),
    Case("near-miss key of a turn", line(5, {"messages": NEAR_TURN}), "train.jsonl:5",
         ("messages[1] has the key 'wieght'",), "did you mean 'weight'?"),
    Case("nested without a bottom", line(5, '{"a": ' + "[" * 100_000), "train.jsonl:5",
         ("nested too deeply to be a row",), "a row is a few levels deep"),
    Case("one gigantic line", whole(lambda raw: raw + b'{"prompt": "' + b"a" * (17 * 2**20)),
         "train.jsonl:13", ("a row of more than 16 MiB",), "lost its line ends"),
    Case("roles out of order", line(5, {"messages": ROLES}), "train.jsonl:5",
         ("1 thing is wrong", "the roles are out of order: user after user"),
         "order the turns user, assistant, user", command=LINT, **CLOSED),
    Case("label outside the schema", line(5, said("a", '{"intent": "nope"}')), "train.jsonl:5",
         ("'nope' is no declared label; declared: 'order_status'",), "mend the answer",
         command=LINT, **CLOSED),
    Case("test rows in train",
         lambda f: put("train.jsonl", b"".join([*lines(f), *lines(f, "test.jsonl")[:3]]))(f),
         "test.jsonl:1", ("test and train: 3", "the same text as in train.jsonl:13"),
         "remove train.jsonl:13 from the training rows", command=LEAK, **CLOSED),
]  # fmt: skip

TABLES = [
    Case("CSV without header", as_train("a.csv", f"hello,{CELL}\nthere,{CELL}\n"), "a.csv:1",
         ("the header names no column that means something; it names 'hello'",),
         "line 1 names the columns, such as prompt,completion"),
    Case("empty CSV", as_train("a.csv", ""), "a.csv:1", ("a CSV file without a header",),
         "name the columns in line 1"),
    Case("CSV of semicolons", as_train("a.csv", "prompt;completion\na;b\n"), "a.csv:1",
         ("the header 'prompt;completion' has no commas",), "separate fields by commas"),
    Case("CSV without a column", as_train("a.csv", f"prompt,reply\na,{CELL}\nb,{CELL}\n"),
         "a.csv:2", ('a "prompt" without "completion"', "keys are prompt, reply (so in 2 rows)"),
         "name the columns in data.columns"),
    Case("CSV without a named column",
         as_train("a.csv", f"frage,reply\na,{CELL}\nb,{CELL}\n", columns=NAMED), "a.csv:2",
         ("no column 'question', which data.columns names; there are frage, reply (so in 2 rows)",),
         "mend data.columns in the run file"),
    Case("CSV row with a field too many, after quoted newlines",
         as_train("a.csv", f'prompt,completion\n"a\n\nb",{CELL}\n"c\nd",{CELL},more\n'), "a.csv:5",
         ("3 fields where the header has 2",), "quote fields that hold commas"),
    Case("CSV with a quote that stays open",
         as_train("a.csv", f'prompt,completion\na,{CELL}\n"b,x\nc,d\n'), "a.csv:3",
         ("not CSV: ",), "doubled quotes"),
    Case("CSV in latin-1", as_train("a.csv", b"prompt,completion\ncaf\xe9,x\n"), "a.csv:2",
         ("not UTF-8: byte 0xe9",), UTF8),
    Case("CSV cell of broken JSON",
         as_train("a.csv", 'messages\n"[{""role"": 1"\n'), "a.csv:2",
         ("the cell 'messages' is no JSON",), "a list or an object as JSON"),
    Case("array cut inside a row", as_train("a.json", ARRAY[: ARRAY.index("completion") + 4]),
         "a.json:5", ("not JSON: ",), "what follows it cannot be read"),
    Case("array cut after a row", as_train("a.json", ARRAY[: ARRAY.index("},") + 1]), "a.json:6",
         ("the file ends inside its array: it is cut short",), "a whole one ends with ]"),
    Case("array cut after a comma", as_train("a.json", ARRAY[: ARRAY.index("},") + 2]), "a.json:6",
         ("the file ends inside its array: it is cut short",), "a whole one ends with ]"),
    Case("array of numbers", as_train("a.json", "[1, 2]"), "a.json:1",
         ("not a JSON array: '1, 2]' where a row was expected",), "one array of rows"),
    Case("rows inside an object", as_train("a.json", '{\n "data": ' + ARRAY + "}"), "a.json:1",
         ("JSON over several lines",), "a list of rows, and nothing around it"),
    Case("no Parquet", as_train("a.parquet", b"PAR1garbage"), "a.parquet:1",
         ("not a whole Parquet file: ",), AGAIN),
]  # fmt: skip


def doubled(folder: Path) -> None:
    path = folder / "run.yaml"
    path.write_text(path.read_text().replace('"name"', '"name": "one",\n "name"', 1))


RUN_FILES = [
    Case("key twice in the run file", doubled, "run.yaml:3:2", ('duplicate key "name"',),
         "keep one of the two lines", **SPEC),
    Case("tabs", put("run.yaml", "name: toy\ntask:\n\tanswer: text\n"), "run.yaml:3:1",
         ("not valid YAML: found character '\\t'",), "indent with spaces, not tabs", **SPEC),
    Case("list", put("run.yaml", "- a\n- b\n"), "run.yaml:1",
         ("a run file is a mapping of keys",), INIT, **SPEC),
    Case("empty run file", put("run.yaml", ""), "run.yaml:1", ("the run file is empty",), INIT,
         **SPEC),
    Case("binary run file", put("run.yaml", bytes(range(1, 256))), "run.yaml:2",
         ("not UTF-8 text: byte 0x80",), "save the run file as UTF-8", **SPEC),
    Case("run file with NUL", put("run.yaml", b"name: a\nx: \x00\n"), "run.yaml:2",
         ("a NUL character",), "plain text in UTF-8", **SPEC),
    Case("run file in utf-16", whole(lambda raw: raw.decode().encode("utf-16"), "run.yaml"),
         "run.yaml:1", ("the run file is UTF-16",), "save the run file as UTF-8", **SPEC),
    Case("two documents", put("run.yaml", "name: a\n---\nname: b\n"), "run.yaml:2:1",
         ("found another document",), "docs/run-file.md", **SPEC),
    Case("gigantic run file", put("run.yaml", b"#" * 1_000_001), "run.yaml",
         ("larger than 1,000,000 bytes",), "the .yaml file with the settings", **SPEC),
    Case("unknown key", run_file(train={"epoch": 3}), "run.yaml:23:3",
         ("unknown key `train.epoch`; did you mean `epochs`?",), KEYS, **SPEC),
    Case("number as revision", run_file(base={"revision": 12345678}), "run.yaml:18:3",
         ("`base.revision` was read as the number 12345678; quote it",), KEYS, **SPEC),
    Case("negative numbers", run_file(train={"epochs": -1, "batch_size": -2}), "run.yaml:20:3",
         ("2 problems", "`train.epochs`: must be greater than 0, got -1",
          "`train.batch_size`: must be greater than or equal to 1, got -2"), KEYS, **SPEC),
    Case("money without currency", run_file(limits={"money": 5}), "run.yaml:53:3",
         ("`limits.money`: an amount and a currency, such as `5 USD`, got 5",), KEYS, **SPEC),
    Case("unknown platform", run_file(platform="lokal"), "run.yaml:54:2",
         ("no platform is called 'lokal'",), "platform: local", **NAME),
    Case("unknown framework", run_file(train={"framework": "natve"}), "run.yaml:23:3",
         ("no framework is called 'natve'; there are native",), "did you mean native?", **NAME),
    Case("revision missing", run_file(base={"model": "org/name"}), "run.yaml:17:3",
         ("base.revision of org/name is missing: it must be a full commit, 40 hex digits",),
         "https://huggingface.co/org/name/commits/main", **BASE),
    Case("more shots than rows", run_file(eval={"raw": {"shots": [0, 16]}}), "run.yaml:30:4",
         ("asks for 16 worked examples, and train.jsonl has 12 rows",), "shots of at most 12",
         **SPEC),
]  # fmt: skip

BASES = [
    Case("base that is not there", run_file(base={"model": "nowhere/"}), "run.yaml:17:3",
         ("nowhere is not a folder",), "name a folder, a hub id", **GONE),
    Case("base without tokenizer", lambda f: (f / "base/tokenizer.json").unlink(), "run.yaml:17:3",
         ("cannot be a base model: it has no tokenizer.json",), "save_pretrained", **BASE),
    Case("base without template", lambda f: (f / "base/chat_template.jinja").unlink(),
         "run.yaml:17:3", ("it has no chat template",), "instruct variant", **BASE),
    Case("base without weights", lambda f: (f / "base/model.safetensors").unlink(),
         "run.yaml:17:3", ("it has no weights",), "fetch the model again", **BASE),
    Case("weights cut short", whole(lambda raw: raw[:300], "base/model.safetensors"),
         "run.yaml:17:3", ("cut short or not a safetensors file",), "fetch it again", **BASE),
    Case("broken tokenizer", put("base/tokenizer.json", "{"), "run.yaml:17:3",
         ("tokenizer.json is no tokenizer",), "fetch the model again", **BASE),
    Case("template of broken Jinja",
         put("base/chat_template.jinja", "{% for m in messages %}\n{{ m.content }"),
         "chat_template.jinja:2", ("not valid Jinja: unexpected '}'",), "mend the line"),
    Case("template that refuses", put("base/chat_template.jinja", "{{ raise_exception('no') }}"),
         "chat_template.jinja", ("refuses a conversation of user, assistant: no",),
         "serve with another template"),
    Case("template that calls nothing", put("base/chat_template.jinja", "{{ nothing(messages) }}"),
         "chat_template.jinja", ("'nothing' is undefined",), "serve with another template"),
    Case("template in latin-1", put("base/chat_template.jinja", b"{{ '\xe9' }}"), "run.yaml:17:3",
         ("chat_template.jinja cannot be a base model: it is not UTF-8",), "fetch the model again",
         **BASE),
    Case("template with a mark",
         whole(lambda raw: b"\xef\xbb\xbf" + raw, "base/chat_template.jinja"), "run.yaml:17:3",
         ("it begins with a byte-order mark, which would stand before every prompt",),
         "without a byte-order mark", **BASE),
    Case("training template of broken Jinja",
         lambda f: (put("t.jinja", "a\n{% for %}")(f),
                    change(f, train={"chat_template": "t.jinja"})),
         "t.jinja:2", ("not valid Jinja",), "mend the line"),
    Case("training template with a mark",
         lambda f: (put("t.jinja", b"\xef\xbb\xbfx")(f),
                    change(f, train={"chat_template": "t.jinja"})),
         "t.jinja:1", ("t.jinja begins with a byte-order mark",), "without a byte-order mark",
         **USAGE),
    Case("training template in latin-1",
         lambda f: (put("t.jinja", b"a\n\xe9")(f), change(f, train={"chat_template": "t.jinja"})),
         "t.jinja:2", ("t.jinja is not UTF-8 text: byte 0xe9",), UTF8, **USAGE),
]  # fmt: skip

CASES = [*FILES, *ENCODINGS, *ROWS, *TABLES, *RUN_FILES, *BASES]
