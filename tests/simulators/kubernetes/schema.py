"""Kubernetes' own schemas, as kubernetes-validate has them.

That package takes a second to import, so only the tests that need it import it; and its own
`validate` reads megabytes at every call, so one validator is kept for each kind and version.
"""

import re
from functools import cache
from typing import Any


def find_fault(manifest: dict[str, Any], version: str) -> str:
    """What Kubernetes `version` would refuse in a manifest, unknown fields too; "" if nothing."""
    validator = _make_validator(manifest["kind"], manifest["apiVersion"], version)
    return next((error.message for error in validator.iter_errors(manifest)), "")


@cache
def _make_validator(kind: str, api_version: str, version: str) -> Any:
    from jsonschema import Draft202012Validator
    from kubernetes_validate.utils import schema_contents
    from referencing import Registry, Resource

    folder = _find_folder(version)
    name = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    schema = schema_contents(f"{folder}/{kind.lower()}-{name}.json", version)
    definitions = schema_contents(f"{folder}/_definitions.json", version)
    registry = Resource.from_contents(definitions) @ (Resource.from_contents(schema) @ Registry())
    return Draft202012Validator(schema, registry=registry)


def _find_folder(version: str) -> str:
    """The folder of the newest schemas that are not newer than `version`."""
    from kubernetes_validate.utils import all_versions, major_minor

    wanted = major_minor(version)
    known = [each for each in all_versions() if major_minor(each) <= wanted]
    return f"kubernetes-json-schema/v{known[-1]}-local-strict"
