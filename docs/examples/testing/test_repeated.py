import pytest

from plait import Message, ModelConfig, get_agent
from plait.testing import AnthropicServer, Say


@pytest.mark.plait(repeat=5, threshold=0.8)
def test_the_agent_knows_that_the_shop_is_closed() -> None:
    with AnthropicServer([Say("It is closed.")], only_with_tools=False) as api:
        model = ModelConfig(
            id="clerk",
            interface="claude_tool",
            model_name="claude-haiku-5-5",
            anthropic_base_url=api.url,
            anthropic_api_key="any",  # pyright: ignore[reportArgumentType]
        )
        result = get_agent(model).run([Message.user("Is the shop open on Sunday?")])

    assert "closed" in result.final_response
