"""Checks that GitLab can sign operators in: that it is who we take it for, and knows us."""

import secrets
from collections.abc import Iterator
from typing import Any

import httpx

from worker.doctor.base import Installation, Line, report_failed, report_good, report_warning
from worker.transport.failures import find_cause
from worker.transport.httpx_clients import BoundedClient

NAME = "sign-in"
TIMEOUT = httpx.Timeout(6.0, connect=3.0)
TOTAL = 10.0
"""Seconds for one whole answer."""


def check_sign_in(installation: Installation) -> Iterator[Line]:
    """Check what `pages.sign_in` needs of GitLab, if it is set."""
    chosen = installation.settings.pages.sign_in
    if not chosen.group:
        if chosen.client_secret:
            advice = "set pages.sign_in.group and client_id, or unset the variable"
            yield report_warning(NAME, "GITLAB_OIDC_CLIENT_SECRET signs nobody in", advice)
        return
    if not chosen.client_secret:
        advice = "set GITLAB_OIDC_CLIENT_SECRET to the secret of GitLab's OAuth application"
        yield report_failed(NAME, "there is no secret, and `serve` does not start", advice)
        return
    url = installation.settings.gitlab.url.rstrip("/")
    try:
        with BoundedClient(total=TOTAL, base_url=url, timeout=TIMEOUT) as client:
            yield _check_issuer(client, installation)
            yield _check_application(client, installation)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        why = find_cause(error, url).finding if isinstance(error, httpx.HTTPError) else "odd answer"
        advice = "see the check of GitLab above"
        yield report_failed(NAME, f"{url} does not say how people sign in: {why}", advice)


def _check_issuer(client: httpx.Client, installation: Installation) -> Line:
    """Check that GitLab calls itself what we expect in its signatures."""
    gitlab = installation.settings.gitlab
    expected = (gitlab.ci_issuer or gitlab.url).rstrip("/")
    told: Any = client.get("/.well-known/openid-configuration").json()
    issuer = str(told.get("issuer", "")) if isinstance(told, dict) else ""
    if issuer != expected:
        advice = f"set gitlab.ci_issuer to {issuer[:200]}" if issuer else "is it a GitLab?"
        return report_failed(NAME, f"GitLab signs as {issuer[:200]!r}, not {expected!r}", advice)
    return report_good(NAME, f"GitLab signs as {issuer}")


def _check_application(client: httpx.Client, installation: Installation) -> Line:
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
        return report_good(NAME, f"members of {chosen.group} sign in; {where}")
    if error in ("invalid_client", "unauthorized_client"):
        return report_failed(
            NAME,
            "GitLab knows no application of this id and secret",
            "set pages.sign_in.client_id and GITLAB_OIDC_CLIENT_SECRET to what GitLab shows of it",
        )
    return report_failed(NAME, f"GitLab answers oddly: {str(error)[:100]}")
