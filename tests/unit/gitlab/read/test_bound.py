import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic import Field

from tests.simulators.gitlab import GitLabSim, Scene
from tests.unit.conftest import fetch
from worker.errors import ConfigError, SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.base import NoArguments, OfJob, RawDocument, SourceDef
from worker.gitlab.read.merge_request import MR_DETAILS
from worker.gitlab.read.redactions import Redactions
from worker.gitlab.read.session_reader import Reader
from worker.sources.table import Cache, bind_sources, cap_document, join_rows
from worker.tools.arguments import Arguments
from worker.tools.source import Document, DocumentKind

CLEAN = Redactions(bytes)


class Named(Arguments):
    """Which one."""

    name: str = Field(description="Its name.")


def row(fetch: Callable[[Any, Reader], RawDocument | Document], **more: Any) -> SourceDef[Any]:
    base = SourceDef("x_get_thing", "A thing.", NoArguments, fetch, "a thing")
    return replace(base, **more)


def counting(raw: RawDocument) -> tuple[list[int], Callable[[Any, Reader], RawDocument]]:
    calls: list[int] = []

    def fetch(args: Any, reader: Reader) -> RawDocument:
        calls.append(1)
        return replace(raw, content=f"{raw.content!s}{len(calls)}")

    return calls, fetch


def test_the_same_call_gives_the_same_bytes(reader: Reader) -> None:
    calls, made = counting(RawDocument("x"))
    source = bind_sources(reader, [row(made)])["x_get_thing"]
    assert source.fetch("{}") is source.fetch(" { } ")
    assert source.fetch("").data == b"x1"
    assert len(calls) == 1


def test_other_arguments_are_another_call(reader: Reader) -> None:
    _, made = counting(RawDocument("x"))
    source = bind_sources(reader, [row(made, args=OfJob)])["x_get_thing"]
    assert source.fetch('{"job_id": 1}').data != source.fetch('{"job_id": 2}').data


@pytest.mark.parametrize(
    "raw", [RawDocument("x", final=False), RawDocument("x", chunks=lambda: iter([b"y"]))]
)
def test_what_may_change_or_is_a_stream_is_asked_for_again(
    reader: Reader, raw: RawDocument
) -> None:
    _, made = counting(raw)
    source = bind_sources(reader, [row(made)])["x_get_thing"]
    assert [source.fetch("{}").data, source.fetch("{}").data] == [b"x1", b"x2"]


def test_a_failure_is_not_kept(reader: Reader, sim: GitLabSim) -> None:
    bound = bind_sources(reader)["gitlab_get_mr_details"]
    sim.fail_next("GET", "/merge_requests/", 403)
    with pytest.raises(SourceError, match="too little access"):
        bound.fetch("{}")
    assert bound.fetch("{}").data


def test_the_cache_forgets_what_was_not_asked_for_lately() -> None:
    cache = Cache(max_kept=10)
    made: list[str] = []

    def get(name: str, size: int) -> None:
        def make() -> Document:
            made.append(name)
            return Document(CLEAN(b"x" * size))

        cache.get((name, ""), make)

    for name, size in [("a", 4), ("b", 4), ("a", 4), ("c", 4), ("a", 4), ("b", 4), ("big", 11)]:
        get(name, size)
    assert made == ["a", "b", "c", "b", "big"]
    get("big", 11)
    assert made[-1] == "big"


def test_a_document_over_its_cap_is_cut_after_it_was_redacted(reader: Reader) -> None:
    clean = Reader.open(
        reader.client, reader.subject, lambda data: data.replace(b"hunter22", b"[redacted: s]")
    )
    made = row(lambda args, reader: RawDocument("ab hunter22", "c"), cap=7)
    document = bind_sources(clean, [made])["x_get_thing"].fetch("{}")
    assert document.data == b"ab [red"
    assert document.gaps == "c; the last 9 bytes"
    whole = Document(CLEAN(b"abc"))
    assert cap_document(whole, 3) == whole


def test_a_source_begins_nothing_past_its_time(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    late = row(MR_DETAILS.fetch, timeout=-1.0)
    with pytest.raises(SourceError, match="it did not answer in time"):
        bind_sources(reader, [late])["x_get_thing"].fetch("{}")
    assert sim.requests == []


def test_what_was_read_of_a_long_list_in_time_is_given(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    scene.mr.commits *= 350
    sim.fail_next("GET", "/commits", 0, times=1, delay=0.2)
    soon = client.with_deadline(time.monotonic() + 0.15)
    path = f"/projects/{scene.project.id}/merge_requests/{scene.mr.iid}/commits"
    listing = soon.many(path, wire.Commit, "commits")
    assert (len(listing.items), listing.more) == (100, True)


def test_a_stream_ends_at_its_cap_and_at_its_time(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    scene.job.trace = b"x" * 300_000
    path = f"/projects/{scene.project.id}/jobs/{scene.job.id}/trace"
    assert sum(map(len, client.stream(path, "it", 300_000))) == 300_000
    with pytest.raises(SourceError, match="it: GitLab's answer is refused: larger than 299999"):
        list(client.stream(path, "it", 299_999))
    chunks = client.with_deadline(time.monotonic() + 0.1).stream(path, "it", 300_000)
    next(chunks)
    time.sleep(0.1)
    with pytest.raises(SourceError, match="still sending when the time for it was over"):
        next(chunks)


def test_what_was_redacted_is_counted_by_kind() -> None:
    def redact(data: bytes) -> bytes:
        return re.sub(rb"glpat-\w+", b"[redacted: gitlab-token]", data)

    redactions = Redactions(redact)
    assert redactions(b"nothing") == b"nothing"
    assert redactions.counts == {}
    redactions(b"glpat-1 and glpat-2, [redacted: jwt] and [redacted: gitlab-token]")
    redactions(b"glpat-3")
    assert redactions.counts == {("gitlab-token", ""): 3}


def test_a_session_counts_its_own_redactions(scene: Scene, reader: Reader) -> None:
    scene.job.trace = b"token hunter22\n"
    own = Reader.open(
        reader.client, reader.subject, lambda data: data.replace(b"hunter22", b"[redacted: pass]")
    )
    log = fetch(own, "gitlab_get_job_log", job_id=scene.job.id)
    assert (log.data, log.kind) == (b"token [redacted: pass]\n", DocumentKind.LOG)
    counted = {("pass", f"the log of job {scene.job.id}"): 1}
    assert own.redact.counts == counted
    assert own.with_deadline(1.0).redact.counts == counted


def test_what_was_redacted_is_counted_with_its_document(reader: Reader) -> None:
    own = Reader.open(
        reader.client, reader.subject, lambda data: data.replace(b"x1", b"[redacted: pass]")
    )
    source = row(lambda args, reader: RawDocument({"text": f"x1 of {args.name}"}), args=Named)
    bind_sources(own, [source])["x_get_thing"].fetch('{"name": "src/app.py"}')
    assert own.redact.counts == {("pass", "thing src/app.py"): 1}


def test_text_that_hides_is_shown_and_json_loses_it(reader: Reader) -> None:
    hidden = "key\u200b: a\U000e0041\u202e é\r\n"
    text = row(lambda args, reader: RawDocument(hidden.encode() + b"\xff"))
    document = bind_sources(reader, [text])["x_get_thing"].fetch("{}")
    assert document.data == "key<U+200B>: a<U+E0041><U+202E> é\r\n".encode() + b"\xff"
    assert CLEAN.redact_to_json({"t": hidden}) == '{"t":"key: a é\\n"}\n'.encode()


def test_what_is_said_to_be_missing_is_redacted_and_capped(reader: Reader) -> None:
    clean = Reader.open(
        reader.client, reader.subject, lambda data: data.replace(b"hunter22", b"[redacted: s]")
    )
    made = row(lambda args, reader: RawDocument("", "hunter22\u202e " + "x" * 9000))
    document = bind_sources(clean, [made])["x_get_thing"].fetch("{}")
    assert document.gaps.startswith("[redacted: s] xxx")
    assert len(document.gaps) < 2010


def test_two_sources_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two sources have the same name: gitlab_get_mr_details"):
        join_rows([MR_DETAILS])


def test_a_source_is_offered_only_to_the_sessions_it_applies_to(reader: Reader) -> None:
    never = row(MR_DETAILS.fetch, applies=lambda subject: subject.project == "other")
    assert bind_sources(reader, [never]) == {}


class Unheard(RuntimeError):
    """Nobody has foreseen it."""


@pytest.mark.parametrize("error", [KeyError("jobs"), EOFError("x" * 5000), Unheard("no\nway")])
def test_what_nobody_has_foreseen_in_a_source_is_a_value(reader: Reader, error: Exception) -> None:
    def fails(args: Any, reader: Reader) -> RawDocument:
        raise error

    with pytest.raises(SourceError, match=f"x_get_thing failed: {type(error).__name__}") as told:
        bind_sources(reader, [row(fails)])["x_get_thing"].fetch("{}")
    assert len(str(told.value)) < 400
    assert "\n" not in str(told.value)


def test_what_nobody_has_foreseen_in_a_stream_is_a_value_too(reader: Reader) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"one\n"
        raise Unheard("half way")

    streams = row(lambda args, reader: RawDocument("a stream", chunks=chunks))
    document = bind_sources(reader, [streams])["x_get_thing"].fetch("{}")
    assert document.chunks
    with pytest.raises(SourceError, match="x_get_thing failed: Unheard: half way"):
        list(document.chunks())
