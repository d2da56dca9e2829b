"""What a rule or an earlier finding advises names no host but our own."""

import random
from collections.abc import Callable

import pytest

from worker.safety.untrusted import LEFT_OUT, remove_foreign_hosts
from worker.verdict.rules import RULES

OWN = {"gitlab.example.com:8443"}

FOREIGN = [
    "https://pypi.evil.example/simple",
    "http://mirror/simple",
    "HTTPS://EVIL.EXAMPLE",
    "https:evil.example",
    "https:/evil.example/x",
    "//evil.example/x",
    "git+ssh://git@evil.example/x.git",
    "git@evil.example:x/y.git",
    "a/b@evil.example",
    "evil.example",
    "EVIL.Example:8080",
    "www.evil.co",
    "docker.evil.io/library/python:3.12",
    "--index-url=evil.example/simple",
    "evil.sh/simple",
    "pip.evil.sh",
    "203.0.113.5",
    "203.0.113.5:80/x",
    "2001:db8::1",
    "http://[2001:db8::1]:80/",
    "xn--e1afmkfd.xn--p1ai",
    "пример.рф",
    "gitlab.example.com.evil.example",
    "evil-gitlab.example.com",
    "https://gitlab.example.com@evil.example/",
    "https://gitlab.example.com:x@evil.example/",
    "https://gitlab.example.com/https://evil.example",
    "https://gitlab.example.com?to=https://evil.example",
]
HIDDEN = [
    "evil。example",
    "evil．example",
    "evil․example",
    "evil&#46;example",
    "evil&period;example",
    "evil\\.example",
    "evil.**example**",
    "evil.`example`",
    "evil._example_",
    "_evil.example_",
    "e\u200bvil.exam\u00adple",
    "evil[.]example",
    "evil (dot) example",
    "<evil.example>",
    "[here](https://evil.example)",
]
HARMLESS = [
    "Retry the job. If it goes on, tell whoever keeps the runners.",
    "The fixture in tests/conftest.py:9 waits for the clock, see `.gitlab-ci.yml`.",
    "java.net.SocketTimeoutException: Read timed out",
    "tests.test_clock.test_tick fails with TimeoutError: no tick",
    "see https://gitlab.example.com/team/x/-/jobs/5 or gitlab.example.com:8443/x",
    "connection to 127.0.0.1:5432, http://localhost:8080/x and ::1 refused",
    "python:3.12-slim at version 1.2.3, e.g. v4.1.2 of actions/checkout@v4",
    "std::string at 12:30:05… too late... [0.5, 1.0]",
    "raise `artifacts:expire_in` in src/app.example/build.sh",
    "",
]


@pytest.mark.attack("memory")
@pytest.mark.parametrize("host", FOREIGN + HIDDEN)
def test_another_host_is_left_out_however_it_is_written(host: str) -> None:
    for text in (host, f"Use {host}, then retry.", f"Use ({host})", f'"{host}".'):
        made = remove_foreign_hosts(text, OWN)
        assert LEFT_OUT in made
        assert "evil" not in made.lower()


@pytest.mark.parametrize("text", HARMLESS)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert remove_foreign_hosts(text, OWN) == text


def test_what_the_rules_advise_names_no_host() -> None:
    for rule in RULES:
        assert remove_foreign_hosts(rule.cause, ()) == rule.cause
        assert remove_foreign_hosts(rule.to_do, ()) == rule.to_do


@pytest.mark.slow
@pytest.mark.attack("memory")
def test_no_host_gets_through_among_other_text(
    attack_inputs: int, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(12)
    glue = [" ", "\n", "(", ")", ", ", "; ", "**", "`", "= ", "|", "\u200b", "[", "] ", "/ ", "#"]
    for _ in range(attack_inputs):
        words = [chance.choice(HARMLESS + FOREIGN + glue) for _ in range(6)]
        words.insert(chance.randrange(7), chance.choice(FOREIGN))
        made = remove_foreign_hosts("".join(f"{each} " for each in words), OWN)
        assert LEFT_OUT in made
        assert "evil" not in made.lower()
        assert remove_foreign_hosts(made, OWN) == made
    record_property("tried", attack_inputs)


def test_long_text_takes_linear_time() -> None:
    for text in ("a." * 50_000, "a@" * 50_000, "://" * 30_000, "[(dot)" * 20_000, ":" * 100_000):
        remove_foreign_hosts(text, OWN)
