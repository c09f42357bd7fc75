"""The console script `agentgym`."""

from __future__ import annotations

import logging
import sys


def main() -> None:
    """Run the command line; errors that agentgym raises on purpose are one line and exit status 2."""
    from agentgym.cli.app import app
    from agentgym.cli.console import LogToConsole, fail
    from agentgym.core.errors import AgentgymError

    logger = logging.getLogger("agentgym")
    logger.addHandler(LogToConsole())
    logger.setLevel(logging.INFO)
    try:
        app()
    except AgentgymError as error:
        fail(str(error))
        sys.exit(2)
    except KeyboardInterrupt:
        fail("interrupted; what is finished is stored: run the same command again to go on")
        sys.exit(130)
