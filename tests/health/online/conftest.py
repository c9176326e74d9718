from __future__ import annotations

import pathlib
import sys

from checkout import ROOT

# The curves of the benchmarks, the healthy ones of the other tests, and what replays them.
sys.path[:0] = [str(ROOT / "benchmarks"), *map(str, (pathlib.Path(__file__).parent, pathlib.Path(__file__).parents[1]))]
