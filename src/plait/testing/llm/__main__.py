"""Run a stand-in for a model: `python -m plait.testing.llm anthropic`."""

from plait.testing.llm.program import main

if __name__ == "__main__":
    main()
