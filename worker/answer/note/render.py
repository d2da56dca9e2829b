"""Fills in the Jinja2 templates of the notes, within the length of a note."""

from collections.abc import Callable
from functools import cache

import jinja2

MAX_BODY = 60_000
"""The most characters of a body; GitLab accepts a million."""


def fit_body(render: Callable[[int], str]) -> str:
    """Return the body with as much of its long texts as fits in `MAX_BODY`."""
    room = MAX_BODY // 2
    while len(body := render(room)) > MAX_BODY and room > 100:
        room //= 2
    return body


@cache
def _get_environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("worker.answer.note"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # Markdown: `neutralise` escapes what others wrote
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render_template(name: str, **values: object) -> str:
    return _get_environment().get_template(f"{name}.md.j2").render(**values).rstrip("\n")
