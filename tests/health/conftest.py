from __future__ import annotations

import sys

from checkout import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))  # its curves of healthy and faulty runs
