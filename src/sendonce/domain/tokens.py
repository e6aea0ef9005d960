"""The provider token: the same for every attempt, requeue, replay and restore of one intent."""

from sendonce.domain.texts import digest

TOKEN_LENGTH = 40


def provider_token(namespace: str, tenant: str, type: str, key: str, destination: str, corrections: int) -> str:
    """40 hexadecimal digits over the intent. Never the generation or a row id: those change on a restore."""
    return digest(namespace, tenant, type, key, destination, str(corrections)).hex()[:TOKEN_LENGTH]
