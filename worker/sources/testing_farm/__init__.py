"""Test requests of Testing Farm."""
