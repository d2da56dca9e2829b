"""The link to the session's page in the small print."""

import pytest

from worker.core.messages import Usage
from worker.forge.footer import Footer, facts

PAGE = f"https://ci.example/sandpiper/sessions/{'a' * 20}"
SIGNED = f"{PAGE}?sig=1900000000.{'0f' * 32}"


def footer(page: str, found_by: str = "") -> Footer:
    return Footer("test/model", 3, Usage(1), 0.1, 4.0, page=page, found_by=found_by)


@pytest.mark.parametrize("found_by", ["", "rule", "known"])
def test_a_note_leads_to_the_page_of_its_session(found_by: str) -> None:
    assert f"[Session]({SIGNED})" in facts(footer(SIGNED, found_by))


@pytest.mark.parametrize(
    "page", ["", PAGE, f"{SIGNED}&x=1", f"{SIGNED})[x](y", SIGNED.replace("https", "javascript")]
)
def test_what_is_no_signed_address_is_not_linked(page: str) -> None:
    assert not [fact for fact in facts(footer(page)) if "Session" in fact]
