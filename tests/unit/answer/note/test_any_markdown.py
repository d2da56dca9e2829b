"""Whatever a model writes can stand in a note: the writer and the last look at it agree."""

import dataclasses
from collections.abc import Callable

import pytest

from tests.unit.answer.note.grammar import Grammar
from tests.unit.answer.note.test_note import MARKER, SUBJECT
from tests.unit.safety.test_lint import bodies, marked
from worker.answer.finish import add_subject_hosts, finish_body
from worker.answer.note import note
from worker.safety.lint import find_faults
from worker.safety.neutralise import neutralise, neutralise_line

pytestmark = pytest.mark.attack("note")

PLACES = add_subject_hosts(SUBJECT, frozenset())
PROJECT = "https://gitlab.example.com/group/shop"
SHA = "0123456789abcdef0123456789abcdef01234567"

KNOWN = [
    f"see {PROJECT}/-/jobs/1",
    f"see {PROJECT}/-/jobs/1.",
    f"<{PROJECT}/-/tree/~x>",
    f"[{PROJECT}/-/jobs/1]({PROJECT}/-/jobs/1)",
    f"**{PROJECT}/-/jobs/1** _{PROJECT}/-/jobs/1_",
    f"| {PROJECT}/-/jobs/1 |\n|---|\n| x |",
    "see https://gitlab.example.com/",
    "http://[::1] http://[evil [x](http://[evil)",
    "_K-1_ K\\_-1 _GL-1_ [C:r] [v:1|\n-",
    "B-2\\_:// www.\\_://",
    "::includes ::INCLUDE{x}",
    "*iteration:1 \\*iteration:1 **iteration:1** *\\*iteration:1 \\**iteration:1",
    "group/project> a/b/c> g/\\_p> g/p&gt;",
    f"{SHA} a{SHA} {SHA.upper()} `x`{SHA}",
    "HEAD~1 x~bug 100%of",
    "~`\u2028`a @` `all #`\u200b`1",
    "@./\\_> ~a./b> @x./y>",
    "[TO\x0bC] [T*O*C] [*TOC*] [[_TOC_]] [_TOC_]",
]


@pytest.mark.parametrize("text", KNOWN)
def test_known_shapes_are_written_so_that_they_pass(text: str) -> None:
    assert find_faults(marked(neutralise(text, PLACES)), PLACES) == []
    assert find_faults(marked(f"**Cause:** {neutralise_line(text, PLACES)}"), PLACES) == []


@pytest.mark.slow
def test_any_markdown_passes_in_any_place(
    attack_inputs: int, record_property: Callable[[str, object], None]
) -> None:
    grammar = Grammar(7)
    for _ in range(attack_inputs):
        text = grammar.text()
        for written in (
            neutralise(text, PLACES),
            neutralise_line(text, PLACES),
            f"**Cause:** {neutralise_line(text, PLACES)}",
        ):
            assert find_faults(marked(written), PLACES) == [], text
    record_property("tried", attack_inputs)


@pytest.mark.slow
def test_whole_notes_pass_with_any_markdown_in_them(
    attack_inputs: int, record_property: Callable[[str, object], None]
) -> None:
    grammar, number = Grammar(8), max(20, attack_inputs // 100)
    for _ in range(number):
        hostile = grammar.text()
        for body in bodies(hostile, PLACES):
            finished = finish_body(body, PLACES, str)
            assert find_faults(body, PLACES) == [], hostile
            assert finished.body == body
    record_property("tried", number)


@pytest.mark.parametrize(
    "text",
    [
        *("GL-123", "xGL-1", "KEY-123", "A_B-2", "feature/KEY-1", "\\_K-1"),
        *(SHA, SHA.upper(), f"see {SHA}.", "deadbee1", "ab" * 32),
        *("group/project>", "a/b/c>", "group/project&gt;", "g\\_/p\\_>"),
        *("*iteration:1", "\\*iteration:1", '*iteration:"a b"', "&#42;iteration:1"),
        *("[issue:group/project/5]", "[i:5]", "HEAD~1", "group/project~bug", "x%y"),
    ],
)
def test_a_cross_reference_comes_out_as_code(text: str) -> None:
    assert "`" in neutralise(text, PLACES)


@pytest.mark.parametrize(
    "text",
    [
        *("GL-123", "KEY-123", SHA, "group/project>", "\\*iteration:1", "*iteration:1"),
        *("[issue:group/project/5]", "x~bug", "x%y", "&&1"),
        f"[x]({PROJECT}/-/iss%75es/5)",
        f"[x]({PROJECT}/-/%2569ssues/5)",
        f"[x]({PROJECT}/-/issues/5)",
        f"<{PROJECT}/-/merge_requests/5>",
        "[x](https://gitlab.example.com/other/project/-/jobs/1)",
        f"[x]({PROJECT}/../other/-/jobs/1)",
        f"[x]({PROJECT}/%2e%2e/other/-/jobs/1)",
        f"[x]({PROJECT}/-/jobs/1?q=secret)",
        "[x](http://[evil)",
        "[x]: y",
    ],
)
def test_the_last_look_sees_it_by_itself(text: str) -> None:
    assert find_faults(marked(text), PLACES)


@pytest.mark.parametrize(
    "path",
    [
        *("/-/iss%75es/5", "/-/%69ssues/5", "/-/%2569ssues/5", "/-/merge%5Frequests/5"),
        *("/-/merge_requests/5", "/-/commit/" + SHA, "/issues/5", "/-/boards/1", "/%2D/issues/5"),
    ],
)
def test_no_link_leads_to_what_gitlab_cross_references(path: str) -> None:
    for text in (f"{PROJECT}{path}", f"[x]({PROJECT}{path})", f"<{PROJECT}{path}>"):
        assert f"]({PROJECT}" not in neutralise(text, PLACES)
        assert f"<{PROJECT}" not in neutralise(text, PLACES)


def test_links_lead_to_the_projects_of_the_merge_request_only() -> None:
    ran = "https://gitlab.example.com/contributor/shop/-/pipelines/9001"
    fork = dataclasses.replace(SUBJECT, pipeline_project_id=8, pipeline_web_url=ran)
    places = add_subject_hosts(fork, frozenset({"ci.example/pages/sessions"}))
    for good in (
        f"{PROJECT}/-/jobs/1#L2",
        f"{PROJECT}/-/blob/main/src/issues/a%20b.py#L1",
        "https://gitlab.example.com/contributor/shop/-/jobs/1",
        f"{SUBJECT.web_url}#note_5",
        f"{SUBJECT.web_url}/pipelines",
        "https://ci.example/pages/sessions/x",
    ):
        assert neutralise(f"[x]({good})", places) == f"[x]({good})"
        assert find_faults(marked(f"[x]({good})"), places) == []
    for bad in (
        "https://gitlab.example.com/other/project/-/jobs/1",
        "https://gitlab.example.com/group/shop2/-/jobs/1",
        "https://gitlab.example.com/group",
        "https://ci.example/other",
    ):
        assert "](" not in neutralise(f"[x]({bad})", places)
        assert find_faults(marked(f"[x]({bad})"), places)


def test_a_merge_request_without_a_page_gives_no_place() -> None:
    nowhere = dataclasses.replace(SUBJECT, web_url=SUBJECT.gitlab_url, project="")
    assert add_subject_hosts(nowhere, frozenset()) == frozenset()


def test_a_name_that_begins_a_sentence_names_no_issue() -> None:
    for reason in ("x86-64 has no runner", "gL-1", "a-1"):
        body = note.write_failure(MARKER, SUBJECT, reason, None)
        assert find_faults(body, PLACES) == []
        assert f" {reason}." in body
