"""The patients: well, until a test breaks them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.doctor.bed import Bed, Ward, bed, ward


@pytest.fixture(scope="package")
def doctors_ward() -> Iterator[Ward]:
    with ward() as made:
        yield made


@pytest.fixture
def patient(doctors_ward: Ward, tmp_path: Path) -> Iterator[Bed]:
    with bed(doctors_ward, tmp_path) as made:
        yield made
