"""Secrets taken out of text, once, where it comes in (law 12; wire-misc 5).

Three passes: the process's own secrets in every form they travel in, the shapes of well-known
tokens, and random-looking values of keys whose name says secret. A secret becomes a mark such as
`[redacted: gitlab-token]`; the number of lines never changes, and redacting twice changes nothing.
"""

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

MIN_SECRET = 8
"""Shorter known secrets are ignored: they would tear ordinary words apart."""

Replacement = Callable[[re.Match[str]], str]


def mark(kind: str) -> str:
    """What stands in a secret's place."""
    return f"[redacted: {kind}]"


class Redactor:
    """Takes secrets out of text. Holds no state; its `repr` shows nothing."""

    __slots__ = ("_flat_forms", "_forms")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """`secrets` are the process's own, of at least `MIN_SECRET` characters."""
        known = {form for secret in secrets for form in _forms(secret.strip())}
        self._forms = tuple(sorted(known, key=lambda form: (-len(form), form)))
        self._flat_forms = tuple(map(_flat, self._forms))

    def text(self, text: str) -> str:
        """`text` with every secret replaced."""
        return _values(_patterns(self._known(text)))

    def data(self, data: bytes) -> bytes:
        """The same for bytes; what is not UTF-8 stays as it is."""
        text = data.decode("utf-8", "surrogateescape")
        return self.text(text).encode("utf-8", "surrogateescape")

    def _known(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, _lines(mark("secret"), form))
        flat = _flat(text) if self._forms else b""
        for form, flat_form in zip(self._forms, self._flat_forms, strict=True):
            if flat_form in flat:
                text = _wrapped(form).sub(_whole("secret"), text)
        return text


# ------------------------------------------------------------------------------- known secrets


def _forms(secret: str) -> Iterator[str]:
    """A secret as it may stand in a log: plain, escaped, encoded."""
    if len(secret) < MIN_SECRET:
        return
    raw = secret.encode()
    yield secret
    for escaped in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield escaped
        yield escaped.replace("/", "\\/")
    for encoded in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield encoded
        yield re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), encoded)
    yield raw.hex()
    yield raw.hex().upper()
    for shift in range(3):
        yield from _base64(raw, shift)


def _base64(raw: bytes, shift: int) -> Iterator[str]:
    """The characters that `raw` alone decides when it stands `shift` bytes into a base64 text."""
    encoded = base64.b64encode(b"\0" * shift + raw).decode().rstrip("=")
    first = (0, 2, 3)[shift]
    last = len(encoded) - (1 if (shift + len(raw)) % 3 else 0)
    form = encoded[first:last]
    yield form
    yield form.replace("+", "-").replace("/", "_")


def _flat(text: str) -> bytes:
    # By bytes: five times as fast as with a str.
    return text.encode("utf-8", "surrogatepass").translate(None, b" \t\r\n").replace(b"\\n", b"")


def _wrapped(form: str) -> re.Pattern[str]:
    """`form` with a line break (and the next line's indentation) between any two characters."""
    return re.compile(r"(?:[ \t]{0,40}(?:\r?\n|\\n)[ \t]{0,40})?".join(map(re.escape, form)))


def _lines(replacement: str, secret: str) -> str:
    return replacement + "\n" * secret.count("\n")


def _whole(kind: str) -> Replacement:
    return lambda found: _lines(mark(kind), found[0])


def _tail(kind: str) -> Replacement:
    """Keep group 1, which says what the secret is for."""
    return lambda found: found[1] + _lines(mark(kind), found[0][len(found[1]) :])


# ------------------------------------------------------------------------------- token shapes


@dataclass(frozen=True, slots=True)
class Shape:
    """A well-known kind of secret. `hints` are texts one of which stands in every match."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    replacement: Replacement
    hint: re.Pattern[str] | None = None
    """Finds any of several hints at once, where they begin alike."""

    def may_be_in(self, text: str) -> bool:
        """Whether one of the hints is in `text`."""
        if self.hint is not None:
            return self.hint.search(text) is not None
        return any(hint in text for hint in self.hints)


def _shape(kind: str, hints: str, pattern: str, *, tail: bool = False) -> Shape:
    # Every pattern is linear: it starts at a fixed text and its repeats are bounded, possessive,
    # or followed by what they cannot match.
    replacement = _tail(kind) if tail else _whole(kind)
    compiled = re.compile(_after_escapes(pattern))
    return Shape(kind, tuple(hints.split()), compiled, replacement, _hint(hints.split()))


_JSON, _SHELL = (r"\\[bfnrt]", r"\\u[0-9A-Fa-f]{4}"), (r"\\x[0-9A-Fa-f]{2}", r"[0-9;\[][mK]")
_ESCAPES = "|".join(f"(?<={escape}.)" for escape in (*_JSON, *_SHELL, "%[0-9A-Fa-f]{2}"))
"""What may stand before a token: in JSON, in a shell's text and colours, in a URL."""


def _after_escapes(pattern: str) -> str:
    """`pattern`, of which one that begins a word also matches right after an escape, whose last
    character is a letter too. What stands before is looked at after the first character: so the
    search goes from one of these to the next."""
    found = re.match(r"(\(\?<!(\[[^]]+\])\))(\[[^]]+\]|\w)", pattern)
    if found is None:
        return pattern
    return f"{found[3]}(?:(?<!{found[2]}.)|{_ESCAPES}){pattern[found.end() :]}"


def _hint(hints: list[str]) -> re.Pattern[str] | None:
    """One search for hints that begin with the same two characters, which is where it begins."""
    begin = hints[0][:2]
    if len(hints) < 2 or any(hint[:2] != begin for hint in hints):
        return None
    ends = "|".join(re.escape(hint[2:]) for hint in hints)
    return re.compile(f"{re.escape(begin)}(?:{ends})")


_START = r"(?<![A-Za-z0-9])"
_WORD = r"(?<![\w-])"
_KEY = r"PRIVATE KEY(?: BLOCK)?-----"

SHAPES: tuple[Shape, ...] = (
    _shape(
        "private-key",
        "-----BEGIN",
        rf"-----BEGIN [A-Z0-9 ]{{0,40}}{_KEY}"
        rf"(?:[^-]*+(?:-(?!----)[^-]*+)*+-----END [A-Z0-9 ]{{0,40}}{_KEY}"
        r"|(?:(?:\s|\\n|\\r)*+[A-Za-z0-9+/=]{32,}+)*+)",
    ),
    _shape("age-key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Za-z0-9]{20,}+"),
    _shape(
        "gitlab-token",
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct-",
        _START + r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct)-[A-Za-z0-9_.=-]{20,}+",
    ),
    _shape("gitlab-token", "GR1348941", _START + r"GR1348941[\w-]{20,}+"),
    _shape("anthropic-key", "sk-ant-", _START + r"sk-ant-[\w-]{20,}+"),
    _shape(
        "openai-key",
        "sk-",
        _WORD + r"sk-(?=[\w-]*[0-9])(?=[\w-]*[A-Z])(?:proj-|svcacct-|admin-)?[\w-]{20,}+",
    ),
    _shape("google-key", "AIza", _START + r"AIza[\w-]{35}"),
    _shape("google-key", "AQ.", _WORD + r"A(?<!\.A)Q\.[\w-]{30,}+"),
    _shape("google-token", "ya29.", _START + r"ya29\.[\w.-]{20,}+"),
    _shape("aws-key-id", "AKIA ASIA", _START + r"A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape("azure-key", "AccountKey=", r"(AccountKey=)[A-Za-z0-9+/]{40,}+={0,2}", tail=True),
    _shape("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", _START + r"gh[pousr]_[A-Za-z0-9]{36,}+"),
    _shape("github-token", "github_pat_", _START + r"github_pat_\w{22,}+"),
    _shape("slack-token", "xox", _START + r"xox[abeprs]-[A-Za-z0-9-]{10,}+"),
    _shape("slack-token", "xapp-", _START + r"xapp-[A-Za-z0-9-]{20,}+"),
    _shape(
        "slack-webhook", "hooks.slack.com", r"(hooks\.slack\.com/services/)[\w/]{20,}+", tail=True
    ),
    _shape("webhook-secret", "whsec_", _START + r"whsec_[A-Za-z0-9+/=]{20,}+"),
    _shape("stripe-key", "k_live_ k_test_", _START + r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}+"),
    _shape("npm-token", "npm_", _START + r"npm_[A-Za-z0-9]{36,}+"),
    _shape("pypi-token", "pypi-", _START + r"pypi-[\w-]{50,}+"),
    _shape("huggingface-token", "hf_", _START + r"hf_[A-Za-z0-9]{30,}+"),
    _shape("docker-token", "dckr_", _START + r"dckr_(?:pat|oat)_[\w-]{20,}+"),
    _shape("vault-token", "hvs. hvb. hvr.", _START + r"hv[sbr]\.[\w-]{24,}+"),
    _shape("rubygems-key", "rubygems_", _START + r"rubygems_[a-f0-9]{40,}+"),
    _shape("sonar-token", "sqp_ sqa_ squ_", _START + r"sq[apu]_[a-f0-9]{40}"),
    _shape("sendgrid-key", "SG.", _START + r"SG\.[\w-]{16,32}\.[\w-]{16,64}"),
    _shape("jwt", "eyJ", _WORD + r"eyJ[\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]*+"),
    _shape(
        "docker-auth",
        '"auth',
        r'("auth\\{0,3}"[ \t]*+:[ \t]*+\\{0,3}")[A-Za-z0-9+/=]{12,}+',
        tail=True,
    ),
    _shape(
        "authorization",
        "uthorization UTHORIZATION",
        r"((?i:authorization)\\{0,3}[\"']?[ \t]*+[:=][ \t]*+\\{0,3}[\"']?"
        r"(?i:(?:bearer|basic|token|digest)[ \t]++)?)(?![\[$<{*])[^\s\"',;\\]{8,}+",
        tail=True,
    ),
    _shape(
        "authorization",
        "earer EARER",
        r"(\b(?i:bearer)[ \t]{1,4})(?=[\w.~+/=-]*[0-9])[\w.~+/=-]{20,}+",
        tail=True,
    ),
    _shape(
        "url-password",
        "://",
        r"(://[^\s/@:\"'<>]{0,64}:)(?![\[$<{*])[^\s/@\"'<>]{1,256}(?=@)",
        tail=True,
    ),
)


_LINE = 1000
_ANY_HINT = re.compile("|".join(re.escape(hint) for shape in SHAPES for hint in shape.hints))


def _patterns(text: str) -> str:
    # A line of our own log has none of the hints: one search says so, and sooner than forty.
    if len(text) <= _LINE and not _ANY_HINT.search(text):
        return text
    for shape in SHAPES:
        if shape.may_be_in(text):
            text = shape.pattern.sub(shape.replacement, text)
    return text


# ------------------------------------------------------------------------------- named values

_NAMED = re.compile(
    r"""(
        (?: passw(?:or)?d | passphrase | pwd | secret | token | credentials? | auth
          | (?:api|access|private|secret|signing|encryption|account|master|session)[_-]?key
        )
        (?![a-z]) [\w.-]{0,32}+ \\{0,3}["']? [ \t]{0,4}+
        (?: => | := | :(?!:) | = ) [ \t]{0,4}+ \\{0,3}["']?
    )
    ( [^\s"'`,;<>(){}\[\]\\]{8,512}+ ) (?! \( )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_CLASSES = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]", "[^A-Za-z0-9]")))
_PLAIN = re.compile(
    r"[$%/~.*&@-]|https?:|[a-z]{2,}:/|(.)\1*$|.*(?:example|change.?me|dummy|placeholder|redacted)",
    re.IGNORECASE,
)
_HINTS = ("pass", "pwd", "secret", "token", "credential", "auth", "key")


def _values(text: str) -> str:
    lowered = text.lower()
    hints = [hint for hint in _HINTS if hint in lowered]
    if not hints:
        return text
    lines = zip(text.split("\n"), lowered.split("\n"), strict=True)
    return "\n".join(
        _NAMED.sub(_value, line) if any(hint in low for hint in hints) else line
        for line, low in lines
    )


def _value(found: re.Match[str]) -> str:
    name, value = found[1], found[2]
    return name + mark("secret") if _random(value, "pass" in name.lower()) else found[0]


def _random(value: str, password: bool) -> bool:
    """Whether a value looks made by a generator, or by a human under a password rule."""
    if _PLAIN.match(value):
        return False
    kinds = sum(1 for kind in _CLASSES if kind.search(value))
    if password and kinds >= 3:
        return True
    digits = sum(character.isdigit() for character in value)
    return len(value) >= 12 and kinds >= 2 and digits >= 2 and _entropy(value) >= 3.0


def _entropy(value: str) -> float:
    """Bits for each character."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values())
