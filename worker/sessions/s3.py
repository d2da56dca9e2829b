"""Stores sessions in an S3 bucket, or in a compatible store with conditional writes."""

import boto3

from worker.sessions.bucket import Bucket, connect_bucket
from worker.sessions.store import Store


class S3Store(Store):
    """A SessionStore under `prefix` in `bucket`.

    `endpoint_url` and `region` are None for AWS's defaults. Credentials come from `session`, by
    default from boto3's chain. `attempts` and `connect_timeout` (seconds) limit how long a store
    that is down delays a worker. Call `probe` before using a store that is not AWS's.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        endpoint_url: str | None = None,
        region: str | None = None,
        *,
        session: boto3.Session | None = None,
        attempts: int = 5,
        connect_timeout: float = 5.0,
        read_timeout: float = 60.0,
    ) -> None:
        client = connect_bucket(
            session or boto3.Session(),
            endpoint_url,
            region,
            attempts=attempts,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
        )
        super().__init__(Bucket(client, bucket, prefix))
