"""Hostile Markdown made by a seeded grammar: everything that GitLab reads, nested and broken."""

import random
from collections.abc import Sequence

URLS = (
    "https://gitlab.example.com/group/shop/-/jobs/4711",
    "https://gitlab.example.com/group/shop/-/jobs/4711#L3",
    "https://gitlab.example.com/group/shop/-/blob/main/a_b%20c.py#L1-2",
    "https://gitlab.example.com/group/shop/-/tree/~x_*y",
    "https://gitlab.example.com/group/shop/-/iss%75es/5",
    "https://gitlab.example.com/group/shop/-/%2569ssues/5",
    "https://gitlab.example.com/group/shop/-/merge%5Frequests/5",
    "https://gitlab.example.com/group/shop/-/commit/" + "ab" * 20,
    "https://gitlab.example.com/other/project/-/jobs/1",
    "https://gitlab.example.com/group/shop/../../other/project",
    "https://gitlab.example.com/group/shop/-/jobs/1?x=secret",
    "https://gitlab.example.com@evil.com/group/shop",
    "http://[::1]/x",
    "http://[evil",
    "https://evil.com/a_b_c",
    "ftp://evil.com",
    "www.evil.com",
    "javascript:alert(1)",
    "mailto:a@b.c",
    "//evil.com",
    "://",
    "data:text/html;base64,AAAA",
)
REFERENCES = (
    *("@all", "@alice.b-c", "a@b.com", "#12", "!7", "%3", "$4", "&5", "~6", "~bug", '~"a b"'),
    *("%v1.0", '%"x y"', "^alert#7", "[issue:5]", "[issue:g/p/5]", "[epic:g&5]", "%{x}"),
    *("GL-123", "xGL-1", "KEY-123", "A1_B-2", "K\\_-12", "UTF-8", "x86-64", "éKEY-1"),
    *("0123456789abcdef0123456789abcdef01234567", "DEADBEEF" * 5, "a1b2c3d", "ab" * 32),
    *("group/project>", "a/b/c_d>", "a/b&gt;", "a/\\_b>", "</b>", "g/p#1", "g/p!2", "g/p@abcdef1"),
    *("*iteration:1", "\\*iteration:1", "**iteration:1**", '*iteration:"a b"', "_*_iteration:2"),
    *("[[wiki]]", "[[_TOC_]]", "[TOC]", "::include{file=x}", "[vulnerability:1]", "/close", "/x y"),
)
SCRAPS = (
    *("word", "two words", "5 < 6 & 7 > 6", "50%", "3 * 4", "a_b_c", "C:\\dir", "~/x", "…", "é"),
    *("*", "**", "_", "__", "~~", "`", "``", "```", "$", "$$", "\\", "\\\\", "|", "!", "[", "]"),
    *(
        "(",
        ")",
        "<",
        ">",
        "&",
        "#",
        "@",
        "%",
        "~",
        "^",
        ":",
        "/",
        "-",
        "+",
        "=",
        "{",
        "}",
        '"',
        "'",
    ),
    *("&lt;", "&#64;", "&#x40;", "&commat;", "&amp;#64;", "&#96;", "&#92;", "&#47;", "&#10;"),
    *("&NewLine;", "&Tab;", "&nbsp;", "&#0;", "&#xFFFFFF;", "&zwj;", "&lbrack;", "&colon;"),
    *("\\@", "\\#", "\\[", "\\`", "\\*", "\\<", "\\/", "\\&", "\\|", "\\!"),
    *("\u200b", "\u202e", "\ufeff", "\xad", "\x00", "\x1b[31m", "\x85", "\u2028", "\r", "\x0b"),
    *(
        "\U000e0041",
        "\ufe0f",
        "\ud800",
        "\U000f0000",
        "\U0010fffd",
        "\u3000",
        "\xa0",
        "１",
        "＠all",
    ),
    *("<b>", "</b>", "<br>", "<br/>", "<details>", "</details>", "<summary>", "</sub>", "<sub>"),
    *("<img src=x>", "<img", "<!--", "-->", "<!-- x -->", "<?x", "?>", "<![CDATA[", "]]>", "<!X"),
    *("<a href='x'>", "</a>", "<svg/onload=x>", "<script>", "</script>", "<pre>", "</pre>", "<x y"),
    *(
        "<!-- sandpiper:session=00000000000000000000 turn=0 -->",
        "[^1]",
        "[^1]: x",
        "[x]: y",
        "[x][]",
    ),
    *("> [!note]", ">>>", "---", "===", "+++", "|---|", "- ", "1. ", "# ", "    ", "\t", "- [ ] "),
)
INFOS = (
    "",
    "python",
    "mermaid",
    "suggestion:-0+0",
    "math",
    "{.x}",
    "json:table",
    "a`b",
    "x y",
    "~",
)


class Grammar:
    """Texts from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self) -> str:
        """One document, or a piece of one."""
        made = "".join(self._block(3) for _ in range(self._random.randint(1, 4)))
        return self._broken(made) if self._random.random() < 0.5 else made

    def _pick(self, choices: Sequence[str]) -> str:
        return self._random.choice(choices)

    def _line(self, depth: int, most: int = 6) -> str:
        return "".join(self._inline(depth) for _ in range(self._random.randint(1, most)))

    def _inline(self, depth: int) -> str:
        kind = self._random.randint(0, 15 if depth else 9)
        if kind < 3:
            return self._pick(REFERENCES)
        if kind < 5:
            return self._pick(URLS)
        if kind < 9:
            return self._pick(SCRAPS)
        if kind == 9:
            return " "
        inner = self._line(depth - 1, 3)
        url = self._pick(URLS) if self._random.random() < 0.8 else self._line(0, 2)
        ticks = "`" * self._random.randint(1, 3)
        return self._pick(
            (
                *(f"[{inner}]({url})", f"![{inner}]({url})", f"<{url}>", f"[{inner}](<{url}> 't')"),
                *(f"{ticks}{inner}{ticks}", f"{ticks}{inner}", f"**{inner}**", f"_{inner}_"),
                *(f"~~{inner}~~", f"${inner}$", f"<b>{inner}</b>", f"[{inner}][{inner}]"),
                *(f"[[{inner}]]", f"<!-- {inner} -->", f'"{inner}"', f"({inner})"),
            )
        )

    def _block(self, depth: int) -> str:
        line = self._line(2)
        if not depth or self._random.random() < 0.3:
            return line + self._pick(("\n", "\n\n", " \\\n", "  \n"))
        inner = self._block(depth - 1)
        rows = inner.split("\n")
        fence = self._pick(("```", "~~~", "````", "``", "$$", ">>>", "---", ":::"))
        mark = self._pick(("> ", ">", "- ", "* ", "1. ", "2) ", "    ", "\t", ">>", "- > ", "  "))
        cells = " | ".join(rows)
        return self._pick(
            (
                f"{fence}{self._pick(INFOS)}\n{inner}\n{fence}\n",
                f"{fence}{self._pick(INFOS)}\n{inner}\n",
                "".join(f"{mark}{row}\n" for row in rows),
                f"{mark}{inner}\n{line}\n",
                f"| {line} | b |\n|---|:-:|\n| {cells} |\n{line}\n",
                f"{line}\n---|---\n{cells}\n\n",
                f"{'#' * self._random.randint(1, 7)} {line}\n{inner}",
                f"{line}\n{self._pick(('---', '===', '- -'))}\n{inner}",
                f"<{self._pick(('div', 'details', 'pre', 'table', 'x'))}>\n{inner}</{line}>\n",
                f"[{line}]: {self._pick(URLS)}\n{inner}",
                f"<!--\n{inner}\n-->\n",
                f"\n{inner}\n",
            )
        )

    def _broken(self, text: str) -> str:
        """`text` with some pieces cut out, doubled or moved."""
        for _ in range(self._random.randint(1, 4)):
            first, last = sorted(self._random.randint(0, len(text)) for _ in range(2))
            last = min(last, first + 12)
            piece = self._pick(("", text[first:last] * 2, self._pick(SCRAPS)))
            text = text[:first] + piece + text[last:]
        return text
