"""Verdicts counted together, and the digest."""

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from worker.jobs.precision import (
    count_groups,
    list_frequent,
    list_wrong_verdicts,
    make_json,
    write_digest,
)
from worker.jobs.verdict_days import DayReport, JudgedTurn, count_day, select_project
from worker.sessions.layout import name_day
from worker.sessions.recent import Row
from worker.verdict.aftermath import Judgement, Label, Share


def turn(number: int, label: Label, reason: str = "because", **changes: Any) -> JudgedTurn:
    row = Row(
        session_id=f"s{number}",
        project_id=0,
        project="group/a",
        mr_iid=number,
        web_url=f"https://gitlab.example.com/{number}",
        pipeline_id=1,
        turn=0,
        started_at=1_795_000_000.0 + number,
        status="done",
        verdict="flaky",
        model="anthropic/a",
        iterations=1,
        cost_usd=0.5,
    )
    return JudgedTurn(replace(row, **changes), Judgement(label, reason))


def count(turns: Iterable[JudgedTurn]) -> list[DayReport]:
    ordered = sorted(turns, key=lambda each: each.row.started_at)
    days = groupby(ordered, key=lambda each: name_day(each.row.started_at))
    return [count_day(day, list(same), 1.0) for day, same in days]


TURNS = [
    *(turn(number, Label.CONFIRMED) for number in range(6)),
    turn(6, Label.CONTRADICTED, verdict="caused by this change"),
    turn(7, Label.OPEN, project="group/b", iterations=0, cost_usd=0.0),
]


def test_open_verdicts_count_as_neither() -> None:
    (group,) = count_groups(count(TURNS))["all"]
    assert (group.turns, group.judged_count, group.right_count, group.without_model) == (8, 7, 6, 1)
    assert group.cost_per_right == pytest.approx(3.5 / 6)


def test_they_are_cut_by_verdict_project_model_and_week() -> None:
    cuts = count_groups(count(TURNS))
    assert [each.name for each in cuts["verdict"]] == ["flaky", "caused by this change"]
    assert {each.name: each.turns for each in cuts["project"]} == {"group/a": 7, "group/b": 1}
    assert {each.name for each in cuts["model"]} == {"anthropic/a", "no model"}
    assert [each.name for each in cuts["week"]] == ["2026-W47"]
    assert "tier" not in cuts


def test_an_unknown_price_is_not_taken_for_nothing() -> None:
    (group,) = count_groups(count([*TURNS, turn(9, Label.CONFIRMED, cost_usd=None)]))["all"]
    assert group.cost_per_right is None


def test_the_digest_is_markdown_with_what_was_wrong() -> None:
    digest = write_digest(count([*TURNS, turn(9, Label.OPEN, project="a|b`c")]), 7)
    assert digest.startswith("## Verdicts of the last 7 days\n")
    assert "| flaky | 8 | 6 | 100% (61-100) |" in digest
    assert "a\\|b'c" in digest
    assert "- caused by this change: `because` (https://gitlab.example.com/6, s6)" in digest


def test_without_a_verdict_there_is_a_heading_alone() -> None:
    assert write_digest([], 7) == "## Verdicts of the last 7 days\n"
    assert make_json([]) == {"flakiest": [], "frequent": [], "contradicted": []}


def test_the_newest_wrong_verdicts_come_first_and_are_few() -> None:
    wrong = [
        turn(number, Label.CONTRADICTED, started_at=1_795_000_000.0 + 9_000 * number)
        for number in range(50)
    ]
    listed = list_wrong_verdicts(count(wrong))
    assert len(listed) == 20
    assert listed[0].session_id == "s49"


def test_what_fails_often_is_named_with_its_merge_requests() -> None:
    clock = [
        turn(number, Label.OPEN, jobs="clock", cause=f"It ticks, {number}.") for number in range(3)
    ]
    lint = [
        turn(number, Label.OPEN, jobs="lint", verdict="infrastructure", cause="No disk.")
        for number in (7, 8)
    ]
    alone = [turn(9, Label.OPEN, jobs="once"), turn(10, Label.OPEN, jobs="")]
    days = count([*clock, *lint, *alone])
    (flakiest,) = list_frequent(days, "flaky")
    assert (flakiest.jobs, flakiest.count, flakiest.cause) == ("clock", 3, "It ticks, 2.")
    assert [each.jobs for each in list_frequent(days)] == ["clock", "lint"]
    digest = write_digest(days, 7)
    assert "- flaky: group/a, `clock`, 3 times: `It ticks, 2.` (https://" in digest
    assert "- frequent: group/a, `lint`, 2 times: infrastructure: `No disk.`" in digest


def test_what_a_model_wrote_has_no_effect_in_the_digest() -> None:
    cause = "See @all, ![x](https://evil.example/p.png) <img src=x>`\n\n@all"
    many = [turn(number, Label.OPEN, jobs="`@all`", cause=cause) for number in range(3)]
    wrong = turn(9, Label.CONTRADICTED, "@all ` <img>")
    digest = write_digest(count([*many, wrong]), 7)
    spans = re.compile("`[^`\n]*`")
    assert "`See @all, ![x](https://evil.example/p.png) <img src=x>' @all`" in digest
    assert not [line for line in digest.splitlines() if re.search("[@<!`]", spans.sub("", line))]


def test_days_add_up_and_a_projects_part_is_its_own() -> None:
    later = turn(9, Label.CONTRADICTED, started_at=1_795_090_000.0, project="x", project_id=7)
    days = count([*TURNS, later])
    assert [each.day for each in days] == ["2026-11-18", "2026-11-19"]
    (group,) = count_groups(days)["all"]
    assert (group.turns, group.wrong_count, group.cost_usd) == (9, 2, 4.0)
    parts = [select_project(each, lambda project_id, path: project_id == 7) for each in days]
    (group,) = count_groups(parts)["all"]
    assert (group.turns, group.wrong_count) == (1, 1)
    assert [each.session_id for each in list_wrong_verdicts(parts)] == ["s9"]


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [(0, 0, 0, 1), (1, 1, 0.2065, 1), (0, 10, 0, 0.2775), (9, 10, 0.5958, 0.9821)],
)
def test_the_interval_is_wilsons(hits: int, total: int, low: float, high: float) -> None:
    assert Share(hits, total).interval == pytest.approx((low, high), abs=1e-4)
