"""Ways to reach one server, and the mending of what servers send."""
