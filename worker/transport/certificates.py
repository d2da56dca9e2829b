"""Whose certificates are trusted, and what is wrong with one that is not.

Every library has a variable of its own for a private certificate authority; `SSL_CERT_FILE` (or
`SSL_CERT_DIR`) is here enough for all of them. OpenSSL, under redis-py and py-amqp, and httpx read
it themselves; what goes by requests and boto3 is told by `find_trusted`.
"""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from urllib3.util.ssl_match_hostname import CertificateError

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
    for each in list_causes(error):
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


def list_causes(error: BaseException) -> list[BaseException]:
    """List an error and what caused it, wherever libraries keep that."""
    found, pending = list[BaseException](), [error]
    while pending and len(found) < _MOST_CAUSES:
        each = pending.pop()
        if any(each is other for other in found):
            continue
        found.append(each)
        inner = (each.__cause__, each.__context__, getattr(each, "reason", None), *each.args)
        pending += [cause for cause in inner if isinstance(cause, BaseException)]
    return found
