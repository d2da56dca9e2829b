"""How one quote looks in a note: a place that can be clicked, and the text as it is."""

from dataclasses import replace

import pytest

from tests.unit.answer.note import rendering
from tests.unit.safety.test_neutralise import HOSTILE, HOSTS
from worker.answer.note.note_parts import Parts, write_answer_parts, write_quote, write_unproven
from worker.answer.note.quotes import sort_quotes
from worker.answer.quotes import scan_quotes
from worker.verdict.finding import (
    Evidence,
    JobArtifact,
    JobLog,
    Place,
    RepoFile,
    ReportedTest,
    Unproven,
)

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
    assert write_quote(Evidence(place, 12, "x = 1", URL), HOSTS) == f"[{label}]({URL}): `x = 1`"


def test_a_reported_test_has_no_line() -> None:
    made = write_quote(Evidence(ReportedTest("a.test_b"), 0, "x = 1", URL), HOSTS)
    assert made == f"[test `a.test_b`]({URL}): `x = 1`"


def test_several_lines_are_a_block_within_the_item() -> None:
    made = write_quote(Evidence(RepoFile("a.py"), 12, "if x:\n    /close", URL, 13), HOSTS)
    body = f"- {made}\n- next\n"
    assert rendering.codes(body) == ["a.py", "if x:\n    /close\n"]
    assert rendering.quick_actions(body) == []
    assert made.startswith(f"[`a.py`, lines 12-13]({URL}):")


def test_one_text_in_two_places_is_two_quotes() -> None:
    guard, error = "#ifndef WIRE_FRAME_H", "error: incomplete type"
    told: list[tuple[Place, str]] = [(RepoFile("kind.h"), guard), (RepoFile("frame.h"), guard)]
    told += [(JobLog(7), error), (JobLog(8), error), (JobLog(7), "error: other")]
    evidence = [Evidence(place, 1, text, URL, 1) for place, text in told]
    parts = Parts(HOSTS, 240)
    shown = parts.write_quotes(sort_quotes([*evidence, evidence[0]]), range(4), {})
    labels = [each.partition("](")[0].removeprefix("[") for each in shown]
    assert labels == ["`kind.h`, line 1", "`frame.h`, line 1", "job 7, line 1", "job 7, line 1"]
    # The log of another job says the same again: after the rest, and not left out.
    assert parts.render_folded(4000).count(f"[job 8, line 1]({URL}): `{error}`") == 1


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_places_and_texts_do_nothing(hostile: str) -> None:
    places = (RepoFile(hostile, hostile), JobArtifact(7, hostile), ReportedTest(hostile))
    quotes = [Evidence(place, 12, hostile, URL, 12) for place in places]
    unproven = Unproven(hostile, hostile, hostile, (hostile,))
    body = (
        "\n".join(f"- {write_quote(each, HOSTS)}" for each in quotes)
        + f"\n\n{write_unproven(unproven)}\n"
    )
    assert rendering.dangers(body, HOSTS | {"gitlab.example.com"}) == []
    assert (
        rendering.dangers(
            write_answer_parts((hostile, *quotes, unproven, hostile), HOSTS, 4000), HOSTS
        )
        == []
    )


def test_a_reply_keeps_its_order_and_never_shows_what_is_unproven() -> None:
    parts = (
        "Look:",
        Evidence(JobLog(7), 12, "error: no such file", URL, 12),
        Unproven("job 7 line 13", "made up", "job 7 has 12 lines"),
        "So it is.",
    )
    assert write_answer_parts(parts, HOSTS, 4000).split("\n") == [
        "Look:",
        "",
        f"- [job 7, line 12]({URL}): `error: no such file`",
        "- *(a quote from `job 7 line 13` was left out: it could not be proven)*",
        "",
        "So it is.",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Look:\n1. the job failed\n2. job 7 line 12: error: x\n3. so mend it",
            [
                ("", "Look:"),
                ("1", "the job failed"),
                ("2", "job 7, line 12: error: x"),
                ("3", "so mend it"),
            ],
        ),
        (
            "9) first\n10) job 7 lines 12-13: error: x\n    src/a.c:1: why\n11) so mend it",
            [
                ("9", "first"),
                ("10", "job 7, lines 12-13:"),
                ("10", "error: x\nsrc/a.c:1: why"),
                ("11", "so mend it"),
            ],
        ),
        (
            "1. first\n   - job 7 line 12: error: x\n\n2. then\n\n   job 7 line 13: y\n3. last",
            [
                ("1", "first"),
                ("1-", "job 7, line 12: error: x"),
                ("2", "then"),
                ("2-", "job 7, line 13: y"),
                ("3", "last"),
            ],
        ),
        (
            "Text\n         - job 7 line 12: error: x\nmore",
            [("", "Text"), ("-", "job 7, line 12: error: x"), ("", "more")],
        ),
        (
            "```\n1. code\n```\n   - job 7 line 12: error: x",
            [("", "1. code"), ("-", "job 7, line 12: error: x")],
        ),
        (
            "1. one\n   ```\n   code\n   ```\n   - job 7 line 12: error: x\n2. two",
            [("1", "one"), ("1", "code"), ("1-", "job 7, line 12: error: x"), ("2", "two")],
        ),
    ],
)
def test_a_quote_in_a_list_keeps_its_place(text: str, expected: list[tuple[str, str]]) -> None:
    parts = [
        replace(each, url=URL) if isinstance(each, Evidence) else each.text
        for each in scan_quotes(text, replying=True)
    ]
    joined: list[str | Evidence] = []
    for part in parts:
        if joined and isinstance(part, str) and isinstance(joined[-1], str):
            joined[-1] += f"\n{part}"
        else:
            joined.append(part)
    assert list(rendering.items(write_answer_parts(joined, HOSTS, 4000))) == expected
