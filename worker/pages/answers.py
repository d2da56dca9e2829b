"""The answers that all pages give: a page, or a sentence in place of one."""

from collections.abc import Mapping

from starlette.responses import HTMLResponse, Response

from worker.pages import render


def make_page(name: str, *, has_form: bool = False, **values: object) -> Response:
    """Answer with the page of the template `name`; `has_form` if it sends a form."""
    headers = render.make_headers(has_form=has_form)
    return HTMLResponse(render.render_page(name, **values), headers=headers)


def make_not_found() -> Response:
    """Answer that there is nothing, or nothing for whoever asks."""
    return make_message_page(
        404,
        "Nothing here",
        "This address leads nowhere, or the link has expired. Notes carry fresh links: "
        "reply in the note's thread to get one.",
    )


def make_message_page(
    status: int,
    title: str,
    text: str,
    more: Mapping[str, str] | None = None,
    links: Mapping[str, str] | None = None,
) -> Response:
    """Answer with a title and a sentence, `more` headers, and links: what they say → where to."""
    body = render.render_page("said", title=title, text=text, links=links or {})
    return HTMLResponse(body, status, headers={**render.make_headers(), **(more or {})})
