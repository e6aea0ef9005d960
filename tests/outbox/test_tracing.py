"""W3C trace context goes along when the program uses OpenTelemetry, and is never asked for otherwise."""

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sendonce import Draft, Outbox
from sendonce.outbox.entries import trace_headers
from tests.outbox.databases import Address, recording

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def use_span(monkeypatch: pytest.MonkeyPatch, *, is_valid: bool = True, state: str = "") -> None:
    context = SimpleNamespace(
        is_valid=is_valid,
        trace_id=0x0AF7651916CD43DD8448EB211C80319C,
        span_id=0xB7AD6B7169203331,
        trace_flags=1,
        trace_state=SimpleNamespace(to_header=lambda: state),
    )
    api: Any = ModuleType("opentelemetry.trace")
    api.get_current_span = lambda: SimpleNamespace(get_span_context=lambda: context)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", api)


def published_headers(address: Address, **named: Any) -> dict[str, str] | None:
    with recording(address) as connection:
        Outbox().publish_many(connection, [Draft("a", {}, key="a", to=None, **named)])
    ((headers,),) = address.look("select headers from sendonce_events")
    return None if headers is None else dict(json.loads(headers))


def test_current_span_goes_along(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    use_span(monkeypatch, state="vendor=1")

    headers = published_headers(address, headers={"x-own": "1"})

    assert headers == {"traceparent": PARENT, "tracestate": "vendor=1", "x-own": "1"}


def test_trace_that_the_caller_names_stays(sqlite_address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    use_span(monkeypatch, state="vendor=1")

    assert published_headers(sqlite_address, headers={"Traceparent": "own"}) == {"Traceparent": "own"}


def test_trace_without_room_is_left_out(sqlite_address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    use_span(monkeypatch, state="vendor=1")
    full = {f"x-{number}": "a" for number in range(64)}

    assert published_headers(sqlite_address, headers=full) == full


def test_headers_are_unchanged_without_a_valid_span(sqlite_address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    use_span(monkeypatch, is_valid=False)

    assert published_headers(sqlite_address) is None


def test_tracing_imports_nothing_without_opentelemetry(
    sqlite_address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)

    assert published_headers(sqlite_address) is None
    assert "opentelemetry" not in sys.modules


def test_event_with_another_trace_is_still_a_duplicate(
    sqlite_address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    published_headers(sqlite_address)
    use_span(monkeypatch)
    with recording(sqlite_address) as connection:
        assert Outbox().publish(connection, "a", {}, key="a", to=None).duplicate


def test_opentelemetry_itself_says_the_same() -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    context = trace.SpanContext(
        0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, True, trace.TraceFlags(1), trace.TraceState()
    )
    with trace.use_span(trace.NonRecordingSpan(context)):
        assert trace_headers() == {"traceparent": PARENT}
    assert trace_headers() == {}
