"""Sessions as documents."""
