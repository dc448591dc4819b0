"""Every token that is trained on has a row in the embeddings, and the control tokens are known.

A pass proves, for every row that the framework trains: no id lies outside the base's embedding
matrix; and each control token that the rows hold (turn marks, end of text and the like) has an
embedding that the base was trained with, not one left at its start: its norm is at least a tenth of
the ordinary tokens' median. LoRA does not train embeddings, so a mark that the base never saw stays
noise for the tuned model.

It does not prove that the base uses a mark as the template does; the wire test's answers show that.
Where the weights are not at hand the norms are left out, and said to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tunegate.checks import MAX_FINDINGS, CheckInputs
from tunegate.checks._pass import Seen, observe_one, unable
from tunegate.checks._weights import embeddings
from tunegate.types import Finding, Json, Status, Verdict

WHERE = "host"
ORDER = 45

FAINT = 0.1
"""Norm of a control token's embedding, relative to the median of ordinary ones."""

ORDINARY = 256
"""Ordinary tokens whose norms are read, spread over the vocabulary."""

NOT_CHECKED = ("whether the base gives a control token the meaning that the template gives it",)


def observe(inputs: CheckInputs) -> Json:
    """Count ids and control tokens of every row, and read the embeddings of the latter."""
    return observe_one(inputs, watch(inputs))


def watch(inputs: CheckInputs) -> Watch:
    """This check's part of a shared pass."""
    return Watch(inputs)


class Watch:
    """Collects the highest id and the control tokens."""

    def __init__(self, inputs: CheckInputs) -> None:
        self.tokenizer = inputs.tokenizer
        self.base_dir = Path(inputs.frozen["base"]["dir"])
        self.rows_of_embedding = int(inputs.frozen["base"]["vocab"])
        self.control = self.tokenizer.special_ids
        self.rows = 0
        self.outside = 0
        self.rows_outside: list[Json] = []
        self.used: dict[int, int] = {}
        """Rows that hold each control token."""
        self.trained: set[int] = set()

    def see(self, rows: Sequence[Seen]) -> None:
        for seen in rows:
            example = seen.example
            if example.dropped is not None:
                continue
            self.rows += 1
            highest, lowest = max(example.input_ids), min(example.input_ids)
            if highest >= self.rows_of_embedding or lowest < 0:
                self.outside += 1
                if len(self.rows_outside) < MAX_FINDINGS:
                    wrong = highest if highest >= self.rows_of_embedding else lowest
                    self.rows_outside.append({"line": seen.row.line, "id": wrong})
            for token in self.control.intersection(example.input_ids):
                self.used[token] = self.used.get(token, 0) + 1
            self.trained.update(self.control.intersection(example.labels))

    def result(self, account: Json) -> Json:
        return {
            "rows": self.rows,
            "outside": self.outside,
            "rows_outside": self.rows_outside,
            "embedding_rows": self.rows_of_embedding,
            "tokenizer_size": self.tokenizer.vocab_size,
            **self._norms(),
        }

    def _norms(self) -> Json:
        matrix = embeddings(self.base_dir)
        control = [
            {
                "id": token,
                "text": self.tokenizer.decode([token]),
                "rows": count,
                "trained": token in self.trained,
                "norm": matrix.norm(token) if matrix and token < matrix.rows else None,
            }
            for token, count in sorted(self.used.items())
        ]
        ordinary: float | None = None
        if matrix is not None:
            step = max(matrix.rows // ORDINARY, 1)
            places = [n for n in range(0, matrix.rows, step) if n not in self.control]
            ordinary = median(matrix.norm(place) for place in places)
        return {"control": control, "ordinary_norm": ordinary}


def judge(observation: Json, frozen: Json) -> Verdict:
    """Fail for an id without an embedding and for a control token that the base never learned."""
    stopped = unable("token_census", observation, not_checked=NOT_CHECKED)
    if stopped is not None:
        return stopped
    file, size = observation["file"], observation["embedding_rows"]
    findings = [
        Finding(
            f"token {item['id']} has no row in the base's embeddings, which end at {size - 1}",
            where=f"{file}:{item['line']}",
            change="take the tokenizer that belongs to the base, or resize and train the "
            "embeddings",
        )
        for item in observation["rows_outside"]
    ]
    findings += [_faint(item, observation) for item in observation["control"] if _is_faint(
        item, observation)]  # fmt: skip
    known = ", ".join(item["text"] for item in observation["control"]) or "none"
    unread = observation["ordinary_norm"] is None
    return Verdict(
        check="token_census",
        status=Status.FAIL if findings else Status.PASS,
        summary=f"{observation['rows']} rows; {observation['outside']} with an id outside the "
        f"embeddings; control tokens: {known}",
        findings=tuple(findings[:MAX_FINDINGS]),
        numbers={
            "rows": observation["rows"],
            "outside": observation["outside"],
            "control_tokens": len(observation["control"]),
        },
        samples=tuple(observation["control"][:3]),
        not_checked=(
            *NOT_CHECKED,
            *(["the norms of embeddings: no weights here"] if unread else []),
        ),
    )


def _is_faint(item: Json, observation: Json) -> bool:
    ordinary: float | None = observation["ordinary_norm"]
    norm: float | None = item["norm"]
    return ordinary is not None and norm is not None and norm < FAINT * ordinary


def _faint(item: Json, observation: Json) -> Finding:
    share = item["norm"] / observation["ordinary_norm"]
    return Finding(
        f"the base was hardly trained on {item['text']}: the norm of its embedding is "
        f"{100 * share:.1f} % of an ordinary token's, and it stands in {item['rows']} rows",
        change="take the instruct variant of the base, or a template of tokens that it knows",
    )
