"""A CI job asks by its id token, checked by the keys of the simulated GitLab."""

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from starlette.applications import Starlette

from tests.accepting import one_by_one, queue_nothing
from tests.simulators.gitlab import GitLabSim, Pipeline, Scene, make_failing_merge_request
from tests.unit.webhook.test_http import send
from worker.conversation.triggers import PipelineFailed, Trigger, trigger_id
from worker.errors import QueueError, Rejected
from worker.webhook.http import CI_PATH, build_app
from worker.webhook.id_tokens import (
    MAX_KEYS,
    MAX_REMEMBERED,
    MINUTE,
    PATIENCE,
    PER_MINUTE,
    TokenReader,
    TokenVerifier,
    UsedTokens,
    fetch_keys,
)


@pytest.fixture(scope="module")
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running
        assert running.unexpected_requests == []


@pytest.fixture(scope="module")
def scene(sim: GitLabSim) -> Scene:
    return make_failing_merge_request(sim)


class Asked:
    """A door at which CI jobs may ask, and what it has queued."""

    def __init__(
        self, sim: GitLabSim, projects: tuple[str, ...] = (), branches: tuple[str, ...] = ()
    ) -> None:
        self.queue: list[Trigger] = []
        self.now: Callable[[], float] = time.time
        self.time = 0.0
        keys = partial(fetch_keys, sim.url)
        self.reader = TokenReader(
            TokenVerifier(keys, f"{sim.url}/", "sandpiper", lambda: self.now())
        )
        self.app: Starlette = build_app(
            "s",
            one_by_one(self.queue.append),
            projects,
            lambda: self.time,
            lambda: None,
            branches=branches,
            tokens=self.reader,
        )

    def __call__(self, token: str, scheme: str = "Bearer") -> httpx.Response:
        return send(self.app, path=CI_PATH, headers={"authorization": f"{scheme} {token}"})


@pytest.fixture
def ask(sim: GitLabSim) -> Asked:
    return Asked(sim)


def expected(pipeline: Pipeline) -> PipelineFailed:
    return PipelineFailed(pipeline.project.id, pipeline.id, pipeline.sha, "sum-faster", by_job=True)


def test_a_job_of_a_merge_requests_pipeline_is_taken_at_its_tokens_word(
    sim: GitLabSim, scene: Scene, ask: Asked
) -> None:
    answer = ask(sim.make_id_token(scene.pipeline))
    trigger = expected(scene.pipeline)
    assert (answer.status_code, answer.json()) == (202, {"trigger": trigger_id(trigger)})
    assert ask.queue == [trigger]


@pytest.mark.parametrize("scheme", ["bearer", "BEARER"])
def test_the_schemes_case_does_not_matter(
    sim: GitLabSim, scene: Scene, ask: Asked, scheme: str
) -> None:
    assert ask(sim.make_id_token(scene.pipeline), scheme).status_code == 202


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"aud": "another-service"}, "aud"),
    ({"aud": ["a", "b"]}, "aud"),
    ({"aud": None}, "aud"),
    ({"iss": "https://gitlab.evil.example"}, "iss"),
    ({"iss": None}, "iss"),
    ({"exp": 1000}, "expired"),
    ({"exp": None}, "exp"),
    ({"exp": "soon"}, "exp"),
    ({"nbf": 99_999_999_999}, "not yet valid"),
    ({"project_id": None}, "project_id"),
    ({"project_id": "../1"}, "project_id"),
    ({"project_id": "0"}, "project_id"),
    ({"project_id": "٣"}, "project_id"),
    ({"project_id": "9" * 30}, "project_id"),
    ({"project_id": True}, "project_id"),
    ({"pipeline_id": "-4"}, "pipeline_id"),
    ({"pipeline_id": ["1"]}, "pipeline_id"),
    ({"project_path": ""}, "project_path"),
    ({"ref": "two words"}, "ref"),
    ({"sha": "../../x"}, "sha"),
]


@pytest.mark.parametrize(("claims", "named"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_token_that_does_not_say_the_right_things_is_refused(
    sim: GitLabSim, scene: Scene, ask: Asked, claims: dict[str, Any], named: str
) -> None:
    answer = ask(sim.make_id_token(scene.pipeline, **claims))
    assert answer.status_code == 401
    assert named in answer.json()["error"]
    assert ask.queue == []


def parts(token: str) -> tuple[str, str, str]:
    head, body, signature = token.split(".")
    return head, body, signature


def encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def unsigned(token: str) -> str:
    return f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{parts(token)[1]}."


def other_claims(token: str) -> str:
    head, _, signature = parts(token)
    return f"{head}.{encoded({'project_id': '1'})}.{signature}"


def by_a_stranger(token: str) -> str:
    key = RSAKey.generate_key(2048, {"kid": _kid(token)})
    return jwt.encode({"alg": "RS256", "kid": _kid(token)}, _claims(token), key)


def by_the_public_key(sim: GitLabSim) -> Callable[[str], str]:
    def forged(token: str) -> str:
        public = json.dumps(sim.issuer.get_public_keys()["keys"][0]).encode()
        key = OctKey.import_key(public)
        return jwt.encode({"alg": "HS256", "kid": _kid(token)}, _claims(token), key)

    return forged


def _kid(token: str) -> str:
    head = parts(token)[0]
    return str(json.loads(base64.urlsafe_b64decode(head + "=="))["kid"])


def _claims(token: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(parts(token)[1] + "=="))


@pytest.mark.parametrize(
    "forge",
    [
        unsigned,
        other_claims,
        by_a_stranger,
        lambda token: token[:-8] + "AAAAAAAA",
        lambda token: token.rpartition(".")[0],
        lambda token: "",
        lambda token: "x",
        lambda token: "a.b.c",
        lambda token: token + "x" * 20_000,
        lambda token: encoded([1]) + "." + encoded([2]) + ".",
    ],
    ids=["none", "claims", "stranger", "cut", "headless", "empty", "x", "abc", "long", "lists"],
)
def test_a_forged_token_is_refused(
    sim: GitLabSim, scene: Scene, ask: Asked, forge: Callable[[str], str]
) -> None:
    answer = ask(forge(sim.make_id_token(scene.pipeline)))
    assert answer.status_code == 401
    assert "id token" in answer.json()["error"]
    assert ask.queue == []


def test_the_public_key_is_no_secret_to_sign_with(sim: GitLabSim, scene: Scene, ask: Asked) -> None:
    forged = by_the_public_key(sim)(sim.make_id_token(scene.pipeline))
    assert ask(forged).status_code == 401


def test_a_request_without_a_token_is_told_what_to_send(ask: Asked) -> None:
    answer = send(ask.app, path=CI_PATH)
    assert answer.status_code == 401
    assert "Authorization: Bearer" in answer.json()["error"]
    assert ask("c2VjcmV0", "Basic").status_code == 401


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"ref_type": "tag"}, "the pipeline runs for a tag, not for a merge request"),
        ({"pipeline_source": "parent_pipeline"}, "a child pipeline is reported with its parent"),
        ({"pipeline_source": "schedule"}, "the pipeline was started by schedule, not by a change"),
    ],
)
def test_a_pipeline_that_is_for_no_merge_request_is_ignored(
    sim: GitLabSim, scene: Scene, ask: Asked, claims: dict[str, str], reason: str
) -> None:
    answer = ask(sim.make_id_token(scene.pipeline, **claims))
    assert (answer.status_code, answer.json()) == (200, {"ignored": reason})
    assert ask.queue == []


@pytest.mark.attack("door")
@pytest.mark.parametrize("claims", [{}, {"jti": None}], ids=["jti", "none"])
def test_a_token_asks_once_however_often_and_in_whatever_spelling_it_is_sent(
    sim: GitLabSim,
    scene: Scene,
    ask: Asked,
    claims: dict[str, Any],
    record_property: Callable[[str, object], None],
) -> None:
    token = sim.make_id_token(scene.pipeline, **claims)
    assert ask(token).status_code == 202
    for number in range(300):
        answer = ask(token + "=" * (number % 3))
        assert answer.status_code in (200, 401)
        assert answer.status_code == 401 or "has asked already" in answer.json()["ignored"]
    assert len(ask.queue) == 1
    assert ask(sim.make_id_token(scene.pipeline)).status_code == 202
    record_property("tried", 300)


@pytest.mark.attack("door")
def test_the_jobs_of_one_project_ask_so_often_and_another_project_is_heard(
    sim: GitLabSim, scene: Scene, ask: Asked
) -> None:
    for number in range(PER_MINUTE):
        asked = sim.make_id_token(scene.pipeline, pipeline_id=str(1000 + number))
        assert ask(asked).status_code == 202
    late = sim.make_id_token(scene.pipeline)
    refused = ask(late)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
    assert scene.project.path in refused.json()["error"]
    assert ask(sim.make_id_token(scene.pipeline, project_id="999")).status_code == 202
    ask.time += MINUTE
    assert ask(late).status_code == 202


@pytest.mark.attack("door")
def test_what_is_remembered_of_tokens_is_bounded(sim: GitLabSim, scene: Scene) -> None:
    time_now = [0.0]
    used = UsedTokens(lambda: time_now[0])
    base = Asked(sim).reader.read(sim.make_id_token(scene.pipeline))
    for number in range(MAX_REMEMBERED + 10):
        time_now[0] = number / 1000
        each = base.model_copy(update={"jti": str(number), "project_id": number + 1, "exp": 1e12})
        assert used.take(each)
    assert len(used._ends) == MAX_REMEMBERED
    assert not used.take(base.model_copy(update={"jti": str(MAX_REMEMBERED)}))
    time_now[0] = 1e6
    assert used.take(base.model_copy(update={"jti": "late"}))
    assert len(used._asked) <= 2


def test_only_listed_projects_may_ask(sim: GitLabSim, scene: Scene) -> None:
    assert Asked(sim, ("team/*",))(sim.make_id_token(scene.pipeline)).status_code == 202
    answer = Asked(sim, ("other/*",))(sim.make_id_token(scene.pipeline))
    assert answer.status_code == 200
    assert "gitlab.projects" in answer.json()["ignored"]


def test_without_a_reader_there_is_no_such_address(sim: GitLabSim, scene: Scene) -> None:
    app = build_app("s", queue_nothing, (), lambda: 0.0, lambda: None)
    token = sim.make_id_token(scene.pipeline)
    answer = send(app, path=CI_PATH, headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 404


def test_a_broker_that_is_down_is_a_503_and_the_token_may_ask_again(
    sim: GitLabSim, scene: Scene
) -> None:
    failures: list[Exception] = [QueueError("down", transient=True)]

    def enqueue(trigger: Trigger) -> None:
        if failures:
            raise failures.pop()

    reader = Asked(sim).reader
    app = build_app("s", one_by_one(enqueue), (), lambda: 0.0, lambda: None, tokens=reader)
    token = sim.make_id_token(scene.pipeline)
    answers = [
        send(app, path=CI_PATH, headers={"authorization": f"Bearer {token}"}) for _ in range(3)
    ]
    assert [each.status_code for each in answers] == [503, 202, 200]
    assert answers[0].headers["retry-after"]


# ------------------------------------------------------------------------------------ the keys


class Shelf:
    """Keys that change or cannot be had, and how often somebody asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), 0

    def fetch(self) -> Any:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Hand:
    """A clock for the reader, near the truth, since tokens are signed by the real one."""

    def __init__(self) -> None:
        self.time = time.time()

    def __call__(self) -> float:
        return self.time


def reader(sim: GitLabSim, shelf: Shelf, clock: Hand) -> TokenReader:
    return TokenReader(TokenVerifier(shelf.fetch, sim.url, "sandpiper", clock))


GONE = QueueError("GitLab is down", transient=True)


def test_keys_are_fetched_once_for_many_tokens(sim: GitLabSim, scene: Scene) -> None:
    shelf = Shelf(sim.issuer.get_public_keys())
    tokens = reader(sim, shelf, Hand())
    for _ in range(10):
        tokens.read(sim.make_id_token(scene.pipeline))
    assert shelf.asked == 1


def test_a_key_that_gitlab_has_changed_is_fetched_again(sim: GitLabSim, scene: Scene) -> None:
    stale = RSAKey.generate_key(2048, {"alg": "RS256", "use": "sig"}, auto_kid=True)
    old = {"keys": [stale.as_dict(private=False)]}
    shelf, clock = Shelf(old, sim.issuer.get_public_keys()), Hand()
    tokens = reader(sim, shelf, clock)
    with pytest.raises(Rejected):
        tokens.read(sim.make_id_token(scene.pipeline))
    clock.time += PATIENCE
    assert tokens.read(sim.make_id_token(scene.pipeline)).pipeline_id == scene.pipeline.id
    assert shelf.asked == 2


def test_a_strangers_tokens_do_not_make_us_hammer_gitlab(sim: GitLabSim, scene: Scene) -> None:
    shelf = Shelf(sim.issuer.get_public_keys())
    tokens = reader(sim, shelf, Hand())
    stranger = RSAKey.generate_key(2048, auto_kid=True)
    head = {"alg": "RS256", "kid": stranger.kid}
    forged = jwt.encode(head, _claims(sim.make_id_token(scene.pipeline)), stranger)
    for _ in range(20):
        with pytest.raises(Rejected):
            tokens.read(forged)
    assert shelf.asked == 1


def test_known_keys_outlive_a_gitlab_that_is_down(sim: GitLabSim, scene: Scene) -> None:
    shelf, clock = Shelf(sim.issuer.get_public_keys(), GONE), Hand()
    tokens = reader(sim, shelf, clock)
    token = sim.make_id_token(scene.pipeline, exp=int(clock.time) + 90_000)
    tokens.read(token)
    clock.time += 80_000
    tokens.read(token)
    assert shelf.asked == 2


@pytest.mark.parametrize(
    "answer", [GONE, {}, {"keys": 5}, [], "x", None, {"keys": [{"kty": "RSA"}]}], ids=repr
)
def test_without_usable_keys_nobody_is_refused_or_let_in(
    sim: GitLabSim, scene: Scene, answer: Any
) -> None:
    shelf, clock = Shelf(answer), Hand()
    tokens = reader(sim, shelf, clock)
    for _ in range(3):
        with pytest.raises(QueueError) as caught:
            tokens.read(sim.make_id_token(scene.pipeline))
        assert caught.value.transient
    assert shelf.asked == 1
    clock.time += PATIENCE
    with pytest.raises(QueueError):
        tokens.read(sim.make_id_token(scene.pipeline))
    assert shelf.asked == 2


def test_a_gitlab_that_is_down_is_a_503_that_says_so(sim: GitLabSim, scene: Scene) -> None:
    tokens = reader(sim, Shelf(GONE), Hand())
    app = build_app("s", queue_nothing, (), lambda: 0.0, lambda: None, tokens=tokens)
    token = sim.make_id_token(scene.pipeline)
    answer = send(app, path=CI_PATH, headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 503
    assert "keys" in answer.json()["error"]


def test_keys_that_never_come_are_a_503_in_time(sim: GitLabSim, scene: Scene) -> None:
    release = threading.Event()

    def fetch() -> Any:
        release.wait(10)
        return sim.issuer.get_public_keys()

    tokens = TokenReader(TokenVerifier(fetch, sim.url, "sandpiper", Hand()))
    app = build_app(
        "s", queue_nothing, (), lambda: 0.0, lambda: None, tokens=tokens, queue_seconds=0.05
    )
    token = sim.make_id_token(scene.pipeline)
    threading.Timer(0.3, release.set).start()
    answer = send(app, path=CI_PATH, headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 503


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500),
        httpx.Response(302, headers={"location": "https://evil.example/keys"}),
        httpx.Response(200, content=b"<html>"),
        httpx.Response(200, content=b"[" * 100_000),
        httpx.Response(200, content=b" " * (MAX_KEYS + 1)),
    ],
    ids=["500", "redirect", "html", "deep", "large"],
)
def test_an_answer_that_is_no_key_set_is_not_taken_for_one(answer: httpx.Response) -> None:
    transport = httpx.MockTransport(lambda request: answer)
    with pytest.raises(QueueError, match="/oauth/discovery/keys"):
        fetch_keys("https://gitlab.example.com", transport)


def test_a_gitlab_that_cannot_be_reached_is_said(sim: GitLabSim) -> None:
    with pytest.raises(QueueError, match="nothing listens there"):
        fetch_keys("http://127.0.0.1:9")
