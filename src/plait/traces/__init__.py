"""What happened in a run of an agent: events, written as they happen, and what is made of them."""
