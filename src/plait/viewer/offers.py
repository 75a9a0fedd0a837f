"""What a server page shows beside tools: questions that wait, resources and prompts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from mcp_types import (
    BlobResourceContents,
    GetPromptResult,
    Prompt,
    ReadResourceResult,
    TextContent,
)

from plait.traces.html.elements import Child, Html, h
from plait.traces.html.labels import count_label
from plait.traces.html.text import image_block, result_block, text_block, value_block
from plait.traces.messages.content import ImageContent
from plait.viewer.connected import Offer
from plait.viewer.forms import form_of
from plait.viewer.questions import Question

Redact = Callable[[Any], Any]
URI = "uri"
"""The field of a form that reads a resource."""


def questions_part(questions: Sequence[Question]) -> Html:
    """Show the elicitations that wait for an answer."""
    return h(
        "div", [_question(one) for one in questions], id="questions", data_part=True, role="status"
    )


def _question(question: Question) -> Html:
    accept = {"question": question.key, "action": "accept"}
    decline = h(
        "button",
        "Decline",
        type="button",
        data_post="/servers/answer",
        data_target=json.dumps({**accept, "action": "decline"}),
    )
    done = h(
        "button",
        "Done",
        type="button",
        class_="primary",
        data_post="/servers/answer",
        data_target=json.dumps(accept),
    )
    body = (
        form_of(
            question.schema,
            action="/servers/answer",
            target=accept,
            label="Answer",
            beside=decline,
        )
        if question.schema is not None
        else h(
            "div",
            h("p", "The server wants you to visit this address: ", h("code", question.url)),
            h("div", done, decline, class_="actions"),
        )
    )
    return h(
        "section",
        h("h2", f"{question.server} asks"),
        text_block(question.message),
        body,
        class_="asks",
        id=f"q-{question.key}",
    )


def offer_part(server: str, offer: Offer, *, allow_calls: bool) -> Html:
    """Show the resources and prompts of a server."""
    found = len(offer.resources) + len(offer.templates)
    return h(
        "div",
        [h("h2", count_label(found, "resource")), _resources(server, offer, allow_calls)]
        if found
        else None,
        [
            h("h2", count_label(len(offer.prompts), "prompt")),
            [_prompt(server, one, allow_calls) for one in offer.prompts],
        ]
        if offer.prompts
        else None,
        id="offer",
        data_part=True,
    )


def _resources(server: str, offer: Offer, allow_calls: bool) -> list[Html]:
    listed = [(str(one.uri), one.description, one.mime_type) for one in offer.resources]
    templates = [(one.uri_template, one.description, one.mime_type) for one in offer.templates]
    return [
        _card(
            f"resource-{uri}",
            h("b", uri, class_="tool"),
            [one for one in (mime_type, "template" if is_template else None) if one],
            description,
            _reader(server, uri, is_template) if allow_calls else None,
        )
        for rows, is_template in ((listed, False), (templates, True))
        for uri, description, mime_type in rows
    ]


def _reader(server: str, uri: str, is_template: bool) -> Html:
    field = {"type": "string", "maxLength": 200, "default": uri, "description": "the address"}
    schema = {"type": "object", "properties": {URI: field} if is_template else {}}
    target = {"server": server, URI: uri}
    return form_of(schema, action="/servers/read", target=target, label="Read")


def prompt_schema(prompt: Prompt) -> dict[str, Any]:
    """Return the arguments of a prompt as a schema for its form."""
    fields = {one.name: {"type": "string"} for one in prompt.arguments or ()}
    for one in prompt.arguments or ():
        if one.description:
            fields[one.name]["description"] = one.description
    required = [one.name for one in prompt.arguments or () if one.required]
    return {"type": "object", "properties": fields, "required": required}


def _prompt(server: str, prompt: Prompt, allow_calls: bool) -> Html:
    target = {"server": server, "prompt": prompt.name}
    form = (
        form_of(prompt_schema(prompt), action="/servers/prompt", target=target, label="Get")
        if allow_calls
        else None
    )
    names = [f"{one.name}{'' if one.required else '?'}" for one in prompt.arguments or ()]
    title = [h("b", prompt.name, class_="tool"), h("code", f"({', '.join(names)})")]
    return _card(f"prompt-{prompt.name}", title, [], prompt.description, form)


def _card(
    key: str, title: Child, marks: Sequence[str], description: str | None, form: Html | None
) -> Html:
    text = (description or "").strip()
    return h(
        "details",
        h(
            "summary",
            title,
            " ",
            [h("span", mark, class_="badge") for mark in marks],
            h("span", text.partition("\n")[0], class_="peek"),
        ),
        text_block(text) if text else None,
        form or h("p", "Start with --allow-calls to read it from here.", class_="muted"),
        class_="a-tool",
        id=key,
    )


def resource_result(result: ReadResourceResult, redact: Redact) -> Html:
    """Show what a resource contains."""
    shown: list[Html] = []
    for one in result.contents:
        if isinstance(one, BlobResourceContents):
            shown.append(image_block(ImageContent(data=one.blob, mime_type=one.mime_type or "")))
        else:
            shown.append(result_block(redact(one.text)))
    return h("div", shown, class_="succeeded")


def prompt_result(result: GetPromptResult, redact: Redact) -> Html:
    """Show the messages of a prompt."""
    return h(
        "div",
        [
            [
                h("p", message.role, class_="role"),
                text_block(redact(message.content.text))
                if isinstance(message.content, TextContent)
                else value_block(
                    redact(message.content.model_dump(mode="json", by_alias=True)),
                ),
            ]
            for message in result.messages
        ],
        class_="succeeded",
    )
