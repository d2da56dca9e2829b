"""Thanks need no answer; whatever may want one gets it, in ten languages and more."""

from pathlib import Path

import pytest
import yaml

from worker.conversation.questions import is_acknowledgement

THANKS = """
thanks
Thanks!
thank you
Thank you very much for the analysis!
thx :)
ty
Great catch, thanks!
@sandpiper thanks, that makes sense
Perfect, that's it.
ok
OK, got it.
Understood, thanks a lot.
LGTM
nice find
👍
:+1:
+1
🎉🎉
Thanks 🙏
merci beaucoup
Danke!
Vielen Dank, sandpiper 👍
gracias
Awesome work, bot.
That worked, thank you!
fixed, thanks
thanks @alice
"""

ASKED = """

?
why
thanks, but why does it fail on main?
Thanks?
is it fixed now
ok, and what of the other job
no
wrong
Thanks, not helpful
thanks for nothing
great, another false positive
ok then retry it
👎
:-1:
:confused:
Thanks, see #12
Thanks, fix line 12
Thanks `rm -rf`
good
yes
yes, do it
Are you sure
nice try
Thanks. The job unit-tests failed again.
super slow
can you look at it again, thanks
cool story
thanks https://example.com
"""


@pytest.mark.parametrize("text", THANKS.strip().splitlines())
def test_thanks_are_known(text: str) -> None:
    assert is_acknowledgement(text)


@pytest.mark.parametrize("text", ASKED.strip("\n").splitlines())
def test_whatever_may_want_an_answer_is_no_thanks(text: str) -> None:
    assert not is_acknowledgement(text)


TABLE: dict[str, dict[str, list[str]]] = yaml.safe_load(
    Path(__file__).with_name("acknowledgements.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("language", TABLE)
def test_thanks_are_known_in_the_languages_of_those_who_reply(language: str) -> None:
    assert [each for each in TABLE[language]["thanks"] if not is_acknowledgement(each)] == []


@pytest.mark.parametrize("language", TABLE)
def test_what_sounds_like_thanks_and_asks_is_no_thanks(language: str) -> None:
    assert [each for each in TABLE[language]["asked"] if is_acknowledgement(each)] == []


@pytest.mark.parametrize("language", TABLE)
def test_thanks_with_a_question_or_anything_unknown_beside_them_are_no_thanks(
    language: str,
) -> None:
    for text in TABLE[language]["thanks"]:
        for more in ("?", " why", " warum", " 为什么", " #12", " and lint", " не"):
            assert not is_acknowledgement(text + more), text + more


def test_a_long_text_takes_no_long_time() -> None:
    assert not is_acknowledgement("thanks " * 100_000)
    assert not is_acknowledgement("thanks\n" * 20)
    for hostile in ("ok " * 66, "好" * 200, "ありがとう" * 40, "thanks all all " * 13, "(" * 200):
        assert is_acknowledgement(hostile) is (hostile[0] in "好あ")
