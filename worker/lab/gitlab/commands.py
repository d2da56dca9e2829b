"""Finds the quick actions of a note: https://docs.gitlab.com/user/project/quick_actions/."""

import re

from markdown_it import MarkdownIt

_NAMES = """
add_contacts approve assign assign_reviewer award board_move cc child_task clear_health_status
clear_weight clone close confidential convert_to_ticket copy_metadata create_merge_request done
draft due duplicate epic estimate estimate_time invite_email iteration label labels link lock
mark mention merge milestone move page parent promote promote_to promote_to_incident publish
ready reassign reassign_reviewer rebase relabel relate remove_assignee remove_child
remove_contacts remove_due_date remove_email remove_epic remove_estimate remove_iteration
remove_label remove_milestone remove_parent remove_reviewer remove_time_spent
remove_zoom reopen request_changes request_review run_pipeline shrug severity ship spend
spend_time spent submit_review subscribe switch_type tableflip tag target_branch timeline title
todo type unapprove unassign unassign_reviewer unlabel unlink unlock unsubscribe weight wip
zoom
"""
KNOWN = frozenset(_NAMES.split())
_LINE = re.compile(r"^[ \t]{0,3}/([a-z_]+)(?:[ \t]+(.*))?$", re.IGNORECASE)
_BREAKS = re.compile("\r\n?|[\u0085\u2028\u2029]")


def extract_commands(body: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the body without its commands, and the commands with their arguments.

    As in GitLab, only paragraphs at the top level of the Markdown count. To be safe, this finds
    more than GitLab: up to three blanks may precede the slash, and every character that some
    version treats as a line break is one.
    """
    lines = _BREAKS.sub("\n", body).split("\n")
    live = _find_paragraph_lines("\n".join(lines))
    kept: list[str] = []
    commands: list[tuple[str, str]] = []
    for number, line in enumerate(lines):
        match = _LINE.match(line) if number in live else None
        if match and match[1].lower() in KNOWN:
            commands.append((match[1].lower(), (match[2] or "").strip()))
        else:
            kept.append(line)
    return ("\n".join(kept), commands) if commands else (body, commands)


def _find_paragraph_lines(text: str) -> set[int]:
    tokens = MarkdownIt("commonmark").parse(text)
    tops = [token.map for token in tokens if token.type == "paragraph_open" and token.level == 0]
    return {line for span in tops if span for line in range(*span)}
