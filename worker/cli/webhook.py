"""`sandpiper webhook`: prints what to set in GitLab for a webhook that is made by hand."""

import click

from worker import wiring
from worker.errors import ConfigError
from worker.settings.gitlab import SIGNING, derive_secret, make_address


@click.command()
@click.argument("project", type=click.IntRange(1, 10**18 - 1), metavar="PROJECT_ID")
@click.option(
    "--url",
    default="",
    metavar="URL",
    help="Where GitLab reaches `sandpiper serve`; else pages.url.",
)
@click.pass_obj
def command(config: str | None, project: int, url: str) -> None:
    """Print the address and the secret of a project's webhook, to be set in GitLab by hand.

    PROJECT_ID is the number that GitLab shows on the project's page. The secret is taken for this
    project's events alone. It needs GITLAB_WEBHOOK_KEY.
    """
    settings = wiring.load_settings(config, quiet=True)
    if not settings.gitlab.webhook_keys:
        raise ConfigError(
            "no key to make a project's secret from: set GITLAB_WEBHOOK_KEY to the output of "
            "`openssl rand -hex 32`, for `sandpiper serve` too"
        )
    base = (url or settings.pages.url).rstrip("/") or "https://…"
    secret = derive_secret(settings.gitlab.webhook_keys[0], project)
    kind = "Signing token" if secret.startswith(SIGNING) else "Secret token"
    click.echo(f"URL: {make_address(f'{base}/webhooks/gitlab', project)}\n{kind}: {secret}")
