"""Where no line surely tells of the failure, the room is used: by what is unlike the rest."""

import pytest

from worker.logs.excerpt import preview_log, preview_trace

ENDED = ["Cleaning up project directory and file based variables", "ERROR: Job failed: exit code 1"]

UNFORESEEN = (
    "deploy.sh: line 7: STAGE: unbound variable",
    "make: cargo: Command not found",
    "No module named 'cart.shelves'",
    'npm ERR! Missing script: "build"',
    "/usr/bin/ld: cannot find -lcart",
    "libcart.so: undefined reference to `total'",
    "cart 2.1 is not installed, version 2.2 or later is required",
    "mapper.rb:155: [BUG] try to mark T_NONE object",
    "the catalogue is outdated, please update it by running `make catalogue`",
    "Shelves is not a module",
    "2 files inspected, 1 offense detected",
    "the following 2 spec files now pass, and so must be removed from the list:",
    "les totaux ne sont pas les m\u00eames",
)


def dull(count: int, kind: str) -> list[str]:
    return [kind.format(n=number) for number in range(count)]


@pytest.mark.parametrize("line", UNFORESEEN)
@pytest.mark.parametrize("after", [3, 400])
@pytest.mark.parametrize("limit", [1_024, 4_096])
def test_a_line_that_is_unlike_the_rest_is_shown(line: str, after: int, limit: int) -> None:
    lines = [*dull(900, "step {n}: linking part_{n} in 0.{n}s"), line]
    lines += [*dull(after, "keeping part {n} of the cache, {n} kB"), *ENDED]
    shown = preview_log("\n".join([*lines, ""]).encode(), limit)
    assert f"901: {line}" in shown.split("\n")


@pytest.mark.parametrize(
    "well",
    [
        "2025-03-01 10:00:00 DEBUG  {name} is read",
        "  \u2713 {name} adds up (3 ms)",
        "Downloading {name} from the mirror",
        "ok 7 - {name}",
    ],
)
def test_room_is_not_filled_with_what_goes_well(well: str) -> None:
    names = [" ".join((f"{a}{b}", f"{b}{a}{a}")) for a in "abcdefgh" for b in "ijklmnop"]
    lines = [*dull(300, "part {n}"), *[well.format(name=name) for name in names]]
    lines += ["les totaux sont faux", *dull(90, "part {n}"), *ENDED]
    shown = preview_log("\n".join([*lines, ""]).encode()).split("\n")
    assert "365: les totaux sont faux" in shown
    assert [line for line in shown if any(name in line for name in names)] == []


def test_a_preview_with_a_sure_line_stays_short() -> None:
    rare = [f"the {word} of the shelf stands {word}ly" for word in ("wood", "glass", "iron")]
    lines = [*dull(300, "part {n}"), *rare, *dull(300, "part {n}")]
    lines += ["E       AssertionError: assert 3 == 4", "cart.py:7: AssertionError", *ENDED]
    shown = preview_log("\n".join([*lines, ""]).encode())
    assert not any(line in shown for line in rare)


@pytest.mark.parametrize("line", [*UNFORESEEN[:3], UNFORESEEN[10]])
def test_the_room_is_the_scripts_and_words_of_trouble_come_first(line: str) -> None:
    said = [f"the {word} of the shelf is put {word}ly beside it" for word in WOODS]
    lines = ["fetching the parts", SCRIPT, *dull(90, "part {n}"), line, *said, *dull(40, "bit {n}")]
    lines += [AFTER, *(f"Cleaning the {word} cache" for word in WOODS), *ENDED]
    shown = preview_log("\n".join([*lines, ""]).encode(), 700)
    assert f"93: {line}" in shown.split("\n")
    assert "Cleaning the " not in shown


@pytest.mark.parametrize("marked", [False, True])
def test_the_scripts_lines_are_known_in_a_log_without_control_characters(marked: bool) -> None:
    begins, ends = ("section_start:1741355012:step_script", "section_end:1741355912:step_script")
    heads = (begins + SCRIPT, f"{ends}section_start:1741355912:after_script{AFTER}")
    script, after = heads if marked else (SCRIPT, AFTER)
    lines = ["ERROR: the old parts are gone", script, *dull(400, "part {n}"), UNFORESEEN[0]]
    lines += [after, "$ ./collect", "ERROR: there is no report", *ENDED]
    shown = preview_log("\n".join([*lines, ""]).encode(), 1_024)
    assert f"403: {UNFORESEEN[0]}" in shown.split("\n")
    assert "the old parts" not in shown
    assert "section_" not in shown


SCRIPT, AFTER = 'Executing "step_script" stage of the job script', "Running after_script"

WOODS = ("oak", "ash", "elm", "fir", "yew", "pine", "beech", "birch", "maple", "larch", "cedar")

TABLES = {
    "head and total above": (
        ["File      | Lines | Branches | Missing", "----------|-------|----------|--------",
         "All files |  91.2 |     79.8 |        "],
        " part{n}.ts | 9{n} | 8{n} | {n}",
        ["----------|-------|----------|--------"],
    ),
    "head above, total below": (
        ["Name           Stmts   Miss  Cover", "------------------------------------"],
        "cart/part{n}.py    1{n}    {n}   9{n}%",
        ["------------------------------------", "TOTAL             4120     310    92%"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_table_keeps_its_head_and_its_total(
    table: tuple[list[str], str, list[str]],
) -> None:
    head, row, foot = table
    lines = ["$ check", *head, *dull(400, row), *foot, "coverage 79.8 is below 80", *ENDED]
    shown = preview_log("\n".join([*lines, ""]).encode())
    rows = [line for line in (*head, *foot) if any(map(str.isalpha, line))]
    for wanted in rows:
        assert " ".join(wanted.split()) in [
            " ".join(line.partition(": ")[2].split()) for line in shown.split("\n")
        ]


def test_of_lines_that_only_point_a_few_are_shown_and_none_without_what_it_points_at() -> None:
    found = (
        f"app/m{n}.py:{n}:11: X210 naive datetime: pass a time zone to now()\n"
        f"    now_{n} = datetime.datetime.now(){' ' * (n % 7)}\n          ^\n"
        for n in range(1, 40)
    )
    end = "39    X210 naive datetime\nERROR: Job failed: exit code 1\n"
    text = f"$ flake8 --show-source app\n{''.join(found)}{end}"
    shown = preview_trace([text.encode()]).split("\n")
    pointing = [at for at, line in enumerate(shown) if line.endswith(" ^")]
    assert 1 <= len(pointing) <= 3
    assert all("now_" in shown[at - 1] for at in pointing)
    assert len({line.partition(": ")[2] for line in shown if "X210 naive" in line}) > 10
