"""The note on a known failure."""

from worker.answer.failed_jobs import Form, write_label
from worker.answer.note.note import Footer, write_known_failure
from worker.safety.markdown import Marker
from worker.verdict.finding import Finding
from worker.verdict.jobs import FailingJob, Group, Hit
from worker.verdict.verdict import Verdict

MARKER = Marker("ab" * 10, 0)
FOOTER = Footer("", 0.0, found_by="known")
HOSTS = frozenset({"gitlab.example"})
JOB = "https://gitlab.example/g/p/-/jobs/7"
NOTE = "https://gitlab.example/g/p/-/merge_requests/12#note_5"


def rendered(job_url: str = JOB, cause: str = "The clock is late.", first: float = 1.79e9) -> str:
    hit = Hit(4, first, first, first, "flaky", cause, "Retry.", NOTE, job_url, 12, others=(12, 13))
    groups = (Group("ab" * 8, "E", (FailingJob(9, "clock"),), hit=hit),)
    found = Finding(verdict=Verdict.FLAKY)
    return write_known_failure(MARKER, found, groups, FOOTER, HOSTS)


def test_it_is_two_lines_a_link_and_the_way_to_a_real_look() -> None:
    assert rendered().split("\n") == [
        MARKER.text(),
        "",
        "**Flaky: not caused by this change.** clock: seen 4 times since 2026-09-21 in 2 other "
        f"merge requests, [the job explained]({JOB}) on `!12`.",
        "**Cause:** The clock is late. **What to do:** Retry.",
        "",
        "<sub>Known failure, no model was asked · Reply `/sandpiper analyze` to ask a model</sub>",
    ]


def _label(names: list[str], most: int) -> str:
    return write_label([FailingJob(0, name) for name in names], Form.KNOWN, most=most)


def test_of_many_jobs_as_many_whole_names_are_told_as_fit() -> None:
    names = ["test: [3.12, linux]", *(f"integration-{number}" for number in range(30))]
    assert _label(names, 1_000) == ", ".join(names)
    assert _label(names, 19 + 12) == f"{names[0]} and 30 more"
    assert _label(names, 80) == f"{', '.join(names[:4])} and 27 more"
    assert _label(["a-name-without-an-end"], 10) == "a-name-wi…"


def test_no_other_merge_request_is_mentioned_by_it() -> None:
    assert "merge_requests/12" not in rendered()
    assert "!12" not in rendered().replace("`!12`", "")


def test_what_was_stored_comes_out_harmless() -> None:
    body = rendered(
        "https://evil.example/-/jobs/7", "ask @all ![x](https://evil.example/y)\n/close"
    )
    assert "evil.example/-/jobs" not in body
    assert "\n/close" not in body
    assert "@all" not in body.replace("`@all`", "")
    assert "an unknown day" in rendered(first=1e300)
