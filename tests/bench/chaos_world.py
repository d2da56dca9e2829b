"""A simulator in a process of its own: `python -m tests.bench.chaos_world gitlab|model ARGUMENT`.

It answers lines of JSON on standard input with lines of JSON, and ends with the input. The first
line it says is where it is. ARGUMENT is GitLab's number of projects, or the model's seconds to
think.
"""

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.flow.product import KEY, SECRET
from tests.simulators.anthropic import AnthropicSim
from tests.simulators.gitlab import (
    Access,
    GitLabSim,
    MergeRequest,
    Pipeline,
    Project,
    Receiver,
)
from tests.simulators.odd_answers import OddGitLab
from worker.answer.note.note import is_placeholder
from worker.lab.script import Answer, Asked, Call, Say, Scripted
from worker.safety.markdown import find_marker

Json = dict[str, Any]
COUNT = "echo ran >> /tmp/data/count"
PATIENCE = 120.0
"""Seconds for which a webhook that is refused is sent again."""


class GitLab:
    """Projects with merge requests whose pipelines fail on demand."""

    def __init__(self, sim: GitLabSim, projects: int) -> None:
        self._sim = sim
        self._author = sim.add_user("mara")
        self._bot = sim.add_user("project_501_bot_5f2c", "sandpiper", bot=True)
        self._projects = [self._project(number) for number in range(projects)]
        self._opened: list[MergeRequest] = []
        self._accepted: list[bool] = []
        self._refused = 0
        self._lock = threading.Lock()

    def _project(self, number: int) -> Project:
        made = self._sim.add_project(f"team/service-{number}", {"app.py": b"1\n"})
        self._sim.add_member(made, self._author, Access.DEVELOPER)
        self._sim.add_member(made, self._bot, Access.REPORTER)
        return made

    def place(self) -> Json:
        """Where it is, and its tokens."""
        tokens = {
            "read": self._sim.add_token("read", self._bot, "read_api"),
            "write": self._sim.add_token("write", self._bot, "api"),
        }
        return {"url": self._sim.url, **tokens}

    def answer(self, asked: Json) -> Json:
        """`{"door": url}`, `{"fail": number}`, `{"odd": kind, "seconds": n}`, `{"post": how,
        "seconds": n}` or `{}`."""
        if "door" in asked:
            self._sim.receiver = Receiver(asked["door"], SECRET)
            return {}
        if "fail" in asked:
            pipeline = self._open(asked["fail"])
            threading.Thread(target=self._deliver, args=(pipeline,), daemon=True).start()
            return {}
        if "odd" in asked:
            odd = (OddGitLab(asked["odd"]), float(asked["seconds"]))
            threading.Thread(target=self._answer_oddly, args=odd, daemon=True).start()
            return {}
        if "post" in asked:
            # One that is doubled is answered as GitLab does, and carried out once more.
            status = {"late": 504, "doubled": 0}[asked["post"]]
            self._sim.carry_out_late("POST", "/notes$", asked["seconds"], status=status)
            return {}
        return {
            "notes": [self._told(mr) for mr in self._opened],
            "strange": self._sim.unexpected_requests,
            "accepted": sum(self._accepted),
            "refused": self._refused,
            "settled": len(self._accepted),
            "odd": len(self._sim.given),
        }

    def _answer_oddly(self, kind: OddGitLab, seconds: float) -> None:
        with self._sim.answering(kind):
            time.sleep(seconds)

    def _open(self, number: int) -> Pipeline:
        mr = self._sim.open_merge_request(
            self._projects[number % len(self._projects)],
            self._author,
            title=f"Change {number}",
            branch=f"change-{number}",
            files={f"file-{number}": b"1"},
        )
        pipeline = self._sim.run_pipeline(mr)
        trace = b"ValueError: no such thing as %d\n" % number
        self._sim.add_job(pipeline, "test", status="failed", trace=trace)
        self._opened.append(mr)
        return pipeline

    def _deliver(self, pipeline: Pipeline) -> None:
        """Send the webhook until it is accepted, as a patient GitLab does."""
        until = time.monotonic() + PATIENCE
        while not (accepted := self._delivered(pipeline)) and time.monotonic() < until:
            with self._lock:
                self._refused += 1
            time.sleep(0.3)
        with self._lock:
            self._accepted.append(accepted)

    def _delivered(self, pipeline: Pipeline) -> bool:
        try:
            answer = self._sim.deliver(self._sim.make_pipeline_event(pipeline))
        except httpx.HTTPError:
            return False
        return answer.status_code == httpx.codes.ACCEPTED

    def _told(self, mr: MergeRequest) -> list[Json]:
        """The bot's notes on it: whose they are, and whether they are final."""
        found = []
        for note in mr.list_notes():
            if note.author is self._bot:
                marker = find_marker(note.body)
                final = not is_placeholder(note.body)
                name = marker.session_id if marker else ""
                found.append({"session": name, "final": final, "body": note.body[:400]})
        return found


class Model:
    """What it was asked, by session and step."""

    def __init__(self) -> None:
        self._asked: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()
        self._script = Scripted(
            [
                Call([("sandbox_exec", {"command": COUNT})]),
                Call([("sandbox_exec", {"command": "wc -l < /tmp/data/count"})]),
                _concluded,
            ]
        )

    def script(self, asked: Asked) -> Answer:
        with self._lock:
            self._asked[asked.first, asked.answers] += 1
        return self._script(asked)

    def answer(self, sim: AnthropicSim) -> Json:
        """How often it was asked, and how often for what it had been asked before."""
        total = sum(self._asked.values())
        repeated = total - len(self._asked)
        return {"asked": total, "repeated": repeated, "strange": sim.unexpected_requests}


def _concluded(asked: Asked) -> Say:
    """How often the command ran, where its sandbox still tells."""
    try:
        lines = json.loads(asked.results[-1].content)["stdout"].strip()
    except (KeyError, ValueError, IndexError):
        lines = "?"
    return Say(f"## Verdict\nflaky\n\n## Cause\nThe command ran {lines} times.\n")


@contextmanager
def _gitlab(projects: str) -> Iterator[tuple[Json, Callable[[Json], Json]]]:
    with GitLabSim() as sim:
        world = GitLab(sim, int(projects))
        yield world.place(), world.answer


@contextmanager
def _model(think: str) -> Iterator[tuple[Json, Callable[[Json], Json]]]:
    model = Model()
    with AnthropicSim(model.script, key=KEY, think=float(think)) as sim:
        yield {"url": sim.url}, lambda asked: model.answer(sim)


def main(which: str, argument: str) -> None:
    """Serve until the input ends."""
    with {"gitlab": _gitlab, "model": _model}[which](argument) as (place, answer):
        print(json.dumps(place), flush=True)
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
