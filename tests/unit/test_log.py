"""Every record is one line, says what it is about, and holds no secret."""

import io
import json
import logging
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import pytest

from worker import log
from worker.safety.redact import Redactor
from worker.settings import Settings, load
from worker.tools.base import run_in_parallel

SECRETS = {
    "GITLAB_READ_TOKEN": "read-token-0123456789",
    "GITLAB_WRITE_TOKEN": 'write"token"with-quotes-1',
    "GITLAB_WEBHOOK_SECRET": "hook-sécret-0123456789",
    "ANTHROPIC_API_KEY": "anthropic-key-0123456789",
    "GEMINI_API_KEY": "gemini-key-0123456789",
    "OPENAI_API_KEY": "openai-key-0123456789",
    "KONFLUX_TOKEN": "konflux\\token\\with-backslashes",
    "TESTING_FARM_API_TOKEN": "farm-token-0123456789",
}
HOSTILE = "a job\n2026-11-22 03:00:00,000 ERROR root: forged\x1b[31m\u2028\u202eend"


class Lines:
    """What was logged, in one of the two forms."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def use(self, form: Literal["text", "json"], settings: Settings, **options: Any) -> None:
        log.configure(Redactor(settings.list_secrets()).redact_text, form=form, **options)
        (handler,) = logging.getLogger().handlers
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(self.stream)

    def text(self) -> list[str]:
        return self.stream.getvalue().splitlines()

    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().split("\n")[:-1]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield Lines()
    root.handlers[:] = before
    root.setLevel(level)
    logging.captureWarnings(False)


@pytest.fixture
def settings() -> Settings:
    return load(environ=SECRETS)


def told(message: str, *arguments: object) -> None:
    logging.getLogger("sandpiper.test").info(message, *arguments)


def test_a_record_is_one_json_object(lines: Lines, settings: Settings) -> None:
    lines.use("json", settings)
    with log.bind_log_fields(trigger="abc", project=7), log.bind_log_fields(session="0123"):
        told("pipeline %d is looked at", 9)
    told("later")
    first, second = lines.objects()
    assert first.pop("ts").endswith("Z")
    assert first == {
        "level": "info",
        "logger": "sandpiper.test",
        "msg": "pipeline 9 is looked at",
        "trigger": "abc",
        "project": 7,
        "session": "0123",
    }
    assert set(second) == {"ts", "level", "logger", "msg"}


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_known_secret_is_written(
    lines: Lines, settings: Settings, form: Literal["text", "json"]
) -> None:
    lines.use(form, settings)
    assert set(settings.list_secrets()) == set(SECRETS.values())
    for secret in SECRETS.values():
        told("%s", f"it is {secret}!")
        with log.bind_log_fields(session=secret):
            told("bound")
        try:
            raise ValueError(secret)
        except ValueError:
            logging.getLogger("sandpiper.test").exception("failed")
    written = lines.stream.getvalue()
    written += json.dumps(lines.objects(), ensure_ascii=False) if form == "json" else ""
    assert written.count("redacted") >= 3 * len(SECRETS)
    for secret in SECRETS.values():
        assert secret not in written
        assert json.dumps(secret)[1:-1] not in written


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_a_stranger_writes_stays_on_its_line(
    lines: Lines, settings: Settings, form: Literal["text", "json"]
) -> None:
    lines.use(form, settings)
    told("%s", HOSTILE)
    (line,) = lines.text()
    assert line.isprintable()
    if form == "json":
        assert lines.objects()[0]["msg"] == HOSTILE


def test_a_message_that_ends_in_a_line_break_shows_none(lines: Lines, settings: Settings) -> None:
    lines.use("text", settings)
    told("tried again\n")
    (line,) = lines.text()
    assert line.endswith(": tried again")


def test_no_line_of_a_traceback_looks_like_a_record(lines: Lines, settings: Settings) -> None:
    lines.use("text", settings)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("sandpiper.test").exception("failed")
    first, *others = lines.text()
    assert first.endswith("ERROR sandpiper.test: failed")
    assert others
    assert all(line.startswith("  ") and line.isprintable() for line in others)


def test_threads_do_not_share_what_they_are_about(lines: Lines, settings: Settings) -> None:
    lines.use("json", settings)
    with log.bind_log_fields(trigger="ours"):
        other = threading.Thread(target=told, args=("elsewhere",))
        other.start()
        other.join()
    assert "trigger" not in lines.objects()[0]


def test_others_log_the_same_way_and_the_level_is_kept(lines: Lines, settings: Settings) -> None:
    lines.use("json", settings, level="warning")
    told("not wanted")
    # A simulator in this process may have silenced its own server.
    logging.getLogger("uvicorn.error").setLevel(logging.NOTSET)
    for name in ("celery.worker", "uvicorn.error", "kombu.connection"):
        logging.getLogger(name).warning("mind")
    assert [each["logger"] for each in lines.objects()] == [
        *("celery.worker", "uvicorn.error", "kombu.connection")
    ]


def test_tools_that_run_side_by_side_are_about_the_same_session(
    lines: Lines, settings: Settings
) -> None:
    lines.use("json", settings)
    with log.bind_log_fields(session="0123"):
        list(run_in_parallel([partial(told, "one"), partial(told, "two")]))
    assert [each["session"] for each in lines.objects()] == ["0123", "0123"]
