"""What S3 has answered: its errors in plain words, and whether an answer is S3's at all.

A gateway in front of S3 may answer 200 with a page, with nothing, or with half of a body. What is
not S3's is transient: nobody is told that an object is not there, or what it holds.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import urllib3
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.exceptions import ConnectionError as NoConnection
from botocore.parsers import ResponseParserError

from worker.errors import StoreError
from worker.transport.failures import describe_failure, explain_tls_port, show_address

CA_SETTING = "SSL_CERT_FILE, or for S3 alone AWS_CA_BUNDLE,"
"""What names the certificates that hold for S3."""

SUM = "sha256"
"""The metadata of an object in which its writer has put the hash of its content."""

_CONFLICT = {"PreconditionFailed", "412"}
_BUSY = {"ConditionalRequestConflict", "409"}

_TRANSIENT = {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "Throttling"}

_CREDENTIALS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE to a file "
    "that is there, or give this machine a role, that may list the bucket and get, put and delete "
    "its objects"
)
_HINTS = (
    ({"NoSuchBucket"}, "create the bucket, or correct the store's address"),
    (
        {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "403"},
        _CREDENTIALS,
    ),
    (
        # Alibaba's, Tencent's and Huawei's words for one thing.
        {"SecondLevelDomainForbidden", "PathStyleDomainForbidden", "VirtualHostDomainRequired"},
        "the server wants the bucket's name in its host's: set s3_addressing to auto or virtual",
    ),
    ({"NotImplemented", "MethodNotAllowed"}, "use a store that honours conditional writes"),
)
_UNREACHABLE = (
    NoConnection,
    HTTPClientError,
    IncompleteReadError,
    CredentialRetrievalError,
    urllib3.exceptions.HTTPError,  # botocore lets it through where it reads an answer whole
)


class Odd(StoreError):
    """The answer is not S3's, or not all of it."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message}: does something else answer in the place of the S3 endpoint?",
            transient=True,
            doubtful=True,
        )


class Missing(StoreError):
    """There is no such object."""


class Conflict(StoreError):
    """The condition of a write did not hold."""


class Busy(StoreError):
    """A conditional write ran at the same time as another one: neither has won."""


def require_fields(answer: Mapping[str, Any], failed: str, *names: str) -> None:
    """Raise Odd if an answer with a good status has not the fields that S3 always sends."""
    if missing := [name for name in names if not answer.get(name)]:
        said = ", it is a page" if is_page(answer) else ""
        raise Odd(f"{failed}: the answer has no {missing[0]}{said}")


def is_page(answer: Mapping[str, Any]) -> bool:
    """Whether an answer is a web page, which S3 never sends by itself."""
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return str(headers.get("content-type", "")).startswith("text/html")


def has_own_tag(answer: Mapping[str, Any], content: bytes) -> bool:
    """Whether the ETag is the MD5 of the content, as it is where nothing is encrypted."""
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return str(answer.get("ETag", "")).strip('"') == digest


def hash_content(content: bytes) -> str:
    """Return the hash that is stored with an object's content."""
    return hashlib.sha256(content).hexdigest()


@contextmanager
def translate_errors(verb: str, place: str, endpoint: str = "") -> Iterator[None]:
    """Turn what boto3 raises into a StoreError; `endpoint` is the server's address."""
    try:
        yield
    except ClientError as error:
        raise _explain_refusal(error, f"cannot {verb} {place}") from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise StoreError(f"cannot {verb} {place}: {error}: {_CREDENTIALS}") from error
    except _UNREACHABLE as error:
        why = describe_failure(error, endpoint or "https://S3", CA_SETTING)
        raise StoreError(f"cannot {verb} {place}: {why}", transient=True) from error
    except ResponseParserError as error:
        if cause := explain_tls_port(str(error).encode(), endpoint):
            why = f"no answer from {show_address(endpoint)}: {cause}"
            raise StoreError(f"cannot {verb} {place}: {why}", transient=True) from error
        raise Odd(f"cannot {verb} {place}: the answer is not S3's XML") from error
    except BotoCoreError as error:
        raise StoreError(f"cannot {verb} {place}: {_shorten(error)}") from error


def _explain_refusal(error: ClientError, failed: str) -> StoreError:
    answer = error.response
    code = str(answer.get("Error", {}).get("Code", ""))
    message = f"{failed}: {code} {_shorten(answer.get('Error', {}).get('Message', ''))}".rstrip()
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    # S3 says NoSuchKey; but to HEAD nobody can send more than the status.
    is_missing = code in ("NoSuchKey", "404")
    is_head = error.operation_name == "HeadObject"
    if not is_head and (code == "404" or is_page(answer)):
        return Odd(message)
    for is_kind, kind in (
        (is_missing, Missing),
        (code in _CONFLICT, Conflict),
        (code in _BUSY, Busy),
    ):
        if is_kind:
            return kind(message)
    hint = next((hint for codes, hint in _HINTS if code in codes), "")
    return StoreError(
        f"{message}: {hint}" if hint else message,
        transient=code in _TRANSIENT or status >= 500,
        doubtful=status in (401, 403, 404),
    )


def _shorten(problem: object) -> str:
    return " ".join(str(problem).split())[:300]
