"""`python -m tests.bench attacks [AREA…]`: the whole attack set, tried and held for each area.

An attack is a test that carries `@pytest.mark.attack("area")`. A test that tries many inputs says
how many with `record_property("tried", number)`; any other counts as one.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

import pytest

INPUTS = 50_000


class Tally:
    """Counts by area what was tried and what held. A pytest plugin."""

    def __init__(self, areas: Sequence[str]) -> None:
        self._areas = areas
        self.tried: Counter[str] = Counter()
        self.held: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep the attacks of the areas that were asked for."""
        kept = [item for item in items if _is_wanted(item, self._areas)]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item):  # type: ignore[no-untyped-def]
        """Count the report of the test itself, or of the phase that kept it from running."""
        outcome = yield
        report: pytest.TestReport = outcome.get_result()
        if report.when != "call" and report.passed:
            return
        number = int(dict(report.user_properties).get("tried", 1))  # type: ignore[call-overload]
        for area in _areas_of(item):
            if report.skipped:
                self.skipped[area] += 1
            else:
                self.tried[area] += number
                self.held[area] += number if report.passed else 0


def _areas_of(item: pytest.Item) -> set[str]:
    return {str(area) for marker in item.iter_markers("attack") for area in marker.args}


def _is_wanted(item: pytest.Item, areas: Sequence[str]) -> bool:
    found = _areas_of(item)
    return bool(found & set(areas)) if areas else bool(found)


def main(words: Sequence[str] = ()) -> None:
    """Run the attacks, print the table, and exit with 1 if one did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench attacks")
    parser.add_argument("areas", nargs="*", metavar="AREA", help="only these, as redaction")
    tally = Tally(parser.parse_args(words).areas)
    options = ["-q", "--no-header", "-m", "attack", f"--attack-inputs={INPUTS}", "tests"]
    # The other benches have imported a plugin of pytest's, whose assertions nobody reads.
    options += ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
    status = pytest.main([*options, "--timeout=1800"], plugins=[tally])
    print(f"\n{'area':<14}{'tried':>9}{'held':>9}{'skipped':>9}")
    for area in sorted({*tally.tried, *tally.skipped}):
        print(f"{area:<14}{tally.tried[area]:>9,}{tally.held[area]:>9,}{tally.skipped[area]:>9,}")
    if status != pytest.ExitCode.OK:
        sys.exit(1)
