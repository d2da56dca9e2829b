"""Values of keys whose name suggests a secret, in code, configuration, JSON, URLs and options."""

import re
import string
from collections.abc import Sequence

from worker.core.text.redact.randomness import (
    looks_generated,
    looks_like_base64,
    looks_like_password,
)
from worker.core.text.redact.rules import Rule
from worker.core.text.redact.spans import mark
from worker.core.text.redact.yaml_blocks import list_block_lines

_WORDS = (
    *(b"password", b"passwd", b"passphrase", b"passwort", b"pass", b"pwd"),
    *(b"secret", b"token", b"credential", b"credentials", b"auth", b"key"),
)
_HINTS = tuple(
    word + bytes([after]) for word in _WORDS for after in b"=:\"'_-\\%]? \r\n\x1b0123456789"
)
_WORD = re.compile(
    rb"(?i:(passw(?:or)?d|passwort|passphrase|pass|pwd)|secret|token|credentials?|auth|key)"
)
_TEST_PASSED = re.compile(rb"(?:^|\W)PASS: *$")
_MARK = mark("").encode().rstrip(b"]")
_NAME = string.ascii_letters.encode() + string.digits.encode() + b"_.-$"
_NUMBER = string.digits.encode() + b"_-"
_MOST_NAME = 48
_SUFFIX = re.compile(rb"[\w-]{0,32}+")

_COLOUR = rb"(?:\x1b\[[0-9;]{0,8}m){0,2}"
# At most one: what is read again of a stream begins between two lines that stayed as they were.
_LINE_END = rb"(?:(?:\r?\n|\\n)[ \t+-]{0,40}+)"
_FIELD = rb"(?:\\?[\"'][\w-]{1,40}\\?[\"']:[ ]?\\?[\"'][^\"'\\\n]{0,80}\\?[\"'],[ ]?)?"
"""A field between the name and the value."""

_SEPARATOR = re.compile(
    rb"%b\\{0,3}[\"']?\]?%b[ \t]{0,4}(?:=>|:{0,2}={1,3}|\?=|:(?!:)|%%3[aAdD])[ \t]{0,4}%b"
    rb"|\\?[\"'](?:[ \t]*+,[ \t]*+%b?%b\\?[\"']|[ \t]++)(?i:value)\\?[\"']?[ \t]*+[:=][ \t]*+"
    rb"|[\"']?[ \t]{0,4}%b(?i:value)[ \t]{0,20}[:=][ \t]*+"
    % (_COLOUR, _COLOUR, _COLOUR, _LINE_END, _FIELD, _LINE_END)
)
_SPACE = re.compile(rb"[ \t]++(?!-)")
_LAST = re.compile(rb"[ \t]++(?=[^\s]{6,512}[ \t\r]*+(?:\n|$))")
_SPOKEN = re.compile(rb"[ \t](?:is|was)(?:[ \t]set[ \t]to)?:?[ \t]++")

_QUOTE = re.compile(rb"(\\{0,3})([\"'`])")
_QUOTED = {
    quote: re.compile(rb"(?:[^%b\\\s]|\\(?![nrt])\S|[ ](?=[^\s%b])){6,512}" % (quote, quote))
    for quote in (b'"', b"'", b"`")
}
_NESTED = re.compile(rb"(?:[^\"'`\\\s]|\\(?![nrt\\])[^\s\"'`]){6,512}")
_CONSTANT = re.compile(rb"(?:[^\s\"'`\\\x1b]|\\(?![nrt])){6,512}")
_BARE = re.compile(rb"(?![\w.$]{6,512}+\()[^\s\"'`,;<>(){}\[\]\\\x1b]{6,512}")
_QUERY = re.compile(rb"[^\s\"'`,;<>(){}\[\]\\&\x1b]{6,512}")
_LONGEST = 512
_REST = re.compile(rb"[^\s\"'`,;<>(){}\[\]\\&\x1b]*+")
_PART = re.compile(rb"[A-Za-z0-9+/_-]{2,200}={0,2}")
_HEAD = 48
"""How many bytes of a value are examined."""

_HARMLESS_ENDS = re.compile(
    rb"(?:file|path|dir|folder|url|uri|link|page|id|ids|names?|type|kind|counts?|len|length|size"
    rb"|limits?|budget|expir(?:y|es|ed|ation)|at|ttl|age|time|timeout|date|endpoint|host|port"
    rb"|user|username|owner|issuer|method|mode|class|provider|policy|ring|store|manager|status"
    rb"|state|valid|validator|version|index|idx|batch|usage|used|total|num|number|max|min|field"
    rb"|label|hint|prompt|prefix|suffix|format|algorithm|algo|alg|strategy|ref|selector|scopes?"
    rb"|audience|realm|arn|checksum|fingerprint|sha|digest|stdin|env|var|column|table|rules?"
    rb"|pattern|strength|test|tests|spec|service|svc|info|error|warning|handler|py|json|txt)$"
)
_HARMLESS_BEFORE = re.compile(
    rb"(?:unexpected|illegal|eos|bos|pad|unk|sep|mask|public|pub|cache|primary|foreign|sort"
    rb"|partition|index|unique|restore|routing|object|group|lookup|composite|shard|registry"
    rb"|translation|i18n|locale|config|hash|map|dict|row|column|host|idempotency|dedup\w*)"
    rb"[_.-]?$"
)
_KEYS = re.compile(
    rb"(?:api|app|access|private|secret|signing|signature|encryption|account|master|session|shared"
    rb"|licen[cs]e|deploy|storage|client|consumer|ssh|webhook|hmac|subscription|service|auth"
    rb"|admin|root|user|security|crypt|cipher|aes|rsa|jwt|token)[_.-]?$"
)


def _find(data: bytes, at: int) -> Sequence[tuple[int, int]]:
    if (word := _WORD.match(data, at)) is None or _is_part_of_word(data, word.end()):
        return ()
    after = _match_end(_SUFFIX, data, word.end())
    before = _read_name_start(data, at)
    value = _find_start(data, at - len(before), after, before, word[1] is not None)
    if value is None:
        return ()
    if _is_no_name(data[max(0, at - len(before) - len(_MARK)) : value]):
        return ()
    if not _is_secret_name(before, word[0], data[word.end() : after]):
        return ()
    constant = word[0].isupper() and before.upper() == before
    if lines := list_block_lines(data, at - len(before), value):
        secret = [_looks_secret(data[slice(*line)], word, constant) for line in lines]
        return _select_lines(data, lines, secret)
    if (found := _find_value(data, value, constant)) is None:
        return ()
    if not _looks_secret(data[slice(*found)], word, constant):
        return ()
    start, end = found
    return ((start, end if end - start < _LONGEST else _match_end(_REST, data, end)),)


def _select_lines(
    data: bytes, lines: Sequence[tuple[int, int]], secret: Sequence[bool]
) -> list[tuple[int, int]]:
    """Return the lines of a block that are `secret`, and those next to them that may be parts of
    the same Base64. Others stay: whoever writes the key of a block must not hide what follows."""
    found = [*secret]
    down = [(at, at - 1) for at in range(1, len(lines))]
    up = [(at, at + 1) for at in range(len(lines) - 2, -1, -1)]
    for at, beside in (*down, *up):
        found[at] = found[at] or (found[beside] and _is_part(data[slice(*lines[at])]))
    return [line for line, taken in zip(lines, found, strict=True) if taken]


def _is_part(line: bytes) -> bool:
    """Whether a line may be a part of wrapped Base64."""
    return _PART.fullmatch(line) is not None and (line.endswith(b"=") or looks_like_base64(line))


def _looks_secret(value: bytes, word: re.Match[bytes], constant: bool) -> bool:
    """Whether a value fits a key with this `word`, whose group 1 is a word for passwords."""
    head = value[:_HEAD]
    return looks_like_password(head, constant) if word[1] else looks_generated(head)


def _match_end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    found = pattern.match(data, at)
    return found.end() if found is not None else at


def _is_no_name(text: bytes) -> bool:
    """Whether the name is inside a mark, or is the result of a test (`PASS:`)."""
    return text.startswith(_MARK) or _TEST_PASSED.search(text) is not None


def _is_part_of_word(data: bytes, end: int) -> bool:
    """Whether the word is only the beginning of another, as in `tokenizer` or `AUTHOR`."""
    following = data[end : end + 1]
    return following.islower() or (following.isupper() and data[end - 1 : end].isupper())


def _read_name_start(data: bytes, at: int) -> bytes:
    """Return the part of the name before the word."""
    before = data[max(0, at - _MOST_NAME) : at]
    return before[len(before.rstrip(_NAME)) :]


def _is_secret_name(before: bytes, word: bytes, suffix: bytes) -> bool:
    if _HARMLESS_ENDS.search(suffix.lower().rstrip(_NUMBER)) or _HARMLESS_BEFORE.search(
        before.lower()
    ):
        return False
    match word.lower():
        case b"auth" | b"pass":
            return not before[-1:].isalpha() or (before[-1:].islower() and word[:1].isupper())
        case b"pwd":
            return before.lower() not in (b"", b"old", b"$", b"$env")
        case b"key":
            constant = word.isupper() and before.upper() == before and before[-1:] in (b"_", b"-")
            return constant or _KEYS.search(before.lower()) is not None
    return True


def _find_start(data: bytes, start: int, at: int, before: bytes, password: bool) -> int | None:
    """Return where the value begins, None if none follows the name from `start` to `at`."""
    found = _SEPARATOR.match(data, at)
    if found is None and before.startswith(b"-"):
        found = _SPACE.match(data, at)
    if found is None and password:
        found = _SPOKEN.match(data, at)
    if found is None and _is_set_by_blank(data, start, before):
        found = _LAST.match(data, at)
    return found.end() if found is not None else None


def _is_set_by_blank(data: bytes, start: int, before: bytes) -> bool:
    """Whether only a blank separates name and value: in a Dockerfile, and for npm's token."""
    return data[max(0, start - 4) : start] == b"ENV " or before == b"_auth"


def _find_value(data: bytes, at: int, constant: bool) -> tuple[int, int] | None:
    """Return where the value begins and ends; in quotes it may contain a few more characters."""
    if (quote := _QUOTE.match(data, at)) is not None:
        at = quote.end()
        pattern = _NESTED if quote[1] else _QUOTED[quote[2]]
    elif data[at - 1 : at] == b"=" and _is_query(data, at):
        pattern = _QUERY
    else:
        pattern = _CONSTANT if constant else _BARE
    found = pattern.match(data, at)
    return found.span() if found is not None else None


def _is_query(data: bytes, at: int) -> bool:
    line = data[max(0, at - 2 * _MOST_NAME) : at]
    return line.rstrip(_NAME + b"=")[-1:] in (b"?", b"&")


NAMED_RULES = (Rule("secret", _HINTS, _find),)
