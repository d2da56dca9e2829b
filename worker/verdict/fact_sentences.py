"""The facts about failing jobs as sentences, for the model and for the note. Pure."""

import re
from collections.abc import Iterator, Sequence

from worker.ledger.sentences import Name as Stranger
from worker.verdict.changed_files import Touch
from worker.verdict.diffs import is_lock
from worker.verdict.facts import (
    Change,
    Facts,
    JobRun,
    Target,
    Unknown,
    get_day,
    parse_time,
    sort_newest_first,
)
from worker.verdict.proofs import find_pass_on_target
from worker.verdict.remarks import (
    Link,
    Name,
    Remark,
    describe_distance,
    job,
    join_parts,
    name,
    pipeline,
    remark,
)
from worker.verdict.verdict import Verdict

SHOWN = 4
"""The most runs or files that one sentence names."""

INSTALLED = 8
"""The most packages that one sentence names."""


def describe_facts(facts: Facts, settled: Verdict | None = None) -> Iterator[Remark]:
    """Yield what is known, one sentence for each fact, then what is not known, and why.

    `settled` is the verdict that the facts prove; no sentence may suggest another one.
    """
    yield from _tell_this_commit(facts)
    yield from _tell_tests(facts, settled)
    if isinstance(facts.earlier, tuple) and facts.earlier:
        words = "in earlier pipelines of this merge request on other commits: "
        yield remark(words, *_count_outcomes(facts, facts.earlier))
    yield from _tell_target_branch(facts, settled)
    if isinstance(facts.target, Target):
        # The other jobs with this error, where they did not do there as this one.
        own = [run.status for run in facts.target.runs]
        for each in facts.rest[:SHOWN]:
            runs = each.known_target.runs
            if runs and [run.status for run in runs] != own:
                where = remark(name(each.name), " on ", name(facts.target.branch), ": ")
                yield remark(*where, *_count_outcomes(each, runs))
    if isinstance(facts.elsewhere, tuple) and facts.elsewhere:
        places = ((name(run.place), " ", job(run), "; ") for run in facts.elsewhere[:SHOWN])
        yield remark("same error elsewhere: ", *[part for each in places for part in each][:-1])
    yield from _tell_installed(facts, settled)
    yield from _tell_change(facts)
    for what, fact in (
        ("other runs on this commit", facts.attempts),
        ("earlier commits", facts.earlier),
        ("the target branch", facts.target),
        ("other merge requests", facts.elsewhere),
        ("what the change touches", facts.change),
    ):
        if isinstance(fact, Unknown):
            yield remark(f"not known of {what}: {fact.why}")


def _tell_tests(facts: Facts, settled: Verdict | None) -> Iterator[Remark]:
    """Tell what is recorded of the tests that failed; of their coming and going only where that is
    not said to have another cause."""
    if facts.tests and settled in (None, Verdict.FLAKY):
        for words in facts.tests.describe():
            yield remark(*(name(each) if isinstance(each, Stranger) else each for each in words))


def _tell_this_commit(facts: Facts) -> Iterator[Remark]:
    if facts.run.reason and facts.run.reason != "script_failure":
        yield remark("GitLab's failure reason: ", name(facts.run.reason))
    if attempts := facts.known_attempts:
        yield _tell_passed_first(facts, attempts) or remark(
            "other runs on this commit: ", *_count_outcomes(facts, attempts)
        )
    if facts.runs_of_other_sources:
        yield remark(
            "in other kinds of pipelines on this commit: ",
            *_count_outcomes(facts, facts.runs_of_other_sources),
        )
    for about_log in filter(None, (facts.cut, facts.clock)):
        yield remark(about_log)
    if any(run.has_passed for run in facts.siblings):
        parts: list[str | Name | Link] = []
        for words, status in (("passed", "success"), ("failed", "failed")):
            if places := [name(run.place) for run in facts.siblings if run.status == status]:
                parts += ["; " if parts else "", *_list_first(places), f" {words}"]
        yield remark("of the same matrix ", *parts)
    for failed, passed in facts.recoveries[:1]:
        yield remark(
            "the same error in ", name(failed.place), " (", job(failed), "), which passed when it "
            "was retried (", job(passed), ")",
        )  # fmt: skip


def _tell_passed_first(facts: Facts, attempts: Sequence[JobRun]) -> Remark:
    """Tell the order of all runs on this commit if they passed first and then always failed in the
    same way: the counts alone would not show that."""
    passed = [run for run in attempts if run.has_passed]
    failed = [facts.run, *(run for run in attempts if facts.has_same_error(run))]
    if not passed or len(passed) + len(failed) != len(attempts) + 1:
        return ()
    if len(failed) < 2 or any(run.is_after(each) for run in passed for each in failed):
        return ()
    return remark(
        "on this commit: passed in ", *_list_jobs(passed), ", then failed in the same way in ",
        *_list_jobs(failed),
    )  # fmt: skip


def _list_jobs(runs: Sequence[JobRun]) -> Remark:
    """List the runs, the oldest first."""
    return _list_first([job(run) for run in reversed(sort_newest_first(runs))])


def _list_first(parts: Sequence[str | Name | Link], most: int = SHOWN) -> Remark:
    """List the first `most` of the parts, and say how many more there are."""
    left = len(parts) - most
    return remark(*join_parts(parts[:most]), f" and {left} more" if left > 0 else "")


def _tell_target_branch(facts: Facts, settled: Verdict | None) -> Iterator[Remark]:
    target = facts.target
    if not isinstance(target, Target):
        return
    if not target.looked_at:
        yield remark(name(target.branch), " has no pipeline to compare with")
        return
    newest = "newest pipeline" if target.looked_at == 1 else f"newest {target.looked_at} pipelines"
    looked = f"{target.looked_at} of its pipelines" if target.gap else newest
    looked += f" ({len(target.runs)} runs)" if len(target.runs) > target.looked_at else ""
    this_job = remark(name(facts.name)) if facts.rest else remark("this job")
    where = remark(*this_job, " on ", name(target.branch), f", {looked}")
    if not target.runs:
        yield remark(*where, ": it did not run")
        return
    base = tuple(each for each in target.runs if each.sha and each.sha == target.base)
    on_base = "on the commit this pipeline is built on: "
    # A verdict that the record does not settle itself tells of this pass.
    told_as_pass = not settled and bool(find_pass_on_target(facts))
    if len(target.runs) > 1 or not told_as_pass:
        built = base == target.runs
        all_runs = "all runs " if len(base) > 1 else ""
        where = remark(*where, f", {all_runs}{on_base}" if built else ": ")
        yield remark(*where, *_count_outcomes(facts, target.runs))
    elif age := _describe_age(target.runs[0], facts.run):
        yield remark(
            job(target.runs[0]), " passed on ", name(target.branch), f" {age} this failure"
        )
    yield from _tell_coming_and_going(facts, target)
    if target.unread:
        yield remark(f"not known of {target.unread} of these pipelines: its jobs cannot be read")
    if steady := facts.list_steady_failures() if settled is not Verdict.FLAKY else []:
        first = steady[-1]
        ago = describe_distance(first.started_at, facts.run.started_at)
        since = "at least since" if len(steady) == len(target.finished_runs) else "since"
        yield remark(
            f"it fails there in the same way {since} ", pipeline(first),
            f" (commit {first.sha[:8]})" if first.sha else "", f", {ago}" if ago else "",
        )  # fmt: skip
    told_as_pass = told_as_pass and [*base] == target.runs_at_newest_commit[:1]
    if base and base != target.runs and not told_as_pass:
        yield remark(on_base, *_count_outcomes(facts, base))
    if target.has_newer_commits:
        yield remark(name(target.branch), " has new commits since")


def _tell_coming_and_going(facts: Facts, target: Target) -> Iterator[Remark]:
    """Tell of a commit on which the job failed with some of the errors, or in another way, and then
    passed. If it was with all of them, the verdict says so."""
    for runs in target.runs_by_commit:
        for failed in runs:
            partly = facts.has_some_errors(failed)
            passed = failed.find_later_pass(runs)
            if passed and (partly or _is_different(facts, failed)):
                how = "with some of the errors of this failure" if partly else "in another way"
                yield remark(
                    "on one commit of ", name(target.branch), f" it failed {how} and then passed: ",
                    job(failed), ", ", job(passed),
                )  # fmt: skip
                return


def _tell_installed(facts: Facts, settled: Verdict | None) -> Iterator[Remark]:
    """Tell which packages differ from the last run that passed.

    Image digests change with every build of a tag, so they are named only if nothing else differs
    or may explain the failure. Those of `latest` are always named: it may be another version.
    """
    if not facts.last_pass:
        return
    changes = facts.last_pass.package_changes
    packages = [each for each in changes if _LATEST.match(each) or not _IMAGE.search(each)]
    change = facts.change
    explains = isinstance(change, Change) and (
        change.ci or change.dependencies or any(each.explains for each in change.touches)
    )
    if not packages and not settled and not explains:
        packages = list(changes)
    if packages:
        yield remark(
            "installed differently from the last run that passed (", job(facts.last_pass.run),
            "): ", *_list_first(list(map(name, packages)), INSTALLED),
        )  # fmt: skip
    told = {each.partition(" ")[0] for each in packages}
    for line in [each for each in facts.last_pass.unpinned_lines if each.name in told][:SHOWN]:
        yield remark("not pinned: ", name(f"{line.path}:{line.line}"), " says ", name(line.text))


_LATEST = re.compile(r"\S{1,300}:latest \S{12,45} → ")
_IMAGE = re.compile(r" [0-9a-f]{12}(?:, [0-9a-f]{12}){0,2} → [0-9a-f]{12}(?:, [0-9a-f]{12}){0,2}$")
"""A difference between image digests."""


def _tell_change(facts: Facts) -> Iterator[Remark]:
    change = facts.change
    if not isinstance(change, Change):
        return
    yield from _tell_named_files(change.touches)
    for removed, path in change.removed_names[:SHOWN]:
        yield remark(name(removed), ", which the error names, is gone from ", name(path))
    # The files that failing tests belong to: a few of many tests would lead to the wrong file.
    tested = [each.path for each in change.touches if each.names_tests]
    ours, failed = change.tests_of_touched, change.failed_tests
    if tested and not 0 < ours < failed / 2:
        words = "the error names tests that"
        if ours:
            words = (
                "the failing tests" if ours == failed else f"{ours} of the {failed} failing tests"
            )
        words += " belong to what this change edits: "
        yield remark(words, *join_parts(map(name, tested[:SHOWN])))
    if change.only_docs:
        yield remark("only documentation is changed")
    for what, files in {"CI configuration": change.ci, "dependencies": change.dependencies}.items():
        if files:
            yield remark(f"{what} changed: ", *join_parts(map(name, files[:SHOWN])))


def _tell_named_files(touches: Sequence[Touch]) -> Iterator[Remark]:
    """Tell which changed files the error names, one sentence for each way of naming them. Files
    that it only may name are left out."""
    line = next((each for each in touches if each.line and not each.is_new), None)
    if line:
        words = ", which the error names, is one that this change adds"
        yield remark(f"line {line.line} of ", name(line.path), words)
    sure = [each for each in touches if each.is_certain and not each.names_package]
    aside = [each for each in sure if not each.explains]
    # The folders of packages of which the error names no changed file; "" is the root.
    named = {each.path.rpartition("/")[0] for each in sure}
    folders = (each.path.rpartition("/")[0] for each in touches if each.names_package)
    packages = [each for each in dict.fromkeys(folders) if each not in named]
    for words, found in (
        ("the error names a file that is new in this change: ",
         [each.path for each in sure if each.is_new]),
        ("the error names what this change edits: ",
         [each.path for each in sure if each.explains and not each.is_new and each is not line]),
        ("this change edits a file that the error names, but not at the lines that it names: ",
         [each.path for each in aside if each.is_elsewhere and not is_lock(each.path)]),
        ("the error names a submodule that this change moves to another commit, but not that "
         "commit: ", [each.path for each in aside if each.is_submodule]),
        ("the error names a package that this change edits: ", [*filter(None, packages)]),
    ):  # fmt: skip
        if found:
            yield remark(words, *join_parts(map(name, found[:SHOWN])))
    if "" in packages:
        yield remark(
            "the error names the package at the repository's root, which this change edits"
        )


_DIFFERENT = "failed in another way"


def _count_outcomes(facts: Facts, runs: Sequence[JobRun]) -> Remark:
    """Count the runs by outcome, and list some of each."""
    parts: list[str | Name | Link] = []
    for words, found in (
        ("failed in the same way", [each for each in runs if facts.has_same_error(each)]),
        ("passed", [each for each in runs if each.has_passed]),
        *_group_partly_alike(facts, runs),
        (_DIFFERENT, [each for each in runs if _is_different(facts, each)]),
        (
            "failed, not compared",
            [
                each
                for each in runs
                if each.status == "failed" and not (each.errors and facts.run.errors)
            ],
        ),
    ):
        if found:
            # When the last of them was, if that was long before the failing one.
            age = _describe_age(sort_newest_first(found)[0], facts.run) if words == "passed" else ""
            age = f"; {'the last ' if len(found) > 1 else ''}{age}" if age else ""
            how: Remark = ()
            if words == _DIFFERENT and (errors := sorted(found[0].errors)):
                # With which error the first of them failed, so that nobody takes it on trust.
                error = name(_PLACEHOLDER.sub("…", errors[0]))
                more = " and others" if len(errors) > 1 else ""
                how = remark(" with " if len(found) == 1 else ", the first one with ", error, more)
            parts += ["; " if parts else "", f"{len(found)} {words} ("]
            parts += [*_list_first(list(map(job, found))), age, ")", *how]
    partly = next(filter(facts.has_some_errors, runs), None)
    if partly and partly.missing_errors:
        lacked = facts.run.errors - partly.errors
        left = len(facts.run.failures & lacked or lacked) - len(partly.missing_errors)
        named = join_parts(map(name, partly.missing_errors))
        parts += ["; not there: ", *named, f" and {left} more" if left > 0 else ""]
    return remark(*parts) or ("none has ended",)


_PLACEHOLDER = re.compile(r"<(?:address|dir|id|n|place|runner|time|tmp)>")
"""Stands in an error's normal form for what differs from run to run."""


def _group_partly_alike(facts: Facts, runs: Sequence[JobRun]) -> Iterator[tuple[str, list[JobRun]]]:
    """Yield the runs that failed with some of the errors, by how many failures they share that a
    person would count, most first."""
    shared: dict[int, list[JobRun]] = {}
    for each in filter(facts.has_some_errors, runs):
        shared.setdefault(facts.count_same_failures(each), []).append(each)
    total = len(facts.run.failures)
    for count, found in sorted(shared.items(), reverse=True):
        part = f"{count} of the {total}" if 0 < count < total else "some of the"
        yield f"failed with {part} errors of this failure", found


def _is_different(facts: Facts, run: JobRun) -> bool:
    other = run.status == "failed" and not facts.find_same_errors(run)
    return other and bool(run.errors and facts.run.errors)


OLD = 12 * 3600
"""The least age of a run, in seconds, that is mentioned."""


def _describe_age(run: JobRun, other: JobRun) -> str:
    """Say when `run` was, such as "on 2026-01-14, 315 d before"; "" if it was less
    than `OLD` seconds before `other`."""
    then, now = parse_time(run.started_at), parse_time(other.started_at)
    if then is None or now is None or now - then < OLD:
        return ""
    ago = describe_distance(run.started_at, other.started_at)
    return f"on {get_day(run.started_at)}, {ago}"
