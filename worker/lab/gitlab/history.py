"""The commits of a simulated project as a graph: ancestors, landings, ranges, merge bases."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from worker.lab.gitlab.state import Commit, Project

Graph = Mapping[str, Commit]


def make_graph(owner: Project) -> Graph:
    """Return all commits of which something is known, by their ids, each with its parents.

    The commits of merge requests are among them, also of such from forks: GitLab keeps them in the
    target project as well.
    """
    graph = dict(owner.records)
    lines = [(mr.base_sha, mr.commits) for mr in owner.merge_requests.values()]
    for below, line in [("", owner.history), *lines]:
        for each in line:
            if each.sha not in graph:
                parents = each.parents or ((below,) if below else ())
                graph[each.sha] = replace(each, parents=parents)
            below = each.sha
    return graph


def find_tip(owner: Project, name: str) -> str:
    """Return the id of the commit that `name` stands for: a branch, a merge request's head, an id
    or the beginning of one; `name` itself if there is none."""
    if name == owner.default_branch and owner.history:
        return owner.history[-1].sha
    parts = name.split("/")
    if name.startswith("refs/merge-requests/") and parts[-1] == "head" and parts[2].isdigit():
        mr = owner.merge_requests.get(int(parts[2]))
        return mr.sha if mr else name
    return owner.find_commit(name)


def list_ancestors(graph: Graph, sha: str) -> list[str]:
    """List the commit and its ancestors, the newest first, as git does."""
    found: list[str] = []
    seen, queue = {sha}, [(_age(graph, sha), 0, sha)]
    while queue:
        _, _, newest = heapq.heappop(queue)
        found.append(newest)
        for parent in graph[newest].parents if newest in graph else ():
            if parent not in seen:
                seen.add(parent)
                heapq.heappush(queue, (_age(graph, parent), len(seen), parent))
    return found


def _age(graph: Graph, sha: str) -> float:
    """A figure that is smaller the newer the commit is."""
    if sha not in graph:
        return 0.0
    return -float("".join(filter(str.isdigit, graph[sha].created_at[:19])))


def walk_landings(graph: Graph, sha: str) -> Iterator[str]:
    """Yield the commit and what was the newest of its branch before, by the first parents."""
    while sha:
        yield sha
        parents = graph[sha].parents if sha in graph else ()
        sha = parents[0] if parents else ""


def list_commits(
    owner: Project, graph: Graph, name: str, *, first_parent: bool = False
) -> list[Commit] | None:
    """List the commits of a branch or commit, or of a range A..B, the newest first.

    None if a name stands for no commit.
    """
    start, dots, end = name.rpartition("..")
    if dots and start.endswith("."):
        return None
    ends = [find_tip(owner, each) for each in (end, start) if each]
    if any(each not in graph for each in ends):
        return None
    shas: Iterable[str] = (
        walk_landings(graph, ends[0]) if first_parent else list_ancestors(graph, ends[0])
    )
    known = set(list_ancestors(graph, ends[1])) if dots and start else set[str]()
    return [graph[each] for each in shas if each in graph and each not in known]


def find_merge_base(graph: Graph, shas: Iterable[str]) -> str:
    """Return the newest commit that all of them contain, "" if there is none."""
    first, *rest = (list_ancestors(graph, each) for each in shas)
    common = set(first).intersection(*rest)
    above = {
        parent
        for each in common
        for parent in (graph[each].parents if each in graph else ())
    }  # fmt: skip
    return next((each for each in first if each in common - above), "")


def find_tree(owner: Project, sha: str) -> dict[str, bytes] | None:
    """Return the files of a commit, also of a merge request's from a fork; None if they are not
    known."""
    if sha in owner.commits:
        return owner.commits[sha]
    for mr in owner.merge_requests.values():
        if any(each.sha == sha for each in mr.commits):
            return mr.source_project.commits.get(sha)
    return None
