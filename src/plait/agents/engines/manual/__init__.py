"""The engine of recorded answers: no model, no tools, the same result each time."""
