"""Fetches a provider's list of its models, part by part."""

import httpx

from worker.models.base import Listing, Page, ServedModel
from worker.models.http.connection import Connection

MAX_ANSWER = 8 * 1024 * 1024
MAX_PARTS = 50
MAX_MODELS = 20_000
READ_TIMEOUT = 15.0


def fetch_models(connection: Connection, listing: Listing, url: httpx.URL, deadline: float) -> Page:
    """Fetch the whole list of models at `url`, sorted by id, as one part. Raises ModelError."""
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
    received = connection.send(url, None, deadline, MAX_ANSWER)
    if received.status != httpx.codes.OK:
        failure = listing.classify(received.status, received.body)
        raise connection.make_refusal(received, failure)
    try:
        return listing.parse(received.body)
    except ValueError as error:
        reason = connection.errors.quote_text(str(error))
        message = f"the list of models cannot be read: {reason}"
        raise connection.errors.make_failure(message, kind="unread", transient=False) from error
