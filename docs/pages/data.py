"""docs/data.md: the forms of rows and kinds of files that are read, an example each."""

from __future__ import annotations

from tunegate.worker import forms, tables

SOURCE = "docs/pages/data.py and tunegate/worker/forms.py"

INTRO = """\
# Row forms

A data file holds one row an example. The suffix says what kind of file it is: `.csv`, `.parquet`,
`.json` (one array of rows, or one row a line); everything else is read as JSON Lines, one JSON
object a line. All are UTF-8 and are read as a stream, a row of at most {limit} MiB at a time. A row
is in one of the forms below, and one file may mix them. Of every answer that a row gives, the loss
lies on the answer and its end, and on nothing else.

Errors name file and line; of a Parquet file, which has no lines, the row's number."""

FORMS = (
    (
        "Prompt and completion",
        "The plainest. `id` is optional in every form; test rows need one if a teacher's answers "
        "are to be found. A `system` key is the row's own system turn.",
        ['{"id": "t-1", "prompt": "Where is my parcel?", "completion": "order_status"}'],
    ),
    (
        "Messages",
        "A conversation of `system`, `user`, `assistant` and `tool` turns. Every assistant turn is "
        "an answer that is learned; what evaluation compares with is the last one. `weight: 0` "
        "(or `train: false`, `training: false`) takes the loss from a turn: the model reads it and "
        "does not learn it, and it is not what evaluation compares with.",
        [
            '{"messages": [{"role": "user", "content": "Two and two?"}, '
            '{"role": "assistant", "content": "Five.", "weight": 0}, '
            '{"role": "user", "content": "Look again."}, '
            '{"role": "assistant", "content": "Four."}]}'
        ],
    ),
    (
        "ShareGPT",
        "`conversations` with `from` (human, gpt, system, function_call, observation; user, "
        "assistant and tool are read too) and `value`.",
        [
            '{"conversations": [{"from": "human", "value": "Two and two?"}, '
            '{"from": "gpt", "value": "Four."}]}',
            '{"conversations": [{"from": "human", "value": "Where is parcel 4711?"}, '
            '{"from": "function_call", "value": "{\\"name\\": \\"track\\", \\"arguments\\": '
            '{\\"number\\": \\"4711\\"}}"}, {"from": "observation", "value": "in Oslo"}, '
            '{"from": "gpt", "value": "It is in Oslo."}], "tools": [{"name": "track", '
            '"description": "Where a parcel is.", "parameters": {"type": "object"}}]}',
        ],
    ),
    (
        "Alpaca",
        "`input` is put under the instruction; `history` is a list of earlier pairs of question "
        "and answer.",
        [
            '{"instruction": "Translate into French.", "input": "A good day.", '
            '"output": "Une bonne journée."}'
        ],
    ),
    (
        "Tools",
        "`tools` beside `messages`, `tool_calls` in an assistant turn, and a `tool` turn with what "
        "came back. Arguments are a JSON object or that object as JSON text; the chat template "
        "gets whichever of the two it prints rightly. A base whose template prints no tools is "
        "refused. The calls are learned as the template writes them.",
        [
            '{"messages": [{"role": "user", "content": "Where is parcel 4711?"}, '
            '{"role": "assistant", "content": null, "tool_calls": [{"id": "call00001", '
            '"type": "function", "function": {"name": "track", '
            '"arguments": "{\\"number\\": \\"4711\\"}"}}]}, '
            '{"role": "tool", "tool_call_id": "call00001", "content": "in Oslo"}, '
            '{"role": "assistant", "content": "It is in Oslo."}], '
            '"tools": [{"type": "function", "function": {"name": "track", '
            '"description": "Where a parcel is.", "parameters": {"type": "object", '
            '"properties": {"number": {"type": "string"}}}}}]}'
        ],
    ),
    (
        "Raw text",
        "Trained whole, prompt and all, as trainers do with such a column. Gate 2 refuses it "
        "unless the run file says `train: {loss: all}`.",
        ['{"text": "Once upon a time"}'],
    ),
    (
        "Scored by rule",
        "For slices only: a prompt and a rule that the answer has to keep. "
        "The metric `rule` lists the rules.",
        ['{"id": "g-1", "prompt": "Say yes.", "check": {"contains": ["yes"]}}'],
    ),
    (
        "Recorded answers",
        "Of a teacher (`eval.teacher.predictions`): the id of a row of the test file or of a "
        "slice, and what the teacher answered.",
        ['{"id": "t-1", "output": "order_status"}'],
    ),
)

CSV = """\
id,prompt,completion
t-1,"Where is my parcel?
It was due on Monday.",order_status
t-2,"I said ""no"".",none_of_these
"""

COLUMNS = """\
data:
  train: train.csv
  validation: validation.csv
  columns: {prompt: question, completion: answer, id: nr}
"""

MAPPED = """\
nr,question,answer
1,Where is my parcel?,order_status
"""


def render() -> str:
    """The page's text."""
    out = [INTRO.format(limit=tables.MAX_ROW_BYTES // 2**20)]
    for title, text, examples in FORMS:
        out += [f"\n## {title}\n", text]
        out += [f"\n```json\n{example}\n```" for example in examples]
    out += [
        "\n## CSV\n",
        'Fields are separated by commas and quoted with `"`, a quote inside doubled; a quoted '
        "field may hold line ends. The first line names the columns. Every value is text; a cell "
        "of `messages`, `conversations`, `history`, `tools` or `check` holds it as JSON. An empty "
        "cell is an empty text in `prompt`, `completion`, `instruction`, `output` and `text`, and "
        "no value elsewhere.",
        f"\n```csv\n{CSV}```",
        "\n## Parquet\n",
        "Columns are named as the keys above; a null is a key that is not there. Needs pyarrow: "
        "`pip install 'tunegate[parquet]'`.",
        "\n## Other names\n",
        "`data.columns` in the run file says what the files call the keys of a row. It counts for "
        "every file of the run but the teacher's. A file that has none of these columns and is in "
        "one of the forms above is read as it is; one that has some and lacks others is refused.",
        f"\n```yaml\n{COLUMNS}```",
        f"\n```csv\n{MAPPED}```",
        f"\nKeys that can be named so: {', '.join(f'`{key}`' for key in forms.KEYS)}.",
        "\n## Further keys\n",
        "Any other key of a row is kept beside it and does no harm; `data.group` may name one. A "
        "key that is nearly one of those above (`completions`, `wieght`) is pointed out.",
    ]
    return "\n".join(out)
