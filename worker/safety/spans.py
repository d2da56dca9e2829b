"""The inline half of `neutralise`: makes one line of Markdown harmless."""

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from worker.safety.code import write_code_line
from worker.safety.untrusted import visible


def render_inline(text: str, hosts: frozenset[str]) -> str:
    """Make one line (or table cell) of Markdown, without its block markers, harmless."""
    codes: list[str] = []
    plain = []
    for is_code, part in _split_code(text):
        if is_code:
            plain.append(chr(_ATOM + len(codes)))
            codes.append(part)
        else:
            plain.append(_UNESCAPE.sub(_unescape, part))
    return _Inline(hosts, codes).render("".join(plain))


def is_link_allowed(url: str, hosts: frozenset[str]) -> bool:
    """Whether a link may lead to `url`: it must be under one of `hosts`, and not be a page that
    GitLab would cross-reference, unless that page itself is one of `hosts`."""
    if not is_plain_url(url):
        return False
    parts = urlsplit(url)
    place = (parts.netloc + parts.path).lower() + "/"
    roots = [host.lower().rstrip("/") for host in hosts]
    return any(
        place.startswith(root + "/") and not _REFERENCED.search(place[len(root) :])
        for root in roots
    )


def is_plain_url(url: str) -> bool:
    """Whether `url` is http(s), without query, user, dot segments or needless percent-encoding, and
    safe inside `](…)`."""
    return bool(_SAFE_URL.fullmatch(url)) and not _HIDDEN_PATH.search(url)


# ---------------------------------------------------------------------------------- code spans

_ATOM = 0xF0000  # replaces a code span; `visible` has removed all characters from this one on
_STOP = re.compile(r"\\[!-/:-@\[-`{-~]|`+")
_TICKS = re.compile("`+")


def _split_code(text: str) -> Iterator[tuple[bool, str]]:
    """Yield (is code, text), code as CommonMark defines it; unmatched backticks are escaped."""
    runs: dict[int, list[int]] = {}
    for run in _TICKS.finditer(text):
        runs.setdefault(len(run[0]), []).append(run.start())
    done = at = 0
    while stop := _STOP.search(text, at):
        at = stop.end()
        if stop[0][0] == "\\":
            continue
        size = len(stop[0])
        closers = runs.get(size, [])
        partner = bisect_right(closers, stop.start())
        yield False, text[done : stop.start()]
        if partner < len(closers):
            yield True, text[stop.end() : closers[partner]]
            at = closers[partner] + size
        else:
            yield False, "\\`" * size
        done = at
    yield False, text[done:]


# ------------------------------------------------------------------------------------- escapes

_UNESCAPE = re.compile(
    r"\\([!-/:-@\[-`{-~])|\\|&(?:\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
)
_FORMATTING = "\\`*_|"


def _unescape(found: re.Match[str]) -> str:
    """Return the characters that an escape or entity stands for, so that nothing hides in them;
    formatting characters stay escaped."""
    if found[0] == "\\":
        return "\\\\"
    shown = found[1] or visible(html.unescape(found[0])).replace("\n", " ")
    return "".join("\\" + each if each in _FORMATTING else each for each in shown)


# -------------------------------------------------------------------------------------- tokens

_SAFE_URL = re.compile(r"https?://[A-Za-z0-9.:-]+(?:/[\w./%+=,~-]*)?(?:\#[\w-]*)?", re.ASCII)
# GitLab decodes a path before it looks for a reference, so an encoded letter, digit, punctuation
# mark or "%" may hide one.
_HIDDEN_PATH = re.compile(
    r"/\.\.?(?:/|$)|%(?:[01]|2[5d-f]|3[0-9]|[46][1-9a-f]|[57][0-9a]|5[cf]|7[ef])|[^:]//",
    re.IGNORECASE,
)
_REFERENCED = re.compile(
    r"^(?!/-/(?:blob|raw|tree|jobs)/).*/(?:issues|merge_requests|epics|work_items|milestones|iterations|cadences|snippets|designs"
    r"|commits?|compare|vulnerabilities|alert_management|incidents|boards|labels)(?:/|$)",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    r"""
      (?P<atom> [\U000f0000-\U000ffffd] )
    | (?P<directive> \\?\*?iteration:[\w"]\S* | ::include )
    | (?P<reference> (?: [\w./+-] | \\_ )*+ (?:
          @{1,20}+ \\? [\w.-] [\w./+:-]*+
        | [#!$&] \d \w*+
        | [%~]{1,20}+ \\? (?: "(?:[^"]{1,100}")? | [\w-] [\w.:-]*+ )
        | \^alert\#\d+ ) )
    | (?P<word> (?: [\w./+-] | \\_ )++ (?! :// ) >? )
    | (?P<escape> \\. )
    | (?P<image> !\[ (?P<alt> [^\[\]]{0,300} ) \]
        (?: \( [^()]{0,2000} \) | \[ [^\[\]]{0,300} \] )? )
    | (?P<double> \[\[ [^\[\]]{0,200} \]\] | \[[_*]?TOC[_*]?\] | \[ \w{1,40} : [^\[\]\s]{1,200} \] )
    | (?P<link> \[ (?P<label> [^\[\]]{0,500} ) \]
        \( [ \t]* <? (?P<target>
            (?: [^\s<>()\U000f0000-\U000ffffd] | \([^\s<>()]{0,200}\) ){1,2000} ) >?
        (?: [ \t]+ ["'] [^"'()]{0,300} ["'] )? [ \t]* \) )
    | (?P<media> </?(?: img|image|video|audio|picture|source|track|iframe|object|embed|svg )\b
        (?: [^<>\\] | \\. ){0,2000}+ >? )
    | (?P<newline> <br[ ]?/?> )
    | (?P<auto> < (?P<address> [A-Za-z][A-Za-z0-9+.-]{1,31} : [^\s<>]{0,2000} ) > )
    | (?P<url> (?: [\w./+-] | \\_ )*+ :// [^\s<>\U000f0000-\U000ffffd]*+ )
    | (?P<placeholder> %\{ (?: [^{}\\] | \\. ){0,60}+ \}? )
    | (?P<other> . )
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_NAMED = re.compile(
    r"""
      (?i: www\. )
    | GL-\d | (?<![A-Za-z0-9]) [A-Z][A-Z0-9_]*+-\d        # an issue, here or elsewhere
    | [0-9a-fA-F]{40}                                     # a commit
    | (?<![\w-]) (?=[a-f]*\d) (?=\d*[a-f]) [0-9a-f]{7,40} (?![\w-])
    | [\w.-] / [\w.-]+ >                                  # a project
    """,
    re.VERBOSE,
)
"""A word that GitLab would turn into a link."""

_TRAILING = ".,;:!?)'\"*_]"
_OTHERS = {
    "<": "&lt;",
    "&": "&amp;",
    "[": "\\[",
    "]": "\\]",
    "$": "\\$",
}


class _Inline:
    """Writes the tokens of a line; `codes` are the code spans that its atoms replace."""

    def __init__(self, hosts: frozenset[str], codes: list[str]) -> None:
        self._hosts = hosts
        self._codes = codes
        self._writers: dict[str, Callable[[re.Match[str]], str]] = {
            "atom": lambda found: write_code_line(codes[ord(found[0]) - _ATOM]),
            "image": self._image,
            "link": self._link,
            "media": lambda found: " " if found[0][1] == "/" else "(image removed)",
            "newline": lambda found: " ",
            "auto": lambda found: self._address(found["address"]),
            "url": lambda found: self._bare(found[0]),
            "double": lambda found: self._code(found[0]),
            "reference": self._reference,
            "placeholder": lambda found: self._code(found[0]),
            "directive": lambda found: self._code(found[0]),
            "word": self._word,
            "other": lambda found: _OTHERS.get(found[0], found[0]),
        }

    def render(self, plain: str) -> str:
        pieces: list[str] = []
        last = ""
        for token in _TOKEN.finditer(plain):
            write = self._writers.get(token.lastgroup or "")
            # Code that has only invisible characters is empty: a blank then separates the pieces.
            piece = (write(token) if write else token[0]) or " "
            if _must_separate(last, piece) or (token["link"] and _joins_label(last, piece)):
                pieces.append(" ")
            pieces.append(piece)
            last = piece
        return "".join(pieces)

    def _code(self, text: str) -> str:
        """Return `text` as code; code spans within it become part of it."""
        whole = "".join(self._codes[ord(c) - _ATOM] if ord(c) >= _ATOM else c for c in text)
        return write_code_line(re.sub(r"\\(.)", r"\1", whole))

    def _image(self, found: re.Match[str]) -> str:
        alt = self.render(found["alt"]).strip()
        return f"(image removed: {alt})" if alt else "(image removed)"

    def _link(self, found: re.Match[str]) -> str:
        label, target = self.render(found["label"]).strip(), found["target"]
        if not label or found["label"] == target:
            return self._address(target)
        if is_link_allowed(target, self._hosts):
            return f"[{label}]({target})"
        return f"{label} ({self._code(target)})"

    def _address(self, url: str) -> str:
        return f"<{url}>" if is_link_allowed(url, self._hosts) else self._code(url)

    def _bare(self, url: str) -> str:
        end = len(url.rstrip(_TRAILING))
        return self._address(url[:end]) + url[end:].replace("]", "\\]")

    def _reference(self, found: re.Match[str]) -> str:
        follows = found.string[found.end() : found.end() + 1]
        # Punctuation at the end is not part of it, unless text follows directly.
        end = len(found[0]) if follows.strip() else len(found[0].rstrip(".:/+-"))
        return self._code(found[0][:end]) + found[0][end:]

    def _word(self, found: re.Match[str]) -> str:
        return self._reference(found) if _NAMED.search(found[0].replace("\\", "")) else found[0]


def _must_separate(left: str, right: str) -> bool:
    """Whether two adjacent pieces would together form something else: a longer run of backticks,
    mathematics, an image."""
    if right.startswith("`"):
        return left.endswith(("`", "$"))
    if right.startswith("["):
        return left.endswith("!")
    return left.endswith("`") and right.startswith("\\$")


def _joins_label(left: str, label: str) -> bool:
    """Whether the label of a removed link would join the text before it: "@" and "all", "www" and
    ".example.com"."""
    return (
        bool(left) and not left.endswith((" ", "\t", "(", "*", "_", '"', "'")) and label[0] != "["
    )
