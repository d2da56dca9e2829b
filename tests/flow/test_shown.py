"""What the model is shown, by the product's own processes: files, diffs, the survey."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.flow.product import BUBBLEWRAP, DOCKER, Driver, Product, product
from tests.simulators.gitlab import DiffFile, Pipeline
from tests.worlds import branch_pipeline
from worker.lab.script import Answer, Asked, Call, Say

pytestmark = pytest.mark.usefixtures("bubblewrap")

LICENCE = [f"# Licence, line {number}" for number in range(1, 61)]
SOURCE = "\n".join([*LICENCE, *(f"value_{number} = {number}" for number in range(61, 1001))])
LOG = b"""\
Executing "step_script" stage of the job script
$ pytest -q
ferrytimes/tables.py:700: KeyError: 'tide'
FAILED tests/test_tables.py::test_high - KeyError: 'tide'
ERROR: Job failed: exit code 1
"""
NOISE = "".join(f"@@ -{n},1 +{n},1 @@\n-old\n+{'noise ' * 60}\n" for n in range(1, 60))
CAUSE = "@@ -700,1 +700,1 @@\n-value = 'tide'\n+value = 'ebb'\n"
FINDING = "## Verdict\nunknown\n\n## Failed\nunit\n\n## Cause\nNot clear.\n\n## What to do\nLook.\n"


@dataclass
class Model:
    """Makes the calls, one request after the other, then answers; in a reply `more` of them."""

    calls: list[Callable[[Asked], Call]]
    more: list[Callable[[Asked], Call]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        done = len(asked.results)
        calls = [*self.calls, *(self.more if asked.turn else ())]
        return calls[done](asked) if done < len(calls) else Say(FINDING)

    @property
    def first(self) -> str:
        return self.asked[0].first

    @property
    def results(self) -> list[dict[str, Any]]:
        return [json.loads(result.content) for result in self.asked[-1].results]


def call(name: str, **arguments: Any) -> Callable[[Asked], Call]:
    return lambda asked: Call([(name, arguments)])


@contextmanager
def failed(
    folder: Path,
    model: Model,
    pipeline: Callable[[Product], Pipeline],
    settings: str = "",
    driver: Driver = BUBBLEWRAP,
) -> Iterator[Product]:
    """The product after a turn on the pipeline's failure."""
    with product(folder, model, "memory://", driver=driver) as told:
        told.write_settings(settings)
        made = pipeline(told)
        with told.serve() as serve:
            told.gitlab.deliver(told.gitlab.make_pipeline_event(made))
            serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
            yield told
        assert told.gitlab.unexpected_requests == []
        assert told.model.unexpected_requests == []


def tables(told: Product) -> Pipeline:
    """A long file with a licence at its top, changed in line 700; the log names that line."""
    mr = told.scene.mr
    told.gitlab.push(mr, {"ferrytimes/tables.py": SOURCE.encode()})
    mr.diffs = [
        DiffFile("docs/big.md", NOISE),
        DiffFile("ferrytimes/tables.py", NOISE[:20_000].rpartition("@@ -")[0] + CAUSE),
    ]
    pipeline = told.gitlab.run_pipeline(mr)
    told.gitlab.add_job(pipeline, "unit", status="failed", trace=LOG)
    return pipeline


def test_a_reply_is_shown_a_file_where_the_failure_of_before_points(tmp_path: Path) -> None:
    model = Model([], [call("gitlab_get_file", path="ferrytimes/tables.py")])
    with product(tmp_path, model, "memory://") as told:
        answer_a_question(told, tables(told))
    assert "700: value_700 = 700" in model.results[0]["preview"]


def answer_a_question(told: Product, pipeline: Pipeline) -> None:
    """Both turns of the product on the pipeline's failure."""
    with told.serve() as serve:
        told.gitlab.deliver(told.gitlab.make_pipeline_event(pipeline))
        serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
        (note,) = told.notes()
        told.gitlab.comment(told.scene.mr, told.scene.author, "Is it mine?", note.discussion_id)
        serve.until(lambda: len(told.objects("context.json")) == 2, "no answer was stored")


def save(source: str, target: str, **arguments: Any) -> Callable[[Asked], Call]:
    return call("fetch_to_sandbox", source=source, arguments=arguments, path=target)


def test_files_and_diffs_are_shown_where_the_log_points(tmp_path: Path) -> None:
    path = "ferrytimes/tables.py"
    model = Model(
        [
            call("gitlab_get_file", path=path),
            save("gitlab_get_file", "/tmp/data/tables.py", path=path),
            call("gitlab_get_file", path=path, first_line=699, last_line=701),
            call("gitlab_get_mr_diff"),
            call("sandbox_exec", command="sed -n 700p /tmp/data/tables.py"),
        ]
    )
    # With a plan the second call would be answered with where the document lies already.
    with failed(tmp_path, model, tables, "loop: {plan: off}\n"):
        pass
    inline, saved, part, diff, command = model.results
    assert "700: value_700 = 700" in inline["preview"]
    assert "Licence" not in inline["preview"]
    lines = [line for line in saved["preview"].split("\n") if not line.startswith("[…")]
    assert len(lines) == 10
    assert "700: value_700 = 700" in lines
    assert part["result"].split("\n")[1:-1] == [f"{n}: value_{n} = {n}" for n in (699, 700, 701)]
    assert "  700 +value = 'ebb'" in diff["preview"]
    assert command["stdout"] == "value_700 = 700\n"


def test_the_operator_says_how_much_is_shown(tmp_path: Path) -> None:
    calls = [
        call("gitlab_get_file", path="ferrytimes/tables.py"),
        call("sandbox_exec", command="seq 1 500"),
    ]
    model = Model(calls)
    with failed(tmp_path, model, tables, "limits: {preview_bytes: 1024}\n"):
        pass
    document, command = model.results
    for shown in (document["preview"], command["stdout"]):
        assert 700 < len(shown.encode()) <= 1024
    assert command["stdout_file"] == "/tmp/_out/1.txt"


RACE = b"""\
Executing "step_script" stage of the job script
$ pytest -q
E   KeyError: 'tide'
FAILED tests/test_tide.py::test_high - KeyError: 'tide'
ERROR: Job failed: exit code 1
"""
UNIT = "/tmp/data/unit.log"


def surveyed(told: Product) -> Pipeline:
    """A matrix of which one failed, a retried job, one that may fail; an earlier run passed."""
    mr = told.scene.mr
    before = branch_pipeline(told.gitlab, mr, mr.base_sha)
    before.status = "success"
    told.gitlab.add_job(before, "unit: [3.10]", trace=b"$ pytest -q\nall passed\n")
    pipeline = told.gitlab.run_pipeline(mr)
    told.gitlab.add_job(pipeline, "unit: [3.10]", status="failed", trace=RACE * 40)
    told.gitlab.add_job(pipeline, "unit: [3.12]", trace=b"fine\n")
    told.gitlab.add_job(pipeline, "deploy", status="failed", trace=RACE)
    told.gitlab.add_job(pipeline, "deploy", trace=b"fine\n")
    told.gitlab.add_job(pipeline, "links", status="failed", trace=RACE, allow_failure=True)
    return pipeline


def fetch_unit_log(asked: Asked) -> Call:
    job = re.search(r"representative: job (\d+) \(unit: \[3\.10\]\)", asked.first)
    assert job
    arguments = {"job_id": int(job[1])}
    return save("gitlab_get_job_log", UNIT, **arguments)(asked)


def test_the_survey_says_what_there_is_and_nothing_that_is_saved_is_overwritten(
    tmp_path: Path, sandbox_image: str
) -> None:
    green = f"{UNIT}.green"
    model = Model(
        [
            fetch_unit_log,
            save("gitlab_get_last_green_log", green, job_name="unit: [3.10]"),
            call("sandbox_exec", command=f"cat {green}"),
        ]
    )
    # By its tag: on a shared engine `latest` may be the image of another checkout.
    image = f"sandbox: {{image: '{sandbox_image}'}}\n"
    with failed(tmp_path, model, surveyed, image, DOCKER) as told:
        jobs = {(job.name, job.status): job.id for job in told.gitlab.jobs.values()}
    passed = jobs["unit: [3.10]", "success"]
    retried, again = jobs["deploy", "failed"], jobs["deploy", "success"]
    for line in (
        f"Failed, but is allowed to: job {jobs['links', 'failed']} (links)",
        f"Failed and was retried: job {retried} (deploy), script_failure, then job {again} passed",
        f"Passed: job {jobs['unit: [3.12]', 'success']} (unit: [3.12]); job {again} (deploy)",
        f"its log as FILE comes with FILE.green, the log of job {passed}, its last run that passed",
        "fact: of the same matrix unit: [3.12] passed",
    ):
        assert f"\n{line}" in model.first, line
    now = re.search(r"\n\nIt is (\S+ \S+) UTC now\.\n", model.first)
    assert now
    moment = datetime.strptime(now[1], "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=15)
    tools = model.first.rpartition("\n\nBesides the usual Unix tools, the sandbox has: ")[2]
    assert re.match(r"python3 3\.\d+\.\d+, ", tools)
    assert re.search(r"; no .*\bnode, npm, go\b", tools)
    log, refused, command = model.results
    assert log["also_saved"][green].startswith(f"the log of job {passed}, which passed on main")
    assert "is there already" in refused["error"]
    assert command["stdout"] == "$ pytest -q\nall passed\n"


def test_a_replys_opening_says_who_asks_where_and_which_files_are_back(tmp_path: Path) -> None:
    model = Model([fetch_unit_log])
    with product(tmp_path, model, "memory://") as told:
        answer_a_question(told, surveyed(told))
    said = model.asked[-1].human
    assert f"\n@{told.scene.author.username} asks in the thread of your note.\n" in said
    assert f"\nAmong the files that are back: {UNIT}, {UNIT}.green.\n" in said
    assert re.search(r"\nIt is \S+ \S+ UTC now\.\n", said)
    assert said.rstrip().endswith("Is it mine?")
