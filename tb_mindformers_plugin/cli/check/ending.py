"""Ctrl-C and SIGTERM, for work that is ended between two looks."""

from __future__ import annotations

import signal
import time
from types import TracebackType
from typing import Any, Optional, Type

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Ending:
    """Takes note of Ctrl-C and SIGTERM, so that a look is brought to its end; a second one ends it at once.

    To be used as a context, by the main thread.
    """

    def __init__(self) -> None:
        self._asked = False
        self._sleeping = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Ending:
        self._before = {number: signal.signal(number, self._ask) for number in _SIGNALS}
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def sleep(self, seconds: float) -> bool:
        """Returns True after so many seconds, False as soon as it is to end."""
        try:
            # In this order: a signal is either seen below, or raises from here on.
            self._sleeping = True
            if not self._asked:
                time.sleep(seconds)
        except KeyboardInterrupt:
            self._asked = True
        finally:
            self._sleeping = False
        return not self._asked

    def _ask(self, *_: Any) -> None:
        if self._asked or self._sleeping:
            raise KeyboardInterrupt
        self._asked = True
