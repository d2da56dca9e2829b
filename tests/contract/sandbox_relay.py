"""A way to the engine over TCP, plain or with TLS on both sides, as a remote engine is reached."""

import datetime
import ipaddress
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sandbox.engine import get_engine_address

Pair = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


Count = Callable[[int], None]


@contextmanager
def relay(
    tls: ssl.SSLContext | None = None, count: Count = lambda size: None, to: str = ""
) -> Iterator[int]:
    """The port on loopback where the engine answers, or what `to` names. `count` is told the bytes
    it sends."""
    engine = to or get_engine_address(None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        stopped = threading.Event()
        accepting = threading.Thread(target=_accept, args=(server, engine, tls, stopped, count))
        accepting.start()
        try:
            yield server.getsockname()[1]
        finally:
            stopped.set()
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            accepting.join(30)


def _accept(
    server: socket.socket,
    engine: str,
    tls: ssl.SSLContext | None,
    stopped: threading.Event,
    count: Count,
) -> None:
    relays = []
    with suppress(OSError):
        while True:
            peer, _ = server.accept()
            relays.append(threading.Thread(target=_serve, args=(peer, engine, tls, stopped, count)))
            relays[-1].start()
    for thread in relays:
        thread.join(30)


def _serve(
    peer: socket.socket,
    where: str,
    tls: ssl.SSLContext | None,
    stopped: threading.Event,
    count: Count,
) -> None:
    with suppress(OSError), closing(peer):
        peer.settimeout(30)
        if tls:
            peer = tls.wrap_socket(peer, server_side=True)
        with closing(peer), _engine(where) as engine:
            _pump(peer, engine, stopped, count)


def _engine(where: str) -> socket.socket:
    parts = urlsplit(where)
    if parts.scheme in ("unix", "http+unix"):
        engine = socket.socket(socket.AF_UNIX)
        engine.connect(parts.path)
        return engine
    return socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 2375))


def _pump(
    peer: socket.socket, engine: socket.socket, stopped: threading.Event, count: Count
) -> None:
    other = {peer: engine, engine: peer}
    while not stopped.is_set():
        pending = [peer] if isinstance(peer, ssl.SSLSocket) and peer.pending() else []
        for ready in pending or select.select([peer, engine], [], [], 0.05)[0]:
            data = ready.recv(1 << 16)
            if not data:
                return
            if ready is engine:
                count(len(data))
            other[ready].sendall(data)


# ----------------------------------------------------------------------------------- certificates


def certificates(folder: Path) -> ssl.SSLContext:
    """ca.pem, cert.pem and key.pem of a client as Docker names them; returns the server's side."""
    authority = _issue("authority", None)
    for name, issued in (
        ("cert.pem", _issue("client", authority)),
        ("server.pem", _issue("127.0.0.1", authority)),
    ):
        key = issued[1].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        (folder / name).write_bytes(issued[0].public_bytes(serialization.Encoding.PEM))
        (folder / name.replace("cert", "key").replace("server", "server-key")).write_bytes(key)
    (folder / "ca.pem").write_bytes(authority[0].public_bytes(serialization.Encoding.PEM))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.pem"))
    context.load_cert_chain(folder / "server.pem", folder / "server-key.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _issue(name: str, by: Pair | None) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by[0].subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    )
    if name == "127.0.0.1":
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(name))])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(by[1] if by else key, hashes.SHA256()), key
