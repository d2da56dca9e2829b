"""Names and citations that the house does without: `python -m tests.law.names` lists them."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from tests.law.house import Function, Module, product

_PREPOSITIONS = """
about above after against along among around as at before behind below beside between beyond by down
during except for from in inside into near of off on onto out outside over past per since through to
toward under until up upon via with within without
"""
_PARTICIPLES = """
been begun bent bound bought broken brought built caught chosen dealt done drawn driven fallen fed
felt forgotten fought found frozen given gone grown heard held hidden kept known laid led left lost
made meant met paid proven risen said seen sent shaken shown slept sold spent spoken sprung stolen
struck stuck sworn taken taught thrown told torn understood withdrawn withheld woken won worn
written
"""
_OTHERS = """
bed binding bring building ceiling embed exceed feed finding hardening heading king listing meaning
need padding ping pricing proceed reasoning red ring ruling seed setting shed shred sibling
sighting sled something speed spring string succeed swing thing thinking timing warning wing
"""
PREPOSITIONS = frozenset(_PREPOSITIONS.split())
PARTICIPLES = frozenset(_PARTICIPLES.split())
"""Irregular ones; the others are known by their endings."""
NOT_PARTICIPLES = frozenset(_OTHERS.split())
"""Verbs and nouns that end like one."""
ALLOWED = {
    "DiffFile.collapsed": "GitLab's field",
    "Discussion.resolved": "GitLab's field",
    "Note.resolved": "GitLab's field",
    "Project.archived": "GitLab's field",
    "Job.erased": "GitLab's word for a log that was deleted",
    "TestRequest.created": "Testing Farm's field",
    "TestRequest.updated": "Testing Farm's field",
    "SuiteRun.failed": "GitLab's word for a count of its test reports",
    "SuiteRun.skipped": "GitLab's word for a count of its test reports",
    "Step.terminated": "Tekton's field",
    "RawDocument.missing": "the contract of plug-in sources",
    "MetricsSettings.enabled": "a key of the configuration file",
    "TierSettings.above": "a key of the configuration file",
    "Reacted.revoked": "a key of the queue's message",
    "TierSettings.since": "a key of the configuration file",
    "Settings.known": "a key of the configuration file",
}
"""Names that stay, with the reason."""
CITATION = re.compile(
    r"wire-(?:gitlab|misc|models)\b|\blaws? \d+\b|\bseeds? \d{3}\b|\bfields? \d+\.\d+"
    r"|\bdesign, section \d+",
    re.IGNORECASE,
)


def is_bare(name: str) -> bool:
    """Whether a name is nothing but a participle or a preposition."""
    if name in NOT_PARTICIPLES:
        return False
    return (
        name in PREPOSITIONS
        or name in PARTICIPLES
        or re.fullmatch(r"[a-z]+(ed|ing)", name) is not None
    )


def bare_names(module: Module) -> Iterator[str]:
    """Where a module defines a function, or a public class's attribute, with such a name."""
    seen = set()
    for line, name in _definitions(module.tree.body, ""):
        if name not in seen and name not in ALLOWED and is_bare(name.rpartition(".")[2]):
            seen.add(name)
            yield f"{module.path}:{line}: {name}"


def _definitions(body: Iterable[ast.stmt], owner: str) -> Iterator[tuple[int, str]]:
    public = owner != "" and not owner.startswith("_")
    for node in body:
        if isinstance(node, Function):
            for inner in ast.walk(node):
                if isinstance(inner, Function):
                    yield inner.lineno, owner + inner.name.lstrip("_")
            if public:
                yield from _attributes(node, owner)
        elif isinstance(node, ast.ClassDef):
            yield from _definitions(node.body, f"{node.name}.")
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and public:
            yield node.lineno, owner + node.target.id


def _attributes(method: Function, owner: str) -> Iterator[tuple[int, str]]:
    """Attributes that a method sets on its object."""
    for node in ast.walk(method):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            yield node.lineno, owner + node.attr


def citations(module: Module) -> Iterator[str]:
    """Where a module cites a document that its reader does not have."""
    for number, line in enumerate(module.source.splitlines(), 1):
        for found in CITATION.finditer(line):
            yield f"{module.path}:{number}: {found[0]}"


def find_everywhere(rule: Callable[[Module], Iterator[str]]) -> list[str]:
    """What a rule finds in the product."""
    return [place for module in product() for place in rule(module)]


def main() -> None:
    """Print what is found."""
    for title, rule in (("Bare names", bare_names), ("Citations", citations)):
        found = find_everywhere(rule)
        print(*found, f"{title}: {len(found)}", sep="\n")


if __name__ == "__main__":
    main()
