"""Whether the verdicts are right: kept failures, played through the whole product, and scored."""
