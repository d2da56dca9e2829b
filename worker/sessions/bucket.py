"""Stores sessions in an S3 bucket, or in a compatible store with conditional writes.

Conditional writes: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html.
"""

import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.config import Config

from worker.errors import StoreError
from worker.sessions.bucket_answers import (
    SUM,
    Busy,
    Conflict,
    Missing,
    Odd,
    has_own_tag,
    hash_content,
    is_page,
    require_fields,
    translate_errors,
)
from worker.sessions.objects import CHUNK, Addressing, Stored
from worker.sessions.store import SessionStore
from worker.transport.failures import find_trusted
from worker.transport.urllib3_connections import bound_pools

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, HeadObjectOutputTypeDef


PART = 8 * 1024 * 1024
"""Bytes of an upload's part; all but the last are equal, as some compatible stores require."""

DEADLINE = 600.0
"""Seconds for one whole answer, even if data keeps arriving."""

_OK = 200
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)


def make_session() -> boto3.Session:
    """Make a session of boto3 that trusts whom all other connections trust, unless AWS_CA_BUNDLE or
    its own configuration says otherwise."""
    core = botocore.session.get_session()
    if trusted := find_trusted():
        with translate_errors("connect", "S3"):
            if core.get_config_variable("ca_bundle") is None:
                core.set_config_variable("ca_bundle", trusted)
    return boto3.Session(botocore_session=core)


def connect_bucket(
    session: boto3.Session,
    endpoint_url: str | None,
    *,
    attempts: int,
    read_timeout: float,
    deadline: float = DEADLINE,
    addressing: Addressing = "path",
) -> "S3Client":
    """Make a client for AWS and compatible stores. Safe to share between threads.

    Each answer ends after `deadline` seconds, its headers after `read_timeout`.
    """
    with translate_errors("connect", endpoint_url or "S3"):
        client = session.client(
            "s3",
            endpoint_url=endpoint_url,
            config=Config(
                signature_version="s3v4",
                s3={"addressing_style": addressing},
                retries={"mode": "standard", "total_max_attempts": attempts},
                connect_timeout=5.0,
                read_timeout=read_timeout,
                max_pool_connections=64,
                tcp_keepalive=True,
                # The newer default frames bodies, which many compatible stores save as content.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
        # boto3 has no setting for the time of a whole answer.
        untyped: Any = client
        pools = untyped._endpoint.http_session._pool_classes_by_scheme
        pools.update(bound_pools(pools, deadline))
        return client


class S3Store(SessionStore):
    """A SessionStore under `prefix` in `bucket`.

    `endpoint_url` is None for AWS. Credentials and the region come from `session`, by default from
    boto3's chain. `attempts` limits how long a store that is down delays a worker. Call `probe`
    before using a store that is not AWS's.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        endpoint_url: str | None = None,
        *,
        session: boto3.Session | None = None,
        attempts: int = 5,
        read_timeout: float = 60.0,
        addressing: Addressing = "path",
    ) -> None:
        client = connect_bucket(
            session or make_session(),
            endpoint_url,
            attempts=attempts,
            read_timeout=read_timeout,
            addressing=addressing,
        )
        super().__init__(Bucket(client, bucket, prefix))


class Bucket:
    """Objects in a bucket. Versions are ETags."""

    def __init__(self, client: "S3Client", bucket: str, prefix: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._tags_are_md5 = False

    def exists(self, name: str) -> bool:
        return self._read_head(name) is not None

    def find_modification_time(self, name: str) -> float | None:
        head = self._read_head(name)
        return head["LastModified"].timestamp() if head else None

    def read(self, name: str, limit: int) -> Stored | None:
        try:
            with self._translate("read", name):
                answer = self._client.get_object(Bucket=self._bucket, Key=self._key(name))
                with closing(answer["Body"]) as body:
                    require_fields(answer, f"cannot read {self.describe_place(name)}", "ETag")
                    content = _join_chunks(body.iter_chunks(CHUNK), limit)
        except Missing:
            return None
        if len(content) > limit:
            raise StoreError(
                f"{self.describe_place(name)} has more than {limit} bytes: "
                "it is not one of our objects"
            )
        self._check_content(answer, content, name)
        return Stored(content, answer["ETag"])

    def create(self, name: str, content: bytes) -> bool:
        return self._put_if(name, content, {"IfNoneMatch": "*"})

    def replace(self, name: str, content: bytes, version: str) -> bool:
        return self._put_if(name, content, {"IfMatch": version})

    def write(self, name: str, content: bytes) -> None:
        with self._translate("write", name):
            answer = self._client.put_object(
                Bucket=self._bucket,
                Key=self._key(name),
                Body=content,
                Metadata={SUM: hash_content(content)},
            )
        self._note_written(answer, content, name)

    def upload(self, name: str, chunks: Iterable[bytes]) -> int:
        size = 0
        done: list[CompletedPartTypeDef] = []
        with ExitStack() as undo:
            for part in _split_parts(chunks):
                if not done:
                    if len(part) < PART:
                        self.write(name, part)
                        return len(part)
                    upload = self._start_upload(name)
                    undo.callback(self._abort_upload, name, upload)
                done.append(self._upload_part(name, upload, len(done) + 1, part))
                size += len(part)
            self._complete_upload(name, upload, done)
            undo.pop_all()
        return size

    def open(self, name: str) -> AbstractContextManager[Iterator[bytes]] | None:
        head = self._read_head(name)
        return self._open(name, head["ContentLength"]) if head else None

    def delete(self, name: str, version: str | None = None) -> None:
        key = self._key(name)
        with suppress(Missing, Conflict), self._translate("delete", name):
            condition: Any = {} if version is None else {"IfMatch": version}
            answer = self._client.delete_object(Bucket=self._bucket, Key=key, **condition)
            # S3 answers 204, without a body; of a server's default type nothing follows then.
            if is_page(answer) and answer["ResponseMetadata"]["HTTPStatusCode"] == _OK:
                raise Odd(f"cannot delete {self.describe_place(name)}: the answer is a page")

    def list_names(self, prefix: str) -> Iterator[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._key(prefix)
        )
        with self._translate("list", prefix):
            for page in pages:
                # A list that is no list would say that there is nothing.
                listed: Mapping[str, Any] = page
                if "IsTruncated" not in listed and "Name" not in listed:
                    place = self.describe_place(prefix)
                    raise Odd(f"cannot list {place}: the answer is no list")
                for entry in page.get("Contents", ()):
                    yield entry["Key"].removeprefix(self._prefix)

    def describe_place(self, name: str) -> str:
        return f"s3://{self._bucket}/{self._key(name)}"

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _translate(self, verb: str, name: str) -> AbstractContextManager[None]:
        return translate_errors(verb, self.describe_place(name), self._client.meta.endpoint_url)

    def _read_head(self, name: str) -> "HeadObjectOutputTypeDef | None":
        """Return what S3 knows of the object; None without one."""
        with suppress(Missing), self._translate("look at", name):
            head = self._client.head_object(Bucket=self._bucket, Key=self._key(name))
            require_fields(head, f"cannot look at {self.describe_place(name)}", "ETag")
            return head
        return None

    def _put_if(self, name: str, content: bytes, condition: Mapping[str, str]) -> bool:
        writer = secrets.token_hex(8)
        request: Any = {
            "Bucket": self._bucket,
            "Key": self._key(name),
            "Body": content,
            "Metadata": {"writer": writer, SUM: hash_content(content)},
            **condition,
        }
        odd: Odd | None = None
        for pause in _PAUSES:
            try:
                with self._translate("write", name):
                    answer = self._client.put_object(**request)
                self._note_written(answer, content, name)
            except Missing:
                return False
            except (Busy, Odd) as error:
                odd = error if isinstance(error, Odd) else None
                time.sleep(pause)
            except Conflict:
                # If the first answer was lost, the repeated request finds its own object.
                head = self._read_head(name)
                return head is not None and head.get("Metadata", {}).get("writer") == writer
            else:
                return True
        if odd:
            raise odd
        raise StoreError(f"others keep writing to {self.describe_place(name)}", transient=True)

    def _note_written(self, answer: Mapping[str, Any], content: bytes, name: str) -> None:
        """Raise Odd unless S3 has taken the content."""
        require_fields(answer, f"cannot write {self.describe_place(name)}", "ETag")
        self._tags_are_md5 = has_own_tag(answer, content)

    def _check_content(self, answer: Mapping[str, Any], content: bytes, name: str) -> None:
        """Raise Odd unless the content is what was written. What older versions have written has
        no hash of ours, but S3's own tag where that is one."""
        failed = f"cannot read {self.describe_place(name)}: {len(content)} bytes came"
        metadata = answer.get("Metadata", {})
        if metadata.get(SUM) and metadata[SUM] != hash_content(content):
            raise Odd(f"{failed}, and they are not what was written")
        # The ETag of an object in several parts is no MD5.
        may_be_md5 = re.fullmatch(r'"?[0-9a-f]{32}"?', str(answer.get("ETag", ""))) is not None
        is_tagged = self._tags_are_md5 and may_be_md5 and SUM not in metadata
        if is_tagged and not has_own_tag(answer, content):
            raise Odd(f"{failed}, and their ETag is another's")

    @contextmanager
    def _open(self, name: str, size: int) -> Iterator[Iterator[bytes]]:
        failed = f"cannot read {self.describe_place(name)}"
        with self._translate("read", name):
            answer = self._client.get_object(Bucket=self._bucket, Key=self._key(name))
        with closing(answer["Body"]) as body:
            require_fields(answer, failed, "ETag")
            if answer["ContentLength"] != size:
                raise Odd(f"{failed}: {answer['ContentLength']} of {size} bytes came")
            yield self._read_chunks(name, body.iter_chunks(CHUNK))

    def _read_chunks(self, name: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
        with self._translate("read", name):
            yield from chunks

    def _start_upload(self, name: str) -> str:
        with self._translate("write", name):
            answer = self._client.create_multipart_upload(Bucket=self._bucket, Key=self._key(name))
            require_fields(answer, f"cannot write {self.describe_place(name)}", "UploadId")
            return answer["UploadId"]

    def _upload_part(
        self, name: str, upload: str, number: int, part: bytes
    ) -> "CompletedPartTypeDef":
        with self._translate("write", name):
            answer = self._client.upload_part(
                Bucket=self._bucket,
                Key=self._key(name),
                UploadId=upload,
                PartNumber=number,
                Body=part,
            )
        require_fields(answer, f"cannot write {self.describe_place(name)}", "ETag")
        return {"ETag": answer["ETag"], "PartNumber": number}

    def _complete_upload(self, name: str, upload: str, done: list["CompletedPartTypeDef"]) -> None:
        with self._translate("write", name):
            answer = self._client.complete_multipart_upload(
                Bucket=self._bucket,
                Key=self._key(name),
                UploadId=upload,
                MultipartUpload={"Parts": done},
            )
        require_fields(answer, f"cannot write {self.describe_place(name)}", "ETag")

    def _abort_upload(self, name: str, upload: str) -> None:
        # The upload already failed, and its own error is the one to report.
        with suppress(StoreError), self._translate("abort the upload of", name):
            self._client.abort_multipart_upload(
                Bucket=self._bucket, Key=self._key(name), UploadId=upload
            )


def _join_chunks(chunks: Iterable[bytes], limit: int) -> bytes:
    # Only reading a body to its end shows whether it was cut off.
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if len(content) > limit:
            break
    return bytes(content)


def _split_parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Split the stream into parts of PART bytes; the last is shorter. Yields at least one."""
    buffer, count = bytearray(), 0
    for chunk in chunks:
        view = memoryview(chunk)
        while view:
            room = PART - len(buffer)
            buffer += view[:room]
            view = view[room:]
            if len(buffer) == PART:
                yield bytes(buffer)
                buffer.clear()
                count += 1
    if buffer or not count:
        yield bytes(buffer)
