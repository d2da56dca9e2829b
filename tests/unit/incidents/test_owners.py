"""Owners as GitLab finds them in a CODEOWNERS file, each as a plain word."""

import time

import pytest

from worker.incidents.owners import MOST_LINES, MOST_PATHS, list_owners

PATTERNS = [
    # pattern, path, does it match
    ("*", "README.md", True),
    ("*", "a/b/c.py", True),
    ("*", ".hidden", True),
    ("*.md", "README.md", True),
    ("*.md", "docs/deep/x.md", True),
    ("*.md", "docs/x.md.txt", False),
    ("/*.md", "README.md", True),
    ("/*.md", "docs/README.md", False),
    ("/*", "top.txt", True),
    ("/*", "sub/file.txt", False),
    ("README.md", "README.md", True),
    ("README.md", "docs/README.md", True),
    ("README.md", "docs/readme.md", False),
    ("/README.md", "docs/README.md", False),
    ("docs/", "docs/x.md", True),
    ("docs/", "docs/a/b/x.md", True),
    ("docs/", "src/docs/x.md", True),
    ("docs/", "docs", False),
    ("/docs/", "docs/.vale/x", True),
    ("/docs/", "src/docs/x.md", False),
    ("/docs", "docs/x.md", False),
    ("docs/*", "docs/x.md", True),
    ("docs/*", "docs/a/x.md", False),
    ("/docs/*.md", "docs/x.md", True),
    ("/docs/*.md", "docs/a/x.md", False),
    ("/docs/**/*.md", "docs/x.md", True),
    ("/docs/**/*.md", "docs/a/b/x.md", True),
    ("/docs/**/*.md", "docs/a/b/x.txt", False),
    ("**/generated/*", "a/b/generated/x.py", True),
    ("**/generated/*", "generated/x.py", True),
    ("/src/**/test_*.py", "src/a/.b/test_x.py", True),
    ("/src/**/a/**/x", "src/b/a/c/d/x", True),
    ("/src/**/a/**/x", "src/b/c/d/x", False),
    ("/a/**", "a/b", True),
    ("/a/**", "a/b/c", False),
    ("file.?s", "src/file.ts", True),
    ("file.?s", "src/file./s", False),
    ("[ab].txt", "a.txt", False),  # reads as a heading
    ("x[ab].txt", "xa.txt", True),
    ("x[ab].txt", "xc.txt", False),
    ("x[!ab].txt", "xc.txt", True),
    ("x[!ab].txt", "xa.txt", False),
    ("x[^ab].txt", "xb.txt", False),
    ("x[a-f].txt", "xe.txt", True),
    ("x[a-f].txt", "xg.txt", False),
    ("x[a-].txt", "x-.txt", True),
    ("x[a", "x[a", False),
    ("x{a,b}", "xa", False),
    ("x{a,b}", "x{a,b}", True),
    (r"\#notes", "#notes", True),
    (r"\#notes", "a/#notes", True),
    (r"a\*b", "a*b", True),
    (r"a\*b", "axb", False),
    (r"path\ with\ blanks/*.md", "path with blanks/x.md", True),
    (r"path\ with\ blanks/*.md", "path/x.md", False),
    ("Makefile", "makefile", False),
    ("dir", "dir/file", False),
    ("a*b*c", "aXbYc", True),
    ("a*b*c", "aXbYcZ", False),
    ("/", "README.md", True),
    ("ü*.py", "üx.py", True),
]


@pytest.mark.parametrize(("pattern", "path", "matches"), PATTERNS)
def test_a_pattern_matches_as_gitlab_says(pattern: str, path: str, matches: bool) -> None:
    assert list_owners(f"{pattern} @mara", [path]) == (("mara",) if matches else ())


FILES = [
    # text, path, owners
    ("", "a", ()),
    ("# * @mara", "a", ()),
    ("* @mara # @ida", "a", ("mara", "ida")),  # no comment at the end of a line
    ("* @mara\n*.py @ida", "a.py", ("ida",)),
    ("*.py @ida\n* @mara", "a.py", ("mara",)),
    ("* @mara\n*.py", "a.py", ()),
    ("* @mara @team/core dev@example.com", "a", ("mara", "team/core", "dev@example.com")),
    ("* @mara, oops @ida;", "a", ("mara", "ida")),
    ("* @@maintainer @@Developers @@owner", "a", tuple(
        f"{each}s of the project" for each in ("maintainer", "developer", "owner"))),
    ("* @@boss @@", "a", ()),
    ("* @a.b_c-d/e", "a", ("a.b_c-d/e",)),
    ("* @mara\n[Docs]\n*.md @ida", "x.md", ("mara", "ida")),
    ("[Docs] @ida\n*.md\n/x.md @mara", "x.md", ("mara",)),
    ("[Docs] @ida\n*.md", "x.md", ("ida",)),
    ("^[Docs][2] @ida @ben\n*.md", "x.md", ("ida", "ben")),
    ("[Docs][2]@ida\n*.md", "x.md", ("ida",)),
    ("[Docs][two] @ida\n*.md", "x.md", ()),
    ("[Docs]] @ida\n*.md", "x.md", ()),
    ("[Docs][ 1 ] @ida\n*.md", "x.md", ("ida",)),
    ("[Docs] dev@example.com\n*.md", "x.md", ("dev@example.com",)),
    ("[A] @ida\n*.md\n[a] @ben\n*.md", "x.md", ("ben",)),  # one section, twice
    ("[A] @ida\n*.md\n[b]\n*.md @ben\n[a] @zoe\n*.py", "x.md", ("ida", "ben")),
    ("[A] @ida\n*.md\n[B] @ben\n*.md", "x.md", ("ida", "ben")),
    ("[Docs\n*.md @ida", "x.md", ("ida",)),  # a broken heading is left out
    ("[A] @ida\n*\n!*.md\n*.md @ben", "x.md", ()),  # nothing brings it back
    ("[A] @ida\n*\n!*.md @ben", "x.py", ("ida",)),
    ("!*.md\n[A]\n*.md @ida", "x.md", ("ida",)),  # in its section only
    ("a @one\n* @two\na @three", "a", ("two",)),  # the place of the first
    ("  * @mara  \r\n", "a", ("mara",)),
    ("*\t@mara", "a", ("mara",)),
    ("* <script>@mara", "a", ()),
]  # fmt: skip


@pytest.mark.parametrize(("text", "path", "owners"), FILES)
def test_the_last_line_of_each_section_holds(text: str, path: str, owners: tuple[str, ...]) -> None:
    assert list_owners(text, [path]) == owners


def test_owners_of_several_paths_are_named_once() -> None:
    text = "*.py @ida @ben\n*.md @ida\n"
    assert list_owners(text, ["a.py", "/b.md", "a.py", "c.txt"]) == ("ida", "ben")


def test_no_owner_is_written_so_that_gitlab_would_tell_them() -> None:
    text = "* @mara @team/core @@owner @@@x @@@@ @all @here"
    assert not any(each.startswith("@") for each in list_owners(text, ["a"]))


def test_a_hostile_file_takes_no_time() -> None:
    stars = "a*" * 400 + "b"
    folders = "**/" * 300 + "x"
    lines = [f"*{stars} @one", f"/{folders} @two", "[" * 900, "[x" + "[a-" * 300, "\\" * 990]
    text = "\n".join(f"{each}{line}" for each in range(50) for line in lines)
    paths = [
        "1" + "a" * 400 + "c",
        "1/" + "/".join(["a"] * 120),
        *(f"p{each}/x" for each in range(200)),
    ]
    before = time.process_time()
    list_owners(text, paths)
    assert time.process_time() - before < 20


def test_what_is_read_is_bounded() -> None:
    text = "\n".join(["# nothing"] * MOST_LINES + ["* @late"])
    assert list_owners(text, ["a"]) == ()
    assert list_owners("last @mara", [*(f"p{each}" for each in range(MOST_PATHS)), "last"]) == ()
