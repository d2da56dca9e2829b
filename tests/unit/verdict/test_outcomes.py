"""Which verdicts are confirmed and contradicted by what came after them."""

import pytest

from worker.verdict.aftermath import (
    MOST_PATHS,
    Aftermath,
    Label,
    Sequel,
    dump_aftermath,
    judge_verdict,
    load_aftermath,
)

CHANGE, TARGET = "caused by this change", "already failing on the target branch"
FLAKY, INFRA = "flaky", "infrastructure"
YES, NO, OPEN = Label.CONFIRMED, Label.CONTRADICTED, Label.OPEN


@pytest.mark.parametrize(
    ("sequel", "label"),
    [
        (Sequel(CHANGE), OPEN),
        (Sequel(CHANGE, "fixed", touches_named=True), YES),
        (Sequel(CHANGE, "fixed", touches_named=False), OPEN),
        (Sequel(CHANGE, "fixed"), OPEN),
        (Sequel(CHANGE, "passed_again"), NO),
        (Sequel(CHANGE, "superseded"), OPEN),
        (Sequel(FLAKY, "passed_again"), YES),
        (Sequel(INFRA, "passed_again"), YES),
        (Sequel(FLAKY, "fixed", touches_named=True), OPEN),
        (Sequel(TARGET, "passed_again"), OPEN),
        (Sequel(TARGET, is_target_red=True), YES),
        (Sequel(CHANGE, is_target_red=True), OPEN),
        (Sequel(FLAKY, upvotes=2, downvotes=1), YES),
        (Sequel(FLAKY, upvotes=1, downvotes=2), NO),
        (Sequel(FLAKY, upvotes=1, downvotes=1), OPEN),
        (Sequel(FLAKY, "passed_again", downvotes=1), NO),
        (Sequel(CHANGE, "fixed", touches_named=True, later_verdict=FLAKY), NO),
        (Sequel(FLAKY, later_verdict=CHANGE, upvotes=3), NO),
        (Sequel("unknown", "passed_again", upvotes=3), OPEN),
        (Sequel("not enough evidence", downvotes=3), OPEN),
        (Sequel("something else", upvotes=3), OPEN),
    ],
)
def test_a_verdict_is_judged_by_what_came_after_it(sequel: Sequel, label: Label) -> None:
    assert judge_verdict(sequel).label is label


def test_a_judgement_says_why() -> None:
    assert judge_verdict(Sequel(FLAKY, "passed_again")).reason == (
        "it passed again without a change"
    )


def test_what_a_fix_has_changed_is_kept_with_it() -> None:
    after = Aftermath("fixed", 7, "ab12", 5.0, ("src/app.py", "tests/test_app.py"))
    assert load_aftermath(dump_aftermath(after)) == after
    unknown = Aftermath("fixed", 7, "ab12", 5.0)
    assert load_aftermath(dump_aftermath(unknown)) == unknown
    many = Aftermath("fixed", 7, "ab12", 5.0, tuple(f"{n}/{'x' * 900}" for n in range(999)))
    loaded = load_aftermath(dump_aftermath(many))
    assert loaded
    assert loaded.changed_paths
    assert len(loaded.changed_paths) == MOST_PATHS
    assert len(dump_aftermath(many)) < 64 * 1024
