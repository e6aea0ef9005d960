"""Run it: python -m apps.chancepay.requests migrate, then serve."""

import sys

from apps.chancepay.requests.api import PLACE, build
from apps.chancepay.service import Service, main

sys.exit(main(Service("requests", PLACE, build)))
