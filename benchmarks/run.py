"""Measures the questions and prints a table for each.

python benchmarks/run.py --dir DIR [--scale 0.05] [--repeat 5] [--only P1,P4]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import pathlib
import platform
import sys
import tempfile
import time
import traceback

QUESTIONS = {
    "P1": "cold_load",
    "P2": "memory",
    "P3": "window",
    "P4": "all_runs",
    "P5": "refresh",
    "P6": "browser",
    "P10": "diagnosis",
    "P11": "growth",
    "spike": "spike",
}
_PACKAGES = (
    "tb-mindformers-plugin",
    "numpy",
    "protobuf",
    "tensorboard",
    "tensorboard-data-server",
    "tbparse",
    "tb-like",
    "playwright",
)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--dir",
        type=pathlib.Path,
        default=pathlib.Path(tempfile.gettempdir()) / "training-health-benchmarks",
        help="where the sets are kept: 2.4 GB at scale 1 (default: %(default)s)",
    )
    parser.add_argument("--scale", type=float, default=1.0, help="smaller sets, for a quick try (default: 1)")
    parser.add_argument("--repeat", type=int, default=5, help="measurements of each kind (default: 5)")
    parser.add_argument("--only", default=",".join(QUESTIONS), help="questions, separated by commas (default: all)")
    arguments = parser.parse_args()
    asked = arguments.only.split(",")
    for question in asked:
        if question not in QUESTIONS:
            parser.error(f"question {question!r} is unknown; known: {', '.join(QUESTIONS)}")
    arguments.dir.mkdir(parents=True, exist_ok=True)
    print(f"$ python benchmarks/run.py {' '.join(sys.argv[1:])}\n")
    print(f"- {_versions()}")
    print(f"- {os.cpu_count()} cores ({platform.machine()}), load average {os.getloadavg()[0]:.1f} at the beginning")
    print(f"- scale {arguments.scale:g}; medians of {arguments.repeat} interleaved measurements\n", flush=True)
    failed = []
    for question in asked:
        begin = time.monotonic()
        try:
            module = importlib.import_module(QUESTIONS[question])
            for table in module.tables(arguments.dir, arguments.scale, arguments.repeat):
                print(f"{table}\n", flush=True)
        except Exception:  # one that cannot be asked here (no browser, say) must not cost the others their answers
            failed.append(question)
            print(f"### {question}: FAILED\n\n```\n{traceback.format_exc()}```\n", flush=True)
        print(f"(took {time.monotonic() - begin:.0f} s, load average {os.getloadavg()[0]:.1f})\n", flush=True)
    if failed:
        sys.exit(f"no figures for {', '.join(failed)}")


def _versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {package}")
    return ", ".join(found)


if __name__ == "__main__":
    main()
