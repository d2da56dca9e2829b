"""The id of a session, and its place in the store."""

import hashlib
import hmac
from dataclasses import dataclass


def make_session_id(
    gitlab_url: str, project_id: int, mr_iid: int, pipeline_id: int, workflow: str, salt: str = ""
) -> str:
    """An id that is the same for every delivery of a pipeline's failure, for one workflow.

    `salt` is what nobody else knows, so that an id cannot be computed from numbers that everybody
    reads; it also gives sessions of another kind, such as dry runs, an id of their own.
    """
    parts = [gitlab_url.rstrip("/"), str(project_id), str(mr_iid), str(pipeline_id), workflow, salt]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def make_id_salt(store_key: str) -> str:
    """Make the secret part of the salt of session ids from the store's own key."""
    return hmac.digest(store_key.encode(), b"sandpiper session ids", "sha256").hex()


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The place of a session in the store."""

    project_id: int
    mr_iid: int
    session_id: str
