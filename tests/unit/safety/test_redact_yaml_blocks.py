"""Secrets on the lines below their key, in a block scalar of YAML."""

import time

import pytest

from tests.linear import takes_linear_time
from tests.unit.safety.test_redact_stream import log_with, pieces
from worker.safety.redact import Redactor
from worker.safety.redacted_values import redact_stream

pytestmark = pytest.mark.attack("redaction")
REDACTOR = Redactor()
WORD, KEY = "hunter2Secret!", "A1b2C3d4E5f6G7h8I9j0"
MARK = "[redacted: secret]"
SECRETS = [
    (f"password: |\n  {WORD}\nnext: 1\n", f"password: |\n  {MARK}\nnext: 1\n"),
    (f"a:\n  password: >-\n      {WORD}\n  b: c", f"a:\n  password: >-\n      {MARK}\n  b: c"),
    (f"- password: |2+  # why\n    {WORD}\n- a", f"- password: |2+  # why\n    {MARK}\n- a"),
    (f"password: |\r\n  {WORD}\r\nb: 1\r\n", f"password: |\r\n  {MARK}\r\nb: 1\r\n"),
    (f"password: !!str &p |\n  {WORD}", f"password: !!str &p |\n  {MARK}"),
    (f"+  password: |\n+    {WORD}\n+  b: c", f"+  password: |\n+    {MARK}\n+  b: c"),
    (f'  "password": |\n    {WORD}\n', f'  "password": |\n    {MARK}\n'),
    (
        f"12:00:01 01O token: >\n12:00:02 01O   {KEY}",
        f"12:00:01 01O token: >\n12:00:02 01O   {MARK}",
    ),
    (f'{{"a": "password: |\\n  {WORD}\\nb: 1"}}', f'{{"a": "password: |\\n  {MARK}\\nb: 1"}}'),
    (f'{{"a": "b: 1\\ntoken: |\\n  {KEY}"}}', f'{{"a": "b: 1\\ntoken: |\\n  {MARK}"}}'),
    (
        f"db:\n  \x1b[36mpassword\x1b[0m: |\n    {WORD}\n",
        f"db:\n  \x1b[36mpassword\x1b[0m: |\n    {MARK}\n",
    ),
    (
        f"  password: \x1b[32m|\n    {WORD}\x1b[0m\n",
        f"  password: \x1b[32m|\n    {MARK}\x1b[0m\n",
    ),
    (
        f"  password: |\x1b[0m\n\x1b[1;32m    {WORD}\x1b[0m\n",
        f"  password: |\x1b[0m\n\x1b[1;32m    {MARK}\x1b[0m\n",
    ),
    (
        f"\x1b[32m+\x1b[m\x1b[32m  token: |\x1b[m\r\n\x1b[32m+\x1b[m\x1b[32m    {KEY}\x1b[m\r\n",
        f"\x1b[32m+\x1b[m\x1b[32m  token: |\x1b[m\r\n\x1b[32m+\x1b[m\x1b[32m    {MARK}\x1b[m\r\n",
    ),
    (
        f"\x1b[36mtoken\x1b[m:\x1b[m \x1b[32m|\n  {KEY}",
        f"\x1b[36mtoken\x1b[m:\x1b[m \x1b[32m|\n  {MARK}",
    ),
    (f"9:  password: |\n10:    {WORD}\n", f"9:  password: |\n10:    {MARK}\n"),
    (f"a.yml:99:token: |\na.yml-100-  {KEY}", f"a.yml:99:token: |\na.yml-100-  {MARK}"),
    # Only what looks like a secret goes: the other lines may be a log's.
    (f"token: |\n  the first\n\n  {KEY}\nb: 1", f"token: |\n  the first\n\n  {MARK}\nb: 1"),
    (f"token: |\n  {KEY}\n  {KEY[:18]}\n  go on", f"token: |\n  {MARK}\n  {MARK}\n  go on"),
    (f"token: |\n  {KEY}\n  ab12==\n  FAILED", f"token: |\n  {MARK}\n  {MARK}\n  FAILED"),
]
HARMLESS = [
    "password: |\n  The password of the user,\n  see the docs.\nnext: 1",
    "password: >\n  {{ vault_password }}\n",
    "token: |\n  ${CI_JOB_TOKEN}\n",
    f"password: |\n{WORD}\n",
    f"password: |\nuser: {WORD}\n",
    f"- password: |\n  user: {WORD}\n",
    f"password: |\n  one\nname: |\n  {KEY}\n",
    f"password: |\n\nname: {KEY}",
    f"description: |\n  {KEY}\n",
    f"\x1b[1mpassword\x1b[0m: |\n\x1b[1m{WORD}",
    f"9:  password: |\n10:  user: {WORD}\n",
    "token_url: |\n  a1b2c3d4e5f6a1b2c3d4\n",
]
HOSTILE = [
    "password: |\n ",
    "password: |\\n ",
    "password:\n|\n ",
    "token_token_token: |\n",
    "password: |\n" + " password: x\n" * 99,
    "password: |\n" + " a b\n" * 99,
    "password: !a &b |\n \x1b[1m:|",
    "password: |\n" + " " * 4000,
    "password: |\n" + " \x1b[1mx" * 500,
    "password: |\n" + " \x1b[" * 1000,
    "9: password: |\n" + "10:  a\n" * 99,
]


@pytest.mark.parametrize(("text", "clean"), SECRETS)
def test_a_secret_below_its_key_goes(text: str, clean: str) -> None:
    assert REDACTOR.redact_text(text) == clean
    assert REDACTOR.redact_text(clean) == clean


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_below_its_key_stays(text: str) -> None:
    assert REDACTOR.redact_text(text) == text


def test_a_block_in_two_pieces_is_redacted_as_the_whole_is() -> None:
    lines = ["password: |", "  the first line", *(f"  line {at} of it" for at in range(60))]
    text = log_with("\n".join([*lines, f"  {KEY}{WORD}", "next: 1"]), 6_000)
    whole = REDACTOR.redact_data(text)
    assert whole.count(b"of it") == 60
    assert KEY.encode() not in whole
    for seed in range(6):
        assert b"".join(redact_stream(pieces(text, seed), REDACTOR.redact_data)) == whole
    for line in (b"password: |\n", b"line 30 of it\n"):
        cut = text.index(line) + len(line)
        assert b"".join(redact_stream([text[:cut], text[cut:]], REDACTOR.redact_data)) == whole


@pytest.mark.slow
@pytest.mark.parametrize("part", HOSTILE, ids=lambda part: part[:12])
def test_hostile_blocks_take_linear_time(part: str) -> None:
    assert takes_linear_time(REDACTOR.redact_text, part, 50_000)


@pytest.mark.slow
@pytest.mark.parametrize("part", [":|#", ": | # a", ":!"])
def test_a_hostile_line_takes_about_as_long_as_another(part: str) -> None:
    assert any(_measure(part) < 6 * _measure("a: b") for _ in range(3))


def _measure(part: str) -> float:
    """How much of the processor's time blocks take whose lines consist of `part`."""
    text = 20 * ("password: |\n" + f"  {part * (400 // len(part))}\\x\n" * 99)
    started = time.process_time()
    REDACTOR.redact_text(text)
    return time.process_time() - started
