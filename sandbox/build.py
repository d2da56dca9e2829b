"""Builds the sandbox's image once, with a registry or without: `sandpiper image build`.

The image is tagged by a hash of `sandbox/image/`, and as `latest` or as the caller names it. Its
base is $SANDPIPER_BASE, which should name a digest, or else Debian by its tag from a registry;
where none answers, a minimal Debian is made by debootstrap from the mirror this machine installs
from. Everything goes through the engine's API: no docker command is needed, and no clone, since the
files that the image is made of are in the package.

`python -m sandbox.build` does the same where there is no `sandpiper`.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from docker import APIClient
from docker.errors import ImageNotFound
from docker.utils import parse_repository_tag

from sandbox.base import SandboxError, SandboxUnavailable
from sandbox.engine import open_engine, translate_engine_errors
from sandbox.spec import DEFAULT_IMAGE

IMAGE_FOLDER = Path(__file__).parent / "image"
REPOSITORY = DEFAULT_IMAGE.partition(":")[0]
OWN_BASE = "sandpiper-base"
REGISTRY_BASE = "debian:bookworm-slim"
SUITE = "bookworm"

_REGISTRY_SECONDS = 12  # without receiving a byte
_PULL_SECONDS = 600
BUILD_SECONDS = 300  # without receiving a line
_BOOTSTRAP_SECONDS = 900

Say = Callable[[str], None]


def compute_image_tag(folder: Path = IMAGE_FOLDER) -> str:
    """Compute the image's name from the names and bytes of all its files."""
    digest = hashlib.sha256(get_chosen_base().encode())
    for file in sorted(folder.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            content = file.read_bytes()
            digest.update(f"{file.relative_to(folder)}\0{len(content)}\0".encode() + content)
    return f"{REPOSITORY}:{digest.hexdigest()[:12]}"


def ensure_image(say: Say = print, name: str = DEFAULT_IMAGE) -> str:
    """Return the image's tag; build the image if it is missing, and call it `name` too.

    Raises SandboxUnavailable, also for a `name` that no image can have.
    """
    if "@" in name:
        raise SandboxUnavailable(f"{name}: an image gets its digest when it is pushed; name a tag")
    tag = compute_image_tag()
    repository, version = parse_repository_tag(name)
    api = open_engine(None)
    api.timeout = BUILD_SECONDS
    try:
        image_exists(api, name)  # the engine refuses an impossible name before the build
        if not image_exists(api, tag):
            base = find_base(api, say)
            say(f"building {tag} on {base}")
            with translate_engine_errors(SandboxUnavailable, f"building {tag}"):
                lines = api.build(
                    path=str(IMAGE_FOLDER),
                    tag=tag,
                    buildargs={"BASE": base},
                    network_mode="host",
                    rm=True,
                    forcerm=True,
                    decode=True,
                    timeout=BUILD_SECONDS,
                )
                follow_progress(lines, f"building {tag}", say)
            say(f"built {tag}")
        with translate_engine_errors(SandboxUnavailable, "tagging the sandbox image"):
            api.tag(tag, repository, version or "latest")
    finally:
        api.close()
    return tag


def image_exists(api: APIClient, name: str) -> bool:
    """Whether the engine has an image with this name. Raises SandboxUnavailable."""
    try:
        with translate_engine_errors(SandboxUnavailable, f"looking for the image {name}"):
            cast(Any, api).inspect_image(name)
    except SandboxUnavailable as error:
        if isinstance(error.__cause__, ImageNotFound):
            return False
        raise
    return True


# -------------------------------------------------------------------------------------- the base


def get_chosen_base() -> str:
    """Return the base that the operator chose, or ""."""
    return os.environ.get("SANDPIPER_BASE", "")


def find_base(api: APIClient, say: Say) -> str:
    """Return the base image: one the engine has, one from the registry, or one made from a mirror.

    A base that the operator chose is never replaced by another.
    """
    name = get_chosen_base() or REGISTRY_BASE
    if get_chosen_base():
        if image_exists(api, name) or _try_pull(api, name, say):
            return name
        raise SandboxUnavailable(f"no registry gave {name}, which $SANDPIPER_BASE names")
    mirror = find_mirror(Path("/etc/apt"))
    own_tag = f"{SUITE}-{hashlib.sha256((mirror or '').encode()).hexdigest()[:12]}"
    own = f"{OWN_BASE}:{own_tag}"
    for present in (name, own):
        if image_exists(api, present):
            return present
    if _try_pull(api, name, say):
        digests = cast(Any, api).inspect_image(name)["RepoDigests"]
        say(f"to build on this very base again, set SANDPIPER_BASE: {' '.join(digests)}")
        return name
    if mirror is None:
        raise SandboxUnavailable(
            f"no base for the sandbox image: no registry gave {name}, and /etc/apt names no Debian "
            "mirror to make one from"
        )
    _bootstrap(api, mirror, own_tag, say)
    return own


def _try_pull(api: APIClient, name: str, say: Say) -> bool:
    """Pull the base, but give up sooner than the engine. Returns whether it was pulled."""
    say(f"asking the registry for {name}")
    try:
        with translate_engine_errors(SandboxUnavailable, f"pulling {name}"):
            follow_progress(_pull(api, name), f"pulling {name}")
    except SandboxUnavailable as error:
        say(f"no: {str(error)[:200]}")
        return False
    return image_exists(api, name)


def _pull(api: APIClient, name: str) -> Iterator[dict[str, Any]]:
    """Pull an image; yields the engine's progress. docker-py's `pull` sets no time-out."""
    url = f"{api.base_url}/v{api.api_version}/images/create"
    repository, tag = parse_repository_tag(name)
    params = {"fromImage": repository, "tag": tag or "latest"}
    until = time.monotonic() + _PULL_SECONDS
    with api.post(url, params=params, stream=True, timeout=_REGISTRY_SECONDS) as response:
        for line in response.iter_lines():
            progress = json.loads(line)
            yield progress if response.ok else {"error": progress.get("message")}
            if time.monotonic() > until:
                yield {"error": f"not done after {_PULL_SECONDS} s"}


def _bootstrap(api: APIClient, mirror: str, tag: str, say: Say) -> None:
    """Make a minimal Debian and import it into the engine as sandpiper-base."""
    tool = shutil.which("debootstrap")
    if tool is None:
        raise SandboxUnavailable(
            "no registry answers, and debootstrap is not installed to make a base for the sandbox "
            "image: apt-get install debootstrap"
        )
    if os.geteuid() != 0:
        raise SandboxUnavailable(
            "no registry answers, and making a base for the sandbox image needs root: run "
            '`sudo -E "$(command -v sandpiper)" image build` once'
        )
    say(f"making a minimal Debian {SUITE} from {mirror} (about half a minute)")
    with tempfile.TemporaryDirectory(prefix="sandpiper-base-") as folder:
        root = f"{folder}/root"
        _debootstrap([tool, "--variant=minbase", SUITE, root, mirror])
        # Stream the folder to the engine, as `docker import` does.
        command = ["tar", "--numeric-owner", "--one-file-system", "-C", root, "-c", "."]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tar:
            try:
                doing = "importing the sandbox image's base"
                with translate_engine_errors(SandboxUnavailable, doing):
                    api.import_image_from_stream(tar.stdout, repository=OWN_BASE, tag=tag)
                tar.wait(BUILD_SECONDS)
            finally:
                tar.kill()
    if tar.returncode != 0 or not image_exists(api, f"{OWN_BASE}:{tag}"):
        raise SandboxUnavailable("the Docker engine did not take the sandbox image's base")


def _debootstrap(command: list[str]) -> None:
    """Run debootstrap in a session of its own, so that its children end with it."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=_BOOTSTRAP_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise SandboxUnavailable(
                f"debootstrap took over {_BOOTSTRAP_SECONDS} s: is {command[-1]} reachable?"
            ) from error
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode != 0:
        last = output.decode("utf-8", "replace").strip().splitlines()[-3:]
        raise SandboxUnavailable(f"debootstrap failed: {' / '.join(last)}")


_SECURITY = re.compile(r"debian-security|security\.debian\.org")
_DEBIAN = re.compile(r"/debian/?$")


def find_mirror(apt: Path) -> str | None:
    """Return the first Debian mirror in apt's folder (usually /etc/apt), or None."""
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    for file in files:
        if file.is_file() and file.suffix in (".list", ".sources"):
            text = file.read_text(encoding="utf-8", errors="replace")
            if mirror := parse_first_mirror(text, deb822=file.suffix == ".sources"):
                return mirror
    return None


def parse_first_mirror(text: str, *, deb822: bool) -> str | None:
    """Return the first Debian archive in `text`, but no security or vendor's archive, or None."""
    for uri in _stanza_uris(text) if deb822 else _line_uris(text):
        if re.match("https?://", uri) and _DEBIAN.search(uri) and not _SECURITY.search(uri):
            return uri.rstrip("/")
    return None


def _line_uris(text: str) -> Iterator[str]:
    """Yield the URIs of lines such as `deb [options] uri suite component…`."""
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s", line)
        if match:
            yield match[1]


def _stanza_uris(text: str) -> Iterator[str]:
    """Yield the URIs of deb822 stanzas (`Types: deb`, `URIs: uri…`) that are enabled.

    A field continues on lines that begin with a space.
    """
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for stanza in re.split(r"\n\s*\n", "\n".join(lines)):
        unfolded = re.sub(r"\n[ \t]+", " ", stanza)
        fields = dict(re.findall(r"^([\w-]+):[ \t]*(.*)$", unfolded, flags=re.MULTILINE))
        lowered = {key.lower(): value for key, value in fields.items()}
        if "deb" in lowered.get("types", "").split() and lowered.get("enabled", "yes") != "no":
            yield from lowered.get("uris", "").split()


def follow_progress(lines: Iterable[dict[str, Any]], doing: str, say: Say | None = None) -> None:
    """Pass steps to `say`. Raises SandboxUnavailable with the last lines if the engine fails."""
    last: list[str] = []
    for line in lines:
        if "error" in line:
            words = " / ".join([*last, str(line["error"]).strip()])
            raise SandboxUnavailable(f"{doing}: {words[-900:]}")
        text = str(line.get("stream", "")).strip()
        if text:
            last = [*last[-2:], text]
        if say and re.match(r"Step \d+/\d+", text):
            say(f"  {text[:100]}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m sandbox.build", description=__doc__)
    parser.add_argument("--print-tag", action="store_true", help="say the tag and build nothing")
    if parser.parse_args().print_tag:
        print(compute_image_tag())
        return 0
    try:
        print(ensure_image())
    except SandboxError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
