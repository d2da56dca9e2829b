"""`broker:`, `broker_tls:`, `broker_…`: the queue, and how its server is known."""

import ssl
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field

from worker.settings.base import Part

SCHEMES = ("memory", "redis", "rediss", "sentinel", "sentinels", "amqp", "amqps")
BROKER = f"^({'|'.join(SCHEMES)})://"
"""What a broker's address begins with, as a pattern."""
QueueType = Literal["server", "classic", "quorum"]
"""What kind of queue RabbitMQ is asked for; `server` leaves it to the server."""

EXPECTED = "expected memory://, redis[s]://…, sentinel[s]://… or amqp[s]://…"


class BrokerTlsSettings(Part):
    """`broker_tls:`, of `rediss://`, `sentinels://` and `amqps://`."""

    verify: bool = Field(
        default=True,
        description="Whether the broker's certificate has to hold, and to name its host. `false` "
        "lets whoever stands between read and write the queue.",
    )
    ca_file: str = Field(default="", description="Certificates to trust instead of the usual ones.")

    def get_redis_options(self) -> dict[str, Any]:
        """Return what redis-py takes for `rediss://` and `sentinels://`."""
        needs = ssl.CERT_REQUIRED if self.verify else ssl.CERT_NONE
        options = {"ssl_cert_reqs": needs, "ssl_check_hostname": self.verify}
        return {**options, "ssl_ca_certs": self.ca_file} if self.ca_file else options

    def get_amqp_options(self) -> dict[str, Any]:
        """Return what py-amqp takes for `amqps://`; kombu puts the host's name where it is None."""
        if not self.verify:
            return {"cert_reqs": ssl.CERT_NONE}
        options = {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": None}
        return {**options, "ca_certs": self.ca_file} if self.ca_file else options


def check_broker(value: str) -> str:
    """Return a broker's address. Raises ValueError, which says what is expected."""
    urls = value.split(";")
    schemes = {each.partition("://")[0] for each in urls}
    if len(schemes) > 1 or not schemes <= set(SCHEMES):
        raise ValueError(EXPECTED)
    try:
        list_passwords(value)
    except ValueError:
        raise ValueError("expected a URL whose password is percent-encoded") from None
    hosts = [urlsplit(each).netloc.rpartition("@")[2] for each in urls]
    several = len(urls) > 1 or any("," in each for each in hosts)
    if several and schemes & {"redis", "rediss"}:
        raise ValueError(
            "expected one Redis, since of several each would have a queue of its own; name the "
            "Sentinels that watch them: sentinel://one:26379;sentinel://two:26379/0, and "
            "broker_master"
        )
    return value


def list_passwords(brokers: str) -> list[str]:
    """List the passwords in one broker's URL or several, separated by ";", as written and decoded.

    Raises ValueError if one is no URL.
    """
    urls = (brokers, *brokers.split(";"))
    written = [password for each in urls if (password := urlsplit(each).password)]
    return [*written, *map(unquote, written)]
