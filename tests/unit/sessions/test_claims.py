"""What a claim is as bytes in the store."""

from pathlib import Path

import pytest

from tests.contract.places import KEY, at
from worker.sessions.folder import FolderStore
from worker.sessions.store import Claim

NAME = at(0, "claim.json")


@pytest.mark.parametrize(
    "claim",
    [Claim("host/7f", "t", 1_795_000_000.25), Claim("", "", 1.0), Claim('ü"\n\x00', "t", 1.0, 3)],
)
def test_a_claim_survives_its_json(tmp_path: Path, claim: Claim) -> None:
    store = FolderStore(tmp_path)
    assert store.claim_turn(KEY, 0, claim, 0.0) is None
    assert store.find_holder(KEY, 0, 0.0) == claim


def test_a_claim_of_a_newer_version_is_understood(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    content = b'{"owner": "a", "trigger_id": "t", "until": 5, "fence": 3, "x": 0}'
    assert store.records.create(NAME, content)
    assert store.find_holder(KEY, 0, 0.0) == Claim("a", "t", 5.0, 3)
