"""Renders the templates beside this file. Everything is escaped; there are no scripts.

What others wrote is capped, and URLs are checked, by the filters `line` and `web_url` or before
they get here.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files

import jinja2
from markupsafe import Markup

from worker.pages.markdown import render_answer
from worker.pages.texts import (
    check_web_url,
    describe_state,
    describe_verdict,
    format_cost,
    format_count,
    format_duration,
    format_time,
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
def make_headers(*, has_form: bool = False) -> dict[str, str]:
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
