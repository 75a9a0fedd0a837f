from plait import AgentConfig, Message, ModelConfig, get_agent
from plait.testing import OpenAIServer, Say
from plait.traces import read_trace

with OpenAIServer([Say("It is 20 °C."), Say("68 °F.")]) as api:
    agent = get_agent(
        ModelConfig(
            id="endpoint",
            interface="openai_endpoint",
            model_name="test-model",
            endpoint_base_url=api.base_url,
        )
    )
    agent.run([Message.user("How warm is it?")], config=AgentConfig(trace="runs.jsonl"))

    earlier = read_trace("runs.jsonl")
    messages = [*earlier.conversation, Message.user("And in Fahrenheit?")]
    config = AgentConfig(trace="runs.jsonl", continues=earlier)
    print(agent.run(messages, config=config).final_response)

for message in read_trace("runs.jsonl").conversation:
    print(f"{message.role}: {message.text}")
