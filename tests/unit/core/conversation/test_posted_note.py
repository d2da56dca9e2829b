"""What a note says, beside what the model wrote for it."""

import pytest

from worker.core.conversation.posted_note import MAX_LINE, MOST_LINES, Difference, compare_note
from worker.core.conversation.prompts import tell_posted

MARKER = "<!-- sandpiper:session=0123456789abcdef0123 turn=0 -->"
ANSWER = """\
## Verdict
already failing on the target branch

## Cause
The mirror is away. It was away yesterday, too.

## Evidence
- job 7 line 3: E: Failed to fetch
- job 7 line 9: nobody said this

## What to do
Wait.
```suggestion src/a.py:4
x = 1
```

## Details
I read both logs.
"""
NOTE = f"""\
{MARKER}

**Already failing on the target branch**

**Cause:** The mirror is away.

- [job 7, line 3](https://gitlab.example/g/p/-/jobs/7#L3): `E: Failed to fetch`

**What to do:** Wait.

<details>
<summary>Details</summary>

**What GitLab's record says**

- the branch failed in [pipeline 6](https://gitlab.example/g/p/-/pipelines/6)

**Cause**

The mirror is away. It was away yesterday, too.

**What to do**

In `src/a.py`, line 4 (not on the diff: the line is not in it):

 ```
 x = 1
 ```

I read both logs.

</details>

<sub>`m` · 0.01 USD · 1 quote could not be proven · Reply to ask more</sub>"""


def test_what_is_cut_left_out_and_added_is_found() -> None:
    found = compare_note(NOTE, ANSWER)
    assert found.visible_lines[:2] == (
        "**Already failing on the target branch**",
        "**Cause:** The mirror is away.",
    )
    assert found.missing_lines == ("- job 7 line 9: nobody said this",)
    assert "In `src/a.py`, line 4 (not on the diff: the line is not in it):" in found.added_lines
    assert "- the branch failed in [pipeline 6]" in found.added_lines
    assert not [line for line in found.added_lines if "x = 1" in line or "both logs" in line]


@pytest.mark.parametrize(
    ("note", "answer"),
    [
        ("Because of `the race`.\n\n- see [job 7, line 3](https://x.example/7): `late`", None),
        ("Ask \\#7 and `@alice`\\_.", "Ask #7 and @alice_."),
        ("", ""),
    ],
)
def test_an_answer_that_was_posted_as_it_is_needs_no_words(note: str, answer: str | None) -> None:
    body = f"{MARKER}\n\n{note}\n\n<sub>`m` · Reply to ask more</sub>"
    found = compare_note(body, note if answer is None else answer)
    assert not found
    assert tell_posted(found) == "Your last answer was posted as you wrote it."


def test_a_quote_that_was_struck_out_is_told() -> None:
    note = f"{MARKER}\n\nSo it is.\n\n- *(a quote from `job 7 line 1` was left out: …)*"
    found = compare_note(note, "So it is.\n\n- job 7 line 1: it is so")
    assert found.missing_lines == ("- job 7 line 1: it is so",)
    assert "was left out" in tell_posted(found)


def test_however_much_differs_little_is_told() -> None:
    note = f"{MARKER}\n\n" + "\n".join(f"shown {n} " + "x" * 9_000 for n in range(900))
    found = compare_note(note, "\n".join(f"wrote {n} " + "y" * 9_000 for n in range(900)))
    for lines in (found.visible_lines, found.missing_lines):
        assert len(lines) <= MOST_LINES + 1
        assert all(len(line) <= MAX_LINE for line in lines)
    assert len(tell_posted(found)) < 15_500


def test_an_answer_from_nothing_is_no_difference() -> None:
    assert compare_note("", "") == Difference()
