"""Results that fit a model's context: cut where they are too large, and kept whole for a while."""
