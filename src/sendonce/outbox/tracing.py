"""W3C trace context of the current span, when the program around us uses OpenTelemetry. Never imports it."""

import sys
from collections.abc import Mapping

from sendonce.domain.events import has_room
from sendonce.errors import BadEvent


def with_trace(headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """The caller's headers with the current span's beside them; a trace that the caller names stays."""
    if headers is not None and not isinstance(headers, Mapping):
        raise BadEvent(f"headers must be texts by name, not a {type(headers).__name__}")
    trace = trace_headers()
    if not trace or any(str(name).lower() == "traceparent" for name in headers or ()):
        return headers
    traced = {**trace, **(headers or {})}
    # A trace is for the reader's comfort: it must not be why something cannot be recorded.
    return traced if has_room(traced) else headers


def trace_headers() -> dict[str, str]:
    """`traceparent` and `tracestate` of the current span; nothing without one."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return {}
    span = api.get_current_span().get_span_context()
    if not span.is_valid:
        return {}
    headers = {"traceparent": f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"}
    if state := span.trace_state.to_header():
        headers["tracestate"] = state
    return headers
