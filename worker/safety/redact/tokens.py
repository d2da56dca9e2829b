"""The formats of well-known tokens, by the fixed prefix of each; and the same tokens, and private
keys, in Base64, as in a Kubernetes secret or a CI/CD variable."""

import base64
import binascii
import re
import string
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from worker.safety.redact.rules import Rule, looks_like_base64, match_rule

START = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrtv])|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2})"
    r"|(?<=%[0-9A-Fa-f]{2})|(?<=[0-9;\[][mK]))"
)
"""What comes before is not part of the word: a separator, or an escape (JSON, URL, colour)."""


class Token(NamedTuple):
    """A kind of token: the prefixes that it may have, and a pattern of what follows.

    If the prefix is `distinct` (part of no word), the token is found after a letter too.
    """

    kind: str
    prefixes: str
    body: str
    distinct: bool = True


def _strong(body: str) -> str:
    """Require a digit or capital near the beginning of `body`: names in lower case have none."""
    return r"(?=[\w.=-]{0,60}[A-Z0-9])" + body


_HEX = "[A-Fa-f0-9]"
_ALNUM = "[A-Za-z0-9]"

TOKENS = (
    Token(
        "gitlab-token",
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct- "
        "glwt- gldp-",
        _strong(r"[\w.=-]{20,}+"),
    ),
    Token("gitlab-token", "GR1348941", r"[\w-]{20,}+"),
    Token("anthropic-key", "sk-ant-", _strong(r"[\w-]{20,}+")),
    Token("age-key", "AGE-SECRET-KEY-1", r"[A-Za-z0-9]{20,}+"),
    Token("openai-key", "sk-proj- sk-svcacct- sk-admin-", _strong(r"[\w-]{20,}+")),
    Token("model-key", "sk-or-v1- sk-lf-", r"[a-f0-9-]{32,}+"),
    Token("model-key", "gsk_ xai- pplx- tgp_v1_ pcsk_ csk-", r"(?:\w(?:-(?=\w))?){40,}+"),
    Token("model-key", "nvapi- lsv2_pt_ lsv2_sk_ ABSKQmVkcm9ja0FQSUtleS", r"[\w+/-]{30,}+={0,2}"),
    Token("model-key", "r8_", _ALNUM + r"{37}(?!\w)", distinct=False),
    Token("google-key", "AIzaSy", r"[\w-]{33}"),
    Token("google-key", "AIza", r"[\w-]{35}", distinct=False),
    Token("google-key", "AQ.", r"[\w-]{30,}+", distinct=False),
    Token("google-key", "GOCSPX-", r"[\w-]{20,}+"),
    Token("google-token", "ya29.", r"[\w.-]{20,}+"),
    Token("google-token", "1//0", r"(?=[\w-]{0,60}[A-Z])[\w-]{30,}+", distinct=False),
    Token("aws-key-id", "AKIA ASIA ABIA ACCA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    Token("alibaba-key", "LTAI", _ALNUM + r"{20}(?![A-Za-z0-9])", distinct=False),
    Token("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{36,}+"),
    Token("github-token", "github_pat_", r"\w{22,}+"),
    Token("slack-token", "xoxa xoxb xoxe xoxo xoxp xoxr xoxs", r"[-.][A-Za-z0-9.-]{10,}+"),
    Token("slack-token", "xapp-", r"[A-Za-z0-9-]{20,}+"),
    Token("webhook-secret", "whsec_", r"[A-Za-z0-9+/=]{20,}+"),
    Token(
        "stripe-key",
        "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_",
        r"[A-Za-z0-9]{16,}+",
    ),
    Token("npm-token", "npm_", r"[A-Za-z0-9]{36,}+"),
    Token("pypi-token", "pypi-", r"\w{16}[\w-]{34,}+"),
    Token("rubygems-key", "rubygems_", r"[a-f0-9]{40,}+"),
    Token("nuget-key", "oy2", r"[a-z0-9]{43}(?!\w)", distinct=False),
    Token("cargo-token", "cio", r"(?=[a-z]{0,30}[A-Z0-9])[A-Za-z0-9]{32}(?!\w)", distinct=False),
    Token("clojars-token", "CLOJARS_", r"[a-z0-9]{60}"),
    Token("huggingface-token", "hf_", r"(?=[a-z0-9]{0,33}[A-Z])[A-Za-z0-9]{34}(?!\w)"),
    Token("huggingface-token", "hf_ api_org_", r"[A-Za-z0-9]{30,}+", distinct=False),
    Token("docker-token", "dckr_pat_ dckr_oat_", r"[\w-]{20,}+"),
    Token("vault-token", "hvs. hvb. hvr.", _strong(r"[\w-]{24,}+")),
    Token("sonar-token", "sqp_ sqa_ squ_", r"[a-f0-9]{40}"),
    Token("sendgrid-key", "SG.", r"[\w-]{16,32}\.[\w-]{16,64}", distinct=False),
    Token("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", r"[a-f0-9]{32,}+"),
    Token("shopify-token", "shpat_ shpca_ shppa_ shpss_", _HEX + r"{32,}+"),
    Token("grafana-token", "glsa_ glc_", r"[\w+/]{32,}+={0,3}"),
    Token("grafana-token", "eyJrIjoi", r"[A-Za-z0-9]{40,}+={0,3}"),
    Token("atlassian-token", "ATATT3 ATCTT3", r"[\w=-]{20,}+"),
    Token("atlassian-token", "ATBB", r"[A-Za-z0-9]{28,}+", distinct=False),
    Token("databricks-token", "dapi", r"[a-f0-9]{32}(?:-\d)?(?!\w)"),
    Token("newrelic-key", "NRAK- NRII- NRJS- NRRA- NRSP-", r"[A-Za-z0-9-]{19,}+"),
    Token("postman-key", "PMAK-", r"[A-Za-z0-9-]{24,}+"),
    Token("linear-key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{32,}+"),
    Token("notion-token", "ntn_", r"[A-Za-z0-9]{40,}+", distinct=False),
    Token("planetscale-token", "pscale_tkn_ pscale_oauth_ pscale_pw_", r"[\w=.-]{32,}+"),
    Token("prefect-token", "pnu_ pnb_", r"[A-Za-z0-9]{36}(?!\w)", distinct=False),
    Token("pulumi-token", "pul-", r"[a-f0-9]{40}(?!\w)", distinct=False),
    Token("readme-token", "rdme_", r"[a-z0-9]{70}"),
    Token("brevo-key", "xkeysib- xsmtpsib-", r"[a-f0-9]{60,}+[\w-]*+"),
    Token("sentry-token", "sntrys_ sntryu_", r"[\w+/=-]{40,}+"),
    Token("sourcegraph-token", "sgp_", r"(?:(?:[a-f0-9]{16}|local)_)?[a-f0-9]{40}"),
    Token("square-token", "sq0atp- sq0csp-", r"[\w-]{22,}+"),
    Token("square-token", "EAAA", r"(?=[a-zA-Z]{0,60}[0-9_-])[\w-]{56,60}(?!\w)", distinct=False),
    Token("twilio-key", "SK", r"[a-f0-9]{32}(?!\w)", distinct=False),
    Token("mailgun-key", "key-", r"[a-f0-9]{32}(?!\w)", distinct=False),
    Token("typeform-token", "tfp_", r"[\w.-]{40,}+", distinct=False),
    Token("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa.", r"[\w.-]{40,}+", distinct=False),
    Token("dynatrace-token", "dt0c01. dt0s01. dt0s16.", r"[A-Za-z0-9]{24}\.[A-Za-z0-9]{60,}+"),
    Token("easypost-key", "EZAK EZTK", r"[A-Za-z0-9]{54}(?!\w)", distinct=False),
    Token("duffel-token", "duffel_test_ duffel_live_", r"[\w=-]{40,}+"),
    Token("flutterwave-key", "FLWSECK_TEST- FLWSECK-", r"[A-Za-z0-9]{12,}+(?:-X)?"),
    Token("fly-token", "fm1a_ fm1r_ fm2_", r"[A-Za-z0-9+/]{60,}+={0,3}"),
    Token("fly-token", "fo1_", r"[\w-]{43}", distinct=False),
    Token("frameio-token", "fio-u-", r"[\w=-]{60,}+", distinct=False),
    Token("heroku-key", "HRKU-", r"[\w-]{36,}+"),
    Token("infracost-key", "ico-", r"(?=[a-z]{0,30}[A-Z0-9])[A-Za-z0-9]{32}(?!\w)", distinct=False),
    Token("artifactory-key", "AKCp", r"[A-Za-z0-9]{69}(?!\w)", distinct=False),
    Token("artifactory-token", "cmVmd", r"[A-Za-z0-9]{59}(?![\w+/=])", distinct=False),
    Token("1password-token", "ops_eyJ", r"[A-Za-z0-9+/]{60,}+={0,3}"),
    Token("harness-token", "pat. sat.", r"[\w-]{22}\.\w{24}\.\w{20}(?!\w)", distinct=False),
    Token("airtable-token", "pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{64}(?!\w)", distinct=False),
    Token("hubspot-token", "pat-na1- pat-eu1-", r"[a-f0-9-]{36}(?!\w)", distinct=False),
    Token("openshift-token", "sha256~", r"[\w-]{43}(?![\w-])"),
    Token("supabase-key", "sbp_ sb_secret_", r"[\w-]{30,}+", distinct=False),
    Token("figma-token", "figd_ figu_ figo_", r"[\w-]{36,}+"),
    Token("tailscale-key", "tskey-", r"[a-z]{3,12}-\w{8,40}-\w{16,}+"),
    Token("buildkite-token", "bkua_ bkct_ bkpi_", r"[a-f0-9]{40}(?!\w)"),
    Token("circleci-token", "CCIPAT_ CCIPRJ_", r"\w{30,}+"),
    Token("octopus-key", "API-", r"(?=[A-Z]{0,25}[0-9])[A-Z0-9]{26,36}(?!\w)", distinct=False),
    Token("scalingo-token", "tk-us-", r"[\w-]{48}(?!\w)", distinct=False),
    Token("shippo-token", "shippo_live_ shippo_test_", r"[a-fA-F0-9]{40}"),
    Token("settlemint-token", "sm_aat_ sm_pat_ sm_sat_", r"[A-Za-z0-9]{16}(?!\w)"),
    Token("netlify-token", "nfp_ nfc_", r"[A-Za-z0-9]{36,}+", distinct=False),
    Token("snyk-token", "snyk_uat. snyk_sat.", r"[\w.-]{30,}+"),
    Token("intra42-key", "s-s4t2ud- s-s4t2af-", r"[a-f0-9]{64}"),
    Token("yandex-key", "AQVN", r"[\w-]{35,38}(?!\w)", distinct=False),
    Token("cloudflare-key", "v1.0-", r"[a-f0-9]{24}-[a-f0-9]{100,}+", distinct=False),
    Token("1password-key", "A3-", r"\w{6}-(?:\w{11}|\w{6}-\w{5})(?:-\w{5}){3}(?!\w)", False),
)


def _token_pattern(token: Token) -> str:
    """Return the pattern of a token of this kind, including its prefix."""
    prefixes = "|".join(map(re.escape, token.prefixes.split()))
    return ("" if token.distinct else START) + f"(?:{prefixes})(?:{token.body})"


_WORD = string.ascii_letters.encode() + string.digits.encode() + b"_-"
_CLAIMS = re.compile(rb"\.eyJ[\w-]{8,}+(?:\.[\w-]*+)?")
_MOST_HEADER = 8192


def _find_jwt(data: bytes, at: int) -> Sequence[tuple[int, int]]:
    """Return where a JSON Web Token begins and ends; `at` is the dot before its second part."""
    if (claims := _CLAIMS.match(data, at)) is None:
        return ()
    before = data[max(0, at - _MOST_HEADER) : at]
    word = before[len(before.rstrip(_WORD)) :]
    header = word.find(b"eyJ")
    return ((at - len(word) + header, claims.end()),) if 0 <= header < len(word) - 8 else ()


TOKEN_RULES = (
    *(match_rule(each.kind, each.prefixes.lower(), _token_pattern(each)) for each in TOKENS),
    # The prefix `sk-` alone is not enough: names in lower case with dashes may contain it.
    match_rule(
        "openai-key",
        "sk-",
        START + r"sk-(?=[\w-]{0,80}[0-9])(?=[\w-]{0,80}[A-Z])(?=[\w-]{0,40}?[A-Za-z0-9]{16})"
        r"[\w-]{20,}+",
    ),
    match_rule("model-key", "sk-", START + r"sk-[a-f0-9]{32,64}(?![\w-])"),
    Rule("jwt", (b".eyj",), _find_jwt),
    # An encrypted token: only its header is readable.
    match_rule(
        "jwt",
        "eyjhbgcioi eyjlbmmioi eyj0exaioi eyjrawqioi",
        r"eyJ[\w-]{16,800}\.[\w-]*+\.[\w-]{8,}+\.[\w-]{16,}+\.[\w-]{16,}+",
    ),
)


# ------------------------------------------------------------------------------------------- Base64


def base64_core(raw: bytes, shift: int) -> str:
    """Return the Base64 characters that depend on `raw` alone if `shift` bytes precede it."""
    encoded = base64.b64encode(b"\0" * shift + raw).decode().rstrip("=")
    last = len(encoded) - (1 if (shift + len(raw)) % 3 else 0)
    return encoded[_BASE64_SKIPPED[shift] : last]


_BASE64_SKIPPED = (0, 2, 3)
"""How many Base64 characters of a group depend on the bytes before it: for 0, 1 and 2 of them."""


_LEAST_PREFIX = 4
_ALPHABET = string.ascii_letters.encode() + string.digits.encode() + b"+/-_"
_STANDARD = bytes.maketrans(b"-_", b"+/")
_DECODED = 320
"""How many Base64 characters are decoded to see whether they contain a token."""

_MOST_BEFORE = 4096
_RUN = re.compile(
    rb"[A-Za-z0-9+/_-]*+={0,2}"
    rb"(?:[ \t]{0,40}(?:\r?\n|\\n)[ \t]{0,40}[A-Za-z0-9+/]{60,}+={0,2})*+"
)
"""The rest of a Base64 text, which may be wrapped into long lines."""

_LAST_LINE = re.compile(
    rb"[ \t]{0,40}(?:\r?\n|\\n)[ \t]{0,40}([A-Za-z0-9+/]{2,76}={0,2})(?=\s|\\n|\"|$)"
)


def _list_base64_rules(kind: str, prefix: str, pattern: str) -> Iterator[Rule]:
    """Yield a rule for each position that the prefix may have in a group of three bytes."""
    compiled = re.compile(pattern.encode())
    for shift in range(3):
        core = base64_core(prefix.encode(), shift).encode()
        if len(core) >= _LEAST_PREFIX:
            yield Rule(kind, (core.lower(),), partial(_find_encoded, core, shift, compiled))


def _find_encoded(
    core: bytes, shift: int, pattern: re.Pattern[bytes], data: bytes, at: int
) -> Sequence[tuple[int, int]]:
    """Return where the Base64 text begins and ends that contains a token with the prefix `core`."""
    first = at - _BASE64_SKIPPED[shift]
    if first < 0 or not data.startswith(core, at):
        return ()
    if not pattern.match(_decode_start(data[first : first + _DECODED]), shift):
        return ()
    before = data[max(0, first - _MOST_BEFORE) : first]
    start = first - (len(before) - len(before.rstrip(_ALPHABET)))
    return ((start, _find_end(data, at)),)


def _find_end(data: bytes, at: int) -> int:
    found = _RUN.match(data, at)
    end = found.end() if found is not None else at
    wrapped = b"\n" in data[at:end] or b"\\n" in data[at:end]
    last = _LAST_LINE.match(data, end) if wrapped and data[end - 1 : end] != b"=" else None
    # What is no Base64 by its looks may be the next line of the log.
    ends = last is not None and (last[1].endswith(b"=") or looks_like_base64(last[1]))
    return last.end() if last is not None and ends else end


def _decode_start(encoded: bytes) -> bytes:
    """Decode the Base64 that a text begins with, b"" if it is not valid."""
    run = _RUN.match(encoded)
    clean = re.sub(rb"\s|\\n|=", b"", run[0] if run is not None else b"").translate(_STANDARD)
    try:
        return base64.b64decode(clean[: -1 if len(clean) % 4 == 1 else None] + b"==")
    except binascii.Error:
        return b""


def _make_base64_rules() -> Iterator[Rule]:
    yield from _list_base64_rules(
        "private-key", "-----BEGIN ", r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY"
    )
    for first in ("alg", "kid", "typ", "enc"):  # the header's first field: a job's token has "kid"
        prefix = base64.b64encode(f'{{"{first}":"'.encode()).decode()[:10]
        yield from _list_base64_rules("jwt", prefix, rf"{prefix}[\w-]{{4,160}}\.[\w-]{{8}}")
    for token in TOKENS:
        for prefix in token.prefixes.split():
            yield from _list_base64_rules(token.kind, prefix, _token_pattern(token))


BASE64_RULES = tuple(_make_base64_rules())
