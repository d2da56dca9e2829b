"""What may be wrong with GitLab, the tokens, the projects and the configuration."""

from tests.simulators.gitlab import Access
from tests.unit.doctor.bed import Bed, Break
from tests.unit.doctor.breaks import (
    FLOW,
    READ,
    WRITE,
    F,
    Row,
    U,
    W,
    env,
    file,
    old,
    revoked,
    token,
    workflow,
)
from worker.doctor.base import CheckStatus


def hide_logs(bed: Bed) -> None:
    bed.scene.project.public, bed.scene.project.public_jobs = True, False


def read_as(access: Access) -> Break:
    """The read token is that of a user of its own, with this role."""

    def change(bed: Bed) -> None:
        reader = bed.gitlab.add_user("reader", "Reader", bot=True)
        bed.gitlab.add_member(bed.scene.project, reader, access)
        bed.env[READ] = bed.gitlab.add_token("reader", reader, "read_api")

    return change


def sign_in(secret: str = "", ahead: str = "") -> Break:
    """Operators sign in by GitLab, as an application with this secret or the right one, and GitLab
    signs as `ahead` says."""

    def change(bed: Bed) -> None:
        made = bed.gitlab.provider.add_application("https://sandpiper.example/sign-in/callback")
        chosen = {"group": "acme/ops", "client_id": made.client_id}
        bed.file["pages"] = {"url": "https://sandpiper.example", "sign_in": chosen}
        bed.env["GITLAB_OIDC_CLIENT_SECRET"] = secret or made.client_secret
        if ahead:
            bed.file.setdefault("gitlab", {})["ci_issuer"] = ahead

    return change


def forget_secret(bed: Bed) -> None:
    sign_in()(bed)
    del bed.env["GITLAB_OIDC_CLIENT_SECRET"]


def run_again_as(access: Access) -> Break:
    """Jobs are to be run again where a branch is green, by a bot with this role."""

    def change(bed: Bed) -> None:
        bed.role(access)
        bed.file["incidents"] = {"rerun": 20}

    return change


ROWS = [
    Row(
        "a sign-in without its secret",
        forget_secret,
        "sign-in",
        "sign-in",
        F,
        "there is no secret, and `serve` does not start",
        "set GITLAB_OIDC_CLIENT_SECRET",
    ),
    Row(
        "a secret of a sign-in without a group",
        env(GITLAB_OIDC_CLIENT_SECRET="gloas-0123456789"),
        "sign-in",
        "sign-in",
        W,
        "GITLAB_OIDC_CLIENT_SECRET signs nobody in",
        "set pages.sign_in.group and client_id",
    ),
    Row(
        "a sign-in with another application's secret",
        sign_in("gloas-0123456789"),
        "sign-in",
        "sign-in",
        F,
        "GitLab knows no application of this id and secret",
        "set pages.sign_in.client_id and GITLAB_OIDC_CLIENT_SECRET",
    ),
    Row(
        "a sign-in at a GitLab that signs as another",
        sign_in(ahead="https://gitlab.example.com"),
        "sign-in",
        "sign-in",
        F,
        "not 'https://gitlab.example.com'",
        "set gitlab.ci_issuer to http://127.0.0.1",
    ),
    Row(
        "a reader who reads what readers of notes do not",
        read_as(Access.DEVELOPER),
        "read-role",
        "read role",
        W,
        "@reader is more than Reporter in team/service",
        "make @reader a Reporter there",
    ),
    Row(
        "a reader who reads too little",
        read_as(Access.GUEST),
        "read-role",
        "read role",
        F,
        "@reader may not read all pipelines in team/service",
        "make @reader a Reporter there",
    ),
    Row(
        "no secret",
        env(GITLAB_WEBHOOK_SECRET=""),
        "settings",
        "webhook secret",
        F,
        "there is none",
        "set GITLAB_WEBHOOK_SECRET",
    ),
    Row(
        "a short secret",
        env(GITLAB_WEBHOOK_SECRET="hunter2"),
        "settings",
        "webhook secret",
        W,
        "short enough to be guessed",
        "openssl rand",
    ),
    Row(
        "plain http",
        env(GITLAB_URL="http://gitlab.example.com"),
        "settings",
        "gitlab.url",
        W,
        "unencrypted",
        "use https://",
    ),
    Row(
        "plain pages",
        file(pages={"url": "http://pages.example.com"}),
        "settings",
        "pages.url",
        W,
        "links to sessions unencrypted",
        "use https:// for pages.url",
    ),
    Row(
        "a list of sessions that is served nowhere",
        env(SANDPIPER_OPERATOR_TOKEN="0123456789abcdef"),
        "settings",
        "pages.url",
        W,
        "without pages.url no page is served",
        "set pages.url",
    ),
    Row(
        "a judge without a helper",
        file(loop={"gate": "judge"}),
        "idle",
        "no effect",
        W,
        "loop.gate (judge): without models.helper rules alone judge",
        "set models.helper",
    ),
    Row(
        "a broken workflow",
        workflow("no front matter"),
        "workflows",
        "workflows",
        F,
        "expected a front matter",
        "",
    ),
    Row(
        "a workflow without a trigger",
        workflow(FLOW.format("", "'*'")),
        "workflows",
        "workflows",
        F,
        "no workflow has 'pipeline_failed'",
        "copy the bundled analyze-failures.md",
    ),
    Row(
        "a workflow that nobody can ask for",
        workflow(FLOW.format("pipeline_failed", "'*'")),
        "workflows",
        "workflows",
        W,
        "no workflow has 'command:analyze'",
        "copy the bundled analyze-failures.md",
    ),
    Row(
        "an unknown tool",
        workflow(FLOW.format("pipeline_failed", "sandbox_exek")),
        "workflows",
        "workflows",
        F,
        "one.md:5: tools[0]: no tool is named 'sandbox_exek': did you mean sandbox_exec?",
        "Adding a workflow",
    ),
    Row(
        "GitLab down",
        env(GITLAB_URL="http://127.0.0.1:9"),
        "gitlab",
        "gitlab",
        F,
        "no answer from http://127.0.0.1:9: nothing listens there (connection refused)",
        "",
    ),
    Row(
        "GitLab down, so no token",
        env(GITLAB_URL="http://127.0.0.1:9"),
        "read-token",
        "read-token",
        U,
        "GitLab does not answer",
        "",
    ),
    Row(
        "not GitLab",
        lambda bed: bed.env.update(GITLAB_URL=bed.model.url),
        "gitlab",
        "gitlab",
        F,
        "has no GitLab API (404)",
        "",
    ),
    Row(
        "an old GitLab",
        old("15.4.2"),
        "gitlab",
        "reachable",
        W,
        "older than 16.11",
        "upgrade GitLab",
    ),
    Row(
        "no read token",
        env(GITLAB_READ_TOKEN=""),
        "read-token",
        "read-token",
        F,
        "set GITLAB_READ_TOKEN (scope read_api)",
        "",
    ),
    Row(
        "a wrong token",
        env(GITLAB_READ_TOKEN="glpat-0123456789abcdefghij"),
        "read-token",
        "read-token",
        F,
        "GITLAB_READ_TOKEN revoked or expired",
        "",
    ),
    Row(
        "an expired token",
        revoked,
        "write-token",
        "write-token",
        F,
        "GITLAB_WRITE_TOKEN revoked or expired",
        "",
    ),
    Row(
        "too little to read",
        token(READ, "read_user"),
        "read-token",
        "read token",
        F,
        "its scopes are read_user",
        "scope read_api",
    ),
    Row(
        "a reader that writes",
        token(READ, "api"),
        "read-token",
        "read token",
        W,
        "may write too",
        "GITLAB_READ_TOKEN",
    ),
    Row(
        "soon expired",
        token(READ, "read_api", days=5),
        "read-token",
        "read token",
        W,
        "it expires in 5 days",
        "set GITLAB_READ_TOKEN",
    ),
    Row(
        "expires today",
        token(WRITE, "api", days=0),
        "write-token",
        "write token",
        W,
        "it expires today",
        "set GITLAB_WRITE_TOKEN",
    ),
    Row(
        "a writer that cannot",
        token(WRITE, "read_api"),
        "write-token",
        "write token",
        F,
        "its scopes are read_api",
        "scope api",
    ),
    Row(
        "too much to write",
        token(WRITE, "api", "sudo"),
        "write-token",
        "write token",
        W,
        "api, sudo",
        "scope api alone",
    ),
    Row(
        "a person",
        token(WRITE, "api", bot=False),
        "write-token",
        "write token",
        W,
        "@mara is not a bot",
        "service account",
    ),
    Row(
        "no membership",
        lambda bed: bed.scene.project.members.clear(),
        "projects",
        "projects",
        F,
        "sees no project at all",
        "make the bot a member",
    ),
    Row(
        "a wrong glob",
        file(gitlab={"projects": ["other/*"]}),
        "projects",
        "projects",
        F,
        "of gitlab.projects (other/*)",
        "correct gitlab.projects",
    ),
    Row(
        "half a list",
        file(gitlab={"projects": ["team/*", "gone/*"]}),
        "projects",
        "projects",
        W,
        "is named gone/*",
        "take it out of gitlab.projects",
    ),
    Row(
        "logs for members only",
        hide_logs,
        "notes",
        "notes",
        W,
        "notes are internal, as job logs are for members only, in team/service",
        "project-based pipeline visibility",
    ),
    Row(
        "a guest",
        lambda bed: bed.role(Access.GUEST),
        "role",
        "role",
        F,
        "may not comment in team/service",
        "a Reporter",
    ),
    Row(
        "jobs that the bot may not run again",
        run_again_as(Access.REPORTER),
        "role",
        "role",
        W,
        "may run no jobs again in team/service",
        "a Developer there, or set incidents.rerun to 0",
    ),
    Row(
        "jobs that the bot may run again",
        run_again_as(Access.DEVELOPER),
        "role",
        "role",
        CheckStatus.GOOD,
        "is Developer or more in 1 of 1 projects",
        "",
    ),
]
