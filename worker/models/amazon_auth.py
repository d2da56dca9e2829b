"""Signatures for Amazon Bedrock, by credentials from botocore's default chain.

The only module of this room that imports botocore, which itself reads the environment, Amazon's
files, or the token services of containers and machines.
"""

import threading
from collections.abc import Generator

import botocore.session
import httpx
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from worker.errors import ModelError
from worker.models.connection import clean_text

SERVICE = "bedrock"
TIMEOUT = 10.0
"""Seconds for one answer of a token service; botocore asks at most twice."""
LOCK_TIMEOUT = 60.0
_NOT_OF_CREDENTIALS = "AccessDeniedException"
"""The kind of a 403 that other credentials of the same account would get, too."""
_UNREADABLE = (OSError, AttributeError, LookupError, TypeError, ValueError)
"""Errors that botocore lets through: a file that is a folder, or JSON that is not an object."""


class AmazonAuth(httpx.Auth):
    """A signature of the request as it is sent: method, address, content type, body, time.

    Credentials are looked up at the first request, renewed by botocore before they expire, and
    looked up once more if they are refused. Safe to use from several threads. Raises ModelError if
    there are none.
    """

    requires_request_body = True

    def __init__(self, region: str) -> None:
        self._region = region
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Sign; after a 403 that is about the credentials, once more with others if there are."""
        used = self._get_credentials()
        self._sign(request, used)
        response = yield request
        kind = response.headers.get("x-amzn-errortype", "").partition(":")[0]
        if response.status_code != httpx.codes.FORBIDDEN or kind == _NOT_OF_CREDENTIALS:
            return
        others = self._get_credentials(refused=used)
        if others != used:
            self._sign(request, others)
            yield request

    def _sign(self, request: httpx.Request, credentials: ReadOnlyCredentials) -> None:
        # Few headers are signed: a proxy on the way may change the others.
        signed = AWSRequest(
            request.method,
            str(request.url),
            data=request.content,
            headers={"content-type": request.headers["content-type"]},
        )
        SigV4Auth(credentials, SERVICE, self._region).add_auth(signed)
        request.headers.pop("x-amz-security-token", None)
        request.headers.update(dict(signed.headers.items()))

    def _get_credentials(self, refused: ReadOnlyCredentials | None = None) -> ReadOnlyCredentials:
        """Return the credentials. If several threads find them `refused`, only the first looks for
        others."""
        if not self._lock.acquire(timeout=LOCK_TIMEOUT):
            raise ModelError("AWS credentials: the token service is silent", transient=True)
        try:
            if self._credentials is None or (
                refused is not None and self._credentials.get_frozen_credentials() == refused
            ):
                self._credentials = _find_credentials(self._region)
            frozen: ReadOnlyCredentials = self._credentials.get_frozen_credentials()
            return frozen
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            message = f"AWS credentials: refused: {clean_text(str(error))}"
            raise ModelError(message, transient=status >= 500 or status == 429) from error
        except (BotoCoreError, *_UNREADABLE) as error:
            message = f"no usable AWS credentials: {clean_text(str(error))}"
            raise ModelError(message, transient=isinstance(error, HTTPClientError)) from error
        finally:
            self._lock.release()


def _find_credentials(region: str) -> Credentials:
    session = botocore.session.Session()
    session.set_config_variable("region", region)  # in which a role's token is asked for
    session.set_default_client_config(
        Config(connect_timeout=TIMEOUT, read_timeout=TIMEOUT, retries={"total_max_attempts": 2})
    )
    found = session.get_credentials()
    if found is None:
        raise ModelError(
            "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile "
            "by AWS_PROFILE, or give the machine or the pod a role"
        )
    return found
