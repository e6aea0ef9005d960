"""What a broker is given of a message: its headers, its trace context and its token; or the same as a CloudEvent."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any
from urllib.parse import quote

from sendonce.channels.protocol import Message
from sendonce.domain.carried import ATTEMPT, MESSAGE_ID, SUBJECT, TYPE, Format

JSON, CLOUD_EVENT = "application/json", "application/cloudevents+json"
# Names that are ours or the broker's: a header of NATS can empty a whole stream.
_OURS = ("sendonce-", "nats-", "ce-", "ce_", "cloudevents", "content-type", "x-death")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}", re.ASCII)
_VALUE = re.compile("[^\x00-\x1f\x7f\ud800-\udfff]*")
_TRACE = ("traceparent", "tracestate")


@dataclass(frozen=True, slots=True)
class Wire:
    """What goes over the wire."""

    body: bytes
    headers: Mapping[str, str]
    content_type: str = JSON


class Writer:
    """Writes messages for one profile. `prefix` begins the names of a CloudEvent's attributes on this broker; some
    brokers take ASCII in headers only (`is_ascii`)."""

    def __init__(self, format: str, source: str, *, prefix: str, is_ascii: bool = False) -> None:
        self._format = Format(format)
        self._source = source
        self._prefix = prefix
        self._encoded = _percent if is_ascii else str

    def wire(self, message: Message, token: str) -> Wire:
        """Return what is sent; the same for every attempt but for its number."""
        headers = given(message.headers) if message.headers else {}
        if self._format is Format.PLAIN:
            return Wire(message.body.encode(), {**headers, **self._ours(message, token)})
        attributes = self._attributes(message, token, headers)
        if self._format is Format.BINARY:
            named = {self._prefix + name: self._encoded(value) for name, value in attributes.items()}
            return Wire(message.body.encode(), {**headers, **named, MESSAGE_ID: token})
        body = f'{json.dumps(attributes, ensure_ascii=False)[:-1]}, "data": {_data(message)}}}'
        return Wire(body.encode(), {**headers, MESSAGE_ID: token}, CLOUD_EVENT)

    def _ours(self, message: Message, token: str) -> dict[str, str]:
        ours = {MESSAGE_ID: token, TYPE: message.type, ATTEMPT: str(message.attempt)}
        if message.subject is not None:
            ours[SUBJECT] = self._encoded(message.subject)
        return ours

    def _attributes(self, message: Message, token: str, headers: Mapping[str, str]) -> dict[str, str]:
        moment = message.recorded_at.astimezone(UTC).isoformat(timespec="microseconds")
        attributes = {
            "specversion": "1.0",
            "id": token,
            "source": self._source,
            "type": message.type,
            "time": moment.replace("+00:00", "Z"),
            "datacontenttype": JSON,
        }
        if message.subject:
            attributes["subject"] = message.subject
        return attributes | {name: headers[name] for name in _TRACE if name in headers}


def given(text: str) -> dict[str, str]:
    """An event's headers that may go along, by their names in lower case: none of ours or the broker's."""
    found: dict[str, Any] = json.loads(text)
    return {
        name.lower(): value
        for name, value in found.items()
        if not name.lower().startswith(_OURS)
        and _NAME.fullmatch(name)
        and isinstance(value, str)
        and _VALUE.fullmatch(value)
    }


def _data(message: Message) -> str:
    """The event's payload is JSON; a destination's own content may be any text."""
    if not message.has_content:
        return message.body
    try:
        json.loads(message.body)
    except (ValueError, RecursionError):
        return json.dumps(message.body)
    return message.body


def _percent(text: str) -> str:
    """As CloudEvents wants header values of protocols that take ASCII alone."""
    return (
        text if text.isascii() and not {'"', "%", " "} & set(text) else quote(text, safe="!#$&'()*+,/:;=?@[]~{}|^`<>\\")
    )
