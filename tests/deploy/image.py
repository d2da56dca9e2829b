"""Builds the worker's image once, with a registry or without: `python -m tests.deploy.image`.

Then it lists what is in it and in the sandbox's (`tests.deploy.sbom`). The image is tagged by a
hash of all that goes into it, and by the version. How pip reaches its index on this machine
(address, certificate) is given to the build and is not in the image.
"""

import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from docker import APIClient

import sandbox.build
from sandbox.base import SandboxError, SandboxUnavailable
from sandbox.build import (
    BUILD_SECONDS,
    Say,
    find_base,
    follow_progress,
    get_chosen_base,
    image_exists,
)
from sandbox.engine import open_engine, translate_engine_errors
from tests.deploy import sbom
from worker import __version__

ROOT = Path(__file__).parents[2]
REPOSITORY = "sandpiper"
DOCKERFILE = "worker/Dockerfile"
PARTS = ("pyproject.toml", "README.md", "LICENSE", "worker", "sandbox", "workflows")
"""What the Dockerfile copies; .dockerignore lets the same through."""
PIP_KEYS = ("index-url", "extra-index-url", "trusted-host", "cert", "timeout")


def project() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def image_tag() -> str:
    """The image's name, from the names and bytes of all that goes into it."""
    digest = hashlib.sha256(get_chosen_base().encode())
    for name, content in _files():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return f"{REPOSITORY}:{digest.hexdigest()[:12]}"


def _files() -> Iterator[tuple[str, bytes]]:
    for part in PARTS:
        whole = ROOT / part
        for file in sorted(whole.rglob("*")) if whole.is_dir() else [whole]:
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(ROOT).as_posix(), file.read_bytes()


def ensure(say: Say = print) -> str:
    """The tag of the image, built if it is not there. Raises SandboxUnavailable with the reason."""
    tag = image_tag()
    with closing(open_engine(None)) as api:
        api.timeout = BUILD_SECONDS
        if not image_exists(api, tag):
            _build(api, tag, find_base(api, say), say)
            say(f"built {tag}")
        with translate_engine_errors(SandboxUnavailable, "tagging the worker's image"):
            api.tag(tag, REPOSITORY, __version__)
    return tag


def _pip_settings() -> dict[str, bytes]:
    """pip.conf and the certificates it names, as files of the build's context."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    found = dict(re.findall(r"^(?:global|install|:env:)\.([\w-]+)='(.*)'$", listed, re.MULTILINE))
    files = {}
    if Path(found.get("cert", "/nonexistent")).is_file():
        files["ca.crt"] = Path(found["cert"]).read_bytes()
        found["cert"] = "/src/deps/ca.crt"
    lines = [f"{key} = {value}" for key, value in found.items() if key in PIP_KEYS]
    return {"pip.conf": "\n".join(["[global]", *lines, ""]).encode(), **files}


def _context() -> io.BytesIO:
    """The build's context, always the same bytes for the same files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in _files():
            _add(tar, name, content)
        for name, content in _pip_settings().items():
            _add(tar, f".pip/{name}", content)
    stream.seek(0)
    return stream


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o644
    tar.addfile(member, io.BytesIO(content))


def _build(api: APIClient, tag: str, on: str, say: Say) -> None:
    say(f"building {tag} on {on}")
    with translate_engine_errors(SandboxUnavailable, f"building {tag}"):
        lines = api.build(
            fileobj=_context(),
            custom_context=True,
            dockerfile=DOCKERFILE,
            tag=tag,
            buildargs={"BASE": on},
            network_mode="host",
            rm=True,
            forcerm=True,
            decode=True,
            timeout=BUILD_SECONDS,
        )
        follow_progress(lines, f"building {tag}", say)


def main() -> int:
    """Build it; the last line is the tag."""
    try:
        tag = ensure()
        for each in (sandbox.build.ensure_image(), tag):
            print(sbom.write(each))
        print(tag)
    except SandboxError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
