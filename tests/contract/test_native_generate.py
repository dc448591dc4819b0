"""Packed greedy decoding writes what transformers' generate writes, and goes on where it stood."""

from __future__ import annotations

import json
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tiny_run import LABELS, SCHEMA, SYSTEM, make_base, make_job, put_job  # noqa: E402

from tunegate.errors import UsageError  # noqa: E402
from tunegate.types import Turn  # noqa: E402
from tunegate.worker import pack  # noqa: E402
from tunegate.worker.constrain import Constraint  # noqa: E402
from tunegate.worker.encode import prompt_ids  # noqa: E402
from tunegate.worker.feed import serving  # noqa: E402
from tunegate.worker.generate import Answer, Writer, _batches, _precision, _taken_over  # noqa: E402
from tunegate.worker.main import main  # noqa: E402
from tunegate.worker.model import load_base, load_merged  # noqa: E402

TEXTS = (
    "where is my order", "x", "return", "the boots are two sizes too small and were due on Monday",
    "fox", "sheep are counted 0123456789", "I want to return the boots",
)  # fmt: skip


def prompts(base: Path, *, system: bool = True) -> list[list[int]]:
    tokenizer, template = serving({"base": {"dir": base}, "template": {"source": _source(base)}})
    front = [Turn("system", SYSTEM)] if system else []
    return [
        prompt_ids([*front, Turn("user", text)], tokenizer=tokenizer, template=template)
        for text in TEXTS
    ]


def _source(base: Path) -> str:
    return (base / "chat_template.jinja").read_text()


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def base_dir(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / request.param
    # With a head of its own a random model wanders; with a tied one it repeats a token for ever.
    return make_base(folder, kind=request.param, seed=3, tie_word_embeddings=False)


@pytest.fixture(scope="module")
def gemma_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base") / "gemma", kind="gemma3_text", seed=3)


def reference(base_dir: Path, ids: list[int], *, stops: list[int], limit: int) -> list[int]:
    """transformers' greedy decoding of one prompt, without the stop token."""
    base = load_base(base_dir, packed=False)
    out = base.model.generate(
        input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.int64),
        do_sample=False, max_new_tokens=limit, eos_token_id=stops, pad_token_id=stops[0],
        use_cache=True,
    )  # fmt: skip
    found: list[int] = out[0, len(ids) :].tolist()
    return [t for t in found if t not in stops]


def stops_of(base_dir: Path, ids: list[list[int]], *, limit: int) -> list[int]:
    """Two tokens that end these prompts' answers at as many different places as can be."""
    written = [reference(base_dir, row, stops=[0], limit=limit) for row in ids]

    def places(stops: tuple[int, ...]) -> int:
        return len({next((i for i, t in enumerate(w) if t in stops), limit) for w in written})

    return sorted(max(combinations(sorted({t for w in written for t in w}), 2), key=places))


@pytest.mark.parametrize("system", [True, False], ids=["shared", "apart"])
@pytest.mark.parametrize("batch_size", [3, 16])
def test_equals_transformers(base_dir: Path, system: bool, batch_size: int) -> None:
    ids = prompts(base_dir, system=system)
    stops = stops_of(base_dir, ids, limit=20)
    base = load_base(base_dir)
    assert base.plain is None
    answers = [Answer(str(place), row) for place, row in enumerate(ids)]
    prefix = pack.shared_prefix(ids)
    writer = Writer(base, stop_ids=stops, max_new_tokens=20)
    written = [a for b in writer.answer(answers, prefix=prefix, batch_size=batch_size) for a in b]
    assert len(written) == len(ids)
    for row, answer in zip(ids, answers, strict=True):
        assert answer.tokens == reference(base_dir, row, stops=stops, limit=20)
        assert answer.finish == ("length" if len(answer.tokens) == 20 else "stop")
    assert len({len(answer.tokens) for answer in answers}) > 2, (
        "rows were to end at different times"
    )


def test_a_padded_base_writes_the_same(gemma_dir: Path) -> None:
    ids = prompts(gemma_dir)
    base = load_base(gemma_dir)
    assert base.plain is not None
    answers = [Answer(str(place), row) for place, row in enumerate(ids)]
    list(Writer(base, stop_ids=[0], max_new_tokens=6).answer(answers, prefix=9, batch_size=4))
    for row, answer in zip(ids, answers, strict=True):
        assert answer.tokens == reference(gemma_dir, row, stops=[0], limit=6)


@pytest.mark.parametrize("padded", [False, True])
def test_constrained_answers_keep_the_schema(base_dir: Path, gemma_dir: Path, padded: bool) -> None:
    base_dir = gemma_dir if padded else base_dir
    base = load_base(base_dir)
    tokenizer, _ = serving({"base": {"dir": base_dir}, "template": {"source": _source(base_dir)}})
    stops = [tokenizer.token_id("<|im_end|>")]
    constraint = Constraint(
        SCHEMA, base_dir=base_dir, stop_ids=stops,
        vocab_size=base.model.get_input_embeddings().weight.shape[0],
    )  # fmt: skip
    ids = prompts(base_dir)
    answers = [Answer(str(place), row) for place, row in enumerate(ids)]
    writer = Writer(base, stop_ids=stops, max_new_tokens=40, constraint=constraint)
    list(writer.answer(answers, prefix=pack.shared_prefix(ids), batch_size=4))
    for answer in answers:
        text = tokenizer.decode(answer.tokens)
        assert answer.finish == "stop"
        assert text == json.dumps({"intent": json.loads(text)["intent"]})
        assert json.loads(text)["intent"] in LABELS
        assert constraint.accepts(answer.tokens)
        assert not constraint.accepts(answer.tokens[:-1])
        assert not constraint.accepts([*answer.tokens, answer.tokens[-1]])


def test_a_free_answer_that_fits_the_schema_is_taken_over(base_dir: Path) -> None:
    base = load_base(base_dir)
    tokenizer, _ = serving({"base": {"dir": base_dir}, "template": {"source": _source(base_dir)}})
    constraint = Constraint(
        SCHEMA, base_dir=base_dir, stop_ids=[2],
        vocab_size=base.model.get_input_embeddings().weight.shape[0],
    )  # fmt: skip
    writer = Writer(base, stop_ids=[2], max_new_tokens=40, constraint=constraint)
    fits = tokenizer.encode(json.dumps({"intent": LABELS[0]}))
    free = {(1,): fits, (2,): tokenizer.encode("no JSON"), (3,): fits[:-1]}
    answers = [Answer(str(number), [number]) for number in (1, 2, 3, 4)]
    assert [_taken_over(answer, free, writer) for answer in answers] == [True, False, False, False]
    assert answers[0].tokens == fits and answers[0].finish == "stop"
    assert answers[1].finish is None and not answers[1].tokens
    short = Writer(base, stop_ids=[2], max_new_tokens=len(fits) - 1, constraint=constraint)
    assert not _taken_over(Answer("1", [1]), free, short)


def test_a_constraint_that_is_cut_ends_with_length(base_dir: Path) -> None:
    base = load_base(base_dir)
    constraint = Constraint(SCHEMA, base_dir=base_dir, stop_ids=[2], vocab_size=512)
    answers = [Answer(str(place), row) for place, row in enumerate(prompts(base_dir))]
    writer = Writer(base, stop_ids=[2], max_new_tokens=2, constraint=constraint)
    list(writer.answer(answers, prefix=0, batch_size=8))
    assert {(len(answer.tokens), answer.finish) for answer in answers} == {(2, "length")}


def test_a_schema_outside_the_grammar_is_refused(base_dir: Path) -> None:
    with pytest.raises(UsageError, match="schema"):
        Constraint({"type": "nonsense"}, base_dir=base_dir, stop_ids=[2], vocab_size=512)


def test_batches_keep_both_limits() -> None:
    answers = [Answer(str(n), [1] * (100 + 1000 * (n % 4))) for n in range(12)]
    batches = list(_batches(answers, prefix=100, batch_size=5))
    assert sorted(a.id for b in batches for a in b) == sorted(a.id for a in answers)
    for batch in batches:
        own = sum(len(answer.prompt) - 100 for answer in batch)
        assert len(batch) <= 5 and (own <= 8192 or len(batch) == 1)


def requests_file(path: Path, *, system: bool = True) -> Path:
    front = [{"role": "system", "content": SYSTEM}] if system else []
    lines = [
        {"id": f"test:{n}", "turns": [*front, {"role": "user", "content": text}]}
        for n, text in enumerate(TEXTS)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def generate_job(folder: Path, base_dir: Path, **more: Any) -> dict[str, Any]:
    return {
        **make_job(folder, base_dir),
        "kind": "generate",
        "base_dir": str(base_dir),
        "adapter_dir": None,
        "requests": str(requests_file(folder / "requests.jsonl")),
        "out": str(folder / "out.jsonl"),
        "max_new_tokens": 8,
        "constrained": False,
        "schema": None,
        **more,
    }


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_job_that_was_cut_goes_on(base_dir: Path, tmp_path: Path) -> None:
    path = put_job(generate_job(tmp_path, base_dir), tmp_path / "job")
    out = tmp_path / "out.jsonl"
    assert main(str(path)) == 0
    whole = {row["id"]: row for row in lines(out)}
    assert sorted(whole) == sorted(f"test:{n}" for n in range(len(TEXTS)))
    kept = out.read_text().splitlines()[:3]
    out.write_text("\n".join(kept) + "\n" + '{"id": "test:6", "outp')  # torn by a crash
    assert main(str(path)) == 0
    again = lines(out)
    assert [json.dumps(row, ensure_ascii=False) for row in again[:3]] == kept
    assert {row["id"]: row for row in again} == whole and len(again) == len(whole)


def test_tasks_of_a_job_share_the_model(base_dir: Path, tmp_path: Path) -> None:
    job = generate_job(tmp_path, base_dir)
    plain = {key: job[key] for key in ("requests", "max_new_tokens")}
    (tmp_path / "rules.jsonl").write_text(
        json.dumps({"id": "rule:0", "turns": [{"role": "user", "content": "Say yes."}]}) + "\n"
    )
    tasks = [
        {**plain, "name": "a", "out": job["out"], "constrained": True, "schema": SCHEMA,
         "max_new_tokens": 40},
        {**plain, "name": "b", "out": job["out"], "requests": str(tmp_path / "rules.jsonl"),
         "constrained": False, "schema": None},
    ]  # fmt: skip
    path = put_job({**job, "tasks": tasks}, tmp_path / "job")
    assert main(str(path)) == 0
    found = {row["id"]: row for row in lines(tmp_path / "out.jsonl")}
    assert len(found) == len(TEXTS) + 1
    assert json.loads(found["test:0"]["output"])["intent"] in LABELS
    progress = json.loads((tmp_path / "job" / "progress.json").read_text())
    assert progress["done"] == progress["total"] == len(TEXTS) + 1


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"adapter_dir": "nowhere"}, "trainer_crashed"),
        ({"kind": "nonsense"}, "usage"),
        ({"constrained": True}, "usage"),
    ],
)
def test_an_error_is_left_beside_the_job(
    base_dir: Path, tmp_path: Path, change: dict[str, Any], kind: str
) -> None:
    path = put_job(generate_job(tmp_path, base_dir, **change), tmp_path / "job")
    assert main(str(path)) in (2, 10)
    left = json.loads((tmp_path / "job" / "error.json").read_text())
    assert left["kind"] == kind and left["message"]


@pytest.mark.parametrize(
    ("asked", "trained", "expected"),
    [
        (None, "bf16", "bf16"),
        (None, "fp32", "fp32"),
        (None, "fp16", "fp32"),
        ("fp32", "bf16", "fp32"),
    ],
)
def test_answers_are_given_in_the_arithmetic_of_the_training(
    asked: str | None, trained: str, expected: str
) -> None:
    job = {"precision": asked, "frozen": {"settings": {"train": {"precision": trained}}}}
    assert _precision(job) == expected


def test_bf16_answers(base_dir: Path, tmp_path: Path) -> None:
    """Constrained, so that they parse whatever the rounding."""
    schema = {"constrained": True, "schema": SCHEMA, "max_new_tokens": 40, "precision": "bf16"}
    path = put_job(generate_job(tmp_path, base_dir, **schema), tmp_path / "job")
    assert main(str(path)) == 0
    assert load_merged(base_dir, None, precision="bf16").model.dtype == torch.bfloat16
    found = lines(tmp_path / "out.jsonl")
    assert len(found) == len(TEXTS)
    assert all(json.loads(row["output"])["intent"] in LABELS for row in found)


def test_what_the_base_samples_by_plays_no_part(gemma_dir: Path, tmp_path: Path) -> None:
    """Its repetition penalty would change greedy answers, on the padded path alone."""
    folder = tmp_path / "penal"
    shutil.copytree(gemma_dir, folder)
    sampling = {"do_sample": True, "temperature": 0.6, "repetition_penalty": 3.0}
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 0, **sampling}))
    written = []
    for where in (gemma_dir, folder):
        answers = [Answer(str(place), row) for place, row in enumerate(prompts(gemma_dir))]
        list(Writer(load_base(where), stop_ids=[0], max_new_tokens=6).answer(
            answers, prefix=0, batch_size=4))  # fmt: skip
        written.append([answer.tokens for answer in answers])
    assert written[0] == written[1]
