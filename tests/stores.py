"""Real session stores for tests: a folder, and a bucket on an S3 server in its own process.

Server and buckets are context managers and methods; a test module wraps them in fixtures of the
scope it needs.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import boto3

from worker.sessions.bucket import S3Store, connect_bucket

# One request at a time: moto checks a write's condition and writes in two steps, so that its usual
# threaded server would let two conditional creates both win, as S3 never does.
_SERVER = """
import sys
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server
class Quiet(WSGIRequestHandler):
    def log(self, *args): pass
app = DomainDispatcherApplication(create_backend_app)
server = make_server("127.0.0.1", 0, app, threaded=False, request_handler=Quiet)
print(server.server_port, flush=True)
server.serve_forever()
"""

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
"""What a process outside the test needs in its environment to use the server."""


class S3Server:
    """A running S3 server; `endpoint` is its URL, `client` looks behind a store's back."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        # One for all: each session of boto3 reads its service descriptions from disk again.
        self.session = boto3.Session("testing", "testing", region_name="us-east-1")
        self.client = connect_bucket(self.session, endpoint, attempts=2, read_timeout=30)

    def bucket(self) -> str:
        """A new, empty bucket."""
        name = f"test-{secrets.token_hex(6)}"
        self.client.create_bucket(Bucket=name)
        return name

    def store(self, bucket: str, prefix: str = "team/sandpiper") -> S3Store:
        """A store in `bucket`, on connections of its own."""
        return S3Store(bucket, prefix, self.endpoint, session=self.session, attempts=2)


@contextmanager
def running_s3() -> Iterator[S3Server]:
    """An S3 server on a free loopback port, ended by its own process id."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "MOTO_S3_DEFAULT_KEY_BUFFER_SIZE": str(1024 * 1024)},
    )
    with process:
        try:
            port = process.stdout.readline().strip() if process.stdout else ""
            assert port, "moto's S3 server did not start: is moto[server] installed?"
            yield S3Server(f"http://127.0.0.1:{port}")
        finally:
            process.kill()
