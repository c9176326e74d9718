"""A last word on SIGTERM, by which cluster schedulers end a job."""

from __future__ import annotations

import logging
import os
import signal
import threading
from types import FrameType
from typing import Any, Callable, Optional

logger = logging.getLogger("tb_mindformers_plugin")


def at_sigterm(action: Callable[[], None]) -> Callable[[], None]:
    """Has `action` run when SIGTERM comes, before what would have happened without it.

    Python runs the handler between two of its instructions: while a step computes on the device, after
    that.

    Returns:
      A function that undoes it.

    Raises:
      ValueError: this is not the main thread, where Python handles signals.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ValueError("handle_sigterm needs the main thread: Python handles signals there alone")

    def handle(number: int, frame: Optional[FrameType]) -> None:
        undo()
        try:
            action()
        except Exception as error:
            logger.warning("Training Health: the end by SIGTERM cannot be written (%s)", error)
        if callable(before):
            before(number, frame)
        elif before != signal.SIG_IGN:
            os.kill(os.getpid(), number)

    def undo() -> None:
        if signal.getsignal(signal.SIGTERM) is handle:
            # None: a handler that was not set from Python, and that it cannot set again.
            signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)

    before: Any = signal.signal(signal.SIGTERM, handle)
    return undo
