import pytest

from worker.core.routing.acknowledgements import is_acknowledgement

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


def test_a_long_text_takes_no_long_time() -> None:
    assert not is_acknowledgement("thanks " * 100_000)
    assert not is_acknowledgement("thanks\n" * 20)
