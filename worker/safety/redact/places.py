"""Places that hold credentials, whatever these look like: headers, URLs, options, files, and the
private parts (`d`, `p`, `q`, `dp`, `dq`, `qi`, `k`) of a key in JSON (a JWK)."""

import re
from collections.abc import Sequence

from worker.safety.redact.rules import Rule, looks_like_password, match_rule

_REFERENCE = (
    r"(?!\\{0,3}[\"']?(?:\[|<[^>\n]{0,80}>|\{\{|\{[\w.-]{0,80}\}|\*{3}|\$[\[{(]"
    r"|\$\w+(?:[\"'\s@/:,;)]|$)|%\w+%|[xX]{6,}(?![A-Za-z0-9])))"
)
"""What follows is not a reference to a variable, a placeholder or a mark."""

_NO_LINE_END = r"(?!\\{1,3}n)"
"""Before each character: what stands on several lines is no single value, in JSON too."""

_NO_WORDS = r"(?!(?i:authenticat|authoriz|credential|required|realm|error|token\b|null|none))"

_AUTHORIZATION = (
    r"(?i:authorization)(?:(?:\\{0,3}[\"'])?[ \t]*+(?::|=>?|%3[aAdD])|\\{0,3}[\"'][ \t]?,"
    r"(?=[ \t]?\\{0,3}[\"']))[ \t]*+(?:\\{0,3}[\"'])?"
)

_CLIENTS = b"curl|lftp|wget|https?|xh|svn|ncftp\\w*|smbclient|ldap\\w+|jfrog|jf"
_LOGINS = (
    b"login|sshpass|twine|mongo(?:sh|dump|restore|export|import)?|skopeo|rcon|cqlsh|influx"
    b"|security|htpasswd|smbclient|sqlcmd|bcp|ipmitool|ldap\\w+|zip|unzip"
)
_OPTION = r"(?:[^\s\"'\\\x1b]|\\(?![\"']))"
"""A character of an option's value."""

_GLUED = b"mysql\\w*|mariadb[\\w-]*|7z\\w?|sshpass|sqlcmd"


def _option_rule(hints: str, commands: bytes, pattern: str) -> Rule:
    """Make a rule for an option that takes a credential only after one of the `commands`."""
    before = re.compile(
        rb"(?:(?<![\w.-])|(?<=[0-9]m)|(?<=\\n))(?:%b)(?:\.exe)?(?:[ \t]|\\{0,3}[\"'],)"
        rb"[^\n|;]{0,400}$" % commands
    )
    rule = match_rule("secret", hints, pattern)

    def find(data: bytes, at: int) -> Sequence[tuple[int, int]]:
        if not (found := rule.find(data, at)):
            return ()
        line = data[max(data.rfind(b"\n", 0, at) + 1, at - 400) : at]
        return found if before.search(line) else ()

    return Rule("secret", rule.hints, find)


def _cookie_rule(hint: str, pattern: str) -> Rule:
    """Make a rule for the pairs of a header with cookies, if one of them is a cookie's value."""
    rule = match_rule("cookie", hint, pattern)

    def find(data: bytes, at: int) -> Sequence[tuple[int, int]]:
        if not (found := rule.find(data, at)):
            return ()
        pairs = (pair.strip().partition(b"=") for pair in data[slice(*found[0])].split(b";"))
        return found if any(_holds_secret(name, value) for name, _, value in pairs) else ()

    return Rule("cookie", rule.hints, find)


_HEAD = 200
"""The most bytes of a cookie's value that are examined."""

_ATTRIBUTE = re.compile(
    rb"(?i:samesite|path|domain|expires|max-?age|secure|httponly|priority|partitioned|size|limit)$"
)
_SECRET_NAME = re.compile(rb"(?i:sess|sid|auth|token|csrf|xsrf|jwt|key|pass|secret|login|user|id$)")
_PLACEHOLDER = re.compile(
    rb"(?i:\W{0,40}|.{0,5}|(?-i:\$\{?(?:[A-Z_][A-Z0-9_]{0,60}|[a-z_]{1,40})\}?)"
    rb"|\{{1,2}[\w.-]{0,80}\}{0,2}|<[\w.-]{0,80}>?|%(?:[sdrv]|\w{1,40}%|\(\w{1,40}\)s)|\[redacted.{0,60}|x{4,80}"
    rb"|(?:my|your|some|the|an?|fake|dummy|test|invalid|deleted|expired|missing|example|undefined"
    rb"|value|cookie|session|accept|reject)(?:[_-][a-z]{1,20})?)$"
)
_WORDS = re.compile(
    rb"(?:[A-Z]?[a-z]{1,15}|[A-Z]{1,10})(?:[-_.](?:[A-Z]?[a-z]{1,15}|[A-Z]{1,10})){0,4}(?:-8)?$"
    rb"|[0-9]{1,8}$"
)


def _holds_secret(name: bytes, value: bytes) -> bool:
    """Whether a pair may be somebody's cookie, and not an attribute, a setting or a placeholder."""
    value = value.rstrip(b"`.,)]>")[:_HEAD]
    if _ATTRIBUTE.match(name) or _PLACEHOLDER.match(value):
        return False
    return bool(_SECRET_NAME.search(name)) or not _WORDS.match(value)


_OF_LOGIN = re.compile(rb"password[ \t]++(\S{6,128})[ \t\r]*+(?:\n|$)")


def _find_netrc(data: bytes, at: int) -> Sequence[tuple[int, int]]:
    """Return where the password is in a netrc file that has each entry on a line of its own."""
    if (found := _OF_LOGIN.match(data, at)) is None:
        return ()
    indent = data[max(0, at - 40) : at].rstrip(b" \t")
    alone = indent.endswith(b"\n") or (not indent and at <= 40)
    return (found.span(1),) if alone and looks_like_password(found[1], constant=False) else ()


PLACE_RULES = (
    Rule("secret", (b"password ", b"password\t"), _find_netrc),
    match_rule(
        "docker-auth", '"auth', r'"auth\\{0,3}"[ \t]*+:[ \t]*+\\{0,3}"([A-Za-z0-9+/=]{12,}+)'
    ),
    match_rule(
        "authorization",
        "authorization",
        _AUTHORIZATION
        + r"(?i:(?:bearer|basic|token|negotiate|ntlm|apikey|api-key|genie-?key|gitlab|ssws)"
        + rf"(?:[ \t]++|%20|\+)){_NO_WORDS}{_REFERENCE}([^\s\"',;\\]{{8,}}+)",
    ),
    match_rule(
        "authorization",
        "authorization",
        _AUTHORIZATION
        + r"(?i:(?:digest|hawk|oauth|aws4-hmac-sha256)[ \t]++)"
        + _REFERENCE
        + r"([^\n'{}\[\]]{16,2048}+)",
    ),
    match_rule(
        "authorization",
        "authorization",
        rf"{_AUTHORIZATION}(?:[A-Za-z][\w-]{{1,30}}[ \t]++)?{_REFERENCE}"
        r"(?=[^\s\"',;\\]{0,80}[0-9])([^\s\"',;\\]{8,}+)(?=[\"'\\]|[ \t]*+(?:\n|$))",
    ),
    match_rule(
        "authorization",
        "bearer",
        r"(?i:bearer)(?:[ \t]{1,4}|%20)(?=[\w.~+/-]{0,200}[0-9])([\w.~+/-]{20,}+={0,2})",
    ),
    match_rule(
        "url-password",
        "://",
        rf"://[^\s/@:\"'<>]{{0,64}}:{_REFERENCE}"
        rf"((?:{_NO_LINE_END}[^\s/@\"'<>]){{1,256}}(?:@[^\s/@\"'<>]{{1,128}}){{0,3}})(?=@[\w\[.-])",
    ),
    # A password with a slash in it. If it begins like a port, it is a host and its path.
    match_rule(
        "url-password",
        "://",
        rf"://[^\s/@:\"'<>\[]{{1,64}}:{_REFERENCE}(?![0-9]{{1,5}}[/,?#])"
        rf"((?:{_NO_LINE_END}[^\s@\"'<>,;()]){{1,256}})"
        r"(?=@[A-Za-z0-9][\w-]*+(?:\.[\w-]++)*+(?:[:/?#\s\"']|$))",
    ),
    # A token in place of the user name.
    match_rule(
        "url-password",
        "://",
        rf"://{_REFERENCE}(?=[^\s/@:\"'<>]{{0,100}}[0-9])([^\s/@:\"'<>.]{{16,512}})(?=(?::[^\s/@\"'<>]{{0,64}})?@[\w\[.-])",
    ),
    match_rule(
        "slack-webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/]{20,}+)",
    ),
    match_rule("webhook-secret", "/api/webhooks/", r"/api/webhooks/[0-9]{6,20}/([\w-]{30,}+)"),
    match_rule("webhook-secret", "/webhookb2/", r"/webhookb2/([\w@/-]{60,}+)"),
    match_rule("azure-key", "accountkey=", r"(?i:accountkey)=([A-Za-z0-9+/%]{40,}+={0,2})"),
    match_rule(
        "azure-key", "sharedaccesskey=", r"(?i:sharedaccesskey)=([A-Za-z0-9+/%]{20,}+={0,2})"
    ),
    match_rule("azure-key", "sig=", r"(?i:(?<![a-z])sig)=([A-Za-z0-9%+/_-]{24,}+={0,2})"),
    match_rule(
        "azure-key", "q~", r"(?<![\w~.])[\w~.]{3}[0-9]Q~[\w~.-]{31,34}(?![\w~.-])", before=4
    ),
    match_rule(
        "url-signature",
        "-signature= &signature= ?signature=",
        r"(?i:(?:(?<=amz)|(?<=goog))-signature|[?&]signature)=([\w%+/~-]{20,}+={0,2})",
    ),
    match_rule("telegram-token", ":aa", r"(?<=[0-9]{8}):(AA[\w-]{33})(?![\w-])"),
    match_rule(
        "terraform-token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}+", before=14
    ),
    match_rule("mailchimp-key", "-us", r"[a-f0-9]{32}-us[0-9]{1,2}(?!\w)", before=32),
    match_rule("maxmind-key", "_mmk", r"\w{6}_[A-Za-z0-9]{29}_mmk(?!\w)", before=36),
    _cookie_rule(
        "set-cookie",
        r"(?i:set-cookie2?)(?:\\{0,3}[\"'])?[ \t]*+(?::|=>?)[ \t]*+(?:\\{0,3}[\"'])?"
        + r"([\w.$!%*+~^-]{1,128}=(?![;,\s\"'])[^\s;\"'\\]{6,}+)",
    ),
    _cookie_rule(
        "cookie",
        r"(?i:(?<!set-)cookie)(?:\\{0,3}[\"'])?[ \t]*+(?::|=>)[ \t]*+(?:\\{0,3}[\"'])?"
        r"((?:[\w.$!%*+~^-]{1,128}=[^\s;\"'\\]*+(?:;[ \t]*+(?=[\w.$!%*+~^-]{1,128}=))?)++)",
    ),
    _option_rule(
        "-u --user --http-user --proxy-user",
        _CLIENTS,
        r"(?<=[\s\"'])(?:-u|--(?:http-|proxy-)?user)[= \t]{0,3}[\"']?[^\s:\"'$]{0,128}:"
        rf"{_REFERENCE}(?![0-9]{{1,5}}(?:\s|$))([^\s\"']{{4,}}+)",
    ),
    _option_rule(
        "-p -w",
        _LOGINS,
        rf"(?<=[\s\"'])-[pPw](?:=|\\{{0,3}}[\"'][ ]?,[ ]?|[ \t]++)\\{{0,3}}[\"']?{_REFERENCE}"
        r"(?!-|[0-9]{1,5}(?:\s|:|$))((?:[^\s\"'\\]|\\(?![\"'])){6,}+)",
    ),
    _option_rule(
        "-p",
        _GLUED,
        rf"(?<=[\s\"'])-[pP](?=[^\s=])[\"']?{_REFERENCE}({_OPTION}{{6,}}+)",
    ),
    match_rule(
        "secret",
        ";pwd=",
        rf";(?i:pwd)={_REFERENCE}(?![/~])([^\s;\"'<>]{{6,128}})(?=[;\"'\s]|$)",
    ),
    match_rule(
        "secret",
        "storepass keypass",
        rf"(?:(?<=-)|(?<=-src)|(?<=-dest))(?:store|key)pass[ \t]++[\"']?{_REFERENCE}(?!-)"
        r"(?=[A-Za-z.,]{0,128}[^A-Za-z\s\"'.,])([^\s\"']{6,128})",
    ),
    match_rule(
        "secret",
        "login",
        rf"login[ \t]++\S{{1,128}}[ \t]++password[ \t]++{_REFERENCE}(\S{{4,}}+)",
    ),
    match_rule(
        "secret",
        "password> passwd> passphrase> passwort> password&gt; passphrase&gt;",
        rf"[A-Za-z]{{6,10}}(?:>|&gt;){_REFERENCE}(?!&lt;)"
        rf"((?:{_NO_LINE_END}[^<>\s&]|&(?!lt;)){{6,512}})(?=</|&lt;/)",
    ),
    match_rule(
        "secret",
        "privatekey> secretkey> clientsecret> apikey> apitoken> accesstoken> token> secret>",
        rf"[A-Za-z]{{5,12}}>{_REFERENCE}(?=[^<]{{0,200}}[0-9])"
        rf"((?:{_NO_LINE_END}[^<>\s]){{8,512}})(?=</)",
    ),
    match_rule(
        "secret",
        "http-basic.",
        rf"(?i:http-basic)\.[\w.-]{{1,80}}[ \t]++\S{{1,80}}[ \t]++[\"']?{_REFERENCE}"
        r"([^\s\"']{4,128})",
    ),
    match_rule(
        "secret",
        "ssh-keygen",
        rf"ssh-keygen[ \t](?:[^\n]{{0,200}}?[ \t])??-N[ \t]?[\"']?{_REFERENCE}"
        r"([^\s\"'-][^\s\"']{3,128})",
    ),
    match_rule(
        "secret",
        "identified",
        rf"(?i:identified[ ]by)[ \t]++(?i:password[ \t]++)?'{_REFERENCE}([^'\n]{{4,128}})'",
    ),
    match_rule(
        "secret",
        "password",
        rf"(?i:password)[ \t]++'{_REFERENCE}(?=[^']{{0,128}}[0-9])([^'\s]{{6,128}})'",
    ),
    match_rule(
        "secret",
        "<rsakeyvalue>",
        # Only long lines of Base64 are wrapped: between two tags may stand no line of a log.
        r"<RSAKeyValue>\s*+((?:<\w+>(?:\s{0,80}+[A-Za-z0-9+/]{40,76}+(?=\s)){0,40}+"
        r"\s{0,80}+[A-Za-z0-9+/]{0,3000}+={0,2}+\s{0,80}+</\w+>\s{0,80}+){4,12})",
    ),
)


# ------------------------------------------------------------------------------------- keys in JSON

_MOST = 4096
"""The most bytes before and after the key's type that may belong to the same key."""

_QUOTE = rb"\\{0,3}[\"']"
_TYPE = re.compile(rb"%b\s{0,8}:\s{0,8}%b(?:RSA|EC|OKP|oct|AKP)%b" % ((_QUOTE,) * 3))
_PRIVATE = re.compile(
    rb"%b(?:d|p|q|dp|dq|qi|k|priv)%b\s{0,8}:\s{0,8}%b([A-Za-z0-9_-]{16,2048})" % ((_QUOTE,) * 3)
)


def _find(data: bytes, at: int) -> Sequence[tuple[int, int]]:
    """Return where the private parts of the key are whose type is at `at`."""
    name = at + len(b"kty")
    if _TYPE.match(data, name) is None:
        return ()
    before = max(0, at - _MOST)
    start = max(before, data.rfind(b"{", before, at))
    if data.rfind(b"kty", start, at) >= 0:  # each key is read once
        return ()
    end = data.find(b"}", at, at + _MOST)
    return [
        each.span(1) for each in _PRIVATE.finditer(data, start, end if end >= 0 else at + _MOST)
    ]


JSON_KEY_RULES = (Rule("private-key", (b'kty"', b"kty\\", b"kty'"), _find),)
