"""What replies need: told by rules where they are sure."""

import pytest

from worker.conversation.questions import MOST_CHARACTERS, Route, read_route, route_reply

REPLIES = {
    Route.THANKS: ("Thanks!", "👍", "ok, makes sense", "Danke, passt!", "谢谢,明白了"),
    Route.QUESTION: (
        "Why?",
        "Why do you think that it is flaky?",
        "What does `touches` mean here?",
        "@sandpiper-bot which line is that?",
        "Is this my change, then?",
        "Are you sure?",
        "Warum ist das meine Änderung?",
        "Pourquoi est-ce lié à mon changement ?",
        "¿Por qué falla solo en 3.10?",
        "为什么会失败?",
        "なぜですか",
        "Por que falhou só no main?",
        "Waarom faalt dit?",
        "Danke, aber warum ist unit fehlgeschlagen?",
        "thanks, but why did unit fail?",
    ),
    Route.WORK: (
        "Can you look at the clair-scan timeout more closely?",
        "Why? Please check the logs of e2e as well.",
        "Reproduce it with seed 7.",
        "try again with -race",
        "Kannst du das Log von lint anschauen und prüfen?",
        "Peux-tu vérifier le job lint ?",
        "Kun je de job nog eens controleren?",
        "请检查一下 lint",
        "e2e も確認してください",
        "x" * (MOST_CHARACTERS + 1),
    ),
    Route.UNSURE: (
        "I changed the seed on purpose.",
        "The db service was renamed last week.",
        "And the other one?",
        "ok, will rebase tomorrow",
    ),
}


@pytest.mark.parametrize(
    ("route", "text"), [(route, text) for route, texts in REPLIES.items() for text in texts]
)
def test_what_a_reply_needs(route: Route, text: str) -> None:
    assert route_reply(text) is route


@pytest.mark.parametrize(
    ("answer", "text", "route"),
    [
        ("THANKS", "ok, will rebase tomorrow", Route.THANKS),
        ("thanks.", "noted for later", Route.THANKS),
        ("THANKS", "and the other one?", Route.WORK),
        ("THANKS", "why that", Route.WORK),
        ("THANKS", "x" * 201, Route.WORK),
        ("QUESTION", "the seed is new", Route.QUESTION),
        ("WORK", "the seed is new", Route.WORK),
        ("It is a QUESTION or WORK", "the seed is new", Route.WORK),
        ("", "the seed is new", Route.WORK),
        ("I cannot tell", "the seed is new", Route.WORK),
        ("UNSURE", "the seed is new", Route.WORK),
    ],
)
def test_a_helper_is_believed_where_it_costs_nobody_an_answer(
    answer: str, text: str, route: Route
) -> None:
    assert read_route(answer, text) is route


def test_hostile_texts_are_read_in_linear_time() -> None:
    for text in ("why " * 100_000, "look " * 100_000, "prüf" * 100_000):
        assert route_reply(text) is Route.WORK
