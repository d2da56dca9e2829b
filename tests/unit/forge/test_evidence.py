"""How one quote looks in a note: a place that can be clicked, and the text as it is."""

import pytest

from tests.unit.forge import rendering
from tests.unit.forge.test_neutralise import HOSTILE, HOSTS
from worker.core.finding import Evidence, Unproven
from worker.core.places import JobArtifact, JobLog, Place, RepoFile, ReportedTest
from worker.forge.parts import quote, said, struck

URL = "https://gitlab.example.com/team/app/-/x#L12"


@pytest.mark.parametrize(
    ("place", "label"),
    [
        (JobLog(7), "job 7, line 12"),
        (RepoFile("src/a.py"), "`src/a.py`, line 12"),
        (RepoFile("src/a.py", "main"), "`src/a.py` at `main`, line 12"),
        (JobArtifact(7, "out/x.xml"), "`out/x.xml` of job 7, line 12"),
    ],
)
def test_a_quote_names_its_place_and_links_to_it(place: Place, label: str) -> None:
    assert quote(Evidence(place, 12, "x = 1", URL), HOSTS) == f"[{label}]({URL}): `x = 1`"


def test_a_reported_test_has_no_line() -> None:
    made = quote(Evidence(ReportedTest("a.test_b"), 0, "x = 1", URL), HOSTS)
    assert made == f"[test `a.test_b`]({URL}): `x = 1`"


def test_several_lines_are_a_block_within_the_item() -> None:
    made = quote(Evidence(RepoFile("a.py"), 12, "if x:\n    /close", URL, 13), HOSTS)
    body = f"- {made}\n- next\n"
    assert rendering.codes(body) == ["a.py", "if x:\n    /close\n"]
    assert rendering.quick_actions(body) == []
    assert made.startswith(f"[`a.py`, lines 12-13]({URL}):")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_places_and_texts_do_nothing(hostile: str) -> None:
    places = (RepoFile(hostile, hostile), JobArtifact(7, hostile), ReportedTest(hostile))
    quotes = [Evidence(place, 12, hostile, URL, 12) for place in places]
    unproven = Unproven(hostile, hostile, hostile, (hostile,))
    body = "\n".join(f"- {quote(each, HOSTS)}" for each in quotes) + f"\n\n{struck(unproven)}\n"
    assert rendering.dangers(body, HOSTS | {"gitlab.example.com"}) == []
    assert rendering.dangers(said((hostile, *quotes, unproven, hostile), HOSTS, 4000), HOSTS) == []


def test_a_reply_keeps_its_order_and_never_shows_what_is_unproven() -> None:
    parts = (
        "Look:",
        Evidence(JobLog(7), 12, "error: no such file", URL, 12),
        Unproven("job 7 line 13", "made up", "job 7 has 12 lines"),
        "So it is.",
    )
    assert said(parts, HOSTS, 4000).split("\n") == [
        "Look:",
        "",
        f"- [job 7, line 12]({URL}): `error: no such file`",
        "- *(a quote from `job 7 line 13` was left out: it could not be proven)*",
        "",
        "So it is.",
    ]
