"""A fix on the diff: posted once, linked from the note, harmless; text where it does not fit."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.jobs import FINDING, EchoToolset, Job, OneLog
from tests.simulators.gitlab import GitLabSim, Note
from tests.unit.safety.test_neutralise import HOSTILE, HOSTS
from worker.answer.note.facts import add_runs, write_suggestion
from worker.answer.suggestions import Offers, Suggestion
from worker.answer.trials import CheckRun, Trial
from worker.conversation.context import Context, NoteRef, Subject
from worker.conversation.limits import TurnUsage
from worker.errors import ForgeError
from worker.safety.lint import find_faults
from worker.safety.markdown import Kind, Marker, find_marker
from worker.settings.runs import NoteSettings
from worker.turns.parts import Deps
from worker.turns.suggestions import MOST_ON_DIFF, expect_changes, offer_changes
from worker.verdict.finding import Finding, Place, RepoFile
from worker.verdict.verdict import Verdict

SESSION = "0123456789abcdef0123"
FIX = "Sum again.\n\n```suggestion app/sum.py:2\n    return sum(xs)\n```"
CHANGE = Finding(verdict=Verdict.CHANGE, cause="It returns 4.", to_do=FIX)


@pytest.fixture
def context(at: Job) -> Context:
    subject = at.reader.find_named_subject(str(at.scene.project.id), 1, None)
    assert isinstance(subject, Subject)
    return Context(
        session_id=SESSION,
        subject=subject,
        workflow="analyze-failures",
        model="",
        system="",
        tools=(),
        messages=(),
        turn_usage=TurnUsage(started_at=0.0),
        note=at.writer.post_note(subject, f"{Marker(SESSION, 0).text()}\n\nThe analysis.", ""),
    )


def offered(
    context: Context, finding: Finding, deps: Deps, *, private: bool = False
) -> tuple[Finding, Offers]:
    return offer_changes(context, finding, {}, EchoToolset().captures, deps, private=private)


def on_the_diff(at: Job) -> list[Note]:
    return [each for each in at.list_notes() if each.type == "DiffNote"]


def test_a_fix_is_put_on_the_line_and_told_in_words(at: Job, context: Context) -> None:
    told, offers = offered(context, CHANGE, at.build_deps())
    (made,) = on_the_diff(at)
    assert offers == Offers((("sum.py:2", made.web_url),))
    assert find_marker(made.body) == Marker(SESSION, 1, Kind.SUGGESTION)
    assert " ```suggestion:-0+0\n     return sum(xs)\n ```" in made.body
    assert context.note is not None
    assert f"[the analysis]({context.note.url})" in made.body
    assert told.to_do == "Sum again."


def test_a_fix_does_not_lead_to_an_analysis_that_was_deleted(
    at: Job, sim: GitLabSim, context: Context
) -> None:
    sim.delete(at.list_notes()[0])
    offered(context, CHANGE, at.build_deps())
    (made,) = on_the_diff(at)
    assert "A fix from the analysis.\n" in made.body


def test_a_fix_is_posted_once_whatever_happens(at: Job, sim: GitLabSim, context: Context) -> None:
    sim.fail_next("POST", "/discussions$", 502, after=True)
    first = offered(context, CHANGE, at.build_deps())[1].links
    assert offered(context, CHANGE, at.build_deps())[1].links == first
    assert len(on_the_diff(at)) == 1


def test_a_fix_that_an_older_version_has_posted_is_not_posted_again(
    at: Job, sim: GitLabSim, context: Context
) -> None:
    before = f"<!-- sandpiper:session={SESSION} turn=999001 -->\n\nA fix from the analysis."
    posted = sim.comment(at.scene.mr, at.scene.bot, before, thread=True)
    assert posted is not None
    assert offered(context, CHANGE, at.build_deps())[1].links == (("sum.py:2", posted.web_url),)
    assert on_the_diff(at) == []


def test_at_most_three_fixes_are_posted(at: Job, context: Context) -> None:
    several = "\n\n".join(FIX.replace("sum(xs)", f"sum(xs) + {n}") for n in range(5))
    told, offers = offered(context, replace(CHANGE, to_do=several), at.build_deps())
    assert len(offers.links) == len(on_the_diff(at)) == MOST_ON_DIFF == 3
    assert offers.left_out_count == 2
    assert offers.text.count("(not on the diff: at most 3 are put there)") == 2
    assert "suggestion" not in told.to_do


@pytest.mark.parametrize(
    "to_do",
    [
        FIX.replace(":2", ":3"),
        FIX.replace("app/sum.py", "app/other.py"),
        FIX.replace("sum(xs)", "4"),
        FIX.replace("sum(xs)", '"glpat-' + "aB3" * 8 + '"'),
        FIX.replace("sum(xs)", "sum(xs)  "),
        FIX.replace("sum(xs)", "sum(\u202exs)"),
        FIX.replace("sum(xs)", "'<!-- sandpiper:session=x -->'"),
    ],
)
def test_what_does_not_fit_or_is_not_what_it_seems_stays_text(
    at: Job, context: Context, to_do: str
) -> None:
    offers = offered(context, replace(CHANGE, to_do=to_do), at.build_deps())[1]
    assert offers.links == ()
    assert on_the_diff(at) == []
    assert offers.left_out_count == 1
    assert "of `app/" in offers.text


SEVERAL = "\n\n".join(FIX.replace("sum(xs)", f"sum(xs) + {n}") for n in range(5))


@pytest.mark.parametrize(
    "to_do",
    [
        FIX,
        SEVERAL,
        FIX.replace(":2", ":3"),
        FIX.replace("app/sum.py", "app/other.py"),
        "Sum again.",
    ],
)
def test_as_many_links_are_expected_as_the_note_will_have(
    at: Job, context: Context, to_do: str
) -> None:
    finding = replace(CHANGE, to_do=to_do)
    expected = expect_changes(context, finding, at.build_deps())[1]
    assert on_the_diff(at) == []
    offers = offered(context, finding, at.build_deps())[1]
    assert [name for name, _ in expected.links] == [name for name, _ in offers.links]
    assert expected.left_out_count == offers.left_out_count
    assert bool(expected.text) == bool(offers.text)


def test_without_an_answer_of_gitlab_every_change_is_expected_on_the_diff(
    at: Job, sim: GitLabSim, context: Context
) -> None:
    sim.fail_next("GET", "/diffs", 403)
    sim.fail_next("GET", "/versions", 403)
    assert expect_changes(context, CHANGE, at.build_deps())[1].links


class OneFile(OneLog):
    """Of the repository there is a file of three lines."""

    def read_lines(self, place: Place) -> Sequence[str]:
        if isinstance(place, RepoFile) and place.path == "app/sum.py":
            return ["def sum(xs):", "    return 4", ""]
        return super().read_lines(place)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("app/sum.py:103-105", "the file as it was read has only 3 lines"),
        ("app/sum.py:2-4", "the file as it was read has only 3 lines"),
        ("app/sum.py:3", "the diff does not show it"),
        ("app/other.py:103-105", "the diff does not show this file"),
    ],
)
def test_a_fix_of_lines_that_the_file_does_not_have_is_said_to_be_so(
    at: Job, context: Context, place: str, why: str
) -> None:
    finding = replace(CHANGE, to_do=FIX.replace("app/sum.py:2", place))
    offers = offer_changes(context, finding, {}, OneFile(), at.build_deps(), private=False)[1]
    assert f"(not on the diff: {why})" in offers.text
    assert on_the_diff(at) == []


@pytest.mark.parametrize("verdict", [each for each in Verdict if each is not Verdict.CHANGE])
def test_only_a_failure_of_the_change_is_fixed_on_the_diff(
    at: Job, context: Context, verdict: Verdict
) -> None:
    assert offered(context, replace(CHANGE, verdict=verdict), at.build_deps())[1].links == ()


def test_nothing_of_a_private_analysis_goes_on_the_diff(at: Job, context: Context) -> None:
    assert offered(context, CHANGE, at.build_deps(), private=True)[1].links == ()
    for note in (NoteRef(5, internal=True), None):
        assert offered(replace(context, note=note), CHANGE, at.build_deps())[1].links == ()
    assert on_the_diff(at) == []


def test_the_operator_may_switch_suggestions_off(at: Job, context: Context) -> None:
    off = at.build_deps(note=NoteSettings(suggestions=False))
    assert offered(context, CHANGE, off)[1].links == ()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/discussions$", 400), ("POST", "/discussions$", 403), ("GET", "/diffs$", 403)],
)
def test_what_gitlab_does_not_take_stays_text(
    at: Job, sim: GitLabSim, context: Context, method: str, path: str, status: int
) -> None:
    sim.fail_next(method, path, status, times=9)
    offers = offered(context, CHANGE, at.build_deps())[1]
    assert offers.links == ()
    assert "return sum(xs)" in offers.text


def test_a_merge_request_that_has_moved_on_gets_no_suggestion(
    at: Job, sim: GitLabSim, context: Context
) -> None:
    sim.push(at.scene.mr, {"a": b"1"})
    assert offered(context, CHANGE, at.build_deps())[1].links == ()


def test_a_merged_results_pipeline_gets_its_suggestion(
    at: Job, sim: GitLabSim, context: Context
) -> None:
    merged = sim.run_pipeline(at.scene.mr, kind="merge")
    subject = replace(context.subject, pipeline_id=merged.id, sha=merged.sha)
    assert offered(replace(context, subject=subject), CHANGE, at.build_deps())[1].links


def test_suggestions_are_resolved_when_the_pipeline_passes(at: Job) -> None:
    key = at.find_key(at.scene.pipeline)
    body = write_suggestion(
        Marker(key.session_id, 1, Kind.SUGGESTION),
        Suggestion("app/sum.py", 2, 2, "x"),
        2,
        "",
        Trial(),
    )
    assert body
    made = at.sim.comment(at.scene.mr, at.scene.bot, body, thread=True)
    assert made is not None
    at.script_answers(FINDING)
    at.run_failed()
    at.scene.pipeline.status = "success"
    at.run_passed(at.scene.pipeline)
    assert at.scene.mr.discussions[made.discussion_id].resolved


def _suggested(trial: Trial) -> str:
    fix = Suggestion("app/sum.py", 2, 2, "x")
    return write_suggestion(Marker(SESSION, 1, Kind.SUGGESTION), fix, 2, "", trial)


@pytest.mark.parametrize(
    ("trial", "told"),
    [
        (Trial(), "A fix from the analysis; no check that we know of has run with it.\n"),
        (
            Trial((CheckRun("prove t", 0), CheckRun("ruff check", 1))),
            "the analysis. With exactly this change in place the sandbox has run:\n\n"
            "- `prove t`: exit status 0\n- `ruff check`: exit status 1\n",
        ),
        (
            Trial((CheckRun("prove t", 0),), alone=False),
            ". With this and the other changes of the analysis in place the sandbox has run:\n",
        ),
        (
            Trial((CheckRun("gcc -c a.c", 0),), is_foreign=True),
            "- `gcc -c a.c`: exit status 0\n\nThe failed job's log names none of these.\n",
        ),
        (Trial((CheckRun("prove t\nu", 0),)), "\n- `prove t u`: exit status 0\n"),
        (Trial((CheckRun("prove " + "x" * 400, 0),)), " … xx"),
    ],
)
def test_what_was_run_of_a_fix_is_told_and_no_more(trial: Trial, told: str) -> None:
    assert told in _suggested(trial)
    assert len(_suggested(trial)) < 500


def test_what_must_be_checked_first_stands_above_the_block_on_the_diff() -> None:
    fix = Suggestion("app/sum.py", 2, 2, "x", caution="256Mi is a guess. <img src=x> /close @all")
    body = write_suggestion(Marker(SESSION, 1, Kind.SUGGESTION), fix, 2, "", Trial())
    before, _, _ = body.partition("suggestion:")
    assert "**Check first:** 256Mi is a guess. " in before
    assert "<img" not in before
    assert "`@all`" in before


def test_a_command_is_shown_as_code() -> None:
    body = _suggested(Trial((CheckRun("prove </details> @all `x` glpat-3kLm9QzXcVbN1aSdFgHj", 0),)))
    (line,) = (each for each in body.split("\n") if each.startswith("- "))
    assert line.startswith("- ``prove </details> @all `x` ")
    assert "glpat-3" not in line
    assert find_faults(body, HOSTS) == []


def test_a_hostile_fix_stays_inside_its_block() -> None:
    seeded = random.Random(3)
    bits = [*HOSTILE, "```", "````", "~~~", "\n", "\n/close\n", "```suggestion:-9+9", "</details>"]
    marker = Marker(SESSION, 1, Kind.SUGGESTION)
    shown = 0
    for _ in range(400):
        text = "".join(seeded.choices(bits, k=seeded.randint(1, 4)))
        body = write_suggestion(
            marker,
            Suggestion("a.py", 1, 1, text),
            1,
            "https://evil.com/x y",
            Trial((CheckRun(text, 1),)),
        )
        shown += bool(body)
        assert not body or find_faults(body, HOSTS) == [], text
    assert shown > 50


def test_an_error_that_may_pass_does_not_lose_the_finding(
    at: Job, sim: GitLabSim, context: Context
) -> None:
    sim.fail_next("GET", "/notes$", 502, times=9)
    with pytest.raises(ForgeError):
        list(at.writer.list_own_notes(context.subject))
    sim.fail_next("GET", "/notes$", 502, times=9)
    assert offered(context, CHANGE, at.build_deps())[1].links == ()


def test_a_suggestion_of_an_older_version_is_resolved_too(at: Job) -> None:
    key = at.find_key(at.scene.pipeline)
    marker = f"<!-- sandpiper:session={key.session_id} turn=999001 -->"
    body = f"{marker}\n\nA fix from the analysis.\n\n```suggestion:-0+0\n    return sum(xs)\n```"
    made = at.sim.comment(at.scene.mr, at.scene.bot, body, thread=True)
    assert made is not None
    assert find_faults(body, HOSTS) == []
    at.script_answers(FINDING)
    at.run_failed()
    at.scene.pipeline.status = "success"
    at.run_passed(at.scene.pipeline)
    assert at.scene.mr.discussions[made.discussion_id].resolved


def test_a_later_run_is_told_in_the_comment_of_its_own_change_alone() -> None:
    trial = Trial((CheckRun("prove t", 0),))
    fix, other = Suggestion("app/sum.py", 2, 2, "x"), Suggestion("app/sum.py", 9, 9, "y")
    body = _suggested(Trial())
    told = add_runs(body, {(fix,): trial})
    assert "- `prove t`: exit status 0\n" in told
    assert "no check that we know of" not in told
    assert told.partition("```")[2] == body.partition("```")[2]
    assert add_runs(told, {(fix,): Trial((CheckRun("other", 1),))}) == told
    for change in ((other,), (fix, other)):
        assert add_runs(body, {change: trial}) == body
