"""The facts about failing jobs as sentences, for the model and for the note. Pure."""

import re
from collections.abc import Iterator, Sequence

from worker.verdict.changed_files import Touch
from worker.verdict.diffs import is_lock
from worker.verdict.facts import (
    Change,
    Facts,
    Run,
    Target,
    Unknown,
    find_pass_after,
    list_steady_failures,
    sort_newest_first,
)
from worker.verdict.proofs import find_pass_on_target
from worker.verdict.remarks import (
    Link,
    Name,
    Remark,
    describe_age,
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
    if isinstance(facts.earlier, tuple) and facts.earlier:
        words = "in earlier pipelines of this merge request on other commits: "
        yield remark(words, *_count_outcomes(facts, facts.earlier))
    yield from _tell_target_branch(facts, settled)
    yield from _tell_other_jobs_there(facts)
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
    yield from _tell_siblings(facts)
    for failed, passed in facts.recoveries[:1]:
        yield remark(
            "the same error in ", name(failed.place), " (", job(failed), "), which passed when it "
            "was retried (", job(passed), ")",
        )  # fmt: skip


def _tell_passed_first(facts: Facts, attempts: Sequence[Run]) -> Remark:
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


def _list_jobs(runs: Sequence[Run]) -> Remark:
    """List the runs, the oldest first."""
    return _list_first([job(run) for run in reversed(sort_newest_first(runs))])


def _list_first(parts: Sequence[str | Name | Link], most: int = SHOWN) -> Remark:
    """List the first `most` of the parts, and say how many more there are."""
    left = len(parts) - most
    return remark(*join_parts(parts[:most]), f" and {left} more" if left > 0 else "")


def _tell_siblings(facts: Facts) -> Iterator[Remark]:
    """Tell which jobs of the same matrix passed and which failed, if any passed."""
    parts: list[str | Name | Link] = []
    for words, status in (("passed", "success"), ("failed", "failed")):
        runs = [run for run in facts.siblings if run.status == status]
        if runs:
            listed = _list_first([name(run.place) for run in runs])
            parts += ["; " if parts else "", *listed, f" {words}"]
    if any(run.has_passed for run in facts.siblings):
        yield remark("of the same matrix ", *parts)


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
    if settled or len(target.runs) > 1 or not find_pass_on_target(facts):
        built = base == target.runs
        all_runs = "all runs " if len(base) > 1 else ""
        where = remark(*where, f", {all_runs}{on_base}" if built else ": ")
        yield remark(*where, *_count_outcomes(facts, target.runs))
    elif age := describe_age(target.runs[0], facts.run):
        yield remark(
            job(target.runs[0]), " passed on ", name(target.branch), f" {age} this failure"
        )
    yield from _tell_coming_and_going(facts, target)
    if target.unread:
        yield remark(f"not known of {target.unread} of these pipelines: its jobs cannot be read")
    yield from _tell_steady_failure(facts, target, settled)
    if base and base != target.runs and (settled or not _is_told_as_pass(facts, target, base)):
        yield remark(on_base, *_count_outcomes(facts, base))
    if target.has_newer_commits:
        yield remark(name(target.branch), " has new commits since")


def _tell_coming_and_going(facts: Facts, target: Target) -> Iterator[Remark]:
    """Tell of a commit on which the job failed with some of the errors, or in another way, and then
    passed. If it was with all of them, the verdict says so."""
    for runs in target.runs_by_commit:
        for failed in runs:
            partly = facts.has_some_errors(failed)
            passed = find_pass_after(failed, runs)
            if passed and (partly or _is_different(facts, failed)):
                how = "with some of the errors of this failure" if partly else "in another way"
                yield remark(
                    "on one commit of ", name(target.branch), f" it failed {how} and then passed: ",
                    job(failed), ", ", job(passed),
                )  # fmt: skip
                return


def _is_told_as_pass(facts: Facts, target: Target, base: Sequence[Run]) -> bool:
    """Whether the commit that the change is built on has a single run, the pass that the verdict
    names: the newest run at the target branch's newest commit."""
    return [*base] == [*target.runs_at_newest_commit[:1]] and bool(find_pass_on_target(facts))


def _tell_steady_failure(facts: Facts, target: Target, settled: Verdict | None) -> Iterator[Remark]:
    """Tell since when the job fails in the same way on the target branch, as far as the runs show.

    Say nothing if newer runs may be hidden, or if the job is known to be flaky.
    """
    failed = list_steady_failures(facts) if settled is not Verdict.FLAKY else []
    if failed:
        first = failed[-1]
        ago = describe_distance(first.started_at, facts.run.started_at)
        since = "at least since" if len(failed) == len(target.finished_runs) else "since"
        yield remark(
            f"it fails there in the same way {since} ", pipeline(first),
            f" (commit {first.sha[:8]})" if first.sha else "", f", {ago}" if ago else "",
        )  # fmt: skip


def _tell_other_jobs_there(facts: Facts) -> Iterator[Remark]:
    """Tell how the other jobs with this error did on the target branch, if statuses differ."""
    if isinstance(facts.target, Target):
        own = [run.status for run in facts.target.runs]
        for each in facts.rest[:SHOWN]:
            runs = each.target.runs if isinstance(each.target, Target) else ()
            if runs and [run.status for run in runs] != own:
                where = remark(name(each.name), " on ", name(facts.target.branch), ": ")
                yield remark(*where, *_count_outcomes(each, runs))


def _tell_installed(facts: Facts, settled: Verdict | None) -> Iterator[Remark]:
    """Tell which packages differ from the last run that passed.

    Image digests change with every build of a tag, so they are named only if nothing else differs
    or may explain the failure. Those of `latest` are always named: it may be another version.
    """
    if not facts.last_pass:
        return
    changes = facts.last_pass.package_changes
    packages = [each for each in changes if _LATEST.match(each) or not _IMAGE.search(each)]
    if not packages and not settled and not _is_explained(facts):
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


def _is_explained(facts: Facts) -> bool:
    """Whether the change edits what the error names, the CI configuration or the dependencies."""
    change = facts.change
    return isinstance(change, Change) and bool(
        change.ci or change.dependencies or any(each.explains for each in change.touches)
    )


def _tell_change(facts: Facts) -> Iterator[Remark]:
    change = facts.change
    if not isinstance(change, Change):
        return
    yield from _tell_named_files(change.touches)
    for removed, path in change.removed_names[:SHOWN]:
        yield remark(name(removed), ", which the error names, is gone from ", name(path))
    yield from _tell_named_tests(change)
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
    packages = _list_packages(touches)
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


def _list_packages(touches: Sequence[Touch]) -> list[str]:
    """List the folders of the packages that the error names, if it names no changed file there; ""
    is the repository's root."""
    folders = [(each.path.rpartition("/")[0], each) for each in touches]
    packages = dict.fromkeys(folder for folder, each in folders if each.names_package)
    named = {folder for folder, each in folders if each.is_certain and not each.names_package}
    return [each for each in packages if each not in named]


def _tell_named_tests(change: Change) -> Iterator[Remark]:
    """Tell which changed files the failing tests belong to, and how many of the tests do, if
    that is known.

    Say nothing if fewer than half of them do.
    """
    found = [each.path for each in change.touches if each.names_tests]
    ours, whole = change.tests_of_touched, change.failed_tests
    if not found or 0 < ours < whole / 2:  # a few of many tests would lead to the wrong file
        return
    if not ours:
        words = "the error names tests that belong to what this change edits: "
    elif ours == whole:
        words = "the failing tests belong to what this change edits: "
    else:
        words = f"{ours} of the {whole} failing tests belong to what this change edits: "
    yield remark(words, *join_parts(map(name, found[:SHOWN])))


_DIFFERENT = "failed in another way"


def _count_outcomes(facts: Facts, runs: Sequence[Run]) -> Remark:
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
            age = describe_age(sort_newest_first(found)[0], facts.run) if words == "passed" else ""
            age = f"; {'the last ' if len(found) > 1 else ''}{age}" if age else ""
            how = _tell_errors(found) if words == _DIFFERENT else ()
            parts += ["; " if parts else "", f"{len(found)} {words} ("]
            parts += [*_list_first(list(map(job, found))), age, ")", *how]
    partly = next(filter(facts.has_some_errors, runs), None)
    if partly and partly.missing_errors:
        lacked = facts.run.errors - partly.errors
        left = len(facts.run.failures & lacked or lacked) - len(partly.missing_errors)
        named = join_parts(map(name, partly.missing_errors))
        parts += ["; not there: ", *named, f" and {left} more" if left > 0 else ""]
    return remark(*parts) or ("none has ended",)


def _tell_errors(runs: Sequence[Run]) -> Remark:
    """Say with which error the first of these runs failed, so that nobody takes it on trust."""
    errors = sorted(runs[0].errors)
    if not errors:
        return ()
    more = " and others" if len(errors) > 1 else ""
    error = _PLACEHOLDER.sub("…", errors[0])
    return remark(" with " if len(runs) == 1 else ", the first one with ", name(error), more)


_PLACEHOLDER = re.compile(r"<(?:address|dir|id|n|place|runner|time|tmp)>")
"""Stands in an error's normal form for what differs from run to run."""


def _group_partly_alike(facts: Facts, runs: Sequence[Run]) -> Iterator[tuple[str, list[Run]]]:
    """Yield the runs that failed with some of the errors, by how many failures they share that a
    person would count, most first."""
    shared: dict[int, list[Run]] = {}
    for each in filter(facts.has_some_errors, runs):
        shared.setdefault(facts.count_same_failures(each), []).append(each)
    total = len(facts.run.failures)
    for count, found in sorted(shared.items(), reverse=True):
        part = f"{count} of the {total}" if 0 < count < total else "some of the"
        yield f"failed with {part} errors of this failure", found


def _is_different(facts: Facts, run: Run) -> bool:
    other = run.status == "failed" and not facts.find_same_errors(run)
    return other and bool(run.errors and facts.run.errors)
