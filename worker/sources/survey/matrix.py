"""Parses the dimensions of a matrix or parallel job from its name."""

import re
from typing import Any

_MATRIX = re.compile(r"(?P<group>.+?): \[(?P<values>.+)\]")
_PARALLEL = re.compile(r"(?P<group>.+?)[ :]+(?P<part>\d+)/(?P<total>\d+)")


def parse_dimensions(name: str) -> dict[str, Any]:
    """`group` and `matrix` of `test: [3.12, linux]`, `group` and `part` of `test 2/5`, else {}."""
    if found := _MATRIX.fullmatch(name):
        return {"group": found["group"], "matrix": found["values"].split(", ")}
    if found := _PARALLEL.fullmatch(name):
        return {"group": found["group"], "part": f"{found['part']}/{found['total']}"}
    return {}


def get_family(name: str) -> str:
    """The name that the variants of a matrix or parallel job share; else the job's own name."""
    return str(parse_dimensions(name).get("group", name))
