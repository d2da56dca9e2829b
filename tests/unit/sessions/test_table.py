from pathlib import Path

import pytest

from worker.conversation.context import SessionKey
from worker.errors import ConfigError, StoreError
from worker.sessions.bucket import S3Store
from worker.sessions.folder import FolderStore
from worker.sessions.table import OPENERS, open_store

KEY = SessionKey(7, 42, "0123456789abcdef0123")


def test_a_file_url_opens_a_folder_and_makes_it(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/not/yet%20there")
    assert isinstance(store, FolderStore)
    assert (tmp_path / "not/yet there").is_dir()
    assert (
        store.describe_location(KEY, 1)
        == f"{tmp_path}/not/yet there/sessions/7/42/{KEY.session_id}/0001"
    )


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("s3://bucket", "s3://bucket/sessions"),
        ("s3://bucket/", "s3://bucket/sessions"),
        ("s3://my.bucket-1/a/b", "s3://my.bucket-1/a/b/sessions"),
        ("s3://bucket//a/", "s3://bucket/a/sessions"),
    ],
)
def test_an_s3_url_opens_a_bucket_without_contacting_it(url: str, place: str) -> None:
    store = open_store(url, "http://127.0.0.1:1")
    assert isinstance(store, S3Store)
    assert store.describe_location(KEY, 0) == f"{place}/7/42/{KEY.session_id}/0000/"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/var/lib/sandpiper",
        "file:",
        "file://",
        "file://relative/path",
        "file:relative",
        "file:///dir?x=1",
        "file:///dir#x",
        "file:///nul%00",
        "s3://",
        "s3:///prefix",
        "s3://b",
        "s3://bucket/pre fix",
        "s3://bucket/ü",
        "s3://key:hunter2@bucket/prefix",
        "s3://bucket/prefix?endpoint=x",
        "gs://bucket/prefix",
        "http://bucket/prefix",
        "redis://:hunter2@host",
        "s3://[hunter2@",
    ],
)
def test_a_wrong_address_is_refused_without_repeating_a_password(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^store: ") as caught:
        open_store(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9000", "ftp://host", "http://", "s3.example.com"])
def test_a_wrong_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="should begin with http"):
        open_store("s3://bucket/prefix", endpoint)


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot create the store .*/file/store"):
        open_store(f"file://{tmp_path}/file/store")


def test_the_table_names_every_scheme_of_the_design() -> None:
    assert set(OPENERS) == {"file", "s3"}
