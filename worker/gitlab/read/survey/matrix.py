"""Parses the dimensions of a matrix or parallel job from its name."""

import re
from typing import Any

_MATRIX = re.compile(r"(?P<group>.+?): \[(?P<values>.+)\]")
_PARALLEL = re.compile(r"(?P<group>.+?)[ :]+(?P<part>\d+)/(?P<total>\d+)")


def parse_dimensions(name: str) -> dict[str, Any]:
    """Parse `a: [1, x]` as `group` and `matrix`, `a 2/5` as `group` and `part`; others as {}."""
    if found := _MATRIX.fullmatch(name):
        return {"group": found["group"], "matrix": found["values"].split(", ")}
    if found := _PARALLEL.fullmatch(name):
        return {"group": found["group"], "part": f"{found['part']}/{found['total']}"}
    return {}


def get_family(name: str) -> str:
    """Return the name that all variants of a matrix or parallel job share, or the job's own."""
    return str(parse_dimensions(name).get("group", name))
