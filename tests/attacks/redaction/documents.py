"""Tokens, and the places of a document in which each of them has to be found."""

import random
import string

_ALNUM = string.ascii_letters + string.digits


def _some(alphabet: str, size: int) -> str:
    return "".join(random.Random(size).choices(alphabet, k=size))


TOKENS: dict[str, str] = {
    "gitlab": "glpat-" + _some(_ALNUM, 20),
    "gitlab-ci": "glcbt-64_" + _some(_ALNUM, 21),
    "anthropic": "sk-ant-api03-" + _some(_ALNUM, 80),
    "openai": "sk-proj-" + _some(_ALNUM, 48),
    "google": "AIza" + _some(_ALNUM, 35),
    "google-token": "ya29." + _some(_ALNUM, 60),
    "aws": "AKIA" + _some(string.ascii_uppercase, 16),
    "github": "ghp_" + _some(_ALNUM, 36),
    "slack": "xoxb-" + _some(string.digits, 12) + "-" + _some(_ALNUM, 24),
    "npm": "npm_" + _some(_ALNUM, 37),
    "pypi": "pypi-" + _some(_ALNUM, 81),
    "vault": "hvs." + _some(_ALNUM, 30),
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + _some(_ALNUM, 43),
}
"""One of each of the thirteen kinds whose pattern asks for the beginning of a word."""

PLACES: dict[str, str] = {
    "at its beginning": "{}",
    "in a line": "the token is {} here",
    "at the beginning of a line": "see below\n{}\nthe end",
    "after a tab": "key:\t{}",
    "after a carriage return": "see below\r\n{}\r\nthe end",
    "after a form feed": "page\f{}",
    "after a colour": "\x1b[31m{}\x1b[0m",
    "after two colours": "\x1b[01;31m\x1b[K{}\x1b[m",
    "after an escaped newline": 'log: "failed\\n{}"',
    "after an escaped tab": 'log: "failed\\t{}"',
    "in JSON within JSON": '{{"log": "{{\\"text\\": \\"failed\\\\n{}\\"}}"}}',
    "in JSON, three deep": "failed\\\\\\\\n{}\\\\\\\\nend",
    "after an escaped code": "failed\\u000a{}",
    "after a hexadecimal escape": "failed\\x0a{}",
    "after an escaped colour": "\\u001b[32m{}\\u001b[0m",
    "in a query": "https://ci.example.com/?log=failed%0A{}",
}
"""Texts in which a token stands, each as GitLab's answer holds it once that is decoded."""
