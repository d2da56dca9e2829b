"""What `serve` and `worker` say at their start, and what they refuse to start with."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.flow.product import SECRET, Process, Product, free_port, product
from worker.lab.script import Say

pytestmark = pytest.mark.usefixtures("bubblewrap")

PASSWORD = "hunter-22-of-no-worth"
LISTENING = "listening on "
_LEAD = re.compile(r"^\d{4}-\d\d-\d\d [\d:,]+ [A-Z]+ [a-z_.]+: ")


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Product]:
    with product(tmp_path, lambda asked: Say("nothing"), "memory://") as made:
        yield made


def read_lines(process: Process) -> list[str]:
    """What the process has logged, without times and loggers; each line as a person reads it."""
    text = process.log.read_text()
    for mark in ("\\n", "[redacted", PASSWORD, SECRET, "Transport"):
        assert mark not in text, text
    return [_LEAD.sub("", line) for line in text.splitlines()]


def has(process: Process, words: str) -> bool:
    return words in process.log.read_text()


def test_serve_says_what_it_serves(made: Product) -> None:
    made.write_settings(
        "gitlab: {projects: [northsound/*, other/one]}\n"
        "pages: {url: 'https://sandpiper.example.com'}\n"
        "models: {fallback: [anthropic/claude-haiku-4-5]}\n"
    )
    with made.serve("--metrics-port", "0") as process:
        lines = read_lines(process)
        port = made.url.rpartition(":")[2]
    bot = made.scene.bot.username
    assert lines[:7] == [
        f"GitLab: 19.1.0-ee at {made.gitlab.url}, notes by @{bot}",
        "projects: northsound/*, other/one",
        "broker: embedded: this process runs the jobs, too",
        f"store: file://{made.folder}/store",
        "models: anthropic/claude-sonnet-5-5 (default), anthropic/claude-haiku-4-5 (fallback)",
        "pages: https://sandpiper.example.com",
        f"listening on http://127.0.0.1:{port}; webhooks should point to "
        "https://sandpiper.example.com/webhooks/gitlab",
    ]


def test_a_broker_and_a_store_are_named_without_their_passwords(made: Product) -> None:
    made.env["SANDPIPER_BROKER"] = f"redis://bob:{PASSWORD}@127.0.0.1:9/3"
    with made.process("worker", "--metrics-port", "0") as process:
        process.until(lambda: has(process, "next look in"), "it does not look for its broker")
        lines = read_lines(process)
    assert "projects: every project in which the read token's user is a member" in lines
    assert "broker: redis://127.0.0.1:9/3" in lines
    assert (
        "the broker redis://127.0.0.1:9/3 does not answer: nothing listens there (connection "
        "refused); start it, or set SANDPIPER_BROKER to its address; next look in 2 s"
    ) in lines


AGAIN = "make one with the scope api, and set GITLAB_WRITE_TOKEN (or GITLAB_TOKEN)"


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["worker", "--metrics-port", "0"]])
@pytest.mark.parametrize(
    ("scopes", "line"),
    [
        (["read_api"], "cannot write notes: its scopes are read_api: "),
        (["read_repository"], "has not the scope that it needs: "),
        ([], "is refused by GitLab: it has expired, or was revoked: "),
    ],
)
def test_a_write_token_that_cannot_write_ends_the_start(
    scopes: list[str], line: str, command: list[str], made: Product
) -> None:
    token = made.gitlab.add_token("other", made.scene.bot, *(scopes or ["api"]))
    made.gitlab.tokens[token].active = bool(scopes)
    made.env |= {"GITLAB_WRITE_TOKEN": token, "SANDPIPER_BROKER": "redis://127.0.0.1:9/0"}
    done = made.run(*command)
    assert done.returncode == 2
    *warnings, last = done.stderr.splitlines()
    assert last == f"sandpiper: GITLAB_WRITE_TOKEN (or GITLAB_TOKEN) {line}{AGAIN}"
    away = "the broker redis://127.0.0.1:9/0 does not answer: nothing listens there"
    assert [away in each for each in warnings] == ([True] if command[0] == "serve" else [])


def test_one_odd_answer_about_the_write_token_is_asked_again(made: Product) -> None:
    made.gitlab.fail_next("GET", "/user$", 401)
    with made.serve() as process:
        assert any("notes by @" in line for line in read_lines(process))


@pytest.mark.parametrize("hangs", [False, True])
def test_a_gitlab_that_is_away_delays_no_start_and_loses_no_trigger(
    hangs: bool, made: Product, redis_url: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hole:
        port = hole.getsockname()[1] if hangs else free_port()
        url = f"http://127.0.0.1:{port}"
        made.env |= {"GITLAB_URL": url, "SANDPIPER_BROKER": redis_url}
        with made.serve() as process:
            answer = made.pipeline_failed()
            lines = read_lines(process)
    assert answer.status_code == httpx.codes.ACCEPTED
    assert len(made.unfinished()) == 1
    assert (
        f"GitLab: no answer from {url} yet: triggers are taken, and wait for it"
        if hangs
        else "GitLab cannot be used yet, triggers are taken and wait for it: GitLab's version: no "
        f"answer from {url}: nothing listens there (connection refused): start it, or correct its "
        "address"
    ) in lines


def test_a_port_in_use_is_one_line_and_status_1(made: Product) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = made.run("serve", "--port", str(port))
    assert done.returncode == 1
    assert done.stderr == (
        f"sandpiper: port {port} of 127.0.0.1: another process has it: end that one, or choose "
        "another by --port\n"
    )


def test_a_host_that_is_not_here_is_one_line_and_status_1(made: Product) -> None:
    done = made.run("serve", "--host", "192.0.2.1", "--port", "0")
    assert done.returncode == 1
    assert done.stderr == (
        "sandpiper: port 0 of 192.0.2.1: this machine has no such address: correct --host\n"
    )
