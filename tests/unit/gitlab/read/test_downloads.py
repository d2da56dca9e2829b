"""What comes down over HTTP: from where, how much of it, and what becomes of errors."""

import datetime
import inspect
import ipaddress
import random
import ssl
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import httpx
import pytest
import requests
import urllib3
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import BaseModel

from tests.clusters import Answer, Loopback
from tests.simulators.gitlab import GitLabSim, Scene
from tests.unit.conftest import fetch, told
from worker.errors import SourceError
from worker.gitlab.client import FOREIGN, Connections, Refused, explain_failure
from worker.gitlab.read import unpacking
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.downloads import Downloads, find_public_address, is_public
from worker.gitlab.read.redactions import Redactions, repack
from worker.gitlab.read.session_reader import Reader
from worker.sources.web import WebReader, translate_errors
from worker.sources.xunit import ENCODINGS, MAX_MARKUP, Report
from worker.transport.urllib3_connections import MOST_WHOLE, RefusedAnswer

pytestmark = pytest.mark.attack("downloads")

PLENTY = 256 << 20
FLAT = 8 << 20


class Anything(BaseModel):
    """Any JSON object."""


class Store(Loopback):
    """An object store: says whose name it was asked by."""

    def __init__(self) -> None:
        super().__init__()
        self.headers: list[dict[str, str]] = []

    def answer(self, method: str, target: str, headers: object) -> Answer:
        self.asked.append(target)
        self.headers.append(dict(headers))  # type: ignore[call-overload]
        return self.faults.get(target, (200, b"kept", {}))


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as running:
        assert isinstance(running, Store)
        yield running


@cache
def packed(size: int = PLENTY, times: int = 1) -> bytes:
    """Gzip of zeros, `times` over."""
    found: bytes = b"\0"
    for step in range(times):
        engine = zlib.compressobj(9, zlib.DEFLATED, 31)
        pieces = (found * (1 << 20) for _ in range(size >> 20)) if step == 0 else iter([found])
        found = b"".join(map(engine.compress, pieces)) + engine.flush()
    return found


def peak(action: Callable[[], object]) -> int:
    """Bytes of memory at most while it runs."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# ------------------------------------------------------------------------------------ redirects

INWARDS = [
    *("http://localhost:{port}/x", "http://127.1:{port}/x", "http://2130706433:{port}/x"),
    *("http://0x7f000001:{port}/x", "http://0177.0.0.1:{port}/x", "http://0.0.0.0:{port}/x"),
    *("http://127.0.0.2:{port}/x", "http://[::1]:{port}/x", "http://[::ffff:127.0.0.1]:{port}/x"),
    *("http://127.0.0.1:{port}@localhost:{port}/x", "http://LOCALHOST.:{port}/x"),
    *("http://[::ffff:7f00:1]:{port}/x", "http://0:{port}/x", "http://[::]:{port}/x"),
    *("http://169.254.169.254/latest", "http://[fd00:ec2::254]/latest", "http://10.0.0.1/x"),
    *("http://192.168.0.1/x", "http://172.16.0.1/x", "http://100.100.100.200/x"),
    *("http://[fe80::1]/x", "http://[fc00::1]/x", "http://[64:ff9b::7f00:1]/x"),
    *("http://[2002:7f00:1::]/x", "http://224.0.0.1/x", "http://255.255.255.255/x"),
]


@pytest.mark.parametrize("target", INWARDS)
def test_a_redirect_that_leads_inwards_is_not_followed(
    sim: GitLabSim, scene: Scene, reader: Reader, store: Store, target: str
) -> None:
    where = target.format(port=store.url.rpartition(":")[2])
    scene.job.archive = b"kept"
    sim.fail_next("GET", "/artifacts$", 302, headers={"Location": where})
    document = fetch(reader, "gitlab_list_artifacts", job_id=scene.job.id)
    assert told(document)["files"] == []
    assert store.asked == []
    assert "refused: it is kept at" in document.gaps


@pytest.mark.parametrize(
    "target",
    ["http://[x", "http://", "http:///x", "http://a:99999/", "http://a:b/", "http://\\localhost/",
     f"http://{'a' * 70}.example/", "http://\u00e9\u0300.example/", "http:x", "http://a b/",
     "http://nowhere.invalid/x", "//localhost/x", "gopher://localhost/x", "http://%00/"],
)  # fmt: skip
def test_a_redirect_to_what_is_no_address_is_an_error_for_the_model(
    sim: GitLabSim, scene: Scene, reader: Reader, target: str
) -> None:
    scene.job.archive = b"kept"
    # The simulator sends what HTTP allows; the rest is tried without it.
    if target.isascii() and target.isprintable():
        sim.fail_next("GET", "/artifacts$", 302, headers={"Location": target})
        assert fetch(reader, "gitlab_list_artifacts", job_id=scene.job.id).gaps
    with pytest.raises(FOREIGN):
        Downloads({"http"}, (), (1.0, 1.0)).get(target)


FORBIDDEN = [ipaddress.ip_network(each) for each in (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
    *("172.16.0.0/12", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
    *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    *("::/96", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "2001:db8::/32", "100::/64"),
    *("2001::/32", "64:ff9b:1::/48"),
)]  # fmt: skip


def test_no_inner_address_is_public_in_any_form(
    attack_inputs: int, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(18)
    for _ in range(attack_inputs):
        network = chance.choice(FORBIDDEN)
        inner = network[chance.randrange(min(network.num_addresses, 1 << 64))]
        forms = [str(inner)]
        if inner.version == 4:
            number = int(inner)
            for prefix, shift in (("::ffff:0:0", 0), ("2002::", 80), ("64:ff9b::", 0)):
                forms.append(str(ipaddress.ip_address(prefix) + (number << shift)))
        else:
            forms.append(f"{inner}%eth0")
        assert [form for form in forms if is_public(form)] == []
    record_property("tried", attack_inputs)


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "140.82.121.3", "2606:4700::1111", "64:ff9b::101:101", "2002:101:101::1",
     "::ffff:1.1.1.1"],
)  # fmt: skip
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(address)
    if "64:" not in address and "2002" not in address:
        assert find_public_address(address, 443) == address


def test_the_connection_is_made_to_the_address_that_was_looked_at(store: Store) -> None:
    port = store.url.rpartition(":")[2]
    looked_up: list[tuple[str, int]] = []

    def address_of(host: str, port: int) -> str:
        looked_up.append((host, port))
        return "127.0.0.1"

    downloads = Downloads({"http"}, (), (1.0, 1.0), address_of)
    response = downloads.get(f"http://u:p@store.invalid:{port}/bucket/x?signature=a%2Fb")
    assert (response.content, store.asked) == (b"kept", ["/bucket/x?signature=a%2Fb"])
    assert looked_up == [("store.invalid", int(port))]
    (headers,) = store.headers
    assert headers["Host"] == f"store.invalid:{port}"
    assert not {"PRIVATE-TOKEN", "Authorization"} & set(headers)


@pytest.mark.parametrize(("name", "why"), [("store.invalid", ""), ("other.invalid", "SSLError")])
def test_the_certificate_is_that_of_the_name_not_of_the_address(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, why: str
) -> None:
    context = _certificate(tmp_path, "store.invalid")
    store._server.socket = context.wrap_socket(store._server.socket, server_side=True)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "cert.pem"))
    downloads = Downloads({"https"}, (), (5.0, 5.0), lambda host, port: "127.0.0.1")
    target = f"https://{name}:{store.url.rpartition(':')[2]}/x"
    if why:
        with pytest.raises(requests.exceptions.SSLError):
            downloads.get(target)
    else:
        assert downloads.get(target).content == b"kept"


def _certificate(folder: Path, name: str) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    issued = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(issued.public_bytes(serialization.Encoding.PEM))
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(*pem, serialization.NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def test_a_host_that_the_operator_names_may_be_inside(
    sim: GitLabSim, scene: Scene, store: Store
) -> None:
    target = store.url.replace("127.0.0.1", "LocalHost")
    client = ReadClient(sim.url, scene.read_token, download_hosts=["localhost"])
    sim.fail_next("GET", "/archive", 302, headers={"Location": f"{target}/x"})
    path = f"/projects/{scene.project.id}/repository/archive.tar.gz"
    assert b"".join(client.stream(path, "the archive", 100)) == b"kept"
    assert not {"PRIVATE-TOKEN", "Authorization"} & set(store.headers[0])


def test_a_second_redirect_is_not_followed(store: Store) -> None:
    store.faults["/x"] = 302, b"", {"Location": f"{store.url}/y"}
    with pytest.raises(Refused, match="the store it is kept in answers 302"):
        Downloads({"http"}, ["127.0.0.1"], (1.0, 1.0)).get(f"{store.url}/x")
    assert store.asked == ["/x"]


def test_behind_a_proxy_a_host_has_to_be_named(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", store.url)
    with pytest.raises(Refused, match=r"behind a proxy: .* gitlab\.download_hosts"):
        Downloads({"http"}, (), (1.0, 1.0)).get("http://internal.invalid/x")
    assert store.asked == []
    named = Downloads({"http"}, ["internal.invalid"], (1.0, 1.0))
    assert named.get("http://internal.invalid/x").content == b"kept"


# ----------------------------------------------------------------------------------- gzip bombs


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "deflate", "br", "zstd", "gzip, gzip", "é"])
def test_an_answer_that_comes_packed_unasked_is_refused(store: Store, coding: str) -> None:
    store.faults["/x"] = 200, packed(), {"Content-Encoding": coding}
    reader = WebReader(store.url, "Konflux")

    def read() -> None:
        with pytest.raises(SourceError, match="sends it packed"):
            reader.one("/x", Anything, "it")
        with pytest.raises(SourceError, match="sends it packed"):
            list(reader.chunks("/x", "it", 1 << 20))

    assert peak(read) < FLAT
    assert {headers["Accept-Encoding"] for headers in store.headers} == {"identity"}


def test_an_answer_that_says_it_is_not_packed_is_taken(store: Store) -> None:
    store.faults["/x"] = 200, b"{}", {"Content-Encoding": "Identity"}
    assert WebReader(store.url, "Konflux").one("/x", Anything, "it") == Anything()


@pytest.mark.slow
@pytest.mark.attack("odd answers")
@pytest.mark.parametrize(
    ("times", "reason"),
    [
        (1, "larger than 1048576 bytes"),
        (2, "packed as 'gzip, gzip', which was not asked for"),
        (3, "which was not asked for"),
    ],
)
def test_what_gitlab_packs_is_unpacked_once_in_bounded_memory(
    store: Store, times: int, reason: str
) -> None:
    coding = ", ".join(["gzip"] * times)
    store.faults["/api/v4/x"] = 200, packed(times=times), {"Content-Encoding": coding}
    client = ReadClient(store.url, "t", retries=0)

    def read() -> None:
        with pytest.raises(SourceError, match=reason):
            list(client.stream("/x", "it", 1 << 20))

    assert peak(read) < FLAT
    assert {headers["Accept-Encoding"] for headers in store.headers} == {"gzip"}


@pytest.mark.slow
@pytest.mark.attack("odd answers")
@pytest.mark.parametrize("status", [200, 302, 403, 404])
def test_what_requests_would_read_whole_by_itself_is_capped(store: Store, status: int) -> None:
    headers = {"Content-Encoding": "gzip", "Location": "/elsewhere"}
    store.faults["/api/v4/user"] = status, packed(), headers
    client = Connections(store.url, "t", (2.0, 2.0)).get()

    def read() -> None:
        with pytest.raises(RefusedAnswer, match="larger than"):
            client.http_get("/user", max_retries=0)

    assert peak(read) < MOST_WHOLE + 2 * FLAT


@pytest.mark.parametrize("coding", ["gzip, gzip", "deflate", "br", "zstd", "gzip,identity", "x"])
@pytest.mark.attack("odd answers")
def test_gitlab_and_its_store_are_read_in_no_packing_that_was_not_asked_for(
    store: Store, coding: str
) -> None:
    store.faults["/api/v4/x"] = store.faults["/x"] = 200, packed(), {"Content-Encoding": coding}
    host = store.url.rpartition(":")[0].removeprefix("http://")
    with pytest.raises(SourceError, match="which was not asked for"):
        list(ReadClient(store.url, "t", retries=0).stream("/x", "it", 1 << 20))
    with pytest.raises(RefusedAnswer, match="which was not asked for"):
        Downloads({"http"}, [host], (1.0, 1.0)).get(f"{store.url}/x")


# ------------------------------------------------------------------------------------------ XML

ODD = ["utf-7", "utf7", "rot13", "hex", "idna", "punycode", "unicode_escape", "big5", "utf-32"]


@pytest.mark.parametrize("encoding", [*ODD, "cp037", "zlib", "nope", "x" * 9000, "undefined"])
def test_a_report_in_an_odd_encoding_is_refused(encoding: str) -> None:
    data = f'<?xml version="1.0" encoding="{encoding}"?><a>+AD4-</a>'.encode()
    with pytest.raises(SourceError, match="it: not a usable XML report: its encoding"):
        Report().read([data], "it")


@pytest.mark.parametrize("encoding", [*ENCODINGS, "UTF-8"])
def test_a_report_in_a_usual_encoding_is_read(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?><a><testcase name="n"/></a>'
    assert Report().read([text.encode(encoding)], "it").counts["passed"] == 1


LONG = 32 << 20
HUGE = {
    "an attribute": b"<a><b c='" + b"\n" * LONG,
    "an attribute of references": b"<a><b c='" + b"&lt;" * (LONG // 4),
    "attributes": b"<a><b " + b"".join(b"a%d='' " % number for number in range(1_000_000)),
    "a comment": b"<a><!--" + b"c" * LONG,
    "a name": b"<a><" + b"c" * LONG,
    "an instruction": b"<a><?x " + b"c" * LONG,
}


@pytest.mark.parametrize("kind", HUGE)
def test_one_huge_tag_is_given_up_early(kind: str) -> None:
    fed = 0

    def pieces() -> Iterator[bytes]:
        nonlocal fed
        for at in range(0, len(HUGE[kind]), 65536):
            fed = at
            yield HUGE[kind][at : at + 65536]

    with pytest.raises(SourceError, match="a tag or comment over"):
        Report().read(pieces(), "it")
    assert fed < 2 * MAX_MARKUP
    with pytest.raises(SourceError, match="a tag or comment over"):
        Report().read([HUGE[kind]], "it")


def test_long_output_of_a_test_is_no_huge_tag() -> None:
    for body in (b"text\n", b"&lt;", b"<![CDATA[" + b"x]" * 9000 + b"]]>", b"\r"):
        data = b"<a><testcase><failure>" + body * (4 * MAX_MARKUP // len(body))
        report = Report().read([data + b"</failure></testcase></a>"], "it")
        assert report.counts["failed"] == 1


def test_a_report_has_no_document_type_and_not_any_number_of_elements() -> None:
    default = b"<!DOCTYPE a [<!ATTLIST testcase name CDATA '" + b"d" * 400_000 + b"'>]>"
    with pytest.raises(SourceError, match="it has a document type"):
        Report().read([default + b"<a>" + b"<testcase/>" * 100_000 + b"</a>"], "it")
    with pytest.raises(SourceError, match="more than 1000000 elements"):
        Report().read([b"<a>" + b"<b/>" * 1_000_001 + b"</a>"], "it")


# --------------------------------------------------------------------------------------- errors


def kinds(module: object, base: type[BaseException]) -> list[type[BaseException]]:
    """Every exception of a module."""
    found = [each for _, each in inspect.getmembers(module, inspect.isclass)]
    return [each for each in found if issubclass(each, base) and not issubclass(each, Warning)]


@pytest.mark.parametrize("kind", kinds(httpx, Exception))
def test_whatever_httpx_raises_is_a_source_error(kind: type[Exception]) -> None:
    with (
        pytest.raises(SourceError, match="the log: "),
        translate_errors("the log", "Konflux", "https://k.example"),
    ):
        raise kind.__new__(kind)


@pytest.mark.parametrize(
    "kind",
    [
        *kinds(requests.exceptions, requests.RequestException),
        *kinds(urllib3.exceptions, urllib3.exceptions.HTTPError),
    ],
)
def test_whatever_requests_raises_can_be_explained(kind: type[Exception]) -> None:
    assert issubclass(kind, FOREIGN)
    error = kind.__new__(kind)
    vars(error)["response"] = None
    assert explain_failure(error, "the log", "read", "https://g.example").text.startswith(
        "the log: "
    )


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """The members with what follows each."""
    return b"".join(info.tobuf() + content for info, content in members)


def member(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info


TORN = {
    "in a file": tar((member("r/a", 5000), b"x" * 1000)),
    "in a header": tar((member("r/a", 512), b"x" * 512))[:700] + b"x" * 100,
    "a header without end": tar((member("r/a", 4 << 20, tarfile.XHDTYPE), b"1" * (4 << 20))),
    "a global header": tar((member("r/a", 9000, tarfile.XGLTYPE), b"1" * 9216)),
    "a long name": tar((member("r/a", 1 << 20, tarfile.GNUTYPE_LONGNAME), b"1" * (1 << 20))),
    "numbers that are none": tar((member("r/a", 16, tarfile.XHDTYPE), b"15 size=x\n".ljust(512))),
}


@pytest.mark.parametrize("kind", TORN)
def test_a_torn_or_hostile_source_archive_is_a_source_error(kind: str) -> None:
    data = zlib.compress(TORN[kind], wbits=31)
    with pytest.raises(SourceError, match="the archive: not a tar file"):
        list(repack(unpacking.read_tar(iter([data]), "the archive"), Redactions(bytes)))
