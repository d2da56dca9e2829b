"""Checks who comes in: events that only GitLab has signed, and operators whom GitLab signs in."""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator
from typing import Any

import httpx

from worker.doctor.base import (
    CheckLine,
    Installation,
    Unchecked,
    report_failed,
    report_good,
    report_warning,
)
from worker.doctor.webhooks import PATH
from worker.settings.gitlab import SIGNING, derive_secret, make_address
from worker.transport.failures import find_cause
from worker.transport.httpx_clients import BoundedClient

TIMEOUT = httpx.Timeout(6.0, connect=3.0)
TOTAL = 10.0
"""Seconds for one whole answer."""

_ANY_PROJECT = 1
"""Whose secret is tried; the event names no project."""


def check_receiver(installation: Installation) -> Iterator[CheckLine]:
    """Check that the receiver answers, is ready, and verifies signatures."""
    if not installation.url:
        raise Unchecked("give --url, the address at which GitLab reaches `sandpiper serve`")
    try:
        with BoundedClient(total=TOTAL, base_url=installation.url, timeout=TIMEOUT) as client:
            # Many proxies forward only what GitLab needs, and no health checks.
            is_visible = client.get("/healthz").status_code == httpx.codes.OK
            ready = client.get("/readyz") if is_visible else None
            well = (httpx.codes.OK, httpx.codes.NOT_FOUND)
            if ready is not None and ready.status_code not in well:
                advice = f"it says: {ready.text[:200]}"
                yield report_failed("receiver", "it is not ready", advice)
            yield _check_signature(client, installation, is_known=is_visible)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        why = find_cause(error, installation.url).finding
        finding = f"{installation.url} does not answer from here: {why}"
        advice = "start `sandpiper serve`, and see that --url is its address; GitLab may reach it"
        yield report_warning("receiver", finding, advice)


def _check_signature(
    client: httpx.Client, installation: Installation, *, is_known: bool
) -> CheckLine:
    """Check that only a signed event is accepted. With `is_known`, a health check has answered."""
    address, secret = PATH, installation.settings.gitlab.webhook_secret
    if keys := installation.settings.gitlab.webhook_keys:
        address, secret = make_address(PATH, _ANY_PROJECT), derive_secret(keys[0], _ANY_PROJECT)
    if not secret:
        raise Unchecked("there is no webhook secret")
    random = secrets.token_bytes(32)
    signing = secret.startswith(SIGNING)
    wrong = f"{SIGNING}{base64.b64encode(random).decode()}" if signing else random.hex()
    forged = _send(client, address, wrong, installation.now())
    if forged != httpx.codes.UNAUTHORIZED and (is_known or forged == httpx.codes.OK):
        finding = f"a forged event was answered with {forged}, not 401"
        advice = "see that nothing stands before it that answers in its place"
        return report_failed("signature", finding, advice)
    if forged != httpx.codes.UNAUTHORIZED:  # our webhook ignores an event with a 200
        finding = f"{installation.url} is something else than Sandpiper"
        return report_failed("receiver", finding, "see that --url leads to `sandpiper serve`")
    # Only a receiver that refuses a wrong secret is sent the right one.
    ours = _send(client, address, secret, installation.now())
    if ours == httpx.codes.OK:
        return report_good("signature", "a signed event is taken, a forged one refused")
    if ours == httpx.codes.UNAUTHORIZED:
        name = "GITLAB_WEBHOOK_KEY" if keys else "GITLAB_WEBHOOK_SECRET"
        advice = f"start it again with the {name} that stands here"
        return report_failed("signature", "the receiver runs with another secret", advice)
    return report_failed(
        "signature", f"a signed event was answered with {ours}", "see what it logs"
    )


def _send(client: httpx.Client, address: str, secret: str, now: float) -> int:
    """Send an event that the receiver verifies and then ignores: a push without commits."""
    body = json.dumps({"object_kind": "push", "event_name": "push"}).encode()
    sent = client.post(address, content=body, headers=_make_headers(secret, body, now))
    return sent.status_code


def _make_headers(secret: str, body: bytes, now: float) -> dict[str, str]:
    """Make GitLab's headers: https://docs.gitlab.com/user/project/integrations/webhooks/."""
    key, stamp = f"doctor-{secrets.token_hex(8)}", str(int(now))
    headers = {
        "Content-Type": "application/json",
        "X-Gitlab-Event": "Push Hook",
        "Idempotency-Key": key,
    }
    if not secret.startswith(SIGNING):
        return {**headers, "X-Gitlab-Token": secret}
    try:
        raw = base64.b64decode(secret.removeprefix(SIGNING), validate=True)
    except binascii.Error as error:
        raise Unchecked("the webhook secret begins with whsec_ and is not base64") from error
    mac = hmac.new(raw, f"{key}.{stamp}.".encode() + body, hashlib.sha256).digest()
    return {
        **headers,
        "webhook-id": key,
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{base64.b64encode(mac).decode()}",
    }


def check_sign_in(installation: Installation) -> Iterator[CheckLine]:
    """Check what `pages.sign_in` needs of GitLab, if it is set."""
    chosen = installation.settings.pages.sign_in
    if not chosen.group:
        if chosen.client_secret:
            advice = "set pages.sign_in.group and client_id, or unset the variable"
            yield report_warning("sign-in", "GITLAB_OIDC_CLIENT_SECRET signs nobody in", advice)
        return
    if not chosen.client_secret:
        advice = "set GITLAB_OIDC_CLIENT_SECRET to the secret of GitLab's OAuth application"
        yield report_failed("sign-in", "there is no secret, and `serve` does not start", advice)
        return
    url = installation.settings.gitlab.url.rstrip("/")
    try:
        with BoundedClient(total=TOTAL, base_url=url, timeout=TIMEOUT) as client:
            yield _check_issuer(client, installation)
            yield _check_application(client, installation)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        why = find_cause(error, url).finding if isinstance(error, httpx.HTTPError) else "odd answer"
        advice = "see the check of GitLab above"
        yield report_failed("sign-in", f"{url} does not say how people sign in: {why}", advice)


def _check_issuer(client: httpx.Client, installation: Installation) -> CheckLine:
    """Check that GitLab calls itself what we expect in its signatures."""
    gitlab = installation.settings.gitlab
    expected = (gitlab.ci_issuer or gitlab.url).rstrip("/")
    told: Any = client.get("/.well-known/openid-configuration").json()
    issuer = str(told.get("issuer", "")) if isinstance(told, dict) else ""
    if issuer != expected:
        advice = f"set gitlab.ci_issuer to {issuer[:200]}" if issuer else "is it a GitLab?"
        return report_failed(
            "sign-in", f"GitLab signs as {issuer[:200]!r}, not {expected!r}", advice
        )
    return report_good("sign-in", f"GitLab signs as {issuer}")


def _check_application(client: httpx.Client, installation: Installation) -> CheckLine:
    """Check that GitLab knows the application, by asking with a code that nobody has."""
    chosen, base = installation.settings.pages.sign_in, installation.settings.pages.url.rstrip("/")
    fields = {
        "grant_type": "authorization_code",
        "code": secrets.token_hex(32),
        "redirect_uri": f"{base}/sign-in/callback",
        "code_verifier": secrets.token_hex(32),
    }
    auth = (chosen.client_id, chosen.client_secret)
    told: Any = client.post("/oauth/token", data=fields, auth=auth).json()
    error = told.get("error") if isinstance(told, dict) else None
    if error == "invalid_grant":
        where = f"its redirect URI has to be {fields['redirect_uri']}"
        return report_good("sign-in", f"members of {chosen.group} sign in; {where}")
    if error in ("invalid_client", "unauthorized_client"):
        return report_failed(
            "sign-in",
            "GitLab knows no application of this id and secret",
            "set pages.sign_in.client_id and GITLAB_OIDC_CLIENT_SECRET to what GitLab shows of it",
        )
    return report_failed("sign-in", f"GitLab answers oddly: {str(error)[:100]}")
