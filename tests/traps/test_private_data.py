"""Keys, passwords and personal data in rows: pointed out with kind and place, never shown."""

import json

import pytest

from tests.stand_ins import run, triage, verdict
from tests.toys import chat
from tunegate.checks import load
from tunegate.checks._private import is_iban, is_luhn, private
from tunegate.types import Status

# Put together here, so that no scanner of repositories takes them for real ones.
KEYS = {
    "API key": [
        "sk-" + "proj-" + "a1B2" * 8,
        "hf" + "_" + "Ab1" * 12,
        "gh" + "p_" + "a1" * 18,
        "AK" + "IA" + "ABCD2345" * 2,
    ],
    "private key": ["-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE"],
    "token (JWT)": ["ey" + "JhbGciOiJI." + "ey" + "JzdWIiOiIx." + "SflKxwRJSMe"],
}
PERSONAL = {
    "e-mail address": "ada.lovelace@mail.co.uk",
    "phone number": "+44 20 7946 0958",
    "IBAN": "DE89 3704 0044 0532 0130 00",
    "payment card": "4111 1111 1111 1111",
    "password": "password: hunter2!x",
}
INNOCENT = [
    "order 4711-0815-1234-5678, parcel 00340434161094042557",
    "2026-11-30T23:59:59Z, 1764547199, 12:30, 5 pm",
    "123e4567-e89b-12d3-a456-426614174000",
    "version 10.2.13, build 20261130.1, 192.168.100.200",
    "it costs 1,234,567.89 EUR or 4 111.11",
    "write to someone@example.com, or @ada, or 5 @ 3.50",
    "I forgot my password and the reset link is dead. Password: please help",
    "task-force sk-learn risk-adjusted hf_transfer gh_actions",
    "the number 4111 1111 1111 1112 and 3.14159265358979",
    "call 911 or 0800 123",
]


@pytest.mark.parametrize(("kind", "value"), [(k, v) for k, vs in KEYS.items() for v in vs])
def test_a_key_closes_the_gate_and_is_not_shown(tmp_path, kind, value):
    inputs = run(tmp_path, train=[*triage(), chat("And this?", f"Use {value} for it.")])
    observation = load("data_lint").observe(inputs)
    found = verdict("data_lint", inputs)
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/train.jsonl:7"
    assert kind in found.findings[0].message
    secret = value.split("-")[-1] if "BEGIN" not in value else "MIIE"
    assert secret not in json.dumps([observation, found.to_json()])


@pytest.mark.parametrize(("kind", "value"), PERSONAL.items())
def test_personal_data_is_told_and_closes_the_gate_where_data_may_leave(tmp_path, kind, value):
    rows = [*triage(), chat(f"It is {value}", "ok")]
    found = verdict("data_lint", run(tmp_path / "a", train=rows))
    assert found.status == Status.PASS
    (told,) = (item for item in found.warnings if "personal data" in item.message)
    assert kind in told.message and told.where == "data/train.jsonl:7"
    assert value.split()[-1] not in json.dumps(found.to_json())
    found = verdict("data_lint", run(tmp_path / "b", train=rows, may_leave=True))
    assert found.status == Status.FAIL
    assert "may leave" in found.findings[0].message


@pytest.mark.parametrize("text", INNOCENT)
def test_what_only_looks_like_it_is_quiet(text):
    assert list(private(text)) == []


def test_check_digits_are_computed():
    assert is_iban("GB82WEST12345698765432") and not is_iban("GB82WEST12345698765433")
    assert is_luhn("79927398713") and not is_luhn("79927398710")
