"""What all parts of the simulator share: its errors, and how it reads parts."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_BEFORE_3 = re.compile(r"gemini-[12]\b")


class Refused(Exception):
    """An error answer. `details` stand beside its message."""

    def __init__(self, status: int, message: str, details: Sequence[Json] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.details = details

    def body(self) -> Json:
        """The error body."""
        kind = _STATUSES.get(self.status, "UNKNOWN")
        error: Json = {"code": self.status, "message": str(self), "status": kind}
        if self.details:
            error["details"] = list(self.details)
        return {"error": error}


def invalid(message: str) -> Refused:
    """A request that breaks a rule."""
    return Refused(400, message)


def signs(model: str) -> bool:
    """Whether the model gives its calls ids and signatures, and demands them back."""
    return not _BEFORE_3.match(model)


def calls(content: Mapping[str, Any]) -> list[Json]:
    """The functionCalls of a content."""
    return [part["functionCall"] for part in content["parts"] if "functionCall" in part]


def responses(content: Mapping[str, Any]) -> list[Json]:
    """The functionResponses of a content."""
    return [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]


def texts(content: Mapping[str, Any]) -> list[str]:
    """The texts of a content."""
    return [part["text"] for part in content["parts"] if "text" in part]


def compact(value: Any) -> bytes:
    """JSON with keys in the order received."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )
