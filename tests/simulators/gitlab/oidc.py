"""Makes the id tokens of CI jobs and the keys to verify them.

See https://docs.gitlab.com/ci/secrets/id_token_authentication/.
"""

import time
from functools import cached_property
from typing import Any
from uuid import uuid4

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from worker.lab.gitlab.state import Pipeline

KEYS_PATH = "/oauth/discovery/keys"
LIFETIME = 300


class Issuer:
    """Signs as the simulated GitLab does. The key is made when it is first needed."""

    @cached_property
    def key(self) -> RSAKey:
        """The key pair; deleting the attribute rotates it."""
        return RSAKey.generate_key(2048, {"alg": "RS256", "use": "sig"}, auto_kid=True)

    def get_public_keys(self) -> dict[str, Any]:
        """Return the key set as GitLab publishes it."""
        return dict(KeySet([self.key]).as_dict(private=False))

    def make_token(self, url: str, pipeline: Pipeline, audience: str, **claims: Any) -> str:
        """Make the ID token of a job of `pipeline`; `claims` replace or add; None omits one."""
        now = int(time.time())
        project, mr = pipeline.project, pipeline.mr
        branch = mr.source_branch if mr else pipeline.ref
        all_claims = {
            "iss": url,
            "sub": f"project_path:{project.path}:ref_type:branch:ref:{branch}",
            "aud": audience,
            "iat": now,
            "nbf": now - 5,
            "exp": now + LIFETIME,
            "jti": str(uuid4()),
            "project_id": str(project.id),
            "project_path": project.path,
            "user_id": str(pipeline.user.id),
            "user_login": pipeline.user.username,
            "pipeline_id": str(pipeline.id),
            "pipeline_source": pipeline.source,
            "job_id": "500001",
            "ref": branch,
            "ref_type": "branch",
            "sha": pipeline.sha,
        } | claims
        return self.sign({name: each for name, each in all_claims.items() if each is not None})

    def sign(self, claims: dict[str, Any]) -> str:
        """Make a token of these claims."""
        return jwt.encode({"alg": "RS256", "typ": "JWT", "kid": self.key.kid}, claims, self.key)
