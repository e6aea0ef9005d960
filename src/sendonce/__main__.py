"""`python -m sendonce` is the same as `sendonce`."""

import sys

from sendonce.cli import main

if __name__ == "__main__":
    sys.exit(main())
