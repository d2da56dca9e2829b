"""Changes that an analysis advises: one click each, and never more said of them than is true."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.flow.product import Product, product
from tests.flow.test_survey import PULL
from tests.simulators.gitlab import Note
from worker.lab.script import Answer, Asked, Call, Say, Scripted

pytestmark = pytest.mark.usefixtures("bubblewrap")

LINE = "        if merged and merged[-1].touches(window):"
FIX = f"```suggestion ferrytimes/windows.py:41\n{LINE}\n```"
FETCH = Call(
    [
        (
            "fetch_to_sandbox",
            {
                "source": "gitlab_get_file",
                "arguments": {"path": "ferrytimes/windows.py"},
                "path": "/tmp/data/src/ferrytimes/windows.py",
            },
        )
    ]
)
EDIT = "sed -i 's/merged\\[-1\\].overlaps(/merged[-1].touches(/' ferrytimes/windows.py"
RUN = "python3 -m py_compile ferrytimes/windows.py"
FAIL = "python3 -m unittest ferrytimes.no_tests"
OWN = "python3 -c 'import ferrytimes.windows; print(1)'"


def command(*texts: str) -> Call:
    return Call([("sandbox_exec", {"command": f"cd /tmp/data/src\n{text}"}) for text in texts])


def finding(to_do: str, evidence: str) -> Say:
    return Say(
        "## Verdict\ncaused by this change\n\n## Failed\nunit-tests\n\n"
        "## Cause\nWindows that touch are not merged any more.\n\n"
        f"## Evidence\n{evidence}\n\n## What to do\n{to_do}\n\n## Details\nNothing more.\n"
    )


QUOTE = "- file ferrytimes/windows.py line 41: if merged and merged[-1].overlaps(window):"


@contextmanager
def played(folder: Path, *steps: Answer) -> Iterator[Product]:
    """The bundled case with the model's steps, analysed."""
    with product(folder, Scripted(steps), "memory://") as made:
        done = made.run("analyze", f"{made.scene.mr.project.path}!{made.scene.mr.iid}")
        assert done.returncode == 0, done.stderr
        yield made
        assert made.gitlab.unexpected_requests == []
        assert made.gitlab.quick_actions == []
        assert made.model.unexpected_requests == []


def on_the_diff(made: Product) -> list[Note]:
    return [note for note in made.notes() if note.type == "DiffNote"]


def analysis(made: Product) -> str:
    (note,) = [note for note in made.notes() if note.type != "DiffNote"]
    return note.body


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([FETCH], "; no check that we know of has run with it."),
        ([FETCH, command(RUN)], "; no check that we know of has run with it."),
        (
            [FETCH, command("cat ferrytimes/windows.py")],
            "; no check that we know of has run with it.",
        ),
        (
            [
                FETCH,
                command(EDIT + "; sed -i 's/merge(/unite(/' ferrytimes/windows.py"),
                command(RUN),
            ],
            "; no check that we know of has run with it.",
        ),
        (
            [FETCH, command(RUN), command(EDIT)],
            "; no check that we know of has run with it.",
        ),
        (
            [FETCH, command("cat ferrytimes/windows.py", f"{EDIT}; {RUN}")],
            ". With exactly this change in place the sandbox has run:\n\n"
            f"- `{RUN}`: exit status 0\n\n",
        ),
        (
            [FETCH, command(EDIT, RUN)],
            ". With exactly this change in place the sandbox has run:\n\n"
            f"- `{RUN}`: exit status 0\n\n",
        ),
        (
            [FETCH, command(EDIT), command(RUN), command(FAIL)],
            ". With exactly this change in place the sandbox has run:\n\n"
            f"- `{RUN}`: exit status 0\n- `{FAIL}`: exit status 1\n",
        ),
        (
            [FETCH, command(f"{EDIT}; {RUN}; sed -n 1p ferrytimes/windows.py"), command(OWN)],
            "; no check that we know of has run with it.",
        ),
    ],
    ids=[
        "no command",
        "another file",
        "only read",
        "changed more",
        "run before",
        "at once",
        "two at once",
        "run after",
        "status of another",
    ],
)
def test_a_change_is_said_to_have_run_where_it_did(
    tmp_path: Path, steps: Sequence[Answer], said: str
) -> None:
    with played(tmp_path, *steps, finding(f"Use `touches`:\n{FIX}", QUOTE)) as made:
        (note,) = on_the_diff(made)
        shown, _, folded = analysis(made).partition("<details>")
    assert said in note.body
    applied = f"Apply on the diff: [`windows.py:41`]({note.web_url})."
    assert f"**What to do:** Use `touches`. {applied}" in shown
    assert "touches" not in folded
    assert "**Further details**\n\nNothing more." in folded


RETURN = "    return [*merged]"
SECOND = f"```suggestion ferrytimes/windows.py:45\n{RETURN}\n```"
EDIT_BOTH = f"{EDIT}; sed -i '45s/.*/{RETURN}/' ferrytimes/windows.py"


def test_changes_that_ran_together_are_not_said_to_have_run_alone(tmp_path: Path) -> None:
    advice = finding(f"Both help.\n\n{FIX}\n{SECOND}", QUOTE)
    with played(tmp_path, FETCH, command(EDIT_BOTH), command(RUN), advice) as made:
        notes = on_the_diff(made)
    assert len(notes) == 2
    for note in notes:
        assert ". With this and the other changes of the analysis in place " in note.body
        assert f"- `{RUN}`: exit status 0\n" in note.body


WORDS = '        """They have a minute in common."""'
NEEDED = "def merge(windows: Sequence[Window]) -> list[Window]:"
TOGETHER = (
    f"```suggestion ferrytimes/windows.py:21 A\n{WORDS}\n```\n\n"
    f"and use it:\n```suggestion ferrytimes/windows.py:37 A\n{NEEDED}\n```"
)
ELSEWHERE = (
    "```suggestion ferrytimes/timetable.py:6 B\nfrom functools import cache\n```\n"
    "```suggestion ferrytimes/windows.py:45 B\n    return [*merged]\n```"
)
ALONE = "\n".join(
    f"```suggestion ferrytimes/timetable.py:{number}\n{text}\n```"
    for number, text in ((40, "@lru_cache(maxsize=64)"), (42, '    """Usable."""'), (37, "x = 1"))
)


def test_what_belongs_together_is_one_note_and_what_is_left_out_is_said(tmp_path: Path) -> None:
    advice = f"Take a sequence:\n{TOGETHER}\n{ELSEWHERE}\n{ALONE}"
    with played(tmp_path, FETCH, finding(advice, QUOTE)) as made:
        first, *others = on_the_diff(made)
        body = analysis(made)
    assert len(others) == 2
    assert f"\n ```suggestion:-16+0\n {WORDS}\n " in first.body
    assert " def covers(self, other: Window)" in first.body
    assert first.body.endswith(f" {NEEDED}\n ```")
    shown, _, folded = body.partition("<details>")
    places = ["windows.py:21, 37", "timetable.py:40", "timetable.py:42"]
    links = ", ".join(
        f"[`{place}`]({each.web_url})" for place, each in zip(places, [first, *others], strict=True)
    )
    assert f"Apply on the diff: {links}; 3 more are in the details." in shown
    assert "These 2 belong together (not on the diff: one suggestion is for one file):" in folded
    fourth = (
        "Replace line 37 of `ferrytimes/timetable.py` (not on the diff: at most 3 are put there)"
    )
    assert f"{fourth} with:" in folded
    assert WORDS not in body
    assert body.count("Take a sequence") == 1


def test_a_reply_names_the_lines_of_its_changes_and_puts_nothing_on_the_diff(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    def reply(request: Asked) -> Say:
        asked.append(request.human)
        return Say(f"Take a sequence instead:\n{TOGETHER}\nThat is all.")

    steps = Scripted([finding(f"Use `touches` as below.\n\n{FIX}", QUOTE)], [reply])
    with product(tmp_path, steps, "memory://") as made, made.serve() as serve:
        made.gitlab.deliver(made.gitlab.make_pipeline_event(made.scene.pipeline))
        serve.until(lambda: made.objects("context.json"), "the first turn was not stored")
        first = next(note for note in made.notes() if note.type != "DiffNote")
        made.gitlab.comment(made.scene.mr, made.scene.author, "Other ways?", first.discussion_id)
        serve.until(lambda: len(made.objects("context.json")) == 2, "no reply was stored")
        assert len(on_the_diff(made)) == 1
        answer = next(note for note in made.notes() if "sequence instead" in note.body).body
        shown = first.body.partition("<details>")[0]
    assert "Use `touches` as in the fix. Apply on the diff: [`windows.py:41`](" in shown
    assert "Nothing of this answer goes on the diff" in asked[0]
    assert (
        f"Replace line 21 of `ferrytimes/windows.py` with:\n\n ```text\n {WORDS}\n ```\n" in answer
    )
    assert (
        f"Replace line 37 of `ferrytimes/windows.py` with:\n\n ```text\n {NEEDED}\n ```\n" in answer
    )


def test_what_a_later_turn_runs_with_a_change_is_told_beside_it(tmp_path: Path) -> None:
    first: list[Answer] = [
        FETCH,
        command(EDIT),
        finding(f"Use `touches` as below.\n\n{FIX}", QUOTE),
    ]
    steps = Scripted(first, [command(RUN), Say("It compiles.")])
    with product(tmp_path, steps, "memory://") as made, made.serve() as serve:
        made.gitlab.deliver(made.gitlab.make_pipeline_event(made.scene.pipeline))
        serve.until(lambda: made.objects("context.json"), "the first turn was not stored")
        (suggested,) = on_the_diff(made)
        assert "; no check that we know of has run with it.\n" in suggested.body
        whole = next(note for note in made.notes() if note.type != "DiffNote")
        made.gitlab.comment(made.scene.mr, made.scene.author, "Does it run?", whole.discussion_id)
        serve.until(lambda: len(made.objects("context.json")) == 2, "no reply was stored")
        (suggested,) = on_the_diff(made)
    assert (
        f". With exactly this change in place the sandbox has run:\n\n- `{RUN}`: exit status 0\n\n"
    ) in suggested.body
    assert "no check that we know of" not in suggested.body


BAD = "- file ferrytimes/windows.py line 41: if merged and merged[-1].overlap(window):"


def test_a_first_look_after_a_rules_note_is_repaired_and_its_change_is_on_the_diff(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    def again(request: Asked) -> Say:
        asked.append(str(request.body["messages"][-1]))
        return finding(f"Use `touches`.\n\n{FIX}", QUOTE)

    wrong = finding(f"Use `touches`.\n\n{FIX}", BAD)
    steps = Scripted([Say("never")], [wrong], [again])
    with product(tmp_path, steps, "memory://") as made, made.serve() as serve:
        pipeline = made.gitlab.run_pipeline(made.scene.mr)
        made.gitlab.add_job(pipeline, "build", status="failed", trace=PULL)
        made.gitlab.deliver(made.gitlab.make_pipeline_event(pipeline))
        serve.until(lambda: made.objects("context.json"), "the rule's note was not stored")
        assert made.model.requests == []
        (rules,) = made.notes()
        text = "/sandpiper analyze"
        made.gitlab.comment(made.scene.mr, made.scene.author, text, rules.discussion_id)
        serve.until(lambda: len(made.objects("context.json")) == 2, "no first look was stored")
        (fix,) = on_the_diff(made)
        # Its finding stands in the first note's place as well.
        look = [note for note in made.notes() if "`touches`" in note.body][-1]
    assert "could not be proven" in asked[0]
    assert "could not be proven" not in look.body
    assert "```suggestion" not in look.body
    assert f" ```suggestion:-0+0\n {LINE}\n ```" in fix.body
    assert f"[the analysis]({look.web_url})" in fix.body
    assert f"]({fix.web_url})" in look.body
