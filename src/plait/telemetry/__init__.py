"""One seam for observing what happens."""
