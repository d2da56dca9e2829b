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


FOLDED_ANSWER = """\
## Verdict
caused by this change

## Failed
ci (502): make target `unit`, and make target `get` (download)

## Cause
The dot is not escaped. A second failure in the same job: the mirror is away.

## Evidence
- job 502 line 9: Argument "8h30" isn't numeric
- file lib/Duration.pm line 10:     return $1 if /(.5)?h/;
- job 502 lines 14-15: curl: (22) error: 503
  make: *** [get] Error 22
- artifact 502 out/junit.xml line 3: <failure>late</failure>

## What to do
Escape the dot. The job stays red as long as the mirror is away.
```suggestion lib/Duration.pm:10
    return $1 if /(\\.5)?h/;
```
```python
assert late
```
"""
FOLDED_NOTE = f"""\
{MARKER}

**Caused by this change**

**Failed:** ci (502): make target `unit` and 1 more

**Cause:** The dot is not escaped.

- [job 502, line 9](https://gitlab.example/g/p/-/jobs/502#L9): `Argument "8h30" isn't numeric`

**What to do:** Escape the dot. [Apply it on the diff](https://gitlab.example/g/p/-/merge_requests/1#note_2).

<details>
<summary>Details</summary>

**More evidence**

- [`lib/Duration.pm`, line 10](https://gitlab.example/g/p/-/blob/abc/lib/Duration.pm#L10): \
`return $1 if /(.5)?h/;`
- [job 502, lines 14-15](https://gitlab.example/g/p/-/jobs/502#L14):
  ```text
  curl: (22) error: 503
  make: *** [get] Error 22
  ```
- `out/junit.xml` of job 502, line 3: `<failure>late</failure>`

**What GitLab and the logs show**

- `ci` passes on `main`

**Failed**

ci (502): make target `unit`, and make target `get` (download)

**Cause**

A second failure in the same job: the mirror is away.

**What to do**

The job stays red as long as the mirror is away.

 ```python
 assert late
 ```

</details>

<sub>`m` · 0.01 USD · Reply to ask more</sub>"""


def test_sentences_and_quotes_that_are_folded_are_neither_missing_nor_added() -> None:
    found = compare_note(FOLDED_NOTE, FOLDED_ANSWER)
    assert found.missing_lines == ()
    assert found.added_lines == (
        "**What GitLab and the logs show**",
        "- `ci` passes on `main`",
    )
    assert found.visible_lines[1] == "**Failed:** ci (502): make target `unit` and 1 more"


def test_of_a_section_only_the_sentence_that_is_missing_is_told() -> None:
    note = FOLDED_NOTE.replace("A second failure in the same job: the mirror is away.", "")
    note = note.replace("- `out/junit.xml` of job 502, line 3: `<failure>late</failure>`\n", "")
    assert compare_note(note, FOLDED_ANSWER).missing_lines == (
        "A second failure in the same job: the mirror is away.",
        "- artifact 502 out/junit.xml line 3: <failure>late</failure>",
    )


def test_a_reply_that_quotes_a_file_was_posted_as_it_is() -> None:
    link = "[`lib/Duration.pm`, line 10](https://gitlab.example/g/p/-/blob/abc/lib/Duration.pm#L10)"
    note = f"{MARKER}\n\nLook:\n\n- {link}: `return $1;`\n\nThat is all.\n\n<sub>`m`</sub>"
    answer = "Look:\n- file lib/Duration.pm line 10: return $1;\n\nThat is all."
    assert not compare_note(note, answer)
