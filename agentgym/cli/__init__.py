"""The console script `agentgym`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path


def main() -> None:
    """Run the command line; errors that agentgym raises on purpose are one line and exit status 2."""
    from agentgym.cli.app import app
    from agentgym.cli.console import LogToConsole, fail
    from agentgym.core.errors import AgentgymError

    logger = logging.getLogger("agentgym")
    logger.addHandler(LogToConsole())
    logger.setLevel(logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # an interrupt leaves worker processes to it, which it tells
    sys.path.append(str(Path.cwd()))  # environments of one's own, `module:Id-v0`, are looked for where one stands, too
    try:
        app()
    except AgentgymError as error:
        fail(str(error))
        sys.exit(2)
    except KeyboardInterrupt:
        fail("interrupted; what is finished is stored: run the same command again to go on")
        sys.exit(130)
