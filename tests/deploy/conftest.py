"""Helm may still be built while the first tests run: what needs it goes last."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Stable: everything else keeps its order."""
    items.sort(
        key=lambda item: item.path.parent == HERE and item.path.name.startswith("test_chart")
    )
