"""What a merge request's note says of a red branch, read as its developer would."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from worker.answer.finish import finish_body
from worker.incidents.record import (
    GONE,
    NOBODY,
    BranchFailure,
    BranchRecord,
    Incident,
    IncidentState,
    JobEnd,
    JobOutcome,
    Landing,
    PipelineKind,
    RequestRecord,
)
from worker.incidents.sentences import (
    Scene,
    find_block,
    replace_block,
    says_the_same,
    write_block,
    write_train,
)
from worker.safety.markdown import Marker

BASE = "https://git.example/team/app"
HOSTS = frozenset({"git.example/team/app"})
MARKER = Marker("a" * 20, 0).text()


def at(text: str, day: int = 5) -> float:
    hours, minutes = map(int, text.split(":"))
    return datetime(2026, 3, day, hours, minutes, tzinfo=UTC).timestamp()


NOW = at("12:00")
BROKE, MENDED = "b" * 40, "c" * 40
UNIT = BranchFailure(
    "k1", "E boom", ("unit",), 102, at("09:40"), f"{BASE}/-/pipelines/102", suspect=BROKE
)
LINT = BranchFailure("k2", "E501", ("lint",), 102, at("09:40"), f"{BASE}/-/pipelines/102")
GREEN_UNIT = replace(
    UNIT,
    until_pipeline=103,
    until_at=at("11:05"),
    until_url=f"{BASE}/-/pipelines/103",
    ended_by=MENDED,
)
OPEN = Incident("main-102", IncidentState.OPEN, (UNIT,), opened_at=at("09:41"))
CLOSED = replace(OPEN, state=IncidentState.CLOSED, failures=(GREEN_UNIT,))
RECORD = BranchRecord(
    7,
    "team/app",
    "main",
    landings=(Landing(BROKE, 0.0, mr_iid=123), Landing(MENDED, 1.0, mr_iid=130)),
)


def failed(name: str, *keys: str) -> JobEnd:
    return JobEnd(name, 1, JobOutcome.FAILED, errors=tuple((key, "text") for key in keys))


REQUEST = RequestRecord(21, 500, at("10:00"), jobs=(failed("unit", "k1"),))
BOTH = replace(REQUEST, jobs=(failed("unit", "k1"), failed("lint", "k2")))


def write(
    *named: Incident,
    request: RequestRecord = REQUEST,
    others: int = 0,
    now: float = NOW,
    whole: bool = True,
    hosts: frozenset[str] = HOSTS,
    record: BranchRecord = RECORD,
) -> str:
    scene = Scene(named, others, now, hosts, whole)
    return write_block(replace(record, incidents=named), request, scene)


WAIT = (
    "**What helps:** Nothing to do here. This note will say when `main` is green again, and "
    "whether to rebase or to run the jobs again."
)
P102, P103 = f"[pipeline 102]({BASE}/-/pipelines/102)", f"[pipeline 103]({BASE}/-/pipelines/103)"
RED = f"**Already failing on `main`** since 09:40 UTC ({P102}, broken by `!123`): `unit`"
GREEN = f"since 11:05 UTC ({P103}, mended by `!130`)"


def test_an_open_incident_is_two_lines() -> None:
    block = write(replace(OPEN, menders=(130,)), others=12)
    first = f"{RED}; 12 other merge requests are hit; being mended in `!130`."
    assert block == f"{first}\n\n{WAIT}"


@pytest.mark.parametrize(
    ("incident", "others", "first"),
    [
        (OPEN, 0, f"{RED}."),
        (OPEN, 1, f"{RED}; 1 other merge request is hit."),
        (replace(OPEN, menders=(21,)), 0, f"{RED}."),
        (
            replace(OPEN, failures=(replace(UNIT, suspect=""),)),
            0,
            RED.replace(", broken by `!123`", "") + ".",
        ),
        (
            replace(OPEN, failures=(replace(UNIT, suspect="d" * 40),)),
            0,
            RED.replace(", broken by `!123`", "") + ".",
        ),
    ],
    ids=["alone", "one other", "its own mender", "no suspect", "a suspect that nobody knows"],
)
def test_what_is_not_known_is_not_said(incident: Incident, others: int, first: str) -> None:
    assert write(incident, others=others).split("\n\n")[0] == first


def test_a_day_is_named_if_it_is_not_today() -> None:
    assert "since 2026-03-05 09:40 UTC" in write(OPEN, now=at("00:10", day=6))


def test_a_suspect_without_a_merge_request_is_a_commit() -> None:
    record = replace(RECORD, landings=(Landing(BROKE, 0.0),))
    assert "broken by `bbbbbbbb`)" in write(OPEN, record=record)


def test_what_the_branch_was_found_to_have_stands_between() -> None:
    block = write(replace(OPEN, cause="The clock of @all is ![x](http://evil.example/p.png)"))
    assert block.split("\n\n")[1].startswith("**What was found on `main`:** The clock of `@all` is")
    assert "](http://evil" not in block


def test_two_incidents_have_a_line_each_and_one_on_what_helps() -> None:
    other = Incident(
        "main-104", IncidentState.OPEN, (replace(LINT, since_pipeline=104, since_url=""),)
    )
    lines = write(OPEN, other, request=BOTH).split("\n\n")
    assert [line.partition("**:")[0][:30] for line in lines][2].startswith("**What helps:**")
    assert lines[0].endswith("`unit`.")
    assert lines[1] == "**Already failing on `main`** since 09:40 UTC (pipeline 104): `lint`."


def test_a_part_is_said_to_be_one() -> None:
    assert "Nothing to do here for that part. This note will say when" in write(OPEN, whole=False)


def test_what_helps_for_a_part_is_said_of_that_part() -> None:
    helps = write(CLOSED, whole=False).split("\n\n")[1]
    assert helps == (
        "**What helps:** Rebase onto `main` for `unit`; a retry runs the same commit and fails "
        "again."
    )


def test_what_is_partly_green_again_says_which_jobs() -> None:
    partly = replace(OPEN, failures=(GREEN_UNIT, LINT))
    line, helps = write(partly, request=BOTH).split("\n\n")
    assert line == (
        f"**Already failing on `main`** since 09:40 UTC ({P102}): `lint`; `unit` is green again "
        f"since 11:05 UTC ({P103})."
    )
    assert helps == WAIT


def test_a_request_whose_own_job_is_green_is_not_told_that_the_branch_is() -> None:
    partly = replace(OPEN, failures=(GREEN_UNIT, LINT))
    passed = JobEnd("lint", 2, JobOutcome.PASSED)
    has_both = replace(REQUEST, jobs=(*REQUEST.jobs, passed))
    line, helps = write(partly, request=has_both).split("\n\n")
    assert line == f"**Partly green again:** `unit` on `main` {GREEN}; `lint` is not yet."
    assert helps.startswith("**What helps:** Rebase onto `main`")
    other = Incident("main-104", IncidentState.OPEN, (LINT,))
    record = replace(RECORD, incidents=(CLOSED, other))
    said = write_block(record, has_both, Scene((CLOSED,), 0, NOW, HOSTS))
    assert said.startswith("**Partly green again:** ")
    line, _ = write(partly).split("\n\n")
    assert line == f"**Green again:** `unit` on `main` {GREEN}."


@pytest.mark.parametrize(
    ("kind", "by", "helps"),
    [
        (
            PipelineKind.DETACHED,
            MENDED,
            "Rebase onto `main`; a retry runs the same commit and fails again.",
        ),
        (
            PipelineKind.MERGED_RESULT,
            MENDED,
            "Run a new pipeline, which takes `main` as it is now; a retry runs the old merge and "
            "fails again.",
        ),
        (PipelineKind.MERGE_TRAIN, MENDED, "Add this merge request to the merge train again."),
        (
            PipelineKind.DETACHED,
            NOBODY,
            "Run `unit` again: `main` passed without a change of the code, so this may, too.",
        ),
    ],
)
def test_green_again_says_what_helps(kind: PipelineKind, by: str, helps: str) -> None:
    closed = replace(CLOSED, failures=(replace(GREEN_UNIT, ended_by=by),))
    line, said = write(closed, request=replace(REQUEST, kind=kind)).split("\n\n")
    mender = ", mended by `!130`" if by == MENDED else ""
    assert line == f"**Green again:** `main` since 11:05 UTC ({P103}{mender})."
    assert said == f"**What helps:** {helps}"


def test_what_is_gone_is_not_called_mended() -> None:
    gone = replace(UNIT, ended_by=GONE, until_pipeline=105, until_at=at("11:30"))
    line, _ = write(replace(CLOSED, failures=(gone,))).split("\n\n")
    assert line == "**No longer on `main`:** `unit` since 11:30 UTC (pipeline 105)."
    assert "**No longer on `main`:** `unit`." in write(
        replace(CLOSED, failures=(replace(UNIT, ended_by=GONE),))
    )


def test_a_flake_is_taken_back_where_it_was_all_that_was_said() -> None:
    flake = replace(OPEN, state=IncidentState.WITHDRAWN)
    told = replace(REQUEST, told_incidents=("main-102",))
    assert write(flake, request=told).startswith(
        "**Not explained any more:** the failure on `main` was a flake"
    )
    assert write(flake, request=told, whole=False) == ""
    assert write(flake) == ""
    assert write(replace(OPEN, state=IncidentState.SUSPECTED)) == ""


def test_a_train_says_who_broke_it() -> None:
    own = write_train(REQUEST, 21)
    assert own.startswith("**Dropped from the merge train:** this change broke it: ")
    assert own.endswith("its pipeline failed, and the branch without it does not fail like this.")
    behind = replace(REQUEST, cars=(31, 32))
    assert "what was in front of it does not fail like this" in write_train(behind, 32)
    other = write_train(behind, 32, (31,), P102)
    assert "`!32` broke it, together with `!31`: its pipeline was the first that failed" in other
    assert other.endswith("add this merge request to the merge train again.")


NASTY = "main`](http://evil.example) @all !1 <b>\n/close"


def test_nothing_that_others_wrote_has_an_effect() -> None:
    nasty = replace(UNIT, jobs=(NASTY,), since_url="http://evil.example/-/pipelines/1")
    record = replace(RECORD, branch=NASTY, landings=(Landing(BROKE, 0.0, title=NASTY),))
    request = replace(REQUEST, jobs=(failed(NASTY, "k1"),))
    for failure in (
        nasty,
        replace(nasty, until_pipeline=1, until_at=1.0, ended_by=MENDED, until_url=NASTY),
    ):
        state = IncidentState.CLOSED if failure.until_pipeline else IncidentState.OPEN
        incident = replace(OPEN, state=state, failures=(failure,), cause=NASTY)
        block = write(incident, record=record, request=request)
        body = replace_block(f"{MARKER}\n\ntext", block)
        assert finish_body(body, HOSTS, lambda text: text).body == body
        assert find_block(body) == block
        assert "pipeline 1" in block


NOTE = f"{MARKER}\n\n**Already failing on the target branch**\n\n**Cause:** It.\n\n<details>\n{RED}"


def test_a_block_is_put_replaced_and_removed() -> None:
    block, newer = write(OPEN, others=3), write(CLOSED)
    body = replace_block(NOTE, block)
    assert body == NOTE.replace("\n\n", f"\n\n{block}\n\n", 1)
    assert find_block(body) == block
    assert replace_block(body, block) == body
    assert find_block(replace_block(body, newer)) == newer
    assert replace_block(body, "") == NOTE
    assert find_block(NOTE) == ""


def test_a_block_stays_below_a_line_that_was_put_above_it() -> None:
    block, newer = write(OPEN), write(CLOSED)
    above = (
        f"{MARKER}\n\n**Failed again in the same way in pipeline 7.**\n\n{block}\n\n<sub>x</sub>"
    )
    assert replace_block(above, newer) == above.replace(block, newer)


def test_a_note_is_not_edited_for_a_count_or_a_day() -> None:
    today, tomorrow = write(OPEN, others=3), write(OPEN, others=40, now=at("08:00", day=6))
    assert today != tomorrow
    assert says_the_same(today, tomorrow)
    assert says_the_same(write(OPEN), today)
    assert not says_the_same(today, write(CLOSED))
    assert not says_the_same(today, write(replace(OPEN, menders=(130,)), others=3))


def test_what_is_red_again_is_not_called_green() -> None:
    again = replace(
        OPEN, incident_id="main-104", failures=(replace(UNIT, since_pipeline=104, since_url=""),)
    )
    record = replace(RECORD, incidents=(CLOSED, again))
    for named in ((CLOSED,), (CLOSED, again)):
        line, helps = write_block(record, REQUEST, Scene(named, 0, NOW, HOSTS)).split("\n\n")
        assert line.startswith("**Already failing on `main`** since 09:40 UTC (pipeline 104, ")
        assert helps == WAIT
