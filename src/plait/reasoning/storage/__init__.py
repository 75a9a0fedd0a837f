"""Where sessions are kept: SQLite by default, PostgreSQL for several servers."""
