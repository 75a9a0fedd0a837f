"""Every exception of this package, in one tree.

```text
PlaitError
├── ConfigError                    a file, variable or argument must change
│   └── UnknownServerError
├── BlockingCallError              a blocking call on the thread that must do the work
├── ClientClosedError
├── TransportError
│   ├── ConnectError               no session could be opened (alias: MCPClientError)
│   │   ├── ConnectTimeoutError
│   │   ├── EndpointNotFoundError  HTTP 404 where the server should be
│   │   └── CircuitOpenError       not tried: the server has just failed repeatedly
│   ├── ConnectionLostError        the session ended and the request had not left
│   ├── SendError                  the request could not be sent
│   ├── ListTimeoutError
│   ├── CallTimeoutError
│   └── RunDeadlineError
├── ProtocolError                  a JSON-RPC error answer
├── DomainError
│   ├── ToolFailedError            the tool ran and said isError
│   ├── ToolNotFoundError
│   ├── InvalidArgumentsError      the arguments do not fit the tool; nothing was sent
│   ├── InputNeededError           the server wants answers that only the caller can get
│   ├── InputRefusedError          the server asked for something that this client does not give
│   ├── ResourceNotFoundError
│   ├── ResultExpiredError         a shortened result is not kept any more
│   ├── BudgetExceededError        the run has made as many calls as it may
│   └── PermissionDeniedError      our own policy refused
├── HttpError                      any other HTTP status
│   ├── AuthRequiredError          401
│   ├── ForbiddenError             403
│   ├── RateLimitedError           429
│   └── ServerError                5xx
├── OutcomeUnknownError            sent, answer lost, and the tool may not be run twice
├── ReasoningError                 of the reasoning server
│   ├── BackendError               whoever writes the thoughts could not be reached, or refused
│   ├── ReplyError                 it answered, but not with the JSON that was asked for
│   ├── HostHasNoModelError        the caller is to write the thoughts; nobody else can
│   └── RefusedError               the call does not fit; nothing was changed
├── AgentError                     of a run of an agent
│   ├── EngineError
│   │   ├── EngineUnavailableError    the engine cannot be used here
│   │   ├── AgentExecutionError        the run could not go on
│   │   │   └── AgentTimeoutError
│   │   ├── AgentResponseError         the model answered nothing that can be used
│   │   ├── ParseError                 an answer is not in the form that was asked for
│   │   └── ManualTraceError           recorded answers cannot be used
│   │       ├── ManualEngineError   asked for what a recording cannot do
│   │       └── ManualTraceNotFoundError
│   ├── AgentServerError                       the servers of a run
│   │   ├── AgentServerTimeoutError
│   │   ├── AgentServerConnectError
│   │   └── AgentServerConfigError
│   └── TraceFormatError               a file is not a trace that can be read
├── ContentError
└── GatewayError                   a gateway, a manifest or a token is at fault
    ├── ManifestError              ToolingManifest.json must change
    ├── DiscoveryError             the gateway did not say which servers an agent has
    ├── TokenError                 a token is missing, malformed or over, or was not given out
    ├── ChatHistoryError           chat history did not arrive
    └── OutboxError                the outbox is full, or its file cannot be used
```
"""

from plait.errors.agents import (
    AgentError,
    AgentExecutionError,
    AgentResponseError,
    AgentServerConfigError,
    AgentServerConnectError,
    AgentServerError,
    AgentServerTimeoutError,
    AgentTimeoutError,
    EngineError,
    EngineUnavailableError,
    ManualEngineError,
    ManualTraceError,
    ManualTraceNotFoundError,
    ParseError,
    TraceFormatError,
)
from plait.errors.base import (
    AuthRequiredError,
    BlockingCallError,
    BudgetExceededError,
    CallTimeoutError,
    CircuitOpenError,
    ClientClosedError,
    ConfigError,
    ConnectError,
    ConnectionLostError,
    ConnectTimeoutError,
    ContentError,
    DomainError,
    EndpointNotFoundError,
    ErrorKind,
    ForbiddenError,
    HttpError,
    InputNeededError,
    InputRefusedError,
    InvalidArgumentsError,
    ListTimeoutError,
    MCPClientError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PlaitError,
    Problem,
    ProtocolError,
    RateLimitedError,
    ResourceNotFoundError,
    ResultExpiredError,
    RetryAdvice,
    RunDeadlineError,
    SendError,
    ServerError,
    ToolFailedError,
    ToolNotFoundError,
    TransportError,
    UnknownServerError,
)
from plait.errors.gateway import (
    ChatHistoryError,
    DiscoveryError,
    GatewayError,
    ManifestError,
    OutboxError,
    TokenError,
)
from plait.errors.reasoning import (
    BackendError,
    HostHasNoModelError,
    ReasoningError,
    RefusedError,
    ReplyError,
)

__all__ = [
    "AgentError",
    "AgentExecutionError",
    "AgentResponseError",
    "AgentServerConfigError",
    "AgentServerConnectError",
    "AgentServerError",
    "AgentServerTimeoutError",
    "AgentTimeoutError",
    "AuthRequiredError",
    "BackendError",
    "BlockingCallError",
    "BudgetExceededError",
    "CallTimeoutError",
    "ChatHistoryError",
    "CircuitOpenError",
    "ClientClosedError",
    "ConfigError",
    "ConnectError",
    "ConnectTimeoutError",
    "ConnectionLostError",
    "ContentError",
    "DiscoveryError",
    "DomainError",
    "EndpointNotFoundError",
    "EngineError",
    "EngineUnavailableError",
    "ErrorKind",
    "ForbiddenError",
    "GatewayError",
    "HostHasNoModelError",
    "HttpError",
    "InputNeededError",
    "InputRefusedError",
    "InvalidArgumentsError",
    "ListTimeoutError",
    "MCPClientError",
    "ManifestError",
    "ManualEngineError",
    "ManualTraceError",
    "ManualTraceNotFoundError",
    "OutboxError",
    "OutcomeUnknownError",
    "ParseError",
    "PermissionDeniedError",
    "PlaitError",
    "Problem",
    "ProtocolError",
    "RateLimitedError",
    "ReasoningError",
    "RefusedError",
    "ReplyError",
    "ResourceNotFoundError",
    "ResultExpiredError",
    "RetryAdvice",
    "RunDeadlineError",
    "SendError",
    "ServerError",
    "TokenError",
    "ToolFailedError",
    "ToolNotFoundError",
    "TraceFormatError",
    "TransportError",
    "UnknownServerError",
]
