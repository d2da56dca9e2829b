"""Private keys as they come: of many kinds, whole or cut, behind what tools put before lines."""

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import quote

from tests.attacks.redaction import ALNUM, BASE64, HEX, encode_base64
from tests.attacks.redaction import make_random as made


class KeyCase(NamedTuple):
    """A text with one private key, and the lines of the key that nobody may read."""

    name: str
    text: str
    hidden: tuple[str, ...]


def _body(lines: int, width: int, seed: int) -> list[str]:
    full = [made(BASE64, width, seed * 100 + number) for number in range(lines)]
    return [*full, made(ALNUM, width // 3, seed) + "=="]


def _armour(label: str, lines: int, width: int, headers: tuple[str, ...] = ()) -> list[str]:
    dashes = "-" * 5
    return [
        f"{dashes}BEGIN {label}{dashes}",
        *headers,
        *_body(lines, width, lines + width),
        *(["=aB3d"] if label.startswith("PGP") else []),
        f"{dashes}END {label}{dashes}",
    ]


def _ssh2() -> list[str]:
    begin, end = (f"---- {word} SSH2 ENCRYPTED PRIVATE KEY ----" for word in ("BEGIN", "END"))
    return [begin, 'Comment: "2048-bit rsa"', *_body(9, 70, 3), end]


def _putty() -> list[str]:
    return [
        "PuTTY-User-Key-File-3: ssh-rsa",
        "Encryption: none",
        "Comment: made-up",
        "Public-Lines: 2",
        *_body(1, 64, 71),
        "Private-Lines: 8",
        *_body(7, 64, 72),
        "Private-MAC: " + made(HEX, 64),
    ]


_KIND = "PRIVATE" + " KEY"
_ENCRYPTED = ("Proc-Type: 4,ENCRYPTED", f"DEK-Info: AES-128-CBC,{made(HEX, 32).upper()}", "")

KEYS: dict[str, list[str]] = {
    "pkcs8": _armour(_KIND, 25, 64),
    "rsa": _armour(f"RSA {_KIND}", 24, 64),
    "encrypted": _armour(f"RSA {_KIND}", 24, 64, _ENCRYPTED),
    "pkcs8-encrypted": _armour(f"ENCRYPTED {_KIND}", 27, 64),
    "ec": _armour(f"EC {_KIND}", 3, 64),
    "ed25519": _armour(_KIND, 1, 60),
    "openssh": _armour(f"OPENSSH {_KIND}", 37, 70),
    "pgp": _armour(f"PGP {_KIND} BLOCK", 80, 64, ("Version: GnuPG v2", "Comment: made up", "")),
    "rsa-8192": _armour(_KIND, 98, 64),
    "ssh2": _ssh2(),
    "putty": _putty(),
}
"""Kinds of keys, by line."""


def _hidden(lines: list[str]) -> tuple[str, ...]:
    """The lines of Base64; of PuTTY's, those after the public key."""
    first = next((at for at, line in enumerate(lines) if line.startswith("Private-")), 0)
    return tuple(line for line in lines[first:] if re.fullmatch(r"[A-Za-z0-9+/=]{16,}", line))


def _numbered(lines: list[str], width: int, mark: str) -> list[str]:
    return [f"{number:>{width}}{mark}{line}" for number, line in enumerate(lines, 8)]


def _grep_after(lines: list[str]) -> list[str]:
    return [
        f"conf/key.pem{':' if n == 9 else '-'}{n}{':' if n == 9 else '-'}{line}"
        for n, line in enumerate(lines, 9)
    ]


def _changed(lines: list[str]) -> list[str]:
    other = [
        made(BASE64, len(line), 7) if len(line) > 30 and "-" not in line else line for line in lines
    ]
    return [
        line if line == new else f"[-{line}-]{{+{new}+}}"
        for line, new in zip(lines, other, strict=True)
    ]


PREFIXES: dict[str, Callable[[list[str]], list[str]]] = {
    "plain": lambda lines: lines,
    "removed by a diff": lambda lines: ["-" + line for line in lines],
    "added by a diff": lambda lines: ["+" + line for line in lines],
    "unchanged in a diff": lambda lines: [" " + line for line in lines],
    "combined diff": lambda lines: ["- " + line for line in lines],
    "grep -A": _grep_after,
    "grep -rn": lambda lines: [f"./deploy/id_rsa:{n}:{line}" for n, line in enumerate(lines, 1)],
    "grep -r": lambda lines: [f"deploy/id_rsa:{line}" for line in lines],
    "word diff, removed": lambda lines: [f"[-{line}-]" for line in lines],
    "word diff, added": lambda lines: [f"{{+{line}+}}" for line in lines],
    "word diff, changed": _changed,
    "word diff, porcelain": lambda lines: [each for line in lines for each in ("-" + line, "~")],
    "quoted mail": lambda lines: ["> " + line for line in lines],
    "quoted twice": lambda lines: ["> > " + line for line in lines],
    "cat -n": lambda lines: _numbered(lines, 6, "\t"),
    "nl": lambda lines: _numbered(lines, 4, ": "),
    "git blame": lambda lines: [
        f"3f2a9c1d (Some One 2024-05-01 12:00:00 +0200 {n:>3}) {line}"
        for n, line in enumerate(lines)
    ],
    "cat -A": lambda lines: [line + "$" for line in lines],
    "trailing blanks": lambda lines: [line + " " for line in lines],
    "indented": lambda lines: ["      " + line for line in lines],
    "timestamps": lambda lines: [
        f"2024-05-01T12:00:00.{n:06}Z 01O {line}" for n, line in enumerate(lines)
    ],
    "compose": lambda lines: ["web-1  | " + line for line in lines],
    "comment": lambda lines: ["# " + line for line in lines],
    "code comment": lambda lines: ["// " + line for line in lines],
    "code strings": lambda lines: [f'    "{line}\\n" +' for line in lines],
    "list of strings": lambda lines: ["[", *(f'  "{line}",' for line in lines), "]"],
    "set -x": lambda lines: ["+ " + line for line in lines],
    "single quotes": lambda lines: [f"'{line}'," for line in lines],
    "spaced out": lambda lines: [each for line in lines for each in (line, "")],
    "carriage returns": lambda lines: [line + "\r" for line in lines],
    "coloured": lambda lines: [f"\x1b[31m-{line}\x1b[m" for line in lines],
    "typographic dashes": lambda lines: [line.replace("-----", "\u2014\u2013") for line in lines],
    "escaped dashes": lambda lines: [line.replace("-----", "\\-" * 5) for line in lines],
    "no dashes": lambda lines: [line.strip("-") for line in lines],
    "three dashes": lambda lines: [line.replace("-----", "---") for line in lines],
}
"""What tools make of the lines of a file."""

ONE_LINE: dict[str, Callable[[str], str]] = {
    "json": lambda key: json.dumps({"key": key, "after": 1}),
    "json in json": lambda key: json.dumps(json.dumps({"key": key})),
    "json, slashes escaped": lambda key: json.dumps({"key": key}).replace("/", "\\/"),
    "json of a diff": lambda key: json.dumps({"diff": "@@ -1 +0 @@\n-" + key.replace("\n", "\n-")}),
    "url": lambda key: "key=" + quote(key, safe=""),
    "html": lambda key: key.replace("\n", "<br>"),
    "xml": lambda key: key.replace("\n", "&#10;"),
    "spaces": lambda key: key.replace("\n", " "),
    "windows": lambda key: json.dumps({"key": key.replace("\n", "\r\n")}),
}
"""What becomes of a file in one line."""


def _cases() -> Iterator[KeyCase]:
    for kind, lines in KEYS.items():
        hidden = _hidden(lines)
        for name, prefix in PREFIXES.items():
            yield KeyCase(f"{kind}: {name}", _between("\n".join(prefix(lines))), hidden)
        for name, encode in ONE_LINE.items():
            if (kind, name) == ("putty", "spaces"):
                continue
            yield KeyCase(f"{kind}: {name}", _between(encode("\n".join(lines))), hidden)


def _cut_cases() -> Iterator[KeyCase]:
    kinds = ("rsa", "encrypted", "openssh", "pgp", "putty", "ssh2")
    for kind, lines in ((kind, KEYS[kind]) for kind in kinds):
        first = next(at for at, line in enumerate(lines) if line in _hidden(lines))
        cut = lines[: first + 7]
        for name, prefix in PREFIXES.items():
            if name in ("word diff, changed", "word diff, porcelain", "spaced out"):
                continue
            hidden = _hidden(cut)
            yield KeyCase(f"{kind}, cut: {name}", _between("\n".join(prefix(cut))), hidden)
            end = lines[-6:] if kind not in ("putty",) else lines[-5:]
            left = [line for line in end if line in _hidden(lines)]
            yield KeyCase(f"{kind}, end: {name}", _between("\n".join(prefix(end))), tuple(left))
            if name == "plain":
                text = _between("cut off " + " ".join(end))
                yield KeyCase(f"{kind}, end: spaces", text, tuple(left))
        for name, encode in ONE_LINE.items():
            if (kind, name) == ("putty", "spaces"):
                continue
            text = encode("\n".join(cut)).rstrip('"}\\') + "... [cut]"
            if '"after"' in text:
                text = encode("\n".join(cut))
            yield KeyCase(f"{kind}, cut: {name}", _between(text), _hidden(cut))


def _encoded_cases() -> Iterator[KeyCase]:
    for kind in ("rsa", "openssh", "ed25519"):
        encoded = encode_base64("\n".join(KEYS[kind]) + "\n")
        wrapped = "\n".join(re.findall(".{1,76}", encoded))
        for name, text in (
            ("base64", "SSH_KEY_B64: " + encoded),
            ("kubeconfig", "    client-key-data: " + encoded),
            ("base64, wrapped", wrapped),
            ("base64 in json", json.dumps({"private": encoded})),
        ):
            yield KeyCase(f"{kind}: {name}", _between(text), tuple(re.findall(".{60}", encoded)))


def _between(text: str) -> str:
    return f"BUILD STARTED\n{text}\nBUILD FAILED in 3s\n"


KEY_CASES: tuple[KeyCase, ...] = (*_cases(), *_cut_cases(), *_encoded_cases())
"""Every key in every place."""
