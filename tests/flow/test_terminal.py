"""The commands of an operator at a terminal, and what a wrong start says."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flow.product import Product, product
from worker.lab import story

pytestmark = pytest.mark.usefixtures("bubblewrap")


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Product]:
    """The bundled case with the embedded broker and a folder store."""
    with product(tmp_path, story.make_script(), "memory://") as made:
        yield made


def mr(told: Product) -> str:
    return f"{told.scene.mr.project.path}!{told.scene.mr.iid}"


def test_analyze_posts_the_note_and_says_where_the_session_lies(told: Product) -> None:
    done = told.run("analyze", mr(told))
    assert done.returncode == 0, done.stderr
    assert "Caused by this change" in done.stdout
    assert "sandbox_exec" in done.stderr
    (note,) = told.notes()
    assert note.body.strip() == done.stdout.strip()
    again = told.run("analyze", told.scene.mr.web_url)
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert again.stderr.splitlines() == [
        f"Analysed already: {note.web_url}",
        f"To do it again: sandpiper analyze {told.scene.mr.web_url} --again",
    ]
    assert len(told.model.requests) == len(told.model.answers)
    assert [each.body for each in told.notes()] == [note.body]


@pytest.mark.usefixtures("sandbox_image")
def test_a_dry_run_posts_nothing_and_can_be_asked_further(told: Product) -> None:
    told.use_docker()
    for name in ("GITLAB_WRITE_TOKEN", "GITLAB_WEBHOOK_SECRET"):
        del told.env[name]
    done = told.run("analyze", told.scene.mr.web_url, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert "note not posted: this run posts nothing" in done.stderr
    assert "posted: " not in done.stderr.replace("not posted: ", "")
    result = json.loads(done.stdout)
    assert result["status"] == "done"
    assert "Caused by this change" in result["note"]
    assert told.notes() == []
    assert_only_read(told)
    # Nobody can reply to what is not there; the terminal says how to go on.
    how = f'To ask more: sandpiper reply {result["session"]} "…"'
    assert done.stderr.splitlines()[-1] == how
    assert "Reply" not in result["note"]

    asked = told.run("reply", result["session"][:8], story.QUESTION)
    assert asked.returncode == 0, asked.stderr
    assert "[Window(start=1380, end=1500)]" in asked.stdout
    assert asked.stderr.splitlines()[-1] == how
    assert "Reply" not in asked.stdout
    assert_only_read(told)
    assert told.notes() == []

    listed = told.run("sessions", "list", "--json")
    (row,) = [json.loads(line) for line in listed.stdout.splitlines()]
    assert (row["session"], row["turns"], row["mr"]) == (result["session"], 2, mr(told))
    shown = told.run("sessions", "show", result["session"])
    assert story.QUESTION in shown.stdout
    assert "gitlab_list_pipeline_jobs" in shown.stdout
    stored = json.loads(told.run("sessions", "show", result["session"], "--json").stdout)
    assert stored["messages"][0]["role"] == "user"
    assert told.list_sandboxes(result["session"]) == []
    assert told.gitlab.unexpected_requests == []
    assert stored["dry_turns"] == [0, 1]
    reported = json.loads(told.run("report", "--json").stdout)
    assert "Caused by this change" not in json.dumps(reported)
    # A dry run never stands in for a posted one.
    told.env["GITLAB_WRITE_TOKEN"] = told.scene.write_token
    assert told.run("analyze", mr(told)).returncode == 0
    assert len(told.notes()) == 1


def test_a_partial_answer_has_an_exit_status_of_its_own(told: Product) -> None:
    told.write_settings("limits: {max_iterations: 4}\n")
    done = told.run("analyze", mr(told), "--dry-run")
    assert done.returncode == 3, done.stderr
    assert "limit of iterations" in done.stdout


def assert_only_read(told: Product) -> None:
    """GitLab was only asked, and by the read token."""
    sent = {(seen.method, seen.token) for seen in told.gitlab.requests}
    assert sent == {("GET", "read")}


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_an_analysis_that_fails_tells_its_progress_and_at_last_the_reason(
    told: Product, form: tuple[str, ...]
) -> None:
    told.model.fail_next(401)
    done = told.run("analyze", mr(told), *form)
    assert done.returncode == 1
    assert "iteration 1 of at most 50" in done.stderr
    reason = "anthropic: the API key was refused (401): set ANTHROPIC_API_KEY"
    assert last_line(done) == f"sandpiper: {reason}"
    assert done.stderr.count(reason) == 1


WRONG_ENVIRONMENTS = [
    ({"GITLAB_WEBHOOK_SECRET": ""}, "serve", 2, "set GITLAB_WEBHOOK_SECRET"),
    ({"GITLAB_READ_TOKEN": ""}, "serve", 2, "set GITLAB_READ_TOKEN (scope read_api, role Repo"),
    ({"ANTHROPIC_API_KEY": ""}, "serve", 2, "set ANTHROPIC_API_KEY"),
    ({"SANDPIPER_MODEL": "nobody/model"}, "serve", 2, "nobody"),
    ({"SANDPIPER_BROKER": "kafka://x"}, "serve", 2, "expected memory://, redis[s]://"),
    ({"SANDPIPER_STORE": "/var/lib/x"}, "serve", 2, "expected file:///folder"),
    ({"DOCKER_HOST": "unix:///nowhere.sock"}, "serve", 1, "unix:///nowhere.sock"),
    ({}, "worker", 2, "memory:// lives inside `sandpiper serve`"),
]


@pytest.mark.usefixtures("sandbox_image")
@pytest.mark.parametrize(("changes", "command", "status", "says"), WRONG_ENVIRONMENTS)
def test_a_wrong_start_is_refused_with_one_line_that_says_what_to_do(
    told: Product, changes: dict[str, str], command: str, status: int, says: str
) -> None:
    told.use_docker()
    told.env |= changes
    done = told.run(command)
    assert (done.returncode, done.stdout) == (status, "")
    assert says in last_line(done)
    assert last_line(done).startswith("sandpiper: ")


def test_an_unknown_key_in_the_file_is_named_with_its_line(told: Product) -> None:
    told.write_settings("gitlab: {projcts: [a]}\n")
    done = told.run("serve")
    assert done.returncode == 2
    assert "sandpiper.yaml:1: gitlab.projcts: unknown key" in last_line(done)


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["analyze", "no-such-thing"], 2, "is neither group/project!iid nor a URL"),
        (["analyze", "https://other.example/a/b/-/merge_requests/1"], 2, "set GITLAB_URL"),
        (["analyze", "northsound/ferrytimes!99"], 1, "not found"),
        (["analyze", "northsound/nothing!1"], 1, "northsound/nothing"),
        (["analyze", "northsound/ferrytimes!1", "--pipeline", "5"], 1, "pipeline 5"),
        (["analyze", "northsound/ferrytimes!1", "--workflow", "x"], 2, "known: analyze-failures"),
        (["reply", "abcdef", "hello"], 1, "there is no session 'abcdef'"),
        (["sessions", "show", "../../etc"], 1, "there is no session"),
    ],
)
def test_a_wrong_request_is_one_line(
    told: Product, arguments: list[str], status: int, says: str
) -> None:
    done = told.run(*arguments)
    assert done.returncode == status, done.stderr
    assert says in last_line(done)


def test_a_token_that_gitlab_refuses_is_said(told: Product) -> None:
    told.env["GITLAB_READ_TOKEN"] = "glpat-this-one-was-revoked-long-ago"
    done = told.run("analyze", mr(told))
    assert done.returncode == 1
    assert "GITLAB_READ_TOKEN" in last_line(done)
    assert "glpat-" not in done.stderr


def test_a_merge_request_without_a_failed_pipeline_is_said(told: Product) -> None:
    told.scene.pipeline.status = "success"
    done = told.run("analyze", mr(told))
    assert done.returncode == 1
    assert "no failed pipeline" in last_line(done)


def test_help_lists_every_command_without_importing_them(told: Product) -> None:
    done = told.run("--help")
    assert done.returncode == 0
    for command in ("analyze", "demo", "reply", "serve", "sessions", "worker"):
        assert command in done.stdout


def test_celery_finds_the_app_by_its_module(told: Product) -> None:
    import sys
    from pathlib import Path

    celery = Path(sys.executable).with_name("celery")
    done = subprocess.run(
        [str(celery), "-A", "worker.app", "report"],
        env=told.env,
        cwd=told.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "task_acks_late: True" in done.stdout
