"""Saying what went wrong once, and going on: a callback must never stop a training."""

from __future__ import annotations

import logging
from typing import Optional

logger = logging.getLogger("tb_mindformers_plugin")


class Complaints:
    """Logs each topic once per training, at warning; its traceback, if any, at debug."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, topic: str, message: str, error: Optional[BaseException] = None) -> None:
        """Logs `message`, unless something was said about `topic` before."""
        if topic in self._said:
            return
        self._said.add(topic)
        if error is None:
            logger.warning("Training Health: %s", message)
        else:
            logger.warning("Training Health: %s (%s: %s)", message, type(error).__name__, error)
            logger.debug("Training Health: traceback of the above", exc_info=error)
