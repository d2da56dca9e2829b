"""Amazon's Signature Version 4 as a server checks it, by the description alone.

See https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html. Of
botocore, which makes the signatures, nothing is used.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

SERVICE = "bedrock"
_SKEW = timedelta(minutes=5)
_HEADER = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<id>\w+)/(?P<day>\d{8})/(?P<region>[a-z0-9-]+)/"
    r"(?P<service>[a-z0-9-]+)/aws4_request, SignedHeaders=(?P<headers>[a-z0-9;-]+), "
    r"Signature=(?P<signature>[0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True)
class Account:
    """Who may ask; `token` is "" for credentials that last."""

    key_id: str = "AKIASIMULATED0000001"
    secret: str = "simulated/secret+access/key/0123456789abc"
    token: str = ""


class SignatureRefused(Exception):
    """A request that is not let in. `kind` is Amazon's name of the error."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def check_signature(
    accounts: Iterable[Account],
    region: str,
    method: str,
    raw_path: str,
    headers: Mapping[str, str],
    body: bytes,
) -> None:
    """Raise SignatureRefused unless one of the accounts has signed just this, a moment ago."""
    found = _HEADER.fullmatch(headers.get("authorization", ""))
    if not found:
        raise SignatureRefused(
            "MissingAuthenticationTokenException", "Missing Authentication Token"
        )
    account = next((each for each in accounts if each.key_id == found["id"]), None)
    if account is None or headers.get("x-amz-security-token", "") != account.token:
        told = "The security token included in the request is invalid."
        raise SignatureRefused("UnrecognizedClientException", told)
    if (found["region"], found["service"]) != (region, SERVICE):
        told = f"Credential should be scoped to a valid region, not '{found['region']}'."
        raise SignatureRefused("InvalidSignatureException", told)
    when = headers.get("x-amz-date", "")
    _check_time(when, found["day"])
    names = found["headers"].split(";")
    needed = {"host", "x-amz-date", *(["x-amz-security-token"] if account.token else [])}
    if names != sorted(names) or not needed <= set(names):
        told = f"{', '.join(sorted(needed))} must be signed, in order"
        raise SignatureRefused("InvalidSignatureException", told)
    canonical = _write_canonical(method, raw_path, headers, names, body)
    scope = f"{found['day']}/{region}/{SERVICE}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{account.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{when}\n{scope}\n{digest}"
    if hmac.new(key, text.encode(), "sha256").hexdigest() != found["signature"]:
        raise SignatureRefused(
            "InvalidSignatureException",
            "The request signature we calculated does not match the signature you provided. Check "
            "your AWS Secret Access Key and signing method. The Canonical String for this request "
            f"should have been '{canonical}'",
        )


def _check_time(when: str, day: str) -> None:
    try:
        moment = datetime.strptime(when, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        told = "X-Amz-Date is required"
        raise SignatureRefused("IncompleteSignatureException", told) from None
    if not when.startswith(day) or abs(datetime.now(UTC) - moment) > _SKEW:
        told = f"Signature expired: {when} is not within 5 minutes of now"
        raise SignatureRefused("InvalidSignatureException", told)


def _write_canonical(
    method: str, raw_path: str, headers: Mapping[str, str], names: Iterable[str], body: bytes
) -> str:
    """The request in the one form that is signed. Everywhere but at S3 what is in the path as it
    was sent is encoded once more."""
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in names)
    return "\n".join(
        (
            method,
            quote(raw_path, safe="/-_.~"),
            "",
            lines,
            ";".join(names),
            hashlib.sha256(body).hexdigest(),
        )
    )
