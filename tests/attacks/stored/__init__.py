"""Attacks by a store that somebody else can write to."""
