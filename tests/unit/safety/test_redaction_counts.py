from worker.safety.redact import KINDS
from worker.safety.redacted_values import count_all, describe_counts, group_by_document, sort_counts


def test_kinds_and_counts_are_told_in_words() -> None:
    found = sort_counts({("private-key", "b"): 1, ("gitlab-token", "b"): 2, ("jwt", "a"): 0})
    assert describe_counts(found) == "2 GitLab tokens, 1 private key"
    assert describe_counts(()) == ""


def test_what_was_taken_out_is_told_by_document() -> None:
    found = sort_counts({("jwt", "b"): 1, ("gitlab-token", "a"): 2, ("jwt", "a"): 1})
    told = [(document, describe_counts(those)) for document, those in group_by_document(found)]
    assert told == [("a", "2 GitLab tokens, 1 JSON web token"), ("b", "1 JSON web token")]
    assert describe_counts(found) == "2 GitLab tokens, 2 JSON web tokens"
    assert count_all(found) == 4


def test_every_kind_of_secret_has_a_name_of_plain_words() -> None:
    for kind in KINDS:
        said = describe_counts(((kind, 1, ""),))
        assert said.replace(" ", "").replace(".io", "").isalnum(), said
