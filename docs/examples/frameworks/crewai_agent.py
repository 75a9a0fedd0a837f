from crewai import Agent
from crewai.mcp import MCPServerStdio

clock = Agent(
    role="clock",
    goal="Tell the time.",
    backstory="You look at the clock.",
    llm="openai/gpt-5-mini",
    mcps=[MCPServerStdio(command="plait", args=["serve", "--config", "mcp.json"])],
)

print(clock.kickoff("What time is it in Berlin?").raw)
