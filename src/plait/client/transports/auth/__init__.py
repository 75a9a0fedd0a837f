"""Authentication to servers on HTTP."""
