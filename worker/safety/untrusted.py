"""Reads text that strangers, models and tools have written: without invisible characters, as JSON
that may be anything, and without the addresses of foreign hosts. Pure."""

import html
import json
import re
import unicodedata
from collections.abc import Collection
from ipaddress import ip_address
from typing import Any

BREAKS = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Every line end other than "\\n" that some program recognises."""

UNSEEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\ud800-\udfff\ue000-\uf8ff"
    "\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
    "]"
)
"""Control characters except tab and newline, zero-width and bidirectional marks, tag characters,
variation selectors, private-use characters, lone surrogates."""


def visible(text: str) -> str:
    """Return `text` with every line end as "\\n" and without invisible characters."""
    return UNSEEN.sub("", BREAKS.sub("\n", text))


def one_line(text: str, limit: int) -> str:
    """Return `text` on one line of at most `limit` characters; an ellipsis marks a cut."""
    line = " ".join(visible(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text, None if it is no JSON or nested too deep to be read."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Return the members of a JSON object, {} if the text is anything else."""
    found = parse_json(text)
    return found if isinstance(found, dict) else {}


def parse_objects(text: str, name: str) -> list[dict[str, Any]]:
    """Return the objects in the list `name` of a JSON object, or the object if it has no such list;
    [] for anything else. The calls and results of a batch are written so."""
    whole = parse_json(text)
    listed = whole.get(name) if isinstance(whole, dict) else None
    parts = listed if isinstance(listed, list) else [whole]
    return [part for part in parts if isinstance(part, dict)]


# -------------------------------------------------------------------------------- foreign addresses

LEFT_OUT = "(address left out)"

_DEFANGED = re.compile(r"[ \t]{0,3}[\[({][ \t]{0,3}(?:dot|\.)[ \t]{0,3}[\])}][ \t]{0,3}", re.I)
_MARKUP = str.maketrans(dict.fromkeys("*`\\[]", "") | dict.fromkeys("。｡․．", "."))
_CHUNK = re.compile(r"[\w.:/@-]+")
_SCHEME = re.compile(r"[a-z][a-z0-9.-]{1,30}:/+|//+", re.IGNORECASE)
_LAST = re.compile(r"[^\W\d_]{2,63}|xn--[a-z0-9-]{1,59}", re.IGNORECASE)

_FILE_ENDINGS = (
    "bat c cfg class conf cpp cs css csv dll env erl ex exe exs feature go gradle h hpp hs html "
    "ini ipynb jar java js json jsx kt kts lock log lua mod php proto pyc pyi rb sbt scala scss "
    "snap sql sum svg swift tar toml ts tsx txt vue war whl xml yaml yml"
)
_FILES = frozenset(_FILE_ENDINGS.split())
_FILE_OR_DOMAIN = "ac am cc in mk md ml pl pm ps py rs sh so tf zip"
_ALSO_HOSTS = frozenset(_FILE_OR_DOMAIN.split())
"""Endings of files that are top-level domains too."""

_ERRORS = ("error", "exception", "failure", "warning")


def remove_foreign_hosts(text: str, own: Collection[str]) -> str:
    """Return `text` without the addresses of hosts other than `own` (names, with any port), so that
    it sends nobody there.

    A host is an address with a scheme or a user, an IP address, or a dotted name that is not the
    name of a file or an error. A name that could be either (`build.sh`) counts as a file if it has
    two labels.

    If an address is left out, all markup is too, so that no address can hide in it.
    """
    names = {each.partition("/")[0].partition(":")[0].lower() for each in own}

    def judge(found: re.Match[str]) -> str:
        chunk = found[0].rstrip(".:-")
        return LEFT_OUT + found[0][len(chunk) :] if _is_foreign(chunk, names) else found[0]

    # Roughly as it reads once rendered: without markup, defanged dots restored.
    shown = visible(unicodedata.normalize("NFKC", html.unescape(text)))
    plain = _DEFANGED.sub(".", shown).translate(_MARKUP)
    cleaned = _CHUNK.sub(judge, plain)
    return text if cleaned == plain else cleaned


def _is_foreign(chunk: str, own: Collection[str]) -> bool:
    scheme = _SCHEME.match(chunk)
    rest = chunk[scheme.end() :] if scheme else chunk
    authority, slash, path = rest.partition("/")
    if "://" in path:
        return True
    if scheme:
        name = authority.partition(":")[0].lower()
        return "@" in authority or not (not name or name in own or _is_local(authority))
    if _is_address(authority):
        return not _is_local(authority)
    pieces = re.split("[@:]", authority)
    pieces += [each.partition("/")[0] for each in path.split("@")[1:]]
    hosts = (each for each in pieces if _is_host(each, before_path=bool(slash)))
    return any(each.lower() not in own for each in hosts)


def _is_address(text: str) -> bool:
    try:
        ip_address(text if text.count(":") > 1 else text.partition(":")[0])
    except ValueError:
        return False
    return True


def _is_local(authority: str) -> bool:
    """Whether it is the machine that the job ran on: `localhost`, or a loopback address."""
    name = authority if authority.count(":") > 1 else authority.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _is_host(name: str, *, before_path: bool) -> bool:
    """Whether a name without scheme, user and port is a host rather than a file or an error."""
    if _is_address(name):
        return not _is_local(name)
    labels = [label.strip("_-") for label in name.split(".")]
    last = labels[-1].lower()
    if len(labels) < 2 or not _LAST.fullmatch(last) or not labels[-2] or "_" in labels[-2]:
        return False
    if last.endswith(_ERRORS) or (last in _FILES and not before_path):
        return False
    stem = [label for label in labels[:-1] if label]
    return not (last in _ALSO_HOSTS and len(stem) == 1 and not before_path)
