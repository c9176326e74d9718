"""Memory in use, of this process and of its device."""

from __future__ import annotations

import os

import mindspore

GIB = float(1 << 30)
TAGS = ("memory/host", "memory/device_allocated", "memory/device_peak")


def read_memory() -> dict[str, float]:
    """Returns {tag: GiB}: the resident memory of this process (Linux), what MindSpore has allocated on the device
    and the most that it had. A CPU's share is all in the first. Nothing waits for the device.
    """
    found = {}
    resident = _resident_bytes()
    if resident:
        found[TAGS[0]] = resident / GIB
    runtime = getattr(mindspore, "runtime", None) or getattr(mindspore, "hal", None)
    for tag, name in zip(TAGS[1:], ("memory_allocated", "max_memory_allocated")):
        allocated = getattr(runtime, name, lambda: 0)()
        if allocated:
            found[tag] = allocated / GIB
    return found


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
