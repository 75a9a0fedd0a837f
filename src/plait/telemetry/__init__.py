"""OpenTelemetry spans of calls and runs, and the observers that tests and programs pass."""
