"""`sandpiper webhook`: what to set in GitLab where a webhook is made by hand."""

import pytest
from click.testing import CliRunner

from worker.cli import cli
from worker.errors import ConfigError
from worker.settings.gitlab import derive_secret

KEY = "a-key-of-thirty-two-characters-00"
URL = "https://sandpiper.example"


def run_command(*arguments: str, **env: str) -> str:
    done = CliRunner(env=env).invoke(cli, ["webhook", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize(("key", "kind"), [(KEY, "Secret"), (f"whsec_{KEY}", "Signing")])
def test_it_prints_the_address_and_the_secret_of_one_project(key: str, kind: str) -> None:
    told = run_command("42", "--url", f"{URL}/", GITLAB_WEBHOOK_KEY=f"{key} {'o' * 32}")
    secret = derive_secret(key, 42)
    assert told == f"URL: {URL}/webhooks/gitlab?project=42\n{kind} token: {secret}\n"


def test_without_a_key_it_says_which_to_set() -> None:
    with pytest.raises(ConfigError, match="set GITLAB_WEBHOOK_KEY"):
        run_command("42", GITLAB_WEBHOOK_SECRET="shared")
