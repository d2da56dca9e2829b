"""Renders the templates beside this file into answers. Everything is escaped; there are no scripts.

What others wrote is capped, and URLs are checked, by the filters `line` and `web_url` or before
they get here.
"""

import base64
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files

import jinja2
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from worker.pages.texts import (
    check_web_url,
    describe_state,
    describe_verdict,
    format_cost,
    format_count,
    format_duration,
    format_time,
    render_answer,
    write_gist,
)
from worker.safety.untrusted import one_line


@cache
def _load_templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("worker.pages"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "amount": format_count,
        "answer": render_answer,
        "cost": format_cost,
        "duration": format_duration,
        "gist": write_gist,
        "line": one_line,
        "state": describe_state,
        "time": format_time,
        "verdict": describe_verdict,
        "web_url": check_web_url,
    }
    return environment


@cache
def _load_style() -> str:
    return files("worker.pages").joinpath("templates/page.css").read_text(encoding="utf-8")


def render_page(name: str, **values: object) -> str:
    """Render a whole page from the template `name`."""
    return (
        _load_templates()
        .get_template(f"{name}.html.j2")
        .render(style=Markup(_load_style()), **values)
    )


@cache
def _make_headers(*, has_form: bool = False) -> dict[str, str]:
    """Make a page's headers: it may load nothing, run nothing, and must not be cached.

    With `has_form` it may send a form to this server.
    """
    digest = base64.b64encode(hashlib.sha256(_load_style().encode()).digest()).decode()
    return {
        "content-security-policy": "; ".join(
            [
                "default-src 'none'",
                f"style-src 'sha256-{digest}'",
                "img-src 'none'",
                "frame-ancestors 'none'",
                "base-uri 'none'",
                "form-action 'self'" if has_form else "form-action 'none'",
            ]
        ),
        **PRIVATE,
        "x-frame-options": "DENY",
    }


PRIVATE = {
    "cache-control": "private, no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-robots-tag": "noindex, nofollow",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def make_page(name: str, *, has_form: bool = False, **values: object) -> Response:
    """Answer with the page of the template `name`; `has_form` if it sends a form."""
    headers = _make_headers(has_form=has_form)
    return HTMLResponse(render_page(name, **values), headers=headers)


def make_message_page(
    status: int,
    title: str,
    text: str,
    more: Mapping[str, str] | None = None,
    links: Mapping[str, str] | None = None,
) -> Response:
    """Answer with a title and a sentence, `more` headers, and links: what they say → where to."""
    body = render_page("said", title=title, text=text, links=links or {})
    return HTMLResponse(body, status, headers={**_make_headers(), **(more or {})})


DOCUMENTATION = "https://gitlab.com/sandpiper-ci/sandpiper/-/blob/main/README.md"


def make_home_route(url: str, *, can_sign_in: bool, has_token: bool) -> Route:
    """Make the route of the first page. `url` is the pages' address, "" if there are none;
    operators can sign in by GitLab, or have a token, or neither."""
    base = url.rstrip("/")

    async def answer(request: Request) -> Response:
        """Answer with the page, or whoever wants JSON alone with that."""
        accepted = request.headers.get("accept", "")
        if "application/json" in accepted and "text/html" not in accepted:
            return JSONResponse(
                {"name": "Sandpiper", "status": "ok", "documentation": DOCUMENTATION}
            )
        return make_page(
            "home",
            has_pages=bool(base),
            sign_in=f"{base}/sign-in" if base and can_sign_in else "",
            sessions=f"{base}/sessions?password" if base and has_token else "",
            documentation=DOCUMENTATION,
        )

    handler: Callable[[Request], Awaitable[Response]] = answer
    return Route("/", handler, methods=["GET"])
