"""A linter's errors get the path that stands above them."""

import pytest

from worker.logs.error_lines import select_error_lines
from worker.logs.named_places import join_headings
from worker.logs.signature import make_signature

ESLINT = [
    "$ npx eslint .",
    "",
    "/builds/team/service/src/aisle.js",
    "  12:7   error    'middle' is never reassigned  prefer-const",
    "  13:12  warning  Unexpected console statement  no-console",
    "  16:9   error    Expected '===' and instead saw '=='  eqeqeq",
    "",
    "✖ 3 problems (2 errors, 1 warning)",
]

TERRAFORM = [
    "$ terraform validate",
    "╷",
    "│ Error: Unsupported attribute",
    "│ ",
    '│   on main.tf line 10, in module "fleet":',
    "│   10:   subnets = module.network.subnet_ids",
    "│     ├────────────────",
    "│     │ module.network is a object",
    "│ ",
    '│ This object does not have an attribute named "subnet_ids".',
    "╵",
    "╷",
    "│ Error: Unsupported attribute",
    "│ ",
    '│   on main.tf line 17, in module "batch":',
    "│   17:   subnets = slice(module.network.subnet_ids, 0, 2)",
    "│ ",
    '│ This object does not have an attribute named "subnet_ids".',
    "╵",
    "╷",
    '│ Error: Backend initialization required, please run "terraform init"',
    "│ ",
    '│ Reason: Initial configuration of the requested backend "s3"',
    "╵",
    "ERROR: Job failed: exit code 1",
]


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (ESLINT[2:4], "/builds/team/service/src/aisle.js:12:7: error    'middle' is never"),
        (["src/a.css", "  3:1  ✖  Unexpected unit  unit-no-unknown"], "src/a.css:3:1: ✖  Unexp"),
        (["deploy/a.yml", "  4:3       error    wrong indentation"], "deploy/a.yml:4:3: error"),
        (
            ["FILE: /srv/src/A.php", "-----", "FOUND 1 ERROR", " 12 | ERROR | [x] Missing space"],
            "/srv/src/A.php:12: ERROR | [x] Missing space",
        ),
        (["33: src/a.js", "34:   12:7  error  It is unused"], "34: src/a.js:12:7: error  It is"),
    ],
    ids=["eslint", "stylelint", "yamllint", "phpcs", "numbered"],
)
def test_an_error_begins_with_the_path_above_it(lines: list[str], error: str) -> None:
    assert list(join_headings(lines))[:-1] == lines[:-1]
    assert list(join_headings(lines))[-1].startswith(error)


@pytest.mark.parametrize("between", ["", "…"])
def test_a_path_above_a_gap_heads_nothing(between: str) -> None:
    lines = ["src/a.js", between, "  12:7  error  It is unused"]
    assert list(join_headings(lines)) == lines


def test_the_error_of_a_linter_names_its_file() -> None:
    made = make_signature(ESLINT)
    assert made.text.startswith("/builds/team/service/src/aisle.js:12:7: error 'middle'")
    assert "src/aisle.js:16:9: error" in select_error_lines("\n".join(ESLINT))


def test_the_same_problem_in_another_file_is_another_error() -> None:
    other = [line.replace("aisle", "seat") for line in ESLINT]
    moved = [line.replace("/builds/team", "/srv/ci/x") for line in ESLINT]
    assert make_signature(ESLINT).key != make_signature(other).key
    assert make_signature(ESLINT).key == make_signature(moved).key


def test_the_error_in_a_box_begins_with_its_place_and_ends_with_its_reason() -> None:
    reason = 'Unsupported attribute: This object does not have an attribute named "subnet_ids".'
    joined = [*join_headings(TERRAFORM)]
    assert [joined[2], joined[12]] == [f"main.tf:{at}: error: {reason}" for at in (10, 17)]
    assert [line for at, line in enumerate(joined) if at not in (2, 12)] == [
        line for at, line in enumerate(TERRAFORM) if at not in (2, 12)
    ]
    assert make_signature(TERRAFORM[:19]).text == joined[2]
    numbered = [f"{at}: {line}" for at, line in enumerate(TERRAFORM, 40)]
    assert [*join_headings(numbered)][2] == f"42: {joined[2]}"


def test_a_number_in_the_message_below_a_place_is_part_of_it() -> None:
    below = "    Couldn't match 5: Int with Bool"
    for numbers in (("", ""), ("8: ", "9: ")):
        lines = [f"{numbers[0]}src/Cart.hs:7:12: error:", numbers[1] + below]
        wanted = f"{numbers[0]}src/Cart.hs:7:12: error: {below.strip()}"
        assert next(join_headings(lines)) == wanted


def test_an_error_of_npm_is_what_it_says_and_not_its_advice() -> None:
    made = make_signature(
        [
            "707: npm error code E401",
            "708: npm error Unable to authenticate, your authentication token seems to be invalid.",
            "709: npm error To correct this please try logging in again with:",
            "710: npm error   npm login",
        ]
    )
    assert made.text.startswith("npm error Unable to authenticate")


BRAKEMAN = [
    "41: == Warnings ==",
    "42: Confidence: High",
    "43: Category: SQL Injection",
    "45: Message: Possible SQL injection",
    "46: Code: Order.open.order(params[:sort])",
    "47: File: app/models/order.rb",
    "48: Line: 11",
    "49: Confidence: Weak",
    "50: Category: Redirect",
]


def test_a_finding_of_brakemans_begins_with_its_place() -> None:
    joined = [*join_headings(BRAKEMAN)]
    assert joined[1] == "42: app/models/order.rb:11: error: Possible SQL injection"
    assert [*joined[:1], *joined[2:]] == [*BRAKEMAN[:1], *BRAKEMAN[2:]]
    assert make_signature(BRAKEMAN).text == joined[1].removeprefix("42: ")


PHPSTAN = [
    " ------ ------------------------------",
    "  Line   src/Basket.php",
    " ------ ------------------------------",
    "  12     Undefined variable $count",
    "         in a closure.",
    "  14     Method add() has no return type.",
    " ------ ------------------------------",
    " [ERROR] Found 2 errors",
]


@pytest.mark.parametrize("rule", [[], ["         🪪  variable.undefined"]])
def test_an_error_in_a_table_of_phpstan_is_one_line_with_its_place(rule: list[str]) -> None:
    """The name of the rule ends an error; older versions print none."""
    assert [*join_headings([*PHPSTAN[:5], *rule, *PHPSTAN[5:]])] == [
        *PHPSTAN[:3],
        "src/Basket.php:12: error: Undefined variable $count in a closure.",
        "src/Basket.php:14: error: Method add() has no return type.",
        *PHPSTAN[6:],
    ]
