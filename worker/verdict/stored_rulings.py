"""The ruling of a group of failing jobs as JSON values, which `context.json` holds. Pure."""

from collections.abc import Mapping
from typing import Any

from worker.verdict import remarks
from worker.verdict.commit_ranges import make_range
from worker.verdict.facts import MOST_INSTALLED, Installed
from worker.verdict.verdict import Ruling, Verdict

_MOST_SENTENCES = 40
"""The most sentences, and the most jobs, that are read of a stored ruling."""


def dump_ruling(ruling: Ruling) -> dict[str, Any]:
    """Return the ruling as JSON values for `context.json`."""
    return {
        "name": ruling.name,
        "jobs": list(ruling.jobs),
        "hard": ruling.hard,
        "because": remarks.dump_remark(ruling.because),
        "against": [[verdict, remarks.dump_remark(why)] for verdict, why in ruling.contradictions],
        "record": [remarks.dump_remark(each) for each in ruling.record],
        "origin": remarks.dump_remark(ruling.origin),
        "recovery": remarks.dump_remark(ruling.recovery),
        "ranges": [[each.old, each.new, each.branch] for each in ruling.ranges],
        "target_job": ruling.target_job,
        "refuted": sorted(ruling.refuted_verdicts),
        "same": [[each.kind, each.name, each.version] for each in ruling.same_as_passed],
        "last_pass": remarks.dump_remark(ruling.last_pass),
        "differs": ruling.differs,
    }


def load_ruling(fields: Mapping[str, Any]) -> Ruling:
    """Read what `dump_ruling` wrote. Raises KeyError, TypeError or ValueError for anything else.

    A ruling of an earlier version refutes nothing but "already failing".
    """
    against = {str(verdict) for verdict, _ in fields["against"][:_MOST_SENTENCES]}
    return Ruling(
        name=str(fields["name"])[: remarks.MAX_NAME],
        jobs=tuple(map(int, fields["jobs"][:_MOST_SENTENCES])),
        hard=Verdict(fields["hard"]) if fields["hard"] else None,
        because=remarks.load_remark(fields["because"]),
        contradictions=tuple(
            (Verdict(verdict), remarks.load_remark(why))
            for verdict, why in fields["against"][:_MOST_SENTENCES]
        ),
        record=tuple(map(remarks.load_remark, fields["record"][:_MOST_SENTENCES])),
        origin=remarks.load_remark(fields.get("origin", ())),
        recovery=remarks.load_remark(fields.get("recovery", ())),
        ranges=tuple(make_range(*each) for each in fields.get("ranges", ())[:_MOST_SENTENCES]),
        target_job=max(0, int(fields.get("target_job", 0))),
        refuted_verdicts=frozenset(
            map(Verdict, fields.get("refuted", against & {str(Verdict.TARGET)}))
        ),
        same_as_passed=tuple(
            Installed(*(str(part)[: remarks.MAX_NAME] for part in each))
            for each in fields.get("same", ())[:MOST_INSTALLED]
        ),
        last_pass=remarks.load_remark(fields.get("last_pass", ())),
        differs=bool(fields.get("differs", False)),
    )
