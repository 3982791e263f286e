"""`python -m holdfast`: the command line, without needing the `holdfast` script on the PATH."""

from __future__ import annotations

import sys


def run() -> None:
    """Run the command line; its libraries are imported here and not when somebody imports Holdfast."""
    from holdfast.cli.app import main

    sys.exit(main())


if __name__ == "__main__":
    run()
