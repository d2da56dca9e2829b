"""Pairs of errors of many tools: a line, and what stands at each `{}` of it in one run and in
another, with `|` between. First what is another in each run, then what makes it another error."""

EQUAL = (
    # moments
    ("2031-{} ERROR: cannot reach the queue", "02-03T04:05:06Z", "12-30T23:59:59Z"),
    ("2031-{} - app - ERROR - cannot open ledger", "02-03 04:05:06,123", "03-04 05:06:07,999"),
    ("[{}] ERROR: the index is missing", "04:05:06", "23:59:59"),
    ("2031/{} panic: no such table: users", "02/03 04:05:06", "07/08 09:10:11"),
    (
        "Error: certificate not valid before {} GMT",
        "Mon, 03 Feb 2031 04:05:06",
        "Tue, 04 Mar 2031 07:08:09",
    ),
    ("Error: token was used at {}", "20310203T040506Z", "20311110T121314Z"),
    ("Error: lock held since {}", "1912345678", "1999999999"),
    ("Error: lock held since {} by ledger", "1912345678901", "1912349999999"),
    (
        '10.2.3.4 - - [{}:05:06{} +0000] "GET / HTTP/1.1" 500 error: no route',
        "03/Feb/2031:04|",
        "04/Mar/2031|:07",
    ),
    ("{} app: fatal: no disk", "Feb  3 04:05:06", "Mar 14 15:09:26"),
    # durations
    ("Error: Timeout of 30000ms exceeded after {}", "30.02s", "29.97s"),
    ("FAILED tests/test_a.py::test_b - TimeoutError: gave up after {} seconds", "12.5", "13.1"),
    ("--- FAIL: TestLedger ({})", "0.02s", "1.31s"),
    ("✕ adds rows ({} ms)", "23", "7"),
    ("ERROR: deadline exceeded, took {}", "1m30s", "1m31s"),
    ("ERROR: build stopped after 2h {}", "3m 4s", "5m 59s"),
    ("Failed Shop.Tests.Adds [{}]", "1 s", "345 ms"),
    ("error: mirror did not answer within 250ms, elapsed: {}", "251.2", "263.9"),
    ("[ERROR] shop.LedgerTest.adds  Time elapsed: {} s  <<< FAILURE!", "0.034", "1.2"),
    ("not ok 3 - adds # time={}", "12.3ms", "9.81ms"),
    # ids
    (
        "Error: request {} was refused",
        "3e1f2a90-6b1d-4e0e-8a53-1c6a7a3f1b99",
        "9d22a0b4-77aa-49c1-8f0f-6d0e3c5b9e77",
    ),
    ("fatal: reference is not a tree: {}", "4fd10c2", "9ab3e71"),
    (
        "fatal: remote error: upload-pack: not our ref {}",
        "4fd10c2e9b7a4fd10c2e9b7a4fd10c2e9b7a4fd1",
        "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
    ),
    ("Error: No such container: {}", "3f9a1b2c4d5e", "8e7d6c5b4a39"),
    ("TypeError: <shop.Cart object at {}> is not iterable", "0x7f3a2c1b9d30", "0x7fe08a4c1e50"),
    (
        "SIGSEGV: segmentation violation code=0x1 addr={}",
        "0x0000c0de1234 pc=0x4a5b6c",
        "0x0000c0de9999 pc=0x4a5b6d",
    ),
    ("java.lang.IllegalStateException: shop.Cart@{} is closed", "4a2b1c", "7f3d9e"),
    (
        "ERROR: cannot pull ledger@sha256:{}: manifest unknown",
        "3f9a1b2c4d5e6f708192a3b4c5d6e7f83f9a1b2c4d5e6f708192a3b4c5d6e7f8",
        "aaaabbbbccccdddd0000111122223333aaaabbbbccccdddd0000111122223333",
    ),
    ("ERROR: trace id {} has no span", "4BF92F3577B34DA6", "00F067AA0BA902B7"),
    ("Error: CorrelationId {} failed", "81c5e2f9", "9d0a7b31"),
    # ports
    ("connect ECONNREFUSED 127.0.0.1:{}", "43121", "39877"),
    ("dial tcp 10.1.2.3:{}: connect: connection refused", "51234", "43210"),
    ("Error: listen EADDRINUSE: address already in use :::{}", "41233", "50991"),
    ("Error: page.goto: net::ERR_CONNECTION_REFUSED at http://localhost:{}/", "4173", "5173"),
    (
        'psycopg2.OperationalError: connection to server at "db" (10.1.2.3), port {} '
        "failed",
        "5432",
        "6543",
    ),
    (
        "requests.exceptions.ConnectionError: HTTPConnectionPool(host='wiremock', "
        "port={}): Max retries exceeded",
        "32811",
        "32999",
    ),
    ("dial tcp ledger:{}: i/o timeout", "43121", "39877"),
    ("Error: cannot connect to broker-{}:9092", "7f9c4d5b8-q2x9k", "5c8d9f7b6-z8s2p"),
    ("java.net.ConnectException: Failed to connect to localhost/127.0.0.1:{}", "40123", "40777"),
    (
        "redis.exceptions.ConnectionError: Error 111 connecting to redis.local:{}. "
        "Connection refused.",
        "6379",
        "6380",
    ),
    # pods, containers, runners
    ("Error: pod web-{} was evicted", "6b7d8c9f5-zz7qm", "7f9c4d5b8-x2x9k"),
    ("Error: pod migrate-{} did not start", "x2c9k", "7bq4z"),
    (
        "ERROR: cannot remove runner-{}-project-12-concurrent-{}-build",
        "t3abcd|0-9c1f2e3d4b5a6978",
        "q9wxyz|3-0123456789abcdef",
    ),
    (
        "/builds/{}/group/shop/src/a.c:3:1: error: unknown type name 'ledger'",
        "t3_abcdefg/0",
        "q9_zyxwvut/4",
    ),
    ("error: cannot stat container_id {}", "3f9a1b2c4d5e6f70", "8e7d6c5b4a392817"),
    # temporary paths
    (
        "FileNotFoundError: [Errno 2] No such file or directory: '/tmp/{}/rates.json'",
        "tmpab12cd_3",
        "tmpzzyyxxww",
    ),
    (
        "tar: /tmp/tmp.{}/out.tar: Cannot open: No such file or directory",
        "Ab3dEf9GhI",
        "Zz9yXx8WwV",
    ),
    ("Error: ENOENT: no such file or directory, open '/tmp/jest-{}/a.json'", "Ab3xY9", "Qq7zW2"),
    ("OSError: cannot lock /tmp/pytest-of-root/pytest-{}/test_lock0/db", "12", "7"),
    (
        "# command-line-arguments: /tmp/go-{}/b001/exe/main: permission denied",
        "build3141592653",
        "build2718281828",
    ),
    (
        "error: could not write /var/folders/{}/T/cache.db",
        "ab/x1y2z3_q5r6s7t8u9v0w1x2y3z4",
        "zz/q5r6s7t8u9v0w1x2y3z4_x1y2z3",
    ),
    (
        "java.io.IOException: cannot delete /tmp/{}/rates.csv",
        "junit5928374650192837465",
        "junit1029384756102938475",
    ),
    # processes, threads, jobs
    ("=={}== Invalid read of size 8", "4711", "812"),
    ("./run.sh: line 12:  {} Segmentation fault      ./ledger", "4711", " 812"),
    ("Error: worker process pid {} died", "4711", "81"),
    ("thread 'main' ({}) panicked at src/main.rs:3:5:", "4711", "98"),
    ("(node:{}) UnhandledPromiseRejection: Error: no ledger", "4711", "99"),
    ("ERROR: artifacts of job {} have expired", "8472910", "8472998"),
    ("ERROR: pipeline #{} has no report", "90321", "90412"),
    ("Exception in thread Thread-{}: KeyError: 'rate'", "12", "3"),
    ("[{}] node down: Error: worker crashed", "gw3", "gw0"),
    ("ERROR: database {} already exists", "ledger_ci_84213", "ledger_ci_90017"),
    ("goroutine {} [running]: panic: no ledger", "17", "201"),
    ("Fatal Python error: Process {} was killed: out of memory", "4711", "4713"),
    # several at once
    (
        "2031-{} dial tcp ledger-{}: i/o timeout after {} (request {})",
        "02-03T04:05:06Z|7f9c4d5b8-q2x9k:43121|5.01s|3e1f2a90-6b1d-4e0e-8a53-1c6a7a3f1b"
        "99",
        "08-09T10:11:12Z|6b7d8c9f5-zz7qm:50233|4.98s|9d22a0b4-77aa-49c1-8f0f-6d0e3c5b9e"
        "77",
    ),
    (
        "AssertionError: expected 200, got 503 after {} (trace {})",
        "1.31s|4fd10c2e9b",
        "0.97s|9ab3e71c55",
    ),
)  # fmt: skip

DIFFERENT = (
    # tests and files
    ("FAILED tests/test_a.py::{} - assert 1 == 2", "test_adds", "test_removes"),
    ("FAILED tests/{}.py::test_adds - assert 1 == 2", "test_a", "test_b"),
    ("FAILED tests/test_a.py::test_adds[1-{}] - assert 1 == 2", "2", "3"),
    ("--- FAIL: TestLedger/{} (0.02s)", "empty", "full"),
    ("✕ adds {} (23 ms)", "rows", "columns"),
    ("[ERROR] shop.LedgerTest.{}  Time elapsed: 0.034 s  <<< FAILURE!", "adds", "sums"),
    ("rspec ./spec/cart_spec.rb:{} # Cart adds", "12", "31"),
    ("src/{}.c:3:1: error: unknown type name 'ledger'", "a", "b"),
    (
        "FileNotFoundError: [Errno 2] No such file or directory: "
        "'/tmp/tmpab12cd_3/{}.json'",
        "rates",
        "taxes",
    ),
    ("/srv/{}/lib/money/round.py:3: error: no such name", "one", "two"),
    ("Failed Shop.Tests.{} [1 s]", "Adds", "Removes"),
    # places of compilers and linters
    ("src/a.c:{}:1: error: unknown type name 'ledger'", "3", "4"),
    ("src/a.c:3:{}: error: unknown type name 'ledger'", "1", "9"),
    ("src/cart.py:88:1: F401 '{}' imported but unused", "json", "yaml"),
    ("src/cart.py:{}:1: F401 'json' imported but unused", "88", "98"),
    ("src/cart.py:12:80: E501 line too long ({} > 79 characters)", "93", "94"),
    ("src/app.ts({},5): error TS2304: Cannot find name 'x'.", "12", "13"),
    ("src/app.ts(12,5): error {}: Cannot find name 'x'.", "TS2304", "TS2307"),
    ("src/menu.js {}:7 error 'open' is never used no-unused-vars", "14", "15"),
    ("./api/quota.go:{}:2: undefined: Limit", "57", "58"),
    ("src/order.rs:{}:9: error[E0061]: 2 arguments wanted", "40", "41"),
    ("src/order.rs:40:9: error[{}]: 2 arguments wanted", "E0061", "E0063"),
    ("Makefile:{}: *** missing separator.  Stop.", "12", "14"),
    ("Dockerfile:{}: error: unknown instruction: RUNN", "7", "9"),
    ("quota_test.go:{}: got 429, want 200", "57", "61"),
    # hosts
    ("dial tcp {}-7f9c4d5b8-q2x9k:43121: connection refused", "ledger", "cache"),
    ("curl: (6) Could not resolve host: {}.example.com", "one", "two"),
    ("connect ECONNREFUSED 10.1.2.{}:43121", "3", "4"),
    (
        "requests.exceptions.ConnectionError: HTTPConnectionPool(host='{}', "
        "port=1025): Max retries exceeded",
        "mail",
        "post",
    ),
    ("Error: page.goto: net::ERR_CONNECTION_RESET at http://localhost:3000/{}", "", "cart"),
    ("fatal: unable to access 'https://git.example.com/{}.git/'", "a", "b"),
    ("E: Failed to fetch http://{}.debian.org/debian/a.deb", "deb", "security"),
    ("ERROR: failed to pull registry.example.{}/one:1", "com", "org"),
    # versions
    ("ERROR: No matching distribution found for tinycss==1.3.{}", "0", "1"),
    ("ERROR: No matching distribution found for {}==1.3.0", "tinycss", "tinyxml"),
    ("npm error notarget No matching version found for left-pad@1.{}.0.", "3", "4"),
    ("CRITICAL CVE-2031-{} openssl 3.0.11 fixed in 3.0.13", "0727", "0728"),
    ("CRITICAL CVE-2031-0727 openssl 3.0.{} fixed in 3.0.13", "11", "12"),
    ("ERROR: manifest for node:20.{} not found", "1", "2"),
    ("error: package `serde v1.0.200` cannot be built because it requires rustc 1.{}", "70", "71"),
    ("ERROR: unsupported API version 2031-{}", "02-03", "05-06"),
    ("Error: image ledger:2031-{} not found", "02-03", "05-06"),
    # status and exit codes
    (
        "contract.spec.ts: expected status 200, received {} from "
        "https://rates.example.com/v1/latest",
        "410",
        "502",
    ),
    ("Error: Request failed with status code {}", "404", "403"),
    ("ERROR: HTTP {} from mirror", "502", "503"),
    ("curl: (22) The requested URL returned error: {}", "404", "500"),
    ("curl: ({}) Could not resolve host: one.example.com", "6", "7"),
    ("npm error {} Not Found - GET https://npm.example.com/a", "404", "403"),
    (
        "subprocess.CalledProcessError: Command 'ledger' returned non-zero exit status "
        "{}.",
        "2",
        "3",
    ),
    ("OSError: [Errno {}] No space left on device", "28", "30"),
    # values
    ("tests/test_tax.py::test_total: assert 19 == {}", "21", "22"),
    ("tests/test_tax.py::test_total: assert {} == 21", "19", "18"),
    ("AssertionError: expected 30s, got {}", "31s", "32s"),
    ("AssertionError: expected {}, got 503 after 1.31s", "200", "201"),
    ("tests/test_mail.py::test_footer: assert '{}' == 'Goodbye'", "Bye", "By"),
    ("AssertionError: assert '2031-02-03' == '2031-02-{}'", "04", "05"),
    ("AssertionError: assert 1912345678 == {}", "1912345679", "1912345680"),
    ("AssertionError: 'deadbee1' != '{}'", "deadbee2", "deadbee3"),
    ("assert 0xff == {}", "0xfe", "0xfd"),
    ("quota_test.go:57: got 429, want {}", "200", "201"),
    ("Expected: 1.5 but was: 1.{}", "25", "75"),
    ("assertion `left == right` failed: left: 3, right: {}", "4", "5"),
    ('Jest: "global" coverage threshold for lines (80%) not met: 78.{}%', "2", "3"),
    ("KeyError: '{}'", "rate", "rates"),
    ("TypeError: Cannot read properties of undefined (reading '{}')", "slug", "name"),
    ("ModuleNotFoundError: No module named '{}'", "shop", "shops"),
    ("TypeError: unsupported operand type(s) for {}: 'NoneType' and 'int'", "*", "+"),
    ("Error: Timeout of 30000ms exceeded waiting for #{}", "cart", "menu"),
    ("==4711== ERROR SUMMARY: Invalid read of size {}", "8", "4"),
    ("panic: runtime error: index out of range [{}] with length 3", "3", "5"),
    ('terraform: Error: Invalid index on main.tf line {}, in output "a"', "12", "13"),
)  # fmt: skip
