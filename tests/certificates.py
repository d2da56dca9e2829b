"""Certificates that a test makes, which hold or do not, and TLS in front of any server."""

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOCAL = ("localhost", "127.0.0.1")
DAY = timedelta(days=1)
VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
             "AWS_CA_BUNDLE")  # fmt: skip


@dataclass
class Authority:
    """Signs servers' certificates; who is to trust them is given `ca_file`."""

    folder: Path
    name: str = "ca"
    _key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.ca_file = str(self.folder / f"{self.name}.pem")
        made = self._make(f"The authority {self.name}", self._key, (), 2 * DAY, is_ca=True)
        Path(self.ca_file).write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def make_folder(self) -> str:
        """Make a folder of certificates as OpenSSL looks things up in it; return its path."""
        folder = self.folder / "trusted"
        folder.mkdir(exist_ok=True)
        shutil.copy(self.ca_file, folder)
        subprocess.run(["openssl", "rehash", str(folder)], check=True, timeout=60)
        return str(folder)

    def sign(self, *hosts: str, lasts: timedelta = DAY, own: bool = False) -> "Server":
        """Sign a certificate for these hosts, of one day from now on; with `own`, let it sign
        itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._make("A server", key, hosts or LOCAL, lasts, signer=key if own else self._key)
        path = self.folder / f"{self.name}-{made.serial_number:x}"
        server = Server(f"{path}.pem", f"{path}.key", self)
        Path(server.cert_file).write_bytes(made.public_bytes(serialization.Encoding.PEM))
        Path(server.key_file).write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return server

    def _make(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        hosts: tuple[str, ...],
        lasts: timedelta,
        *,
        signer: ec.EllipticCurvePrivateKey | None = None,
        is_ca: bool = False,
    ) -> x509.Certificate:
        now, signer = datetime.now(UTC), signer or self._key
        own = signer is key
        builder = (
            x509.CertificateBuilder()
            .subject_name(_call(name))
            .issuer_name(_call(name if own else f"The authority {self.name}"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 3 * DAY)
            .not_valid_after(now + lasts)
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        if hosts:
            names = [_name_host(host) for host in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(signer, hashes.SHA256())


@dataclass(frozen=True)
class Server:
    """A server's certificate and key, and who has signed it."""

    cert_file: str
    key_file: str
    authority: Authority


def _call(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _name_host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


@contextmanager
def tls_in_front_of(port: int, server: Server) -> Iterator[int]:
    """A port that speaks TLS to its client and plainly to the server on `port` behind it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert_file, server.key_file)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_relay_each, args=(listener, port, context), daemon=True).start()
        yield listener.getsockname()[1]
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _relay_each(listener: socket.socket, port: int, context: ssl.SSLContext) -> None:
    while True:
        try:
            client = listener.accept()[0]
        except OSError:
            return
        threading.Thread(target=_relay_one, args=(client, port, context), daemon=True).start()


def _relay_one(client: socket.socket, port: int, context: ssl.SSLContext) -> None:
    try:
        near = context.wrap_socket(client, server_side=True)
    except OSError:  # its client does not like the certificate
        client.close()
        return
    far = socket.create_connection(("127.0.0.1", port))
    for pair in ((near, far), (far, near)):
        threading.Thread(target=_relay, args=pair, daemon=True).start()


def _relay(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(65_536):
            sink.sendall(chunk)
    for each in (source, sink):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


def trust_nobody(environment: pytest.MonkeyPatch) -> None:
    """Unset every variable that names certificates; a machine of the tests may have some."""
    for variable in VARIABLES:
        environment.delenv(variable, raising=False)
