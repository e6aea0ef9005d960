"""Consumers: handlers that are fed from message brokers, each message once in effect."""

from sendonce.consumer.incoming import Incoming, Taken
from sendonce.consumer.registry import Consumer, Consumers, Mode
from sendonce.errors import BadMessage

__all__ = ["BadMessage", "Consumer", "Consumers", "Incoming", "Mode", "Taken"]
