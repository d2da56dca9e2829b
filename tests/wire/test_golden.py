"""Every conversation on every wire, against the bodies in `golden/`.

`SANDPIPER_GOLDEN=write pytest tests/wire` writes them anew; read the diff before you commit it.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.simulators.anthropic.thinking import check_thinking_fields
from tests.wire.codecs import CODECS
from tests.wire.conversations import conversations
from worker.lab.anthropic import checks

GOLDEN = Path(__file__).parent / "golden"
CASES = [(codec, case) for codec in CODECS for case in conversations("")]


def body(codec: str, case: str) -> bytes:
    made, origin = CODECS[codec]()
    return made.encode(conversations(origin)[case])


def readable(raw: bytes) -> str:
    return json.dumps(json.loads(raw), ensure_ascii=False, indent=1) + "\n"


@pytest.mark.parametrize(("codec", "case"), CASES)
def test_the_body_is_the_golden_one(codec: str, case: str) -> None:
    path = GOLDEN / codec / f"{case}.json"
    if os.environ.get("SANDPIPER_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(readable(body(codec, case)), encoding="utf-8")
    assert readable(body(codec, case)) == path.read_text(encoding="utf-8")


def test_no_golden_body_is_left_over() -> None:
    stored = {(path.parent.name, path.stem) for path in GOLDEN.glob("*/*.json")}

    assert stored == set(CASES)


@pytest.mark.parametrize(("codec", "case"), CASES)
def test_the_body_is_compact_utf8_json_without_duplicate_keys(codec: str, case: str) -> None:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({name for name, _ in pairs}) == len(pairs)
        return dict(pairs)

    json.loads(body(codec, case).decode(), object_pairs_hook=unique)


@pytest.mark.parametrize("case", list(conversations("")))
def test_the_strict_simulator_takes_every_anthropic_body(case: str) -> None:
    sent = checks.parse_body(body("anthropic", case))
    checks.check_body(sent)
    check_thinking_fields(sent)
