"""What the simulated model APIs of the tests have in common: faults, and a list of models."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import Response

from tests.simulators.faults import Fault, Faults
from worker.lab import loopback
from worker.lab.loopback import Json


class ModelApi(loopback.ModelApi):
    """An API with faults and a list of models.

    `model_list` is its list of models, `max_listed` the most models in one page; `lists` counts the
    requests for pages of it.
    """

    def __init__(self, *arguments: Any, think: float = 0.0, **options: Any) -> None:
        """`think` is the delay of answers in seconds; the rest is for the class behind this one."""
        super().__init__(*arguments, **options)
        self.model_list: list[Json] = []
        self.max_listed = 1000
        self.lists = 0
        self._think = think
        self._trouble: Callable[[], int] = lambda: 0
        self._faults, self._list_faults = Faults(), Faults()

    def make_error(self, status: int) -> bytes:
        """Make the API's error body for a status."""
        raise NotImplementedError

    def fail_next(
        self,
        status: int,
        body: bytes | Json | list[Json] = b"",
        headers: Mapping[str, str] | None = None,
        times: int = 1,
    ) -> None:
        """Answer the next `times` valid requests with this error, without asking the script.

        Without a body, the error body for the status is sent.
        """
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._faults.add(Fault(status, raw or self.make_error(status), headers or {}), times)

    def fail_while(self, trouble: Callable[[], int]) -> None:
        """Answer valid requests with the status that `trouble` returns, as long as it is not 0."""
        self._trouble = trouble

    def fail_list(self, status: int, body: bytes = b"") -> None:
        """Answer the next valid request for the list of models with this error."""
        self._list_faults.add(Fault(status, body or self.make_error(status), {}), 1)

    def cut_next(self, times: int = 1) -> None:
        """Close the connection in the middle of the next `times` answers."""
        self._faults.add(Fault(0), times)

    async def spoil(self) -> Response | None:
        """Wait for the thinking time, then return the faulty answer if this request gets one."""
        if self._think:
            await asyncio.sleep(self._think)
        if status := self._trouble():
            return Response(self.make_error(status), status, media_type="application/json")
        return self._faults.take_next()

    def _fail_list(self) -> Response | None:
        """Count a request for the list; return the faulty answer if it gets one."""
        self.lists += 1
        return self._list_faults.take_next()
