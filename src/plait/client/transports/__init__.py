"""Ways to reach one server, and the repairing of what servers send."""
