"""Fetches a provider's list of its models, part by part."""

from contextlib import closing

import httpx

from worker.core.ports import Clock
from worker.models.base import Listing, Page, Provider, ServedModel
from worker.models.http.connection import Connection

MAX_ANSWER = 8 * 1024 * 1024
MAX_PARTS = 50
MAX_MODELS = 20_000
READ_TIMEOUT = 15.0


def fetch_models(
    who: str,
    provider: Provider,
    base_url: str,
    key: str,
    *,
    clock: Clock,
    deadline: float,
    transport: httpx.BaseTransport | None,
) -> Page:
    """Fetches the whole list of models of the provider `who`, sorted by id, as one part.

    Raises ModelError, or ConfigError for a URL or key that cannot work.
    """
    listing = provider.listing
    if listing is None:
        raise ValueError(f"{who} has no list of models")
    endpoint = listing.endpoint(base_url)
    connection = Connection(
        f"{who}/the list of models",
        provider,
        base_url,
        key,
        endpoint.headers,
        clock=clock,
        transport=transport,
        timeout=READ_TIMEOUT,
    )
    with closing(connection):
        return _fetch_parts(connection, listing, httpx.URL(endpoint.url), deadline)


def _fetch_parts(connection: Connection, listing: Listing, url: httpx.URL, deadline: float) -> Page:
    models: dict[str, ServedModel] = {}
    skipped, query = 0, dict(listing.query)
    for _ in range(MAX_PARTS):
        page = _fetch_part(connection, listing, url.copy_merge_params(query), deadline)
        models |= {model.id: model for model in page.models if model.id not in models}
        skipped += page.unusable_ids
        if not page.rest:
            return Page(tuple(models[name] for name in sorted(models)), unusable_ids=skipped)
        if len(models) > MAX_MODELS:
            break
        query |= page.rest
    message = f"the list of models does not end after {len(models)} of them"
    raise connection.errors.make_failure(message, transient=False)


def _fetch_part(connection: Connection, listing: Listing, url: httpx.URL, deadline: float) -> Page:
    received = connection.get(url, deadline, MAX_ANSWER)
    if received.status != httpx.codes.OK:
        failure = listing.classify(received.status, received.body)
        raise connection.make_refusal(received, failure)
    try:
        return listing.parse(received.body)
    except ValueError as error:
        reason = connection.errors.quote_text(str(error))
        message = f"the list of models cannot be read: {reason}"
        raise connection.errors.make_failure(message, kind="unread", transient=False) from error
