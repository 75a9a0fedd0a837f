"""Mutated messages of servers, in both eras and on every transport."""
