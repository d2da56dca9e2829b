from worker.core.redact import KINDS
from worker.core.redacted import counts, words


def test_kinds_and_counts_are_told_in_words() -> None:
    found = counts({"private-key": 1, "gitlab-token": 2, "jwt": 0})
    assert words(found) == "2 GitLab tokens, 1 private key"
    assert words(()) == ""


def test_every_kind_of_secret_has_a_name_of_plain_words() -> None:
    for kind in KINDS:
        said = words(((kind, 1),))
        assert said.replace(" ", "").replace(".io", "").isalnum(), said
