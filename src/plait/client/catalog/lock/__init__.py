"""The lockfile: tools as reviewed, and how they changed since."""
