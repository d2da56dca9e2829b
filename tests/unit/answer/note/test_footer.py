"""The small print: what a developer needs of how a note was made, on one short line."""

import random
import re
import string
from collections.abc import Iterator

import pytest
from markdown_it import MarkdownIt

from tests.contexts import SUBJECT
from worker.answer.note import note
from worker.answer.note.note import MAX_VISIBLE, Footer, list_folded_lines, write_small_print
from worker.answer.note.note_parts import render_template
from worker.safety import lint
from worker.safety.markdown import Marker
from worker.safety.redact import KINDS

PAGE = f"https://ci.example/sandpiper/sessions/{'a' * 20}"
SIGNED = f"{PAGE}?sig=1900000000.{'0f' * 32}"
LOG = "the log of job 4711"
PARSER = MarkdownIt("commonmark", {"html": True})


def seen(line: str) -> str:
    """What a reader sees of a line of Markdown."""
    (inline,) = [each for each in PARSER.parse(line) if each.type == "inline"]
    return "".join(each.content for each in inline.children or () if each.type != "html_inline")


@pytest.mark.parametrize(
    ("footer", "unproven", "told"),
    [
        (Footer("anthropic/claude-x", 0.0871), 0, "claude-x · 0.09 USD · Reply to ask more"),
        # Nobody can reply to a note that was only printed.
        (Footer("a/b", 0.0871, takes_replies=False), 0, "b · 0.09 USD"),
        (
            Footer("", 0.0, found_by="rule", takes_replies=False),
            0,
            "Found by rule, no model was asked",
        ),
        (
            Footer("a/b", None),
            1,
            "b · cost unknown · 1 quote could not be proven · Reply to ask more",
        ),
        (
            Footer("a/b", 0.004, replaced_model="c/d", page=SIGNED),
            0,
            "b (d did not answer) · 0.0040 USD · Session · Reply to ask more",
        ),
        (
            Footer("a/b", 1.0, redaction_counts=(("gitlab-token", 1, LOG),)),
            0,
            f"b · 1.00 USD · 1 GitLab token masked in {LOG} · Reply to ask more",
        ),
        (
            Footer("a/b", 1.0, redaction_counts=(("jwt", 1, LOG), ("jwt", 2, f"{LOG}2"))),
            0,
            "b · 1.00 USD · 3 values masked · Reply to ask more",
        ),
        (
            Footer("a/b", 1.0, redaction_counts=(("jwt", 1, "file a"), ("jwt", 2, "archive"))),
            0,
            "b · 1.00 USD · Reply to ask more",
        ),
        (
            Footer("", 0.0, found_by="rule"),
            0,
            "Found by rule, no model was asked · Reply /sandpiper analyze to ask a model",
        ),
    ],
)
def test_it_says_what_a_developer_needs(footer: Footer, unproven: int, told: str) -> None:
    assert seen(write_small_print(footer, unproven)) == told


@pytest.mark.parametrize("found_by", ["", "rule", "known"])
def test_a_note_leads_to_the_page_of_its_session(found_by: str) -> None:
    footer = Footer("test/model", 0.1, page=SIGNED, found_by=found_by)
    assert f"[Session]({SIGNED})" in write_small_print(footer, 0)


@pytest.mark.parametrize(
    "page", ["", PAGE, f"{SIGNED}&x=1", f"{SIGNED})[x](y", SIGNED.replace("https", "javascript")]
)
def test_what_is_no_signed_address_is_not_linked(page: str) -> None:
    assert "Session" not in write_small_print(Footer("test/model", 0.1, page=page), 0)


def test_what_does_not_fit_is_named_in_the_details() -> None:
    path = f"{LOG} (deploy of services/billing/internal/templates/production-values.yaml)"
    counted = (("gitlab-token", 2, path), ("private-key", 1, path))
    footer = Footer(
        "a/" + "m" * 40, 1.0, replaced_model="b/" + "n" * 40, redaction_counts=counted, page=SIGNED
    )
    small = write_small_print(footer, 12)
    assert "3 values masked" in small
    folded = dict(list_folded_lines(footer, small))
    (masked,) = folded["Masked before it was read"]
    assert masked.startswith(f"2 GitLab tokens, 1 private key masked in {LOG}")
    assert "production" in masked
    assert "did not answer" in folded["Models"][0]


def test_what_the_small_print_names_is_not_said_twice() -> None:
    footer = Footer("a/b", 1.0, replaced_model="c/d", redaction_counts=(("jwt", 1, LOG),))
    assert list(list_folded_lines(footer, write_small_print(footer, 0))) == []


def footers(count: int) -> Iterator[tuple[Footer, int]]:
    """Footers of all kinds, many of them longer than anybody's."""
    chance = random.Random(13)
    letters = string.ascii_letters + string.digits + "-._`*[]()<>&@:/ \n\u200bé"

    def name(most: int) -> str:
        return "".join(chance.choices(letters, k=chance.randint(0, most)))

    for _ in range(count):
        redacted = tuple(
            (chance.choice(list(KINDS)), chance.randint(1, 10 ** chance.randint(1, 6)), name(150))
            for _ in range(chance.randint(0, 4))
        )
        footer = Footer(
            model=name(200),
            cost_usd=chance.choice([None, 0.0, 0.0042, 0.31, 12.0, 10.0 ** chance.randint(0, 300)]),
            missing_sources=tuple(name(500) for _ in range(chance.randint(0, 20))),
            replaced_model=chance.choice(["", name(200)]),
            found_by=chance.choice(["", "", "rule", "known"]),
            redaction_counts=chance.choice([(), redacted]),
            page=chance.choice(["", SIGNED]),
        )
        yield footer, chance.choice([0, 1, 20, 10**6])


def test_no_footer_has_more_than_its_characters_and_all_are_harmless(attack_inputs: int) -> None:
    marker = Marker("0" * 20, 0)
    hosts = frozenset({"ci.example"})
    for footer, unproven in footers(attack_inputs // 4):
        small = write_small_print(footer, unproven)
        assert "\n" not in small
        assert len(seen(small)) <= MAX_VISIBLE < 140, small
        folded = [f"- {line}" for _, lines in list_folded_lines(footer, small) for line in lines]
        assert len(folded) <= 24
        body = render_template(
            "answer",
            marker=marker.text(),
            stopped="",
            text="x",
            rest="\n".join(folded),
            small=small,
        )
        assert lint.find_faults(body, hosts) == [], body
        assert not re.search(r"\d+ tokens|cached|iteration", small)


def test_a_note_shows_nothing_of_the_models_own_probes() -> None:
    footer = Footer("a/b", 0.1, missing_sources=("gitlab_get_file: no file x.py",))
    body = note.write_failure(Marker("0" * 20, 1), SUBJECT, "why", footer)
    assert "no file x.py" not in body.partition("<details>")[0]
    assert "no file x.py" in body.partition("<details>")[2].partition("</details>")[0]
