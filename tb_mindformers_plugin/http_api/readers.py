"""What each reader of the runs sees: some gave roles to tags whose names say nothing."""

from __future__ import annotations

import collections
import threading
from typing import Optional

from tb_mindformers_plugin.health.diagnoses import Diagnoses
from tb_mindformers_plugin.health.parameters import Parameters
from tb_mindformers_plugin.roles import Given
from tb_mindformers_plugin.runs.given import GivenRoles
from tb_mindformers_plugin.runs.store import Store

# Readers whose summaries and findings are kept; of the others they are made anew.
_MOST = 8


class Readers:
    """The runs and their findings, by the roles that were given. It may be asked by several threads.

    Args:
      store: the runs.
      parameters: of the rules, as `Diagnoses` has them.
    """

    def __init__(self, store: Store, parameters: Optional[Parameters] = None) -> None:
        self._store = store
        self._parameters = parameters
        self._plain = Diagnoses(parameters)
        self._lock = threading.Lock()
        self._known: collections.OrderedDict[Given, tuple[Store, Diagnoses]] = collections.OrderedDict()

    def of(self, given: Given = ()) -> tuple[Store, Diagnoses]:
        """Returns the runs with these roles, and what is found in them."""
        if not given:
            return self._store, self._plain
        with self._lock:
            known = self._known.get(given)
            if known is None:
                known = GivenRoles(self._store, given), Diagnoses(self._parameters)
            self._known[given] = known
            self._known.move_to_end(given)
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
            return known
