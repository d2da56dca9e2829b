"""A flaky test from GitLab's report to the operators: recorded, proven, owned, told."""

from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.fakes import HandClock
from tests.simulators.gitlab import GitLabSim, make_failing_merge_request
from tests.unit.jobs.reported_tests import build_deps
from tests.unit.pages.pages import TOKEN, Seen, Site
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.jobs.ledger import record_tests
from worker.jobs.ledger_rows import rank_projects
from worker.ledger.history import Order

OWNERS = b"* @crew\n/tests/ @mara @pier/harbour\n"


def test_a_flake_is_told_with_its_owner(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with GitLabSim() as sim:
        scene = make_failing_merge_request(sim)
        project, clock = scene.project, HandClock(0.0)
        sha = project.refs[project.default_branch]
        project.commits[sha]["CODEOWNERS"] = OWNERS
        client = ReadClient(sim.url, scene.read_token, retries=0)
        reader = GitLabReader(
            client, sim.url, ("**",), 30, sleep=lambda seconds: None, redact=lambda text: text
        )
        deps: Any = build_deps(reader, site.store.records)  # type: ignore[arg-type]
        deps.runtime = SimpleNamespace(clock=clock)
        test = {"name": "test_seats", "classname": "tests.test_ferry.TestSeats", "status": "failed"}
        for status in ("failed", "success", "failed"):
            run = sim.add_pipeline(
                project, scene.developer,
                ref=project.default_branch, sha=sha, source="push", status=status,
            )  # fmt: skip
            run.finished_at = sim.advance_clock()
            job = sim.add_job(run, "unit", status=status)
            job.tests = [{**test, "status": status, "system_output": "AssertionError: 12"}]
            clock.time = datetime.fromisoformat(run.created_at).timestamp() + 3600
            record_tests(project.id, run.id, deps, project.path)
        asked = [each.path for each in sim.requests if "CODEOWNERS" in each.path]
    assert len(asked) == 1
    (row,) = rank_projects(deps.storage.ledger, project.path, clock.now(), 7).tests[Order.FLAKIEST]
    assert (row.owners, row.life.runs, len(row.life.flakes)) == ("mara, pier/harbour", 3, 1)
    site.now = clock.now()
    told = " ".join(Seen(site.client.get("/tests", auth=("me", TOKEN)).text).text.split())
    assert "tests.test_ferry.TestSeats test_seats" in told
    assert "67% (21–94) 2 of 3 runs" in told
    assert "0 runs since mara, pier/harbour" in told
