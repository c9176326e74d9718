"""The findings of runs that grow, made anew only where there is something new."""

from __future__ import annotations

import collections
import threading
from typing import DefaultDict, Dict, Iterable, List, Optional, Tuple

from tb_mindformers_plugin.health.diagnose import diagnose
from tb_mindformers_plugin.health.finding import Finding
from tb_mindformers_plugin.health.parameters import Parameters
from tb_mindformers_plugin.health.rules import stalled
from tb_mindformers_plugin.runs.silence import goes_on
from tb_mindformers_plugin.runs.store import Store
from tb_mindformers_plugin.runs.summary import RunSummary

_DAY = 86_400.0

# Whether a run is believed to go on, and how silent it is in the steps that make a difference to rule `stalled`.
_Silence = Tuple[bool, int]


class Diagnoses:
    """The findings of each run, kept until the run has changed. It may be asked by several threads.

    Args:
      parameters: rule id -> its parameters where they are not the defaults, None where it is off.
    """

    def __init__(self, parameters: Optional[Parameters] = None) -> None:
        self.parameters: Parameters = parameters or {}
        # (run, baseline) -> what they and the run's silence were, and what was found.
        self._known: Dict[
            Tuple[str, Optional[str]], Tuple[RunSummary, Optional[RunSummary], _Silence, List[Finding]]
        ] = {}
        # The tab asks for the listing and for findings at once: who comes second waits for what the first finds.
        self._locks: DefaultDict[str, threading.Lock] = collections.defaultdict(threading.Lock)

    def of(
        self,
        store: Store,
        summary: RunSummary,
        now: Optional[float] = None,
        baseline: Optional[RunSummary] = None,
    ) -> Optional[List[Finding]]:
        """Returns the findings of a run; None for one that was only peeked into: nothing is known of it yet.

        Args:
          store: where the runs are.
          summary: of the run, as the store has it.
          now: seconds since the Unix epoch, for what is told from the run's age.
          baseline: of the run that it is compared with; of itself there is nothing to compare.
        """
        if not summary.exact:
            return None
        if baseline is not None and baseline.name == summary.name:
            baseline = None
        names = summary.name, None if baseline is None else baseline.name
        silence = self._silence(summary, now)
        with self._locks[summary.name]:
            known = self._known.get(names)
            if known is None or known[0] is not summary or known[1] is not baseline or known[2] != silence:
                try:
                    loaded = store.load([name for name in names if name is not None])
                except KeyError:  # a run is gone since
                    return None
                reference = None if baseline is None else loaded[baseline.name]
                known = summary, baseline, silence, diagnose(loaded[summary.name], self.parameters, now, reference)
                self._known[names] = known
            return known[3]

    def forget_others(self, names: Iterable[str]) -> None:
        """Forgets runs that are not among `names`."""
        kept = set(names)
        self._known = {names: known for names, known in self._known.items() if names[0] in kept}

    def _silence(self, summary: RunSummary, now: Optional[float]) -> _Silence:
        if now is None or summary.ended is not None or summary.last_wall is None:
            return False, 0
        silent = max(now - summary.last_wall, 0.0)
        # Both bounds are of the first role here, and of the loss in the rules; where that makes them later, the
        # rules are asked again.
        running = goes_on(silent, summary.interval)
        bounds = self.parameters.get("stalled", stalled.Parameters())
        if bounds is None:
            return running, 0
        usual = max(bounds.seconds, bounds.intervals * summary.interval)
        return running, min(int(silent / usual) if usual > 0 else silent > 0, 3) + (4 if silent > _DAY else 0)
