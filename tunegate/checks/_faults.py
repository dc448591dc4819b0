"""What each fault of a mask is called, and what to change. Used by `mask_exact`."""

from __future__ import annotations

from tunegate.checks._scaffold import SERVE_UNTHINKING
from tunegate.types import Json

WHAT = {
    "lengths": "{labels} labels do not fit the tokens",
    "label_is_not_input": "a label differs from the token under it",
    "not_everything": "train.loss is `all`, but a part carries no loss",
    "no_loss": "no token carries loss",
    "no_known_answer": "the row does not say which part of its text is the answer",
    "everything": "the prompt carries loss as well as the answer",
    "answer_absent": "the answer is not in the training text of turn {turn}",
    "answer_normalised": "the tokenizer rewrites the answer of turn {turn} in Unicode's NFC",
    "prompt_in_loss": "text outside the answer carries loss, {detail}",
    "end_not_trained": "the end of turn {turn} carries no loss: nothing teaches the model to stop",
    "more_after_answer": "text after turn {turn} carries loss, {detail}",
    "start_not_trained": "the beginning of turn {turn} carries no loss, {detail}",
    "tail_not_trained": "the end of the answer in turn {turn} carries no loss, {detail}",
    "call_unsaid": "a tool call of turn {turn} is not in the training text, {detail}",
    "turn_not_trained": "turn {turn} is an answer and carries no loss",
    "misplaced": "the loss lies on a copy of the answer, not on turn {turn} itself",
    "other_text": "the loss does not lie on the answer",
}


def change(item: Json, observation: Json) -> str:
    """What to change, for a person."""
    if item["raw_text"] and item["problem"] != "no_loss":
        if item["expected_tokens"] is None:
            return (
                'write the row as "messages" or as "prompt" and "completion": a "text" row is '
                "trained whole; if that is meant, declare `train: {loss: all}`"
            )
        return (
            'remove the "text" column, which is trained whole as it stands, and keep the columns '
            "beside it; if the prompt is meant to be learnt, declare `train: {loss: all}`"
        )
    if item["problem"] == "end_not_trained" and observation["pad_is_stop"]:
        return "mask padding by position: the pad token and the stop token are the same id here"
    if item["problem"] == "prompt_in_loss" and item["detail"] == observation["thinking_off"]:
        return SERVE_UNTHINKING
    return _CHANGES.get(item["problem"], "change how the trainer labels rows: the answer only")


_CHANGES = {
    "lengths": "give each token one label",
    "label_is_not_input": "do not shift labels while preparing rows: the trainer does that itself",
    "not_everything": "train everything, or write `train: {loss: answer}`",
    "no_loss": "check the marker or template by which the trainer finds the answer",
    "everything": "switch on the trainer's answer-only loss, or declare `train: {loss: all}`",
    "answer_absent": "raise max_length, or stop the template from changing the answer",
    "answer_normalised": "write the data in Unicode NFC: the model can write nothing else",
    "end_not_trained": "put the stop token inside the answer's labels",
    "start_not_trained": "encode prompt and answer without a special token between them",
    "tail_not_trained": "raise max_length so that no answer is cut",
    "call_unsaid": "take a template that prints every call with its name and arguments",
    "turn_not_trained": "train every answer, or give the turn the weight 0 in the data",
    "more_after_answer": "end the labels at the stop token",
}
