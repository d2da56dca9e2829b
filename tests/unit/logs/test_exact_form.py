"""The exact form of a line keeps all that tells one error from another, and nothing else."""

import pytest

from worker.logs.exact_form import LONGEST, normalise_exactly

EQUAL = (
    ("[{}] worker-{}: no lid", "14:02:11|7 pid 4123", "09:11:01|3 pid 88"),
    ("container {} exited with code 137", "3f9a1b2c4d5e", "9f8e7d6c5b4a"),
    ("error: /tmp/pip-install-{}/foo: no", "x8f2k1ab", "q0zz91cd"),
    ("error: /tmp/build-{}/x.o: no", "84213", "99813"),
    ("error: C:\\Users\\ci\\AppData\\Local\\Temp\\{}\\a.txt", "tmp8x2k9q", "tmpq1w2e3"),
    ("job #{} lost", "48213", "48299"),
    ("elapsed 00:{}:31 lost", "00", "01"),
    ("took {} ms too long", "1,234", "987"),
    ("2024-05-{}:02:11.{} +0000 UTC m=+0.{} fatal", "03 10|123456789|001", "04 11|1|020"),
    ("{}:02:11.{} [main] ERROR x", "10|123", "11|993"),
    ("pod integration-tests-{} failed", "28479120-x7k2p", "28479999-9bq2z"),
    ("{} failed", "req_8f1c2e905b1d", "req_0a1b2c3d4e5f"),
    ("mktemp: /tmp/shop.{}: no", "k2x9Qd", "Zz81aB"),
    ("bind: ('127.0.0.1', {}) in use", "43121", "51111"),
    ("port {}/tcp is taken", "43121", "41000"),
    ("Cannot start service db: 0.0.0.0:{}: bind", "43121", "40000"),
    ("mysql://root@172.17.0.{} refused", "3:3306", "4:3307"),
    ('Exception in thread "pool-{}" X', "3-thread-12", "1-thread-2"),
    ("[pool-{}] ERROR X", "3-thread-12", "1-thread-2"),
    ("nats: no servers at nats-{}.shop.svc:{}", "6b7d8c9f5-zz7qm|4222", "7f9c4d5b8-x2x9k|4223"),
    ("java.net.SocketTimeoutException: timeout after {} milliseconds", "10012", "10003"),
    ("FAIL src/a.test.ts ({} s)", "12.345", "9.1"),
    ("panic: test timed out after 10m0s running tests: TestX ({})", "9m59s", "9m57s"),
    ("May {} 10:02:11 ci-host app[{}]: fatal: x", " 3|4123", "14|88"),
    (
        "npm error A complete log in /root/.npm/_logs/2024-05-{}-debug-0.log",
        "03T10_02_11_123Z",
        "04T11_02_11_999Z",
    ),
    ("<Future at {} state=finished raised X>", "0x7f3a", "0x7fe0"),
    ("Error: id={} missing", "01HX2YZ8K3M4N5P6Q7R8S9T0VW", "01HX9ABCDEFGHJKMNPQRSTVWXY"),
    ("playwright: browser process {} exited", "4123", "551"),
    ("Error: EMFILE in /tmp/jest_rs/haste-map-{}-abc", "3f9a1b2c4d5e", "9f8e7d6c5b4a"),
    ("db-{} | FATAL: x", "7f9c4d5b8-x2x9k", "5c8d9f7b6-k8s2p"),
    ("Could not connect to kafka-0.kafka:{}", "29092", "29093"),
    ("grpc: addr=orders:{} code = Unavailable", "50051", "50052"),
    ("Timeout waiting for http://app:{}/health after {} seconds", "43121|61", "51000|60"),
)
"""A line, and what stands at each `{}` of it in one run and in another, with `|` between."""

DIFFERENT = (
    ("Could not connect to kafka-{}.kafka:9092", "0", "1"),
    ("host worker-{}.example.com down", "1", "2"),
    ("exit code {}", "137", "139"),
    ("signal {}", "9", "11"),
    ("line {} bad", "12", "13"),
    ("error {} (HY000)", "2013", "2003"),
    ("openssl 3.0.{}", "11", "12"),
    ("python 3.{}", "11", "12"),
    ("Expected {} arguments, but got 1", "2", "3"),
    ("expected {} to be {}", "true|false", "false|true"),
    ("want {} rows, got 2", "3", "4"),
    ("db-{} refused", "1", "2"),
    ("src/a.rs:10:{}", "5", "6"),
    ("app.component.ts:{}:34", "12", "13"),
    ("Makefile:{}: x", "12", "13"),
    ("{}: x", "test_a1", "test_a2"),
    ("checksum {}", "abc", "abd"),
    ("10.0.0.{} refused", "1", "2"),
    ("{}: x", "E1101", "E1102"),
    ("{}: x", "TS2304", "TS2305"),
    ("{}: x", "SC2086", "SC2087"),
    ("size {} too small", "1024", "2048"),
    ("row {} differs", "12", "13"),
    ("assert {} == 2", "1714730531", "1714730532"),
    ("expected '10:02:11' got '10:02:{}'", "12", "13"),
    ("assert Decimal('1.{}') == Decimal('1.1')", "10", "20"),
    ('expect(received).toBe(expected) Expected: "2024-05-03" Received: "2024-05-{}"', "04", "05"),
    ("HTTP/1.1 {}", "500", "502"),
    ("returned {}", "404", "410"),
    ("node:20.{} missing", "1", "2"),
    ("ubuntu-{}.04 missing", "22", "24"),
    ("step {} failed", "3", "4"),
    ("AssertionError: 5s != {}", "6s", "7s"),
    ("coverage 78.{}% < 80%", "2", "1"),
    ("got 30 seconds, want {} seconds", "31", "32"),
    ("/srv/{}/x.py", "a", "b"),
    ("/tmp/{}/config.yml: no", "a", "b"),
    ("/tmp/{}.csv: no", "rates", "taxes"),
    ("FAILED tests/t.py::test_x[2024-05-{}]", "03", "04"),
    ("FAILED tests/t.py::test_x[{}]", "1h", "2h"),
    ("--- FAIL: TestX/{} (0.1s)", "10s", "20s"),
    ("TestX/{} failed", "port_8080", "port_9090"),
)
"""The same, for two errors."""


def normalise(line: str, parts: str) -> str:
    return normalise_exactly(line.format(*parts.split("|")))


@pytest.mark.parametrize(("line", "one", "other"), EQUAL)
def test_what_is_another_in_each_run_is_replaced(line: str, one: str, other: str) -> None:
    assert normalise(line, one) == normalise(line, other)


@pytest.mark.parametrize(("line", "one", "other"), DIFFERENT)
def test_what_tells_two_errors_apart_stays(line: str, one: str, other: str) -> None:
    assert normalise(line, one) != normalise(line, other)


def test_a_very_long_line_is_read_as_far_as_it_tells_something() -> None:
    assert normalise_exactly("a" * LONGEST + "b") == "a" * LONGEST
