from plait import AgentConfig, Message, ModelConfig, get_agent
from plait.agents import ManualTraces
from plait.traces import hash_question

QUESTION = "Is the shop open?"

recordings = ManualTraces()
recordings.register_trace(
    QUESTION,
    [Message.user(QUESTION), Message.assistant("It is open until six.")],
    map_to_id=True,
)

agent = get_agent(ModelConfig(interface="manual", manual_traces=recordings))
result = agent.run(
    [Message.user(QUESTION)], config=AgentConfig(question_hash=hash_question(QUESTION))
)
print(result.final_response)
print(result.raw_trace)
