"""The names under which a broker carries what belongs to a message: channels write them, consumers read them.

RabbitMQ and NATS have a place of their own for the token (message_id, Nats-Msg-Id); it is in the headers all the same.
"""

from enum import StrEnum

MESSAGE_ID = "sendonce-id"
TYPE = "sendonce-type"
SUBJECT = "sendonce-subject"
ATTEMPT = "sendonce-attempt"
# The fields of a Redis stream's entry. FIELD_HEADERS is a JSON object with the names above and the event's headers.
FIELD_ID, FIELD_TYPE, FIELD_BODY, FIELD_CONTENT_TYPE, FIELD_HEADERS = "id", "type", "body", "content-type", "headers"


class Format(StrEnum):
    """How a message is written: as it was recorded, or as a CloudEvent 1.0."""

    PLAIN = "plain"
    STRUCTURED = "cloudevents"
    BINARY = "cloudevents-binary"
