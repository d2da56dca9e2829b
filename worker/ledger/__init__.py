"""The ledger of tests: which single tests have failed, where, and what became of it."""
