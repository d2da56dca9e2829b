"""What runners, Java and coloured tools write into a line hides no failure, and is none."""

from tests.unit.logs.test_excerpt import calm, log, texts
from worker.logs import line_marks
from worker.logs.excerpt import preview_log


def test_what_a_runner_marks_as_an_error_is_shown_whatever_it_says() -> None:
    settings = ["with:", "  check-latest: false", "  stable: true", "  token: ***", "env:"]
    annotated = "##[error]../pkg/client@v0.23.4/scheme/register.go:22:2: Get the zip: it is gone"
    cleaned = log(*calm(300), *settings * 9, *calm(60, seed=2), annotated, *calm(60, seed=3))
    assert annotated in texts(preview_log(cleaned, 1_024))
    assert "shouted" in line_marks.find_marks(annotated)


def test_a_frame_without_its_source_is_no_trouble() -> None:
    assert "trouble" not in line_marks.find_marks("\tat com.sun.proxy.$Proxy2.stop(Unknown Source)")
    assert "trouble" in line_marks.find_marks("the source is unknown")


def test_colours_that_a_program_wrote_as_text_are_left_out() -> None:
    dots = "^[[32m.^[[0m" * 40
    crash = f"tests/test_date.py {dots}Fatal Python error: Segmentation fault"
    shown = texts(preview_log(log(*calm(900), crash, *calm(40, seed=2)), 1_024))
    assert f"tests/test_date.py {'.' * 40}Fatal Python error: Segmentation fault" in shown


def test_common_test_names_a_failed_case_with_its_line_and_a_failed_setup_without() -> None:
    for said in ("depot_SUITE:stacks failed on line 593", "depot_SUITE:init_per_group failed"):
        assert "opens" in line_marks.find_marks(said)
    assert "opens" not in line_marks.find_marks("depot:stack failed over to shelf 2")


def test_a_command_that_compiles_a_crate_is_no_trouble_whatever_it_names() -> None:
    verbose = (
        "     Running `/opt/rust/bin/rustc --crate-name error_chain src/failed.rs --cap-lints`"
    )
    assert "well" in line_marks.find_marks(verbose)
    assert "well" not in line_marks.find_marks(
        "error: process didn't exit: `/opt/rust/bin/rustc -v`"
    )


def test_half_of_a_surrogate_pair_is_read_like_any_letter() -> None:
    found = line_marks.find_marks("Error: \ud800 failed")
    assert found == line_marks.find_marks("Error: ? failed")
