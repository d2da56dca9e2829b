"""Answers `GET /`: what this is. It names nothing that a stranger may not know."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from worker.pages.answers import make_page

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
