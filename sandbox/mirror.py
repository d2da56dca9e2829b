"""Finds in apt's sources the Debian mirror that this machine installs from."""

import re
from collections.abc import Iterator
from pathlib import Path

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
