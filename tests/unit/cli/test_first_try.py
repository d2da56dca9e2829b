"""What somebody meets at a first `sandpiper analyze`: each row is one line that a person reads."""

from pathlib import Path

import pytest

from worker import wiring
from worker.cli.analyze import parse_mr, print_ended
from worker.conversation.context import NO_OUTCOME, NoteRef, SessionKey
from worker.errors import ConfigError, SandpiperError
from worker.sessions.table import open_store
from worker.settings import Settings, load
from worker.turns.parts import Finished
from worker.wiring.stores import choose_folder

GITLAB = "https://gitlab.example.com"
SUCH = f"{GITLAB}/group/project/-/merge_requests/12"
READ = "GITLAB_READ_TOKEN (scope read_api, role Reporter)"
WRITE = "GITLAB_WRITE_TOKEN (scope api, role Developer)"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("12", f"MR: '12' is neither group/project!iid nor a URL like {SUCH}"),
        (
            "group/project",
            f"MR: 'group/project' is neither group/project!iid nor a URL like {SUCH}",
        ),
        (
            "https://other.example/a/b/-/merge_requests/1",
            "MR: 'https://other.example/a/b/-/merge_requests/1' is not at "
            f"{GITLAB}: set GITLAB_URL (gitlab.url) to the GitLab that it is at, such as "
            "https://other.example",
        ),
        (
            "http://gitlab.example.com/a/b/-/merge_requests/1/diffs",
            "MR: 'http://gitlab.example.com/a/b/-/merge_requests/1/diffs' is not at "
            f"{GITLAB}: set GITLAB_URL (gitlab.url) to the GitLab that it is at, such as "
            "http://gitlab.example.com",
        ),
        (
            f"{GITLAB}/a/b/-/pipelines/5",
            f"MR: '{GITLAB}/a/b/-/pipelines/5' is not a merge request's URL, such as {SUCH}",
        ),
        (
            f"{GITLAB}/a/b/-/issues/5",
            f"MR: '{GITLAB}/a/b/-/issues/5' is not a merge request's URL, such as {SUCH}",
        ),
    ],
)
def test_what_names_no_merge_request_is_told_with_what_would(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_mr(text, GITLAB)
    assert str(raised.value) == told


@pytest.mark.parametrize(
    ("present", "needed", "told"),
    [
        ((), ("READ",), f"no token to read GitLab with: set {READ}"),
        (("WRITE",), ("READ",), f"no token to read GitLab with: set {READ}"),
        (("WRITE",), ("READ", "WRITE"), f"no token to read GitLab with: set {READ}"),
        (
            ("READ",),
            ("READ", "WRITE"),
            f"no token to post notes with: set {WRITE}; `sandpiper analyze --dry-run` posts "
            "nothing and needs none",
        ),
        (
            (),
            ("READ", "WRITE"),
            f"no token to read GitLab and post notes with: set {READ} and {WRITE}, or GITLAB_TOKEN "
            "(scope api, role Developer) for both",
        ),
    ],
)
def test_only_the_missing_token_is_named_with_its_scope_and_role(
    present: tuple[str, ...], needed: tuple[str, ...], told: str
) -> None:
    settings = load(None, {f"GITLAB_{each}_TOKEN": "glpat-of-no-worth" for each in present})
    with pytest.raises(ConfigError) as raised:
        wiring.require_worker(settings, tokens=needed)
    assert str(raised.value) == told


@pytest.mark.parametrize("needed", [(), ("READ",), ("READ", "WRITE")])
def test_no_token_is_asked_for_that_is_not_needed(needed: tuple[str, ...]) -> None:
    """What comes next is wanting: the key of the model."""
    settings = load(None, {f"GITLAB_{each}_TOKEN": "glpat-of-no-worth" for each in needed})
    with pytest.raises(ConfigError, match="set ANTHROPIC_API_KEY"):
        wiring.require_worker(settings, tokens=needed)


ELSEWHERE = "name another folder, such as SANDPIPER_STORE=file://$HOME/sandpiper"


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("file/store", f"Not a directory: {ELSEWHERE}"),
        pytest.param(
            "/proc/nothing/store",
            f"No such file or directory: {ELSEWHERE}",
            marks=pytest.mark.skipif(not Path("/proc").is_dir(), reason="no /proc"),
        ),
    ],
)
def test_a_store_that_cannot_be_made_is_told_with_what_to_do(
    tmp_path: Path, place: str, told: str
) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SandpiperError) as raised:
        open_store(f"file://{tmp_path / place}")
    assert str(raised.value) == f"cannot create the store {tmp_path / place}: {told}"


def test_a_user_who_cannot_make_the_default_folder_has_one_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "my home"))
    (tmp_path / "file").write_bytes(b"")
    default, unmakable = Settings(), tmp_path / "file" / "sandpiper"
    own = choose_folder(default, unmakable)
    assert own.store == f"file://{tmp_path}/my%20home/.local/state/sandpiper"
    open_store(own.store).probe()
    assert list((tmp_path / "my home/.local/state/sandpiper").iterdir())


def test_the_default_folder_stays_where_it_is_or_can_be_made_and_a_chosen_one_always(
    tmp_path: Path,
) -> None:
    default = Settings()
    assert choose_folder(default, tmp_path / "sandpiper").store == default.store
    assert choose_folder(default, tmp_path).store == default.store
    chosen = Settings(store="file:///somewhere")
    assert choose_folder(chosen, tmp_path / "file" / "sandpiper").store == "file:///somewhere"


def test_what_a_stored_note_holds_does_not_command_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    body = "**Flaky**\x1b]0;owned\x07\n\u202ejob 12\r\n\x1b[2Jline"
    key = SessionKey(7, 42, "0123456789abcdef0123")
    print_ended(Finished(key, 0, NO_OUTCOME, body, NoteRef(5), "there"), as_json=False)
    assert capsys.readouterr().out == "**Flaky**]0;owned\njob 12\n[2Jline\n"
