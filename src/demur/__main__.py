"""`python -m demur` is the command line."""

import sys

from demur.cli.main import main

sys.exit(main())
