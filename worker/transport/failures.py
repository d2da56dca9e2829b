"""Why a server that we asked gave no answer, in one line: what was found, and what to do; whose
certificates are trusted; and how long a server asks to wait.

Every library wraps what the operating system, OpenSSL or a proxy has said into errors of its own.
The causes are told apart here and nowhere else; an adapter adds what it wanted and from whom.

Every library also has a variable of its own for a private certificate authority; `SSL_CERT_FILE`
(or `SSL_CERT_DIR`) is here enough for all of them. OpenSSL, under redis-py and py-amqp, and httpx
read it themselves; what goes by requests and boto3 is told by `find_trusted`.
"""

import os
import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from errno import EACCES, EHOSTUNREACH, ENETUNREACH, ENOENT, EPERM, ETIMEDOUT
from pathlib import Path
from urllib.parse import urlsplit

from urllib3.util.ssl_match_hostname import CertificateError

LOOK_SECONDS = 1.0
"""Seconds for finding out whether a server that hangs up speaks TLS."""

_LONGEST = 300
_PORTS = {"http": 80, "redis": 6379, "amqp": 5672, "tcp": 2376}
_TLS_SCHEMES = {"http": "https", "redis": "rediss", "amqp": "amqps", "sentinel": "sentinels"}
_PLAIN_SCHEMES = {secure: plain for plain, secure in _TLS_SCHEMES.items()}

_CONNECTING = {"ConnectTimeout", "ConnectTimeoutError"}
_READING = {"ReadTimeout", "ReadTimeoutError", "WriteTimeout", "PoolTimeout"}
_NO_HTTP = {"BadStatusLine", "UnknownProtocol", "LineTooLong"}
_BROKEN_OFF = {"IncompleteRead", "IncompleteReadError", "ChunkedEncodingError"}
_CLOSED = re.compile(
    r"disconnected without sending a response|[Cc]onnection closed|closed by server|"
    r"without (?:a )?response|Server unexpectedly closed"
)
_PROXY_STATUS = re.compile(r"(?:Tunnel connection failed: |^)([1-5]\d\d)(?: |$)")
_TLS_PORT = re.compile(
    rb"plain HTTP request was sent to HTTPS port|HTTP request to an HTTPS server|"
    rb"speaking plain HTTP to an SSL-enabled server port"
)
"""What nginx (GitLab's own), Go's servers and Apache answer to plain HTTP on a port for TLS."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What was found, and what to do ("" where nobody can know). `lasts`: waiting is no help."""

    finding: str
    advice: str = ""
    lasts: bool = False

    def __str__(self) -> str:
        return f"{self.finding}: {self.advice}" if self.advice else self.finding


def describe_failure(error: BaseException, url: str, setting: str = "SSL_CERT_FILE") -> str:
    """Return one line about a request that got no usable answer: from where, why, what to do.

    See `find_cause`.
    """
    return f"no answer from {show_address(url)}: {find_cause(error, url, setting)}"


def show_address(url: str) -> str:
    """Return a URL without what may be secret: user, password, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that is no URL"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"[:_LONGEST].rstrip("/")


def find_cause(
    error: BaseException,
    url: str,
    setting: str = "SSL_CERT_FILE",
    *,
    by_proxy: bool = True,
    advice: str = "start it, or correct its address",
) -> Cause:
    """Return why a request to `url` failed. A server that hangs up on plain text is asked, for
    LOOK_SECONDS at most, whether it speaks TLS.

    `setting` is what names the certificates to trust; `by_proxy` says whether the client uses the
    proxies of the environment, and `advice` what to do where nothing listens.
    """
    causes = _list_causes(error)
    scheme = url.partition("://")[0]
    if problem := explain_tls_failure(error, setting, _PLAIN_SCHEMES.get(scheme, "")):
        finding, _, what_to_do = problem.partition(": ")
        return Cause(finding, what_to_do, lasts=True)
    proxy, variable = _find_proxy(url) if by_proxy else ("", "")
    refusals = filter(None, (_PROXY_STATUS.search(_read_text(each)) for each in causes))
    if proxy and (refusal := next(refusals, None)):
        return _explain_proxy(int(refusal[1]), proxy, variable)
    if first := _find_no_way(causes, proxy or url, advice):
        if not proxy:
            return first
        what_to_do = f"correct {variable}, or let NO_PROXY name the host if it needs no proxy"
        return Cause(f"its proxy {show_address(proxy)}: {first.finding}", what_to_do)
    if broken := _find_broken_talk(causes, "" if proxy else url):
        return broken
    text = " ".join(_read_text(error).split())
    line = "".join(char for char in text if char.isprintable())[:_LONGEST]
    return Cause(line.rstrip(".") or type(error).__name__)


def explain_tls_port(body: bytes, url: str) -> Cause | None:
    """Return what is wrong if a server answers that plain HTTP came to its port for TLS."""
    return _say_tls(url) if _TLS_PORT.search(body[:4096]) else None


def explain_proxy_status(status: int, url: str) -> Cause | None:
    """Return what is wrong if an answer is the refusal of a proxy that plain HTTP goes through."""
    if status != 407:  # most answers: the environment is not read for them
        return None
    proxy, variable = _find_proxy(url)
    return _explain_proxy(status, proxy, variable) if proxy else None


# ---------------------------------------------------------------------------------- before a word


def _find_no_way(causes: Sequence[BaseException], place: str, advice: str) -> Cause | None:
    names = {type(each).__name__ for each in causes}
    numbers = {each.errno for each in causes if isinstance(each, OSError)}
    if any(isinstance(each, socket.gaierror) for each in causes):
        host = _split_host(place)[0] or show_address(place)
        return Cause(
            f"no host is found by the name {host}",
            "correct the name, or see that this machine's DNS knows it",
        )
    if any(isinstance(each, ConnectionRefusedError) for each in causes):
        return Cause("nothing listens there (connection refused)", advice)
    if numbers & {ENETUNREACH, EHOSTUNREACH}:
        return Cause(
            "there is no route to it from here",
            "correct the address, or this machine's network",
        )
    if numbers & {EACCES, EPERM}:
        return Cause("this user may not use it (permission denied)", "add the user to its group")
    if ENOENT in numbers:
        return Cause("there is no such socket", advice)
    if names & _CONNECTING or ETIMEDOUT in numbers or _says(causes, "Timeout connecting"):
        return Cause(
            "no connection was made in the time for it",
            "correct the address, or see which firewall drops what is sent there",
        )
    return None


def _split_host(url: str) -> tuple[str, int]:
    with suppress(ValueError):
        parts = urlsplit(url)
        return parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    return "", 0


# ------------------------------------------------------------------------------------ while talking


def _find_broken_talk(causes: Sequence[BaseException], url: str) -> Cause | None:
    """Return what went wrong after the connection was made; `url` is "" behind a proxy."""
    names = {type(each).__name__ for each in causes}
    if names & _READING or any(isinstance(each, TimeoutError) for each in causes):
        return Cause("it did not answer in time", "see whether it is busy or hangs")
    if names & _BROKEN_OFF or _says(causes, "without sending complete message body"):
        return Cause("its answer broke off", "see its log, and that of what stands before it")
    is_other = bool(names & _NO_HTTP) or _says(causes, "illegal status line")
    is_reset = any(isinstance(each, ConnectionResetError | BrokenPipeError) for each in causes)
    is_closed = is_reset or any(_CLOSED.search(_read_text(each)) for each in causes)
    if (is_other or is_closed or _says(causes, r"\x15\x03")) and _speaks_tls(url):
        return _say_tls(url)
    if is_other:
        return Cause("what answers there does not speak HTTP", "correct the port")
    if is_closed:
        return Cause(
            "it closed the connection without an answer",
            "see its log, and that of what stands before it",
        )
    return None


def _speaks_tls(url: str) -> bool:
    """Whether a server, which was talked to without TLS, speaks TLS."""
    host, port = _split_host(url)
    if url.partition("://")[0] not in (*_TLS_SCHEMES, "tcp") or not host:
        return False
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), LOOK_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        return error.reason is not None and "ALERT" in error.reason  # an alert is TLS, too
    except (OSError, ValueError):
        return False


def _say_tls(url: str) -> Cause:
    scheme = url.partition("://")[0]
    advice = "set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH"
    if secure := _TLS_SCHEMES.get(scheme):
        advice = f"write {secure}:// instead of {scheme}://"
    return Cause("it speaks TLS at this port", advice, lasts=True)


# ------------------------------------------------------------------------------------------ proxies


def _find_proxy(url: str) -> tuple[str, str]:
    """Return the proxy of the environment for a URL, and the variable that names it."""
    if not url.startswith(("http://", "https://")):
        return "", ""
    # requests takes a tenth of a second to import, which only a failure has to spend.
    from requests.utils import get_environ_proxies, select_proxy

    scheme = url.partition("://")[0]
    offered = get_environ_proxies(url, no_proxy=None)
    proxy = select_proxy(url, offered) or ""
    return proxy, f"{scheme.upper() if scheme in offered else 'ALL'}_PROXY"


def _explain_proxy(status: int, proxy: str, variable: str) -> Cause:
    place = f"its proxy {show_address(proxy)}"
    if status == 407:
        return Cause(
            f"{place} wants a user and a password, or others (407)",
            f"put them into {variable}: http://user:password@host:port",
        )
    if status >= 500:
        return Cause(
            f"{place} does not get through to it ({status})",
            "correct the address, or see the proxy's log",
        )
    return Cause(
        f"{place} refuses to connect to it ({status})",
        "have the proxy allow it, or let NO_PROXY name the host if it needs no proxy",
    )


def _says(causes: Sequence[BaseException], words: str) -> bool:
    return any(words in _read_text(each) for each in causes)


def _read_text(error: BaseException) -> str:
    try:
        return str(error)
    except (AttributeError, TypeError):  # one that was not made by its own constructor
        return ""


# ----------------------------------------------------------------------------------- certificates

TRUSTED = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""The variables that hold for every connection, the first that is set before the other."""

OTHERS = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE")
"""Those of single libraries, which go before them: GitLab's and the traces', and S3's."""

_MOST_CAUSES = 50
_EXPIRED, _NOT_YET, _SELF_SIGNED, _WRONG_HOST, _WRONG_ADDRESS = 10, 9, 18, 62, 64
_UNKNOWN_SIGNERS = (2, 7, 19, 20, 21)
"""OpenSSL's numbers: https://docs.openssl.org/3.0/man3/X509_STORE_CTX_get_error/."""

_SPEAKS_NO_TLS = "it does not speak TLS at this port"
_NO_TLS = ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")


def find_trusted(env: Mapping[str, str] = os.environ) -> str | None:
    """Return the file, or the folder, of the certificates to trust instead of the usual ones, or
    None."""
    return next((env[name] for name in TRUSTED if env.get(name)), None)


def find_unusable_file(env: Mapping[str, str] = os.environ) -> str:
    """Return what is wrong with what the variables name, "" if nothing is.

    One that is not there would end runs in one library, and trust nobody in another.
    """
    for name in (*TRUSTED, *OTHERS):
        place = Path(env.get(name) or "/")
        if place.is_dir():
            continue
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(place)
        except (OSError, ssl.SSLError) as error:
            why = "there is no file" if isinstance(error, FileNotFoundError) else "no certificates:"
            return f"{name}: {why} {place}: name a file of certificates (PEM), or unset it"
    return ""


def explain_tls_failure(
    error: BaseException, setting: str = "SSL_CERT_FILE", plain: str = "http"
) -> str:
    """Return what is wrong with a server's certificate, or with its TLS, and what to do; "" if the
    error, and whatever caused it, is about something else.

    `setting` is what names the certificates to trust, `plain` the scheme of the same without TLS.
    """
    for each in _list_causes(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return _explain_certificate(each.verify_code, each.verify_message, setting)
        if isinstance(each, CertificateError):  # urllib3 compares names by itself where it is asked
            return _explain_certificate(_WRONG_HOST, str(each), setting)
        if isinstance(each, ssl.SSLError) and each.reason in _NO_TLS:
            advice = f"write {plain}:// instead of {plain}s://" if plain else "correct the port"
            return f"{_SPEAKS_NO_TLS}: {advice}"
    return ""


def _explain_certificate(code: int, said: str, setting: str) -> str:
    message = " ".join(said.split())[:200].rstrip(".")
    known = {
        _EXPIRED: "has expired: renew it, and see that this machine's clock is right",
        _NOT_YET: "is not valid yet: see that the clocks of both machines are right",
        _SELF_SIGNED: "is signed by itself and not trusted: "
        f"let {setting} name a file with this certificate in it, or give the server another",
        _WRONG_HOST: f"is for another host ({message}): "
        "use the name that it is for, or give the server one for this name",
        **dict.fromkeys(
            _UNKNOWN_SIGNERS,
            "is signed by an authority that is not trusted here: "
            f"let {setting} name a file with that authority's certificate in it",
        ),
    }
    known[_WRONG_ADDRESS] = known[_WRONG_HOST]
    return f"its certificate {known.get(code, f'is not trusted: {message}')}"


def _list_causes(error: BaseException) -> list[BaseException]:
    found, pending = list[BaseException](), [error]
    while pending and len(found) < _MOST_CAUSES:
        each = pending.pop()
        if any(each is other for other in found):
            continue
        found.append(each)
        inner = (each.__cause__, each.__context__, getattr(each, "reason", None), *each.args)
        pending += [cause for cause in inner if isinstance(cause, BaseException)]
    return found


# ------------------------------------------------------------------------------------ Retry-After

_LONGEST_TEXT = 100


def read_retry_after(value: str, date: str, now: float) -> float | None:
    """Return the seconds that a server asks us to wait, None if `value` asks for no wait at all.

    `date` is the header Date of the same answer: a date is a time of the server's clock, and so
    counts from that one, whatever ours says. Without it, `now` counts (epoch seconds). A date that
    has passed says nothing of how long to wait.
    """
    seconds = parse_seconds(value)
    if seconds is not None:
        return seconds
    until, since = _parse_date(value), _parse_date(date)
    if until is None:
        return None
    wait = until - (now if since is None else since)
    return wait if wait > 0 else None


def parse_seconds(value: str) -> float | None:
    """Return a number of seconds that can be waited for, else None."""
    try:
        seconds = float(value[:_LONGEST_TEXT])
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _parse_date(value: str) -> float | None:
    """Return a date in epoch seconds; None if it is none, or one that no clock shows."""
    try:
        moment = parsedate_to_datetime(value[:_LONGEST_TEXT])
        # A date with the offset "-0000", or without one, is parsed without a time zone: it is UTC.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
