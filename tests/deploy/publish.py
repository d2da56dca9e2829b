"""Pushes both images to a registry: `python -m tests.deploy.publish REGISTRY/PATH`.

They have been built by `make image`. Their tag is the version; by which digest each is to be had is
written to `build/NAME.digest`. $RELEASE_USER and $RELEASE_PASSWORD sign in, if they are set.
"""

import os
import sys
from contextlib import closing
from typing import Any, cast

from docker import APIClient

import sandbox.build
from sandbox.base import SandboxError, SandboxUnavailable
from sandbox.build import BUILD_SECONDS
from sandbox.engine import open_engine, translate_engine_errors
from tests.deploy import image
from tests.deploy.sbom import FOLDER
from worker import __version__


def push(api: APIClient, source: str, target: str) -> str:
    """Push an image under another name, and return that name with the digest.

    Raises SandboxUnavailable with the registry's or the engine's reason.
    """
    with translate_engine_errors(SandboxUnavailable, f"pushing {target}"):
        api.tag(source, target, __version__)
        user, password = (os.environ.get(f"RELEASE_{key}", "") for key in ("USER", "PASSWORD"))
        login = {"username": user, "password": password} if user else None
        lines = api.push(target, __version__, stream=True, decode=True, auth_config=login)
        for line in cast(Any, lines):
            if "error" in line:
                raise SandboxUnavailable(f"pushing {target}: {line['error']}")
            if digest := (line.get("aux") or {}).get("Digest"):
                return f"{target}@{digest}"
    raise SandboxUnavailable(f"pushing {target}: the registry gave no digest")


def main() -> int:
    """Push both, and write their digests."""
    if len(sys.argv) != 2:
        print("usage: python -m tests.deploy.publish REGISTRY/PATH", file=sys.stderr)
        return 2
    sources = {
        image.REPOSITORY: image.image_tag(),
        sandbox.build.REPOSITORY: sandbox.build.compute_image_tag(),
    }
    try:
        with closing(open_engine(None)) as api:
            api.timeout = BUILD_SECONDS
            for name, source in sources.items():
                digest = push(api, source, f"{sys.argv[1]}/{name}")
                FOLDER.mkdir(exist_ok=True)
                (FOLDER / f"{name}.digest").write_text(digest, encoding="utf-8")
                print(digest)
    except SandboxError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
