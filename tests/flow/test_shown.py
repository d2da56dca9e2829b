"""What the model is shown, by the product's own processes: files, diffs, the survey."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.flow.product import Product, product
from worker.demo.gitlab import DiffFile, Pipeline
from worker.demo.script import Answer, Asked, Call, Say

pytestmark = pytest.mark.usefixtures("sandbox_image")

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
    """Makes the calls, one request after the other, then answers."""

    calls: list[Callable[[Asked], Call]]
    asked: list[Asked] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        done = len(asked.results)
        return self.calls[done](asked) if done < len(self.calls) else Say(FINDING)

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
    folder: Path, model: Model, pipeline: Callable[[Product], Pipeline]
) -> Iterator[Product]:
    """The product after a turn on the pipeline's failure."""
    with product(folder, model, "memory://") as told:
        made = pipeline(told)
        with told.serve() as serve:
            told.gitlab.send(told.gitlab.pipeline_event(made))
            serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
            yield told
        assert told.gitlab.unexpected == []
        assert told.model.unexpected == []


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
    with failed(tmp_path, model, tables):
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


def test_the_operator_says_how_much_is_shown(tmp_path: Path, sandbox_image: str) -> None:
    # By its tag: on a shared engine `latest` may be the image of another checkout.
    settings = f"limits: {{preview_bytes: 1024}}\nsandbox: {{image: '{sandbox_image}'}}\n"
    (tmp_path / "sandpiper.yaml").write_text(settings)
    calls = [
        call("gitlab_get_file", path="ferrytimes/tables.py"),
        call("sandbox_exec", command="seq 1 500"),
    ]
    model = Model(calls)
    with failed(tmp_path, model, tables):
        pass
    document, command = model.results
    for shown in (document["preview"], command["stdout"]):
        assert 700 < len(shown.encode()) <= 1024
    assert command["stdout_file"] == "/tmp/_out/1.txt"
