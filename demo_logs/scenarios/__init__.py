"""The demo runs: one function each, all real trainings of small nets on a CPU."""
