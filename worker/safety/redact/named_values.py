"""Values of keys whose name suggests a secret, in code, configuration, JSON, URLs and options."""

import re
import string
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from worker.safety.redact.rules import (
    Rule,
    looks_generated,
    looks_like_base64,
    looks_like_password,
    looks_like_strong_password,
    mark,
)
from worker.safety.redact.value_places import ValuePlace, find_place, list_block_lines

_SECRET_WORDS = b"""
    password passwd passphrase passwort pass pwd secret token credential credentials auth key
"""
_WORDS = tuple(_SECRET_WORDS.split())
_AFTER = (
    *(bytes([each]) for each in b"=:\"'_-\\%]? \t\r\n\x1b0123456789&|<`*,"),
    b"..",
    b"\xe2\x94",
    b"\xe2\x95",
    b"\xe2\x86",
)
_HINTS = (*(word + after for word in _WORDS for after in _AFTER), b"token.")
_ESCAPED_HINTS = (rb"\u00", rb"\x", b"%6", b"%7", b"%5f", b"%2d")
_ESCAPE = re.compile(rb"\\{1,3}(?:u00|x)([2-7][0-9a-fA-F])|%([2-7][0-9a-fA-F])")
_ESCAPED_NAME = re.compile(
    rb"[\w.$-]{0,48}+(?:(?:\\{1,3}(?:u00|x)|%)(?:[46][1-9a-fA-F]|[57][0-9aA]|5[fF]|2[dDeE]|3[0-9])"
    rb"[\w.$-]{0,48}+){1,24}"
)
_FAR = 640
_VALUE_BEFORE = re.compile(
    rb"alue\\{0,3}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}[\"']"
    rb"([^\s\"'\\]{6,512})\\{0,3}[\"'],\s{0,40}"
    rb"\\{0,3}[\"']?(?i:name|key|variable)\\{0,3}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}[\"']"
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

_PREFIX = re.compile(rb"(?:[bBuUrRfF]{1,2}(?=\\{0,3}[\"'])|![!\w:./-]{1,30}[ ]++)")
"""The letters before a text in code, or a tag of YAML."""

_QUOTE = re.compile(
    rb"(\\{0,7})([\"'`])|(&(?:quot|apos|#0?3[49]|#[xX]2[27]);|%2[27]|\\{1,3}(?:u002[27]|x2[27]))"
)
_QUOTED = {
    quote: re.compile(rb"(?:[^%b\\\s]|\\(?![nrt])\S|[ ](?=[^\s%b])){6,512}" % (quote, quote))
    for quote in (b'"', b"'", b"`")
}
_NESTED = re.compile(rb"(?:[^\"'`\\\s]|\\(?![nrt\\])[^\s\"'`]){6,512}")
_ENCODED = {
    b"&": re.compile(rb"(?:[^&<>\s\"'`]|&(?!(?:quot|apos|#0?3[49]|#[xX]2[27]);)){6,512}"),
    b"%": re.compile(rb"(?:[^%&\s\"'`]|%(?!2[27])){6,512}"),
    b"\\": re.compile(rb"(?:[^\\\s\"'`]|\\(?![nrt\\]|u002[27]|x2[27])[^\s\"'`]){6,512}"),
}
"""What stands between quotes that are written in another way, by how that begins."""

_CONSTANT = re.compile(rb"(?:[^\s\"'`\\\x1b]|\\(?![nrt])){6,512}")
_BARE = re.compile(rb"(?![\w.$]{6,512}+\()[^\s\"'`,;<>(){}\[\]\\\x1b]{6,512}")
_QUERY = re.compile(rb"[^\s\"'`,;<>(){}\[\]\\&\x1b]{6,512}")
_CHANGED = re.compile(rb"\\{0,3}[\"']?[ \t]{1,20}->[ \t]{1,20}")
"""Between an old value and the new one, in a plan of Terraform."""

_LONGEST = 512
_REST = re.compile(rb"[^\s\"'`,;<>(){}\[\]\\&\x1b]*+")
_PART = re.compile(rb"[A-Za-z0-9+/_-]{2,200}={0,2}")
_HEAD = 48
"""How many bytes of a value are examined."""

_HARMLESS_ENDS = re.compile(
    rb"(?:file|path|dir|folder|url|uri|link|page|id|ids|names?|type|kind|counts?|len|length|size"
    rb"|limits?|budget|expir(?:y|es|ed|ation)|at|ttl|age|time|timeout|date|endpoint|host|port"
    rb"|user|username|owner|issuer|method|mode|class|provider|policy|(?<!st)ring|store|manager|status"
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


class _Name(NamedTuple):
    """A name: what stands before and after the `word` that tells a secret, and where it all is."""

    before: bytes
    word: bytes
    suffix: bytes
    start: int
    end: int

    @property
    def password(self) -> bool:
        """Whether the word is one for passwords."""
        return self.word[:1] in b"pP"

    @property
    def constant(self) -> bool:
        """Whether it is written in capitals, as CI/CD variables are."""
        return self.word.isupper() and self.before.upper() == self.before


def _find(data: bytes, at: int) -> Sequence[tuple[int, int]]:
    if (word := _WORD.match(data, at)) is None or _is_part_of_word(data, word.end()):
        return ()
    after = _match_end(_SUFFIX, data, word.end())
    near = data[max(0, at - _MOST_NAME) : at]
    before = near[len(near.rstrip(_NAME)) :]
    name = _Name(before, word[0], data[word.end() : after], at - len(before), after)
    return _find_values(data, name)


def _find_escaped(data: bytes, at: int) -> Sequence[tuple[int, int]]:
    """Find the values of a name some of whose letters are escaped, as in `pass\\u0077ord`."""
    near = _ESCAPED_NAME.finditer(data, max(0, at - _MOST_NAME), at + _MOST_NAME)
    found = next((each for each in near if each.end() > at), None)
    if found is None:
        return ()
    plain = _ESCAPE.sub(lambda code: bytes([int(code[1] or code[2], 16)]), found[0])
    words = list(_WORD.finditer(plain))
    if not words or _is_part_of_word(plain, words[-1].end()):
        return ()
    first, last = words[-1].span()
    escaped = _Name(plain[:first], plain[first:last], plain[last:], *found.span())
    return _find_values(data, escaped)


def _find_values(data: bytes, name: _Name) -> Sequence[tuple[int, int]]:
    place = find_place(data, name.start, name.end, name.before, password=name.password)
    if place is None:
        return _find_value_before(data, name)
    around = data[
        max(0, name.start - len(_MARK)) : place.start
    ]  # of a mark, or of the result of a test
    if around.startswith(_MARK) or _TEST_PASSED.search(around) or not _is_secret_name(name):
        return ()
    if lines := list_block_lines(data, name.start, place.start):
        secret = [_looks_secret(data[slice(*line)], name) for line in lines]
        return _select_lines(data, lines, secret)
    values = _list_values(data, place, name.constant)
    return [
        (start, end if end - start < _LONGEST else _match_end(_REST, data, end))
        for start, end in values
        if _looks_secret(data[start:end], name, place.certain)
    ]


def _list_values(data: bytes, place: ValuePlace, constant: bool) -> Iterator[tuple[int, int]]:
    """Yield where the value is, and the new one if it was changed."""
    if place.pattern is not None:
        if (value := place.pattern.match(data, place.start)) is not None:
            yield value.span()
    elif (found := _find_value(data, place.start, constant)) is not None:
        yield found
        if (changed := _CHANGED.match(data, found[1])) is not None:
            new = _find_value(data, changed.end(), constant)
            yield from [new] if new is not None else []


def _find_value_before(data: bytes, name: _Name) -> Sequence[tuple[int, int]]:
    """Find the value of a name that stands after it, as in `{"value": …, "name": …}`."""
    if data[name.end : name.end + 1] not in (b'"', b"\\", b"'"):
        return ()
    at = data.rfind(b"alue", max(0, name.start - _FAR), name.start)
    found = _VALUE_BEFORE.match(data, at, name.start) if at > 0 else None
    if found is None or found.end() != name.start or not _is_secret_name(name):
        return ()
    return [found.span(1)] if _looks_secret(found[1], name) else ()


def _select_lines(
    data: bytes, lines: Sequence[tuple[int, int]], secret: Sequence[bool]
) -> list[tuple[int, int]]:
    """Return the lines of a block that are `secret`, and those next to them that may be parts of
    the same Base64. Others stay: whoever writes the key of a block must not hide what follows."""
    found = [*secret]
    down = [(at, at - 1) for at in range(1, len(lines))]
    up = [(at, at + 1) for at in range(len(lines) - 2, -1, -1)]
    for at, beside in (*down, *up):
        line = data[slice(*lines[at])]
        if found[beside] and _PART.fullmatch(line):
            found[at] = found[at] or line.endswith(b"=") or looks_like_base64(line)
    return [line for line, taken in zip(lines, found, strict=True) if taken]


def _looks_secret(value: bytes, name: _Name, certain: bool = False) -> bool:
    """Whether a value fits a key of this name; `certain`: see `ValuePlace`."""
    head = value[:_HEAD]
    if not name.password:
        return looks_generated(head)
    if certain:
        return looks_like_strong_password(head)
    return looks_like_password(head, name.constant)


def _match_end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    found = pattern.match(data, at)
    return found.end() if found is not None else at


def _is_part_of_word(data: bytes, end: int) -> bool:
    """Whether the word is only the beginning of another, as in `tokenizer` or `AUTHOR`."""
    following = data[end : end + 1]
    return following.islower() or (following.isupper() and data[end - 1 : end].isupper())


def _is_secret_name(name: _Name) -> bool:
    before, word = name.before, name.word
    if _HARMLESS_ENDS.search(name.suffix.lower().rstrip(_NUMBER)) or _HARMLESS_BEFORE.search(
        before.lower()
    ):
        return False
    match word.lower():
        case b"auth" | b"pass":
            return not before[-1:].isalpha() or (before[-1:].islower() and word[:1].isupper())
        case b"pwd":
            return before.lower() not in (b"", b"old", b"$", b"$env")
        case b"key":
            constant = name.constant and before[-1:] in (b"_", b"-")
            return constant or _KEYS.search(before.lower()) is not None
    return True


def _find_value(data: bytes, at: int, constant: bool) -> tuple[int, int] | None:
    """Return where the value begins and ends; in quotes it may contain a few more characters."""
    at = _match_end(_PREFIX, data, at)
    before = data[max(0, at - 2 * _MOST_NAME) : at]
    if (quote := _QUOTE.match(data, at)) is not None:
        at = quote.end()
        if quote[3] is not None:
            pattern = _ENCODED[quote[3][:1]]
        else:
            pattern = _NESTED if quote[1] else _QUOTED[quote[2]]
    elif before.endswith(b"=") and before.rstrip(_NAME + b"=").endswith((b"?", b"&")):
        pattern = _QUERY
    else:
        pattern = _CONSTANT if constant else _BARE
    found = pattern.match(data, at)
    return found.span() if found is not None else None


NAMED_RULES = (
    Rule("secret", _HINTS, _find),
    Rule("secret", _ESCAPED_HINTS, _find_escaped),
)
