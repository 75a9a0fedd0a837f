"""Sessions that stay open and heal."""
