"""What the visible lines of a note have no room for is known before it is posted."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.answer.note.test_fit import CAUSE, FULL, LONG, TO_DO, make_finding, plain, shown_of
from tests.unit.answer.note.test_note import DONE, FOOTER, MARKER, SUBJECT, written
from tests.unit.safety.test_neutralise import HOSTS
from worker.answer.note import note
from worker.answer.note.layout import Layout
from worker.answer.note.note import write_small_print
from worker.answer.suggestions import Offers
from worker.logs.bystanders import Bystander
from worker.safety.sentences import split_sentences
from worker.verdict.finding import FailedJobs, Finding, HiddenPart
from worker.verdict.jobs import FailingJob
from worker.verdict.verdict import FinalVerdict, Verdict


def hidden_of(finding: Finding, links: tuple[tuple[str, str], ...] = ()) -> tuple[HiddenPart, ...]:
    layout = Layout(finding, SUBJECT, DONE, HOSTS, Offers(links=links))
    return layout.list_hidden(write_small_print(FOOTER, finding.unproven))


def test_of_a_short_finding_nothing_is_hidden() -> None:
    assert hidden_of(FULL) == ()


def test_the_sentences_without_room_are_named_with_their_section() -> None:
    cause, advice = f"{CAUSE} {LONG} {LONG} {LONG}", f"{TO_DO} {LONG} {LONG} {LONG}"
    by_section = {part.section: part for part in hidden_of(replace(FULL, cause=cause))}
    assert by_section["Cause"].sentences[-1] == LONG
    assert len(CAUSE) < by_section["Cause"].visible_size < len(cause)
    assert [part.section for part in hidden_of(replace(FULL, cause=cause, to_do=advice))] == [
        "Cause",
        "What to do",
    ]


def test_a_first_sentence_that_is_cut_is_hidden() -> None:
    cause = f"{'It waits for the clock, ' * 20}and gives up."
    (part,) = hidden_of(replace(FULL, cause=cause))
    assert part.sentences == (cause,)


def test_a_short_sentence_on_another_failure_is_visible_at_once() -> None:
    second = "A second failure, in `lint`: the stubs are gone."
    found = replace(FULL, cause=f"{CAUSE} {LONG} {LONG} {LONG} {second}")
    (part,) = hidden_of(found)
    assert second not in part.sentences


CODE = "\n```\nx = 1\n```"


def test_a_line_that_announces_code_is_hidden_with_its_code() -> None:
    advice = f"{TO_DO} {LONG} {LONG}"
    for announced in ("", " The whole new file, at the top of the repository:"):
        found = replace(FULL, to_do=f"{advice}{announced}{CODE}")
        assert not any(announced and announced in part.sentences for part in hidden_of(found))
    assert hidden_of(replace(FULL, to_do=f"{TO_DO} The new file:{CODE}")) == ()


def test_a_label_of_code_is_no_advice_and_what_to_check_is() -> None:
    advice = f"{TO_DO} {LONG} {LONG}\n\nIn `a.erl`, lines 3-4:\n\nCheck: the saved tables.{CODE}"
    (part,) = hidden_of(replace(FULL, to_do=advice))
    assert "Check: the saved tables." in part.sentences
    assert not any("a.erl" in each for each in part.sentences)


def _write_two(size: int) -> str:
    words = "Some " + "words about it all " * 20
    return f"{words[: size // 2].strip()}. {words[: size // 2].strip()}."


@pytest.mark.parametrize(
    ("cause", "advice", "asked"),
    [
        (280, 150, []),
        (320, 100, [("Cause", 1)]),
        (260, 220, [("What to do", 1)]),
        (320, 200, [("Cause", 1), ("What to do", 0)]),
        (320, 144, [("What to do", 1), ("Cause", 0)]),
    ],
)
def test_the_section_that_takes_the_room_of_others_is_asked_for_too(
    cause: int, advice: int, asked: list[tuple[str, int]]
) -> None:
    found = replace(FULL, cause=_write_two(cause), to_do=_write_two(advice))
    hidden = hidden_of(found)
    assert [(part.section, len(part.sentences)) for part in hidden] == asked
    sizes = {part.section: part.visible_size for part in hidden}
    mended = replace(
        found,
        cause=_write_two(sizes.get("Cause", cause) - 4),
        to_do=_write_two(sizes.get("What to do", advice) - 4),
    )
    assert hidden_of(mended) == ()


LINKS = (("OrderList.test.tsx.snap:22, 34", "https://gitlab.example.com/group/shop"),)


def test_a_part_that_is_hidden_by_another_ones_length_alone_is_said_to_fit() -> None:
    found = replace(FULL, cause=_write_two(230), to_do=_write_two(139))
    cause, advice = hidden_of(found, LINKS)
    assert (cause.section, len(cause.sentences), cause.fits) == ("Cause", 1, True)
    assert (advice.section, advice.visible_size, advice.fits) == ("What to do", 110, False)
    assert hidden_of(replace(found, to_do=_write_two(106)), LINKS) == ()
    assert hidden_of(found) == ()


@pytest.mark.parametrize(("links", "advice"), [((), 150), (LINKS, 110)])
def test_what_the_workflow_promises_is_seen(
    links: tuple[tuple[str, str], ...], advice: int, record_property: Callable[[str, object], None]
) -> None:
    quote = replace(FULL.evidence[0], text=f"E   assert {'order of 107 == 119 ' * 9}"[:70])
    counts = replace(quote, text="1 failed, 2 passed", line=9, lacks=Bystander.CONSEQUENCE)
    sizes = [(cause, most) for cause in range(140, 266, 18) for most in range(60, advice - 3, 22)]
    for cause, most in sizes:
        found = replace(FULL, cause=_write_two(cause), to_do=_write_two(most))
        assert hidden_of(replace(found, evidence=(quote, counts)), links) == (), (cause, most)
    record_property("tried", len(sizes))


@pytest.mark.parametrize(
    "failed",
    [
        "`sonar` (500015): SonarQube's quality gate, `sonar-scanner -Dsonar.qualitygate.wait=true`",
        "functional (500009): both InvoiceRepositoryTest tests, InvoiceControllerTest::testList",
    ],
)
def test_what_failed_is_seen_if_it_is_short_however_it_is_listed(failed: str) -> None:
    found = replace(FULL, what_failed=failed, cause=_write_two(262), to_do=_write_two(140))
    assert hidden_of(found) == ()


def test_advice_below_code_is_hidden() -> None:
    (part,) = hidden_of(replace(FULL, to_do=f"{TO_DO}{CODE}\nThen clear the cache of the runner."))
    assert part.sentences == ("Then clear the cache of the runner.",)


def test_the_room_that_is_told_is_enough() -> None:
    found = replace(FULL, cause=f"{CAUSE} {LONG} {LONG} {LONG}")
    (part,) = hidden_of(found)
    words = ("It waits for the clock. " * 30)[: part.visible_size].rpartition(" ")[0]
    assert hidden_of(replace(found, cause=words)) == ()


def test_what_failed_is_folded_if_a_part_of_it_is_left_out_and_never_asked_for_again() -> None:
    tests = tuple(f"tests/test_uart.py::test_sends_{number}" for number in range(30))
    said = "The simulators of both boards, `test_uart`."
    cause = f"{LONG} {LONG}"[:280] + "."
    found = replace(FULL, what_failed=said, cause=cause, to_do=LONG[:110] + ".")
    for jobs in ((), (FailedJobs((FailingJob(500011, "sim: [uart]"),), tests),)):
        assert hidden_of(replace(found, failed_jobs=jobs)) == hidden_of(found)
    folded = written(replace(found, failed_jobs=jobs)).partition("<details>")[2]
    assert f"`{tests[-1]}`" in folded
    assert said in folded


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("`unit` (job 7): the test `test_vat`", True),
        ("`test_vat` (packages/web/src/vat.test.tsx) in unit (job 7)", True),
        ("- job 7 (unit): `test_vat` [`shop/vat.py:41`]", True),
        ('**unit** (#7): target "test_vat"', True),
        ("`test_vat` in unit (job 7), and the coverage", False),
        ("`test_vat` (fails on Windows alone) in unit (job 7)", False),
    ],
)
def test_what_the_model_says_failed_is_not_said_twice(said: str, told: bool) -> None:
    jobs = (FailedJobs((FailingJob(7, "unit"),), ("test_vat",)),)
    body = written(replace(FULL, what_failed=said, failed_jobs=jobs))
    assert "**Failed:** `unit` (7): `test_vat`\n" in body
    assert ("What the model says failed" not in body) is told


def test_an_abstention_has_room_for_what_is_missing() -> None:
    found = Finding(
        Verdict.ABSTAIN, missing_evidence="The log. " + LONG * 9, next_time=TO_DO, cause=LONG * 9
    )
    assert [part.section for part in hidden_of(found)] == ["Missing"]


def test_advice_that_the_record_replaces_is_asked_for_by_nobody() -> None:
    overruled = FinalVerdict(Verdict.FLAKY, Verdict.CHANGE, ("it passed on the same commit",))
    found = replace(
        FULL, verdict=Verdict.FLAKY, evidence=(), final_verdict=overruled, to_do=f"{LONG} " * 9
    )
    assert hidden_of(found) == ()


@pytest.mark.slow
def test_each_sentence_of_any_finding_is_visible_or_named(attack_inputs: int) -> None:
    chance = random.Random(29)
    for _ in range(attack_inputs // 40):
        finding = make_finding(chance)
        shown = plain(
            shown_of(note.write_finding(MARKER, Layout(finding, SUBJECT, DONE, HOSTS), FOOTER))
        )
        hidden = {sentence for part in hidden_of(finding) for sentence in part.sentences}
        abstains = finding.verdict is Verdict.ABSTAIN
        texts = (
            (finding.missing_evidence, finding.next_time)
            if abstains
            else (finding.cause, finding.to_do)
        )
        for sentence in (each for text in texts for each in split_sentences(text)):
            assert (plain(sentence) in shown) or sentence in hidden
