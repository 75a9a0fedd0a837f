"""The history of the tables; each step is run once, under a lock."""
