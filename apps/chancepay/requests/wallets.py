"""Which wallets there are, as far as this side knows: asked once each, because a wallet never goes away."""

from apps.chancepay.peer import Peer, PeerFailed

_MOST = 100_000
_SECONDS = 1.0


class KnownWallets:
    def __init__(self, wallet: Peer) -> None:
        self._wallet = wallet
        self._known: set[str] = set()

    async def may_have(self, name: str) -> bool:
        """False when there surely is no such wallet.

        Asked for the caller's sake alone. When the wallet's side cannot answer now, it decides later: a payment from
        a wallet that is not there has FAILED then.
        """
        if name in self._known:
            return True
        try:
            await self._wallet.ask("GET", f"/internal/wallets/{name}", seconds=_SECONDS)
        except PeerFailed as error:
            return error.status != 404
        if len(self._known) < _MOST:
            self._known.add(name)
        return True
