"""Google's token endpoint on a loopback port, strict, and a service account that belongs to it."""

import json
import threading
import time
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt

EMAIL = "sandpiper@my-project.iam.gserviceaccount.com"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
AUDIENCE = "https://oauth2.googleapis.com/token"
"""What google-auth names as the audience, wherever the token endpoint is."""
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@cache
def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _private_pem() -> str:
    return (
        _key()
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        .decode()
    )


def _public_pem() -> bytes:
    return (
        _key()
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


@dataclass
class TokenServer:
    """Exchanges assertions signed by the account for tokens: ya29.test-1, ya29.test-2, ….

    `lifetime` is in seconds; `faults` are statuses for the next exchanges, in order; `refused` says
    what was wrong with assertions that were not taken.
    """

    lifetime: int = 3600
    faults: list[int] = field(default_factory=list)
    issued: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    asked: int = 0
    pause: float = 0.0

    def __enter__(self) -> "TokenServer":
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.uri = f"http://127.0.0.1:{self._server.server_port}/token"
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)

    def account(self, path: Path) -> str:
        """Write the account's JSON file to `path`; returns its name."""
        fields = {
            "type": "service_account",
            "project_id": "my-project",
            "private_key_id": "key-1",
            "private_key": _private_pem(),
            "client_email": EMAIL,
            "token_uri": self.uri,
        }
        path.write_text(json.dumps(fields))
        return str(path)

    def exchange(self, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """Status and body of an answer."""
        self.asked += 1
        time.sleep(self.pause)
        if self.faults:
            return self.faults.pop(0), {"error": "unauthorized_client"}
        if wrong := self._wrong(form):
            self.refused.append(wrong)
            return 400, {"error": "invalid_grant", "error_description": wrong}
        self.issued.append(f"ya29.test-{len(self.issued) + 1}")
        token = {"access_token": self.issued[-1], "token_type": "Bearer"}
        return 200, {**token, "expires_in": self.lifetime}

    def _wrong(self, form: dict[str, list[str]]) -> str:
        if form.get("grant_type") != [GRANT] or set(form) != {"grant_type", "assertion"}:
            return "grant_type or fields"
        try:
            claims = jwt.decode(form["assertion"][0], certs=_public_pem(), audience=AUDIENCE)  # type: ignore[no-untyped-call]
        except ValueError as error:
            return f"assertion: {error}"
        if claims["iss"] != EMAIL or SCOPE not in claims["scope"].split():
            return "iss or scope"
        return "" if claims["exp"] - claims["iat"] <= 3600 else "exp"


def _handler(server: TokenServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            plain = self.headers["content-type"] == "application/x-www-form-urlencoded"
            known = plain and self.path == "/token"
            status, body = server.exchange(parse_qs(raw.decode())) if known else (404, {})
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
