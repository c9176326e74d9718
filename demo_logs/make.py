"""Makes the demo logs: real MindSpore trainings on a CPU, written by the bundled callback.

    python demo_logs/make.py                      # all of them, into demo_logs
    python demo_logs/make.py --only overfit_with_eval --out logs

Needs mindspore and mindformers, the tested pair is in README.md. Each run is a process of its own.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

#: run -> module of its scenario function, which has the run's name.
SCENARIOS = {
    "healthy_warmup_cosine": "char_training",
    "lr_too_high": "char_training",
    "lr_too_high_nan": "char_training",
    "grad_explosion_recovered": "char_training",
    "grad_explosion_kept_lr": "char_training",
    "grad_explosion_reduced_lr": "char_training",
    "dynamic_loss_scale_overflow": "loss_scaling",
    "overfit_with_eval": "char_training",
    "killed_and_resumed": "char_training",
    "mindformers_tiny_llama": "tiny_llama",
}


def run_scenario(name: str, run_dir: str) -> None:
    """Trains one scenario in this process."""
    # Event files carry the name of the machine in theirs.
    socket.gethostname = lambda: "demo"
    module = importlib.import_module(f"scenarios.{SCENARIOS[name]}")
    getattr(module, name)(Path(run_dir))


def main() -> int:
    """Runs the scenarios one after the other, each in a working directory that is thrown away."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", action="append", choices=sorted(SCENARIOS), metavar="NAME", help="make this run alone"
    )
    parser.add_argument("--out", type=Path, default=HERE, help="directory of the runs")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    path = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "GLOG_v": "3", "PYTHONHASHSEED": "0"}
    environment.pop("DEMO_FIRST_START", None)
    for name in arguments.only or SCENARIOS:
        run_dir = out / name
        shutil.rmtree(run_dir, ignore_errors=True)
        print(f"{name} …", flush=True)
        code = f"import make; make.run_scenario({name!r}, {str(run_dir)!r})"
        with tempfile.TemporaryDirectory() as work, tempfile.TemporaryFile("w+", errors="replace") as said:
            # mindformers prints its whole configuration.
            command = [sys.executable, "-c", code]
            if subprocess.run(command, cwd=work, env=environment, stdout=said, stderr=said, check=False).returncode:
                said.seek(0)
                sys.exit(f"{name} failed:\n{said.read()[-5000:]}")
        subprocess.run([sys.executable, str(HERE / "summary.py"), str(run_dir)], env=environment, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
