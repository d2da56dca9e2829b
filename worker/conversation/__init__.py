"""A session as a value: messages, budgets, folds, and what to do next."""
