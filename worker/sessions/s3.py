"""Stores sessions in an S3 bucket, or in a compatible store with conditional writes."""

import boto3

from worker.sessions.bucket import Bucket, connect_bucket
from worker.sessions.store import Store


class S3Store(Store):
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
    ) -> None:
        client = connect_bucket(
            session or boto3.Session(),
            endpoint_url,
            attempts=attempts,
            read_timeout=read_timeout,
        )
        super().__init__(Bucket(client, bucket, prefix))
