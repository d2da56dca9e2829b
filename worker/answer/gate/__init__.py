"""Checks whether the text with which a model ends a turn is an answer. Pure."""
