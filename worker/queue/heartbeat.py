"""One worker's registration in the store, renewed by its heartbeats.

workers/{name}.json      a number that each heartbeat raises
"""

import json
import logging
import threading

from worker.clock import Clock
from worker.errors import StoreError
from worker.safety.untrusted import parse_object
from worker.sessions.records import RECORD, Records

log = logging.getLogger("sandpiper.leases")

FOLDER = "workers/"
DEAD_RECORD = b'{"worker": ""}'
"""Replaces the record of a dead worker before it is deleted: not every store deletes
conditionally."""


class Registration:
    """This worker's record in the store, from its creation to its removal.

    The constructor creates it and raises StoreError. `is_lost` says that the record no longer
    belongs to this worker, `is_given_up` that this worker removed it itself.
    """

    def __init__(self, name: str, records: Records, clock: Clock) -> None:
        self.name, self.is_lost, self.is_given_up = name, False, False
        self._record, self._records, self._clock = f"{FOLDER}{name}.json", records, clock
        self._lock = threading.Lock()
        self._number = 0
        self._at = clock.monotonic()
        if not records.create(self._record, self._encode_record()):
            raise StoreError(f"{records.describe_place(self._record)} exists", transient=True)

    def send_heartbeat(self) -> None:
        """Write the next heartbeat; sets `is_lost` if another worker removed the record.

        Raises StoreError, also for a record that is damaged: it may be ours.
        """
        with self._lock:
            if self.is_lost:
                return
            started, before = self._clock.monotonic(), self._encode_record()
            stored = self._records.read(self._record, RECORD)
            self._number += 1
            # The record may have a heartbeat of ours for which the store's answer was lost.
            is_ours = stored is not None and _is_same_worker(stored.content, before)
            if stored is None or not is_ours:
                self._mark_lost()
            elif self._records.replace(self._record, self._encode_record(), stored.version):
                self._at = started
            else:
                self._mark_lost()

    def count_seconds_since_heartbeat(self) -> float:
        """Return the seconds since the last heartbeat that was written."""
        return self._clock.monotonic() - self._at

    def remove_record(self) -> None:
        """Delete the record, which frees all that this worker holds. Raises StoreError."""
        with self._lock:
            if not self.is_lost:
                self.is_lost = self.is_given_up = True
                self._records.delete(self._record)

    def _mark_lost(self) -> None:
        self.is_lost = True
        log.error("worker %s was taken for dead; its runs end here, others go on", self.name)

    def _encode_record(self) -> bytes:
        return json.dumps({"worker": self.name, "beat": self._number}).encode()


def _is_same_worker(content: bytes, own_record: bytes) -> bool:
    return bool(parse_object(content).get("worker") == parse_object(own_record)["worker"])
