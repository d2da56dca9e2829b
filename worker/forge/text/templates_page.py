"""The Jinja2 templates beside this file, filled in; never longer than a note should be."""

from collections.abc import Callable
from functools import cache

import jinja2

MAX_BODY = 60_000
"""Characters of a body; GitLab takes a million (wire-gitlab 5)."""


def fitting(render: Callable[[int], str]) -> str:
    """The body with as much of its long texts as fits in `MAX_BODY`."""
    room = MAX_BODY // 2
    while len(body := render(room)) > MAX_BODY and room > 100:
        room //= 2
    return body


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("worker.forge.text"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # Markdown: `neutralise` escapes what others wrote
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(name: str, **values: object) -> str:
    return _templates().get_template(f"{name}.md.j2").render(**values).rstrip("\n")
