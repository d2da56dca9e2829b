"""Verifies the id tokens of GitLab's CI jobs: GitLab's signature proves which job asks.

A job gets one with `id_tokens:` (https://docs.gitlab.com/ci/secrets/id_token_authentication/). Only
the token is trusted in the request: the merge request's author controls the job's script.
"""

import hashlib
import json
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from worker.conversation.triggers import PipelineFailed
from worker.errors import Rejected
from worker.webhook.events import Id, Path, Ref, Sha, Word
from worker.webhook.id_tokens import LEEWAY, TokenVerifier

MAX_REMEMBERED = 20_000
"""The most used tokens that are remembered: more than three projects can use in an hour."""

PER_MINUTE = 60
"""How often the jobs of one project may ask in a minute."""

MINUTE = 60.0


def _parse_number(value: object) -> object:
    """Parse an id, which is text in the claims."""
    digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20
    return int(str(value)) if digits else value


class Claims(BaseModel):
    """GitLab's claims about the job that asks."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    project_id: Annotated[Id, BeforeValidator(_parse_number)]
    project_path: Path
    pipeline_id: Annotated[Id, BeforeValidator(_parse_number)]
    pipeline_source: Word = ""
    ref: Ref
    ref_type: Word = "branch"
    sha: Sha
    jti: Annotated[str, Field(min_length=1, max_length=255)]
    exp: float

    def make_trigger(self) -> PipelineFailed:
        """Make the trigger that the job asks for."""
        return PipelineFailed(self.project_id, self.pipeline_id, self.sha, self.ref, by_job=True)


class UsedTokens:
    """Remembers which id tokens have asked, and how often each project has. For one event loop.

    What is remembered is this process's alone: it bounds what a token that leaked out of a job can
    do. A trigger that is asked for twice is one trigger in any case.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._ends: OrderedDict[str, float] = OrderedDict()
        self._asked: OrderedDict[int, deque[float]] = OrderedDict()  # who asked last comes last

    def take(self, claims: Claims) -> bool:
        """Take a token; False if it has been taken. Raises Rejected 429 for a project too busy."""
        now = self._now()
        self._forget(now)
        if claims.jti in self._ends:
            return False
        asked = self._asked.get(claims.project_id) or deque()
        while asked and asked[0] <= now - MINUTE:
            asked.popleft()
        if len(asked) >= PER_MINUTE:
            where = claims.project_path
            raise Rejected(429, f"the jobs of {where} have asked {PER_MINUTE} times in a minute")
        asked.append(now)
        self._asked[claims.project_id] = asked
        self._asked.move_to_end(claims.project_id)
        self._ends[claims.jti] = claims.exp + LEEWAY
        return True

    def give_back(self, claims: Claims) -> None:
        """Let a token be taken again, because what it asked for was not queued."""
        self._ends.pop(claims.jti, None)

    def _forget(self, now: float) -> None:
        """Forget what has expired, and the oldest of what is too much to remember."""
        while self._ends and (
            len(self._ends) >= MAX_REMEMBERED or next(iter(self._ends.values())) < now
        ):
            self._ends.popitem(last=False)
        while self._asked and next(iter(self._asked.values()))[-1] <= now - MINUTE:
            self._asked.popitem(last=False)


class TokenReader:
    """Reads the id tokens of CI jobs, as far as `verifier` finds them valid. Thread-safe."""

    def __init__(self, verifier: TokenVerifier) -> None:
        self._verifier = verifier

    def read(self, token: str) -> Claims:
        """Return the claims of a valid token. Raises Rejected 401, or QueueError without keys."""
        claims = self._verifier.verify(token)
        try:
            return Claims.model_validate({"jti": _compute_digest(claims), **claims})
        except ValidationError as error:
            where = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
            raise Rejected(401, f"the id token has no usable {where}: is it GitLab's?") from error


def _compute_digest(claims: Mapping[str, Any]) -> str:
    """Compute what tells a token without a `jti` from others: all that GitLab has signed."""
    return hashlib.sha256(json.dumps(claims, sort_keys=True).encode()).hexdigest()
