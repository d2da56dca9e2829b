"""Evaluates verdicts: plays recorded failures through the whole product, and scores the answers."""
