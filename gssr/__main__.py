"""``python -m gssr``."""

import sys

from gssr.cli import main

sys.exit(main())
