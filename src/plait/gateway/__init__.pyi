from plait.client.config.timing import ReconnectPolicy as ReconnectPolicy
from plait.gateway.configuration import GatewayOptions as GatewayOptions
from plait.gateway.configuration import (
    McpToolServerConfigurationService as McpToolServerConfigurationService,
)
from plait.gateway.connections import Registration as Registration
from plait.gateway.entries import GatewayServer as GatewayServer
from plait.gateway.entries import ServerList as ServerList
from plait.gateway.entries import SkippedServer as SkippedServer
from plait.gateway.headers import GatewayRequestOptions as GatewayRequestOptions
from plait.gateway.history import ChatHistoryMessage as ChatHistoryMessage
from plait.gateway.history import OperationError as OperationError
from plait.gateway.history import OperationResult as OperationResult
from plait.gateway.middleware import GatewayToolsMiddleware as GatewayToolsMiddleware
from plait.gateway.outbox import Outbox as Outbox
from plait.gateway.outbox import OutboxEntry as OutboxEntry
from plait.gateway.port import Activity as Activity
from plait.gateway.port import Authorization as Authorization
from plait.gateway.port import Conversation as Conversation
from plait.gateway.port import ExchangedToken as ExchangedToken
from plait.gateway.port import TurnContext as TurnContext
from plait.gateway.registration import McpToolRegistrationService as McpToolRegistrationService
