"""Messages that no publisher of ours has written: a worker has to refuse each of them."""

import base64
import json
import pickle
import zlib
from dataclasses import dataclass, field, replace
from typing import Any

Json = dict[str, Any]

TRIGGER = {"kind": "reaction", "project_id": 7, "mr_iid": 1, "note_id": 900_001, "award_id": 5}
EMBED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
OURS = json.dumps([[TRIGGER], {}, EMBED]).encode()


@dataclass(frozen=True)
class Sent:
    """A message, before a broker has it."""

    body: Any = OURS
    headers: Any = field(default_factory=lambda: {"task": "sandpiper.run", "id": "an-id"})
    content_type: str | None = "application/json"
    content_encoding: str | None = "utf-8"
    properties: Json = field(default_factory=dict)

    @property
    def fits_amqp(self) -> bool:
        """Whether a client of AMQP can send it at all."""
        fits = isinstance(self.body, str | bytes) and isinstance(self.headers, dict)
        return fits and not {"delivery_tag", "delivery_info", "body_encoding"} & set(
            self.properties
        )


def make_message(headers: Any = None, **fields: Any) -> Sent:
    """One of ours with other fields; a mapping of headers is put over ours."""
    sent = replace(Sent(), **fields)
    if headers is None:
        return sent
    if not isinstance(headers, dict):
        return replace(sent, headers=headers)
    merged = {**sent.headers, **headers}
    return replace(sent, headers={k: v for k, v in merged.items() if v is not ABSENT})


class _Absent:
    """Stands for a header that is left out."""


ABSENT = _Absent()


class Bomb:
    """Whoever unpickles it ends."""

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os._exit, (3,)


def _body(*trigger: Any, options: Any = None, embed: Any = None) -> bytes:
    return json.dumps([list(trigger), options or {}, embed or EMBED]).encode()


def _other(**fields: Any) -> bytes:
    return _body({**TRIGGER, **fields})


_DEEP = b"[" * 100_000 + b"]" * 100_000

BODIES: tuple[Json, ...] = (
    {"body": b""},
    {"body": b"null"},
    {"body": b"{}"},
    {"body": b"[]"},
    {"body": b"[[], {}, {}]"},
    {"body": b"[[1], {}, {}]"},
    {"body": b"[[{}], {}, {}]"},
    {"body": b'{"args": [], "kwargs": {}}'},
    {"body": b"hello, is anybody there?"},
    {"body": b"\xff\xfe\x00\x01"},
    {"body": b"\x00" * 1000},
    {"body": base64.b64encode(OURS)},
    {"body": OURS.decode().encode("utf-16")},
    {"body": b"[" + OURS},
    {"body": _DEEP},
    {"body": b"[[{}], {}, " + _DEEP + b"]"},
    {"body": b"[[" + b"9" * 50_000 + b"], {}, {}]"},
    {"body": b"x" * 20_000_000},
    {"body": _other(kind="pipeline")},
    {"body": _other(kind=["reaction"])},
    {"body": _other(kind="reply", discussion_id="x" * 70_000)},
    {"body": _other(note_id="900001")},
    {"body": _other(note_id=-1)},
    {"body": _other(note_id=10**40)},
    {"body": _other(note_id=1.5)},
    {"body": _other(note_id=True)},
    {"body": _other(note_id=None)},
    {"body": _other(project_id="../../workers/x")},
    {"body": _other(more=1)},
    {"body": _other(revoked="yes")},
    {"body": _body(TRIGGER, TRIGGER)},
    {"body": _body(TRIGGER, options={"x": 1})},
    {"body": _body(TRIGGER, embed={"callbacks": [{"task": "sandpiper.run", "args": []}]})},
    {"body": _body(TRIGGER, embed={"chain": [{"task": "celery.ping"}]})},
    {"body": b'[[{"__type__": "datetime", "__value__": 5}], {}, {}]'},
    {"body": b'[[{"__type__": "uuid"}], {}, {}]'},
    {"body": pickle.dumps(Bomb()), "content_type": "application/x-python-serialize"},
    {"body": pickle.dumps(Bomb()), "content_type": "application/x-python-serialize",
     "content_encoding": "binary"},
    {"body": b"!!python/object/apply:os._exit [3]", "content_type": "application/x-yaml"},
    {"body": None},
    {"body": 5},
    {"body": {"a": 1}},
    {"body": "not base64 \udcff", "properties": {"body_encoding": "base64"}},
    {"body": "AAAA", "properties": {"body_encoding": "base16"}},
    {"body": "AAAA", "properties": {"body_encoding": 5}},
)  # fmt: skip

HEADERS: tuple[Json, ...] = (
    {"content_type": None},
    {"content_type": None, "content_encoding": None},
    {"content_type": "text/plain"},
    {"content_type": "application/json; charset=utf-8"},
    {"headers": {"task": ABSENT, "id": ABSENT}},
    {"headers": {"task": ABSENT, "id": ABSENT}, "body": b"5"},
    {"headers": {"task": ABSENT}},
    {"headers": {"task": "celery.backend_cleanup"}},
    {"headers": {"task": "os.system"}},
    {"headers": {"task": ["sandpiper.run"]}},
    {"headers": {"task": {"sandpiper": "run"}}},
    {"headers": {"task": "x" * 100_000}},
    {"headers": {"task": "two\nlines \x1b[31m"}},
    {"headers": {"id": ABSENT}},
    {"headers": {"id": 5}},
    {"headers": {"id": []}},
    {"headers": {"id": "x" * 10_000}},
    {"headers": {"eta": "-292277022399-01-01T00:00:00"}},
    {"headers": {"eta": "0001-01-01T00:00:00+00:00"}},
    {"headers": {"eta": "9999-12-31T23:59:59"}},
    {"headers": {"eta": -5}},
    {"headers": {"eta": "tomorrow"}},
    {"headers": {"expires": "2001-01-01T00:00:00"}},
    {"headers": {"expires": [1]}},
    {"headers": {"compression": "application/x-gzip"}, "body": zlib.compress(b" " * 50_000_000)},
    {"headers": {"compression": "zlib"}, "body": zlib.compress(OURS)},
    {"headers": {"compression": "no-such"}},
    {"headers": {"task": "celery.chord", "retries": -1, "timelimit": "x", "group": 5}},
    {"headers": {"task": ABSENT}, "properties": {"priority": 255}},
    {"headers": [1]},
    {"headers": "x"},
    {"headers": 5},
    {"properties": {"delivery_tag": 5}},
    {"properties": {"delivery_tag": {"a": []}}},
    {"properties": {"delivery_tag": None}},
    {"properties": {"delivery_info": None}},
    {"properties": {"delivery_info": {}}},
    {"properties": {"delivery_info": {"exchange": 5, "routing_key": []}}},
    {"properties": {"delivery_info": "x"}},
)

RAW: tuple[bytes, ...] = (
    b"",
    b"5",
    b"null",
    b"[]",
    b'""',
    b"{}",
    b"hello",
    b"\xff\xfe",
    b"\x80\x04\x95" + pickle.dumps(Bomb()),
    _DEEP,
    b'{"__type__": "uuid", "__value__": "x"}',
    b'{"__type__": "datetime"}',
    b'{"__type__": []}',
    b'{"body": "x"}',
    b'{"properties": null}',
    b'{"properties": []}',
    b'{"properties": {}, "body": null}',
    b'{"properties": {"delivery_tag": "x"}, "headers": null}',
    base64.b64encode(OURS),
    OURS,
    b"x" * 20_000_000,
)
"""What may lie in the list in Redis that is the queue."""
