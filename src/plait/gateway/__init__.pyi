from plait.client.config.servers import ReconnectPolicy as ReconnectPolicy
from plait.gateway.configuration import GatewayOptions as GatewayOptions
from plait.gateway.configuration import (
    McpToolServerConfigurationService as McpToolServerConfigurationService,
)
from plait.gateway.credentials import GatewayRequestOptions as GatewayRequestOptions
from plait.gateway.history import Activity as Activity
from plait.gateway.history import Authorization as Authorization
from plait.gateway.history import ChatHistoryMessage as ChatHistoryMessage
from plait.gateway.history import Conversation as Conversation
from plait.gateway.history import ExchangedToken as ExchangedToken
from plait.gateway.history import OperationError as OperationError
from plait.gateway.history import OperationResult as OperationResult
from plait.gateway.history import TurnContext as TurnContext
from plait.gateway.manifest import GatewayServer as GatewayServer
from plait.gateway.manifest import ServerList as ServerList
from plait.gateway.manifest import SkippedServer as SkippedServer
from plait.gateway.outbox import Outbox as Outbox
from plait.gateway.outbox import OutboxEntry as OutboxEntry
from plait.gateway.registration import GatewayToolsMiddleware as GatewayToolsMiddleware
from plait.gateway.registration import McpToolRegistrationService as McpToolRegistrationService
from plait.gateway.registration import Registration as Registration
