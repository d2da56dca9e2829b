import pytest

from worker.core.ports import Claim
from worker.sessions import claims


@pytest.mark.parametrize(
    "claim",
    [Claim("host/7f", "t", 1_795_000_000.25), Claim("", "", 0.0), Claim('ü"\n\x00', "t", -1.0)],
)
def test_a_claim_survives_its_json(claim: Claim) -> None:
    assert claims.decode_claim(claims.encode_claim(claim)) == claim


def test_a_claim_of_a_newer_version_is_understood() -> None:
    content = b'{"owner": "a", "trigger_id": "t", "until": 5, "fence": 3, "x": 0}'
    assert claims.decode_claim(content) == Claim("a", "t", 5.0, 3)


def test_a_holder_is_known_by_owner_and_trigger() -> None:
    claim = Claim("a", "t", 1.0)
    assert claims.have_same_holder(claim, Claim("a", "t", 2.0))
    assert not claims.have_same_holder(claim, Claim("b", "t", 1.0))
    assert not claims.have_same_holder(claim, Claim("a", "u", 1.0))
