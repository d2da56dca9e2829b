import pytest

from worker.safety.sentences import correct_spelling

KNOWN = ["sandbox_exec", "fetch_to_sandbox", "gitlab_get_file", "gitlab_get_files"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sandbox_exec", "sandbox_exec"),
        ("sandboxexec", "sandbox_exec"),
        ("sandbox-exec", "sandbox_exec"),
        ("Sandbox_Exec", "sandbox_exec"),
        ("sandbox_exe", "sandbox_exec"),
        ("sandbx_exc", "sandbox_exec"),
        ("sandbox", None),
        ("exec", None),
        ("gitlab_get_fil", None),  # two are within reach
        ("", None),
        ("x" * 100_000, None),
    ],
)
def test_only_a_name_near_exactly_one_is_taken_for_it(name: str, expected: str | None) -> None:
    assert correct_spelling(name, KNOWN) == expected
