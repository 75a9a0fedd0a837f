"""Helpers that two packages need."""
