"""Files that are no JSON Lines, and column maps: the same rows whatever holds them."""

import json
import subprocess
import sys

import pytest

from tests.stand_ins import Trainer, masked_by_prompt, run, triage, verdict
from tests.toys import write_rows
from tunegate.checks import names
from tunegate.checks._pass import RowFile
from tunegate.errors import DataError, UsageError
from tunegate.types import Status
from tunegate.worker import tables
from tunegate.worker.rows import read_rows, scan_rows

ROWS = [
    {"id": "a", "prompt": 'Say "hi",\nthen "ho"', "completion": "hi\nho"},
    {"id": "b", "prompt": "é中\U0001f600", "completion": ""},
    {"id": "c", "prompt": " x ", "completion": "1"},
]


def write_csv(path, rows, *, end="\r\n"):
    import csv

    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator=end)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_array(path, rows, *, indent=None):
    path.write_text(json.dumps(rows, indent=indent, ensure_ascii=False), encoding="utf-8")
    return path


def write_parquet(path, rows):
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=2)
    return path


WRITERS = {
    "csv": write_csv,
    "json": write_array,
    "parquet": write_parquet,
    "jsonl": write_rows,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_file_gives_the_same_rows(odd_path, kind):
    path = WRITERS[kind](odd_path / f"rows.{kind}", ROWS)
    wanted = list(read_rows(write_rows(odd_path / "other.jsonl", ROWS)))
    found = list(read_rows(path))
    assert [(r.index, r.turns, r.meta) for r in found] == [
        (r.index, r.turns, r.meta) for r in wanted
    ]


@pytest.mark.parametrize("kind", WRITERS)
def test_rows_are_found_again_out_of_order(tmp_path, kind):
    path = WRITERS[kind](tmp_path / f"rows.{kind}", ROWS)
    rows = RowFile(path, system="s")
    shown = [rows.get(index).meta["id"] for index in (2, 0, 1, 2)]
    assert (shown, rows.count()) == (["c", "a", "b", "c"], 3)
    rows.close()


@pytest.mark.parametrize("kind", WRITERS)
def test_every_check_passes_on_every_kind_of_file(tmp_path, kind):
    named = [
        {"question": row["messages"][0]["content"], "reply": row["messages"][1]["content"]}
        for row in triage()
    ]
    inputs = run(
        tmp_path,
        trainer=Trainer(masked_by_prompt),
        splits={"test": []},
        columns={"prompt": "question", "completion": "reply"},
    )
    for split, rows in (("train", named[:4]), ("test", named[4:])):
        path = WRITERS[kind](tmp_path / "data" / f"{split}.{kind}", rows)
        inputs.frozen["data"][split].update(path=f"data/{path.name}", rows=len(rows))
    for check in names("host"):
        found = verdict(check, inputs)
        assert found.status == Status.PASS, (check, found.findings)


def test_lines_are_counted_with_quoted_newlines(tmp_path):
    path = write_csv(tmp_path / "a.csv", ROWS)
    assert [row.line for row in read_rows(path)] == [2, 5, 6]
    path = write_array(tmp_path / "a.json", ROWS, indent=1)
    assert [row.line for row in read_rows(path)] == [2, 7, 12]


def test_a_json_file_may_hold_lines(tmp_path):
    path = write_rows(tmp_path / "a.json", ROWS)
    assert [row.meta["id"] for row in read_rows(path)] == ["a", "b", "c"]


def test_a_long_array_is_read_in_pieces(tmp_path):
    rows = [{"prompt": "x" * size, "completion": str(size)} for size in (1, 200_000, 2, 70_000)]
    path = write_array(tmp_path / "a.json", rows, indent=2)
    assert [len(row.turns[0].content) for row in read_rows(path)] == [1, 200_000, 2, 70_000]


def test_excel_writes_a_mark_that_csv_may_have(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("\ufeffprompt,completion\r\nhi,ho\r\n".encode())
    assert [row.answer for row in read_rows(path)] == ["ho"]


def test_a_csv_cell_may_hold_json_and_an_empty_one_is_no_value(tmp_path):
    rows = [
        {"messages": json.dumps([{"role": "user", "content": "hi"}]), "id": "", "kind": ""},
    ]
    (row,) = read_rows(write_csv(tmp_path / "a.csv", rows))
    assert row.turns[0].content == "hi" and row.meta == {}


def test_parquet_nulls_are_absent_keys(tmp_path):
    turns = [
        [{"role": "user", "content": "hi", "weight": None}],
        [{"role": "assistant", "content": "ho", "weight": 0}],
    ]
    rows = [{"messages": part, "id": None} for part in turns]
    first, second = read_rows(write_parquet(tmp_path / "a.parquet", rows))
    assert (first.turns[0].weight, second.turns[0].weight, dict(first.meta)) == (1, 0, {})


@pytest.mark.parametrize(
    ("name", "raw", "line", "message"),
    [
        ("a.csv", b"", 1, "without a header"),
        ("a.csv", b"prompt,prompt\nx,y\n", 1, "'prompt' stands twice"),
        ("a.csv", b"prompt,\nx,y\n", 1, "a nameless column"),
        ("a.csv", b"prompt;completion\nx;y\n", 1, "has no commas"),
        ("a.csv", b"prompt,completion\nx,y\nx,y,z\n", 3, "3 fields where the header has 2"),
        ("a.csv", b'prompt,completion\nx,"y\nz', 2, "not CSV: unexpected end of data"),
        ("a.csv", b'prompt,completion\n"a\nb",c\nx,"y" z\n', 4, "not CSV"),
        ("a.csv", b"prompt,completion\nx,y\n\xff,z\n", 3, "not UTF-8"),
        ("a.csv", "prompt,completion\nx,y\n".encode("utf-16"), 1, "UTF-16"),
        (
            "a.csv",
            b"question,reply\nx,y\n",
            1,
            "no column that means something; it names 'question'",
        ),
        ("a.csv", b"messages\n[1\n", 2, "is no JSON"),
        ("a.json", b'[{"prompt": "x", "completion": "y"},\n{"prompt": 1\n', 3, "not JSON"),
        ("a.json", b'[{"prompt": "x", "completion": "y"}\n{}]', 2, "where ',' was expected"),
        ("a.json", b"[\n1]", 2, "where a row was expected"),
        ("a.json", b'[{"prompt": "x", "completion": "y"},\n]', 2, "a comma before the end"),
        ("a.json", b'[{"prompt": "x", "completion": "y"}]\n[]', 2, "after its end"),
        ("a.json", b'[{"prompt": "x", "completion": NaN}]', 1, "NaN"),
        ("a.json", b"\xef\xbb\xbf[]", 1, "byte-order mark"),
        ("a.json", b'[\n{"prompt": "\xff"}]', 1, "not UTF-8"),
        ("a.parquet", b"PAR1 but no more", 1, "not a whole Parquet file"),
        ("a.jsonl", b"x" * tables.MAX_ROW_BYTES + b"\n{}", 1, "more than 16 MiB"),
        ("a.jsonl", b"{}\n" + bytes(tables.MAX_ROW_BYTES), 1, "no known row form"),
    ],
)
def test_a_bad_file_says_what_and_where(tmp_path, name, raw, line, message):
    path = tmp_path / name
    path.write_bytes(raw)
    with pytest.raises(DataError) as caught:
        list(read_rows(path))
    assert message in caught.value.message
    assert caught.value.hint
    assert caught.value.where == f"{path}:{line}"


def test_good_rows_before_and_after_a_bad_one_are_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"prompt,completion\na,b\nx,y,z\nc,d\n")
    found = list(scan_rows(path))
    assert [isinstance(item, DataError) for item in found] == [False, True, False]
    assert found[2].index == 1


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.parquet", "a.jsonl"])
def test_a_folder_or_nothing_is_a_usage_error(tmp_path, name):
    with pytest.raises(UsageError) as caught:
        list(read_rows(tmp_path / name))
    assert caught.value.kind == "file_missing"
    (tmp_path / name).mkdir()
    with pytest.raises(UsageError) as caught:
        list(read_rows(tmp_path / name))
    assert caught.value.kind == "file_missing"


def test_without_pyarrow_the_error_says_what_to_install(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", ROWS)
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from pathlib import Path\n"
        "from tunegate.errors import UsageError\n"
        "from tunegate.worker.rows import read_rows\n"
        f"try: list(read_rows(Path({str(path)!r})))\n"
        "except UsageError as error: print(error.kind, error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("extra_missing pip install 'tunegate[parquet]'"), done.stderr


MAP = {"prompt": "question", "completion": "answer", "id": "nr"}


def test_a_column_map_gives_our_names_and_keeps_the_rest(tmp_path):
    path = write_rows(
        tmp_path / "a.jsonl", [{"question": "hi", "answer": "ho", "nr": 7, "kind": "x"}]
    )
    (row,) = read_rows(path, columns=MAP)
    assert (row.answer, dict(row.meta)) == ("ho", {"id": 7, "kind": "x"})


def test_a_file_in_a_known_form_needs_no_map(tmp_path):
    path = write_rows(tmp_path / "a.jsonl", [{"prompt": "x", "check": {"contains": ["y"]}}])
    (row,) = read_rows(path, columns=MAP)
    assert row.meta["check"]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path, name):
    rows = [{"questoin": "hi", "answer": "ho", "nr": "7"}]
    path = (write_csv if name.endswith("csv") else write_rows)(tmp_path / name, rows)
    with pytest.raises(DataError) as caught:
        list(read_rows(path, columns=MAP))
    assert "no column 'question'" in caught.value.message
    assert "questoin, answer, nr" in caught.value.message
    assert caught.value.hint == "did you mean 'questoin'?"
