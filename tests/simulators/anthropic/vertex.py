"""Claude on Vertex AI: the Messages API under another path, behind Google's front end."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from worker.lab.anthropic.protocol import Json, Refused, make_invalid

VERSIONS = frozenset({"2026-10-21", "vertex-2023-10-16"})
_PATH = re.compile(
    r"/v1/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/([^/:]+):rawPredict"
)


class FrontEnd(Refused):
    """An error of Google's front end, which wraps it in a list."""

    def body(self, request_id: str) -> Any:
        """Return the error's body."""
        return [{"error": {"code": self.status, "message": str(self), "status": self.kind}}]


def parse_model(path: str) -> str:
    """Parse the model in a path of Vertex AI; "" for another path."""
    found = _PATH.fullmatch(path)
    return found[1] if found else ""


def check_headers(headers: Mapping[str, str], key: str, revoked: Collection[str]) -> None:
    """Check for an accepted bearer token and JSON content."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme != "Bearer" or not token or token in revoked or key not in {"", token}:
        message = "Request had invalid authentication credentials."
        raise FrontEnd(401, "UNAUTHENTICATED", message)
    if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise make_invalid("content-type: application/json is required")


def convert_body(body: Json, model: str) -> Json:
    """Convert the body to the direct API's: add the path's model, remove the version."""
    if body.get("anthropic_version") not in VERSIONS:
        raise make_invalid("anthropic_version: Field required")
    if "model" in body:
        raise make_invalid("model: Extra inputs are not permitted")
    plain = {name: value for name, value in body.items() if name != "anthropic_version"}
    return {"model": model, **plain}
