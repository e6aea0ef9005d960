"""Run it: python -m apps.chancepay.wallet migrate, then serve, and listen in another terminal."""

import sys

from apps.chancepay.service import Service, main
from apps.chancepay.wallet.api import PLACE, build
from apps.chancepay.wallet.listener import listen

sys.exit(main(Service("wallet", PLACE, build, {"listen": listen})))
