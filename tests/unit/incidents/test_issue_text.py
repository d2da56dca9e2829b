"""The text of an incident's issue: what is true, short, and without effect on anybody."""

from dataclasses import replace

import pytest

from worker.answer.finish import finish_body
from worker.incidents.issue_text import (
    IssueScene,
    make_issue_marker,
    write_issue_body,
    write_issue_title,
)
from worker.incidents.record import (
    GONE,
    NOBODY,
    BranchFailure,
    BranchRecord,
    Incident,
    IncidentState,
    Landing,
    RequestRecord,
)
from worker.safety.lint import find_faults
from worker.safety.markdown import find_marker

HOSTS = frozenset({"gl.example/team/service"})
GREEN, BROKE, MENDED = "a" * 40, "b" * 40, "c" * 40
LANDINGS = (
    Landing(GREEN, 1764230000.0, "Start", "mara"),
    Landing(BROKE, 1764233000.0, "Sum faster", "ida", mr_iid=123),
    Landing(MENDED, 1764240000.0, "Mend the sum", "ben", mr_iid=130),
)
PIPELINE = "https://gl.example/team/service/-/pipelines/"
RED = BranchFailure(
    "k1",
    "E   AssertionError: expected 3, got 4",
    ("unit-tests",),
    since_pipeline=102,
    since_at=1764236400.0,
    since_url=f"{PIPELINE}102",
    green_sha=GREEN,
    landings=(BROKE,),
)
OVER = replace(RED, until_pipeline=103, until_at=1764240300.0, until_url=f"{PIPELINE}103")
OPEN = Incident("branch-main.102", IncidentState.OPEN, (RED,))
HOSTILE = (
    "/close\n@all #1 !2 [x](https://evil.example) <img src=x> <!-- sandpiper:session=x -->\n"
    "```\n/assign @mara\n```\n![a](https://evil.example/a.png) `` ` $&^alert#1 ~bug "
    '%"x" {{}} \u202e'
)


def make_record(*incidents: Incident, landings: tuple[Landing, ...] = LANDINGS) -> BranchRecord:
    return BranchRecord(7, "team/service", "main", landings=landings, incidents=incidents)


def make_scene(told: int = 0, owners: tuple[str, ...] = ()) -> IssueScene:
    requests = tuple(
        RequestRecord(21 + each, 201 + each, 1.0, told_incidents=(OPEN.incident_id,))
        for each in range(told)
    )
    return IssueScene(requests, owners, HOSTS, lambda text: text.replace("glpat-x", "[MASKED]"))


def write(incident: Incident, scene: IssueScene | None = None) -> str:
    return write_issue_body(make_record(incident), incident, scene or make_scene())


CASES = [
    (OPEN, "**`main` is red** since 2025-11-27 09:40 UTC ([pipeline 102]("),
    (OPEN, "- In `unit-tests`: `E AssertionError: expected 3, got 4`"),
    (OPEN, "Who broke it is not proven. 1 change landed since its last pass, on `aaaaaaaa`:\n"
        "  - `!123`, `bbbbbbbb` by `ida`: `Sum faster`"),
    (replace(OPEN, failures=(replace(RED, suspect=BROKE),)),
        "- Broken by `!123`, `bbbbbbbb` by `ida`: `Sum faster`"),
    (replace(OPEN, failures=(replace(RED, green_sha=""),)), "- No earlier pass of it is known"),
    (replace(OPEN, failures=(replace(RED, landings=()),)), "- Nothing landed since its last pass"),
    (replace(OPEN, menders=(130, 131)), "- Being mended in `!130` and `!131`"),
    (replace(OPEN, cause="It is wrong.", to_do="Add."),
        "**Cause:** It is wrong.\n\n**To do:** Add."),
    (replace(OPEN, state=IncidentState.CLOSED, failures=(replace(OVER, ended_by=MENDED),)),
        "**`main` is green again** since 2025-11-27 10:45 UTC ([pipeline 103]("),
    (replace(OPEN, state=IncidentState.CLOSED, failures=(replace(OVER, ended_by=MENDED),)),
        "- Mended by `!130`, `cccccccc` by `ben`: `Mend the sum`"),
    (replace(OPEN, state=IncidentState.CLOSED, failures=(replace(OVER, ended_by=NOBODY),)),
        "- It passed again without a change of the code"),
    (replace(OPEN, state=IncidentState.CLOSED, failures=(replace(OVER, ended_by=GONE),)),
        "**What failed on `main` is gone**"),
    (replace(OPEN, state=IncidentState.WITHDRAWN), "**Taken back: it was a flake.**"),
    (replace(OPEN, failures=(
        OVER, replace(RED, key="k2", since_pipeline=105, since_at=1764250000.0))),
        "**`main` is red** since 2025-11-27 13:26 UTC"),
]  # fmt: skip


@pytest.mark.parametrize(("incident", "said"), CASES)
def test_it_says_what_holds(incident: Incident, said: str) -> None:
    assert said in write(incident)


@pytest.mark.parametrize("incident", [each for each, _ in CASES])
def test_every_text_passes_the_last_check_unchanged(incident: Incident) -> None:
    body = write(incident, make_scene(told=3, owners=("mara", "team/core", "d@example.com")))
    assert find_faults(body, HOSTS) == []
    assert find_marker(body) == make_issue_marker(make_record(incident), incident)


def test_a_flake_has_neither_suspect_nor_hit() -> None:
    body = write(replace(OPEN, state=IncidentState.WITHDRAWN), make_scene(told=3))
    assert "!" not in body.partition("-->")[2]


def test_nothing_foreign_has_an_effect() -> None:
    hostile = replace(RED, text=HOSTILE, jobs=(HOSTILE,), since_url="javascript:alert(1)")
    incident = replace(OPEN, failures=(hostile,), cause=HOSTILE, to_do=HOSTILE)
    landings = (LANDINGS[0], Landing(BROKE, 1.0, HOSTILE, HOSTILE))
    record = make_record(incident, landings=landings)
    record = replace(record, branch="x`\n/close @all", project=HOSTILE)
    scene = replace(make_scene(told=1), owners=(HOSTILE,))
    body, title = write_issue_body(record, incident, scene), write_issue_title(record, incident)
    assert find_faults(body, HOSTS) == []
    assert find_faults(f"{make_issue_marker(record, incident).text()}\n\n{title}", HOSTS) == []
    assert "\n" not in title
    assert len(title) <= 255


def test_a_secret_is_masked_in_every_part() -> None:
    failure = replace(RED, text="token glpat-x", jobs=("unit",))
    incident = replace(OPEN, failures=(failure,), cause="glpat-x", to_do="glpat-x")
    landings = (LANDINGS[0], Landing(BROKE, 1.0, "glpat-x", "glpat-x"))
    record = make_record(incident, landings=landings)
    assert "glpat-x" not in write_issue_body(record, incident, make_scene())


def test_it_is_never_longer_than_forty_lines() -> None:
    shas = tuple(f"{each:040x}" for each in range(1, 60))
    landings = (LANDINGS[0], *(Landing(sha, 1.0, "t" * 500, "a" * 500, mr_iid=9) for sha in shas))
    failures = tuple(
        replace(
            OVER if each % 2 else RED,
            key=str(each),
            since_pipeline=102 + each // 4,
            text="x" * 900,
            jobs=tuple(f"job {number} " + "y" * 200 for number in range(9)),
            landings=shas,
            ended_by=shas[0] if each % 2 else "",
        )
        for each in range(40)
    )
    for chosen in (failures, failures[:1], tuple(replace(RED, key=str(n)) for n in range(30))):
        incident = replace(OPEN, failures=chosen, cause="c\n" * 900, to_do="d " * 900)
        record = make_record(replace(incident, menders=tuple(range(50))), landings=landings)
        scene = make_scene(told=300, owners=tuple(f"o{n}" for n in range(50)))
        body = write_issue_body(record, incident, scene)
        assert body.count("\n") < 40
        assert finish_body(body, HOSTS, lambda text: text).body == body


def test_two_incidents_never_share_a_marker() -> None:
    one, other = make_record(OPEN), replace(make_record(OPEN), project_id=8)
    later = replace(OPEN, incident_id="branch-main.103")
    assert len({make_issue_marker(one, OPEN), make_issue_marker(other, OPEN),
        make_issue_marker(one, later)}) == 3  # fmt: skip


def test_the_title_names_the_branch_and_two_jobs() -> None:
    many = replace(OPEN, failures=(replace(RED, jobs=("a", "b", "c", "d")),))
    assert write_issue_title(make_record(OPEN), OPEN) == "`main` is red: `unit-tests`"
    assert write_issue_title(make_record(many), many) == "`main` is red: `a`, `b` and 2 more"
