"""The modes of reasoning: each computes first, and says what to write."""
