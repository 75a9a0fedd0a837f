"""The engine on LangGraph agents, with any chat model of LangChain."""
