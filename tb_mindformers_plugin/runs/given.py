"""The runs of a store as somebody sees them who gave roles to some of their tags."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Iterable, Mapping

from tb_mindformers_plugin.roles import Given
from tb_mindformers_plugin.runs.contents import RunContents
from tb_mindformers_plugin.runs.discovery import Discovery, Root
from tb_mindformers_plugin.runs.store import HasFiles, Store
from tb_mindformers_plugin.runs.summary import RunSummary, summarise


class GivenRoles:
    """A store whose runs have the roles that were given to their tags. It keeps no points of its own.

    Args:
      store: the runs.
      given: roles of tags.
    """

    def __init__(self, store: Store, given: Given) -> None:
        self._store = store
        self._given = tuple(given)
        self._tags = frozenset(tag for _, tag in given)
        self._contents: weakref.WeakKeyDictionary[RunContents, RunContents] = weakref.WeakKeyDictionary()
        # By name: what the store said last, and what that is with these roles.
        self._summaries: dict[str, tuple[RunSummary, RunSummary]] = {}

    @property
    def searched(self) -> tuple[Root, ...]:
        """Where runs are looked for."""
        return self._store.searched

    @property
    def discovery(self) -> Discovery:
        """What the last look found."""
        return self._store.discovery

    @property
    def runs(self) -> Mapping[str, HasFiles]:
        """Run name -> run, as of the last `refresh`."""
        return self._store.runs

    def refresh(self, max_age_seconds: float = 0.0) -> None:
        """Looks for what is new, unless that was done no longer ago than `max_age_seconds`."""
        self._store.refresh(max_age_seconds)

    def summaries(self, read_all: bool = False) -> list[RunSummary]:
        """Returns what a listing says of each run, in the order of their names."""
        found = {summary.name: self._summary(summary) for summary in self._store.summaries(read_all)}
        self._summaries = {name: known for name, known in self._summaries.items() if name in found}
        return list(found.values())

    def load(self, names: Iterable[str]) -> dict[str, RunContents]:
        """Returns all that is known of the named runs.

        Raises:
          KeyError: a run is unknown.
        """
        return {name: self._seen(contents) for name, contents in self._store.load(names).items()}

    def glance(self, name: str) -> tuple[RunContents, bool]:
        """Returns what a listing knows of a run, and whether that is all of it.

        Raises:
          KeyError: the run is unknown.
        """
        contents, exact = self._store.glance(name)
        return self._seen(contents), exact

    def is_active(self) -> bool:
        """Whether any run has a series with a known role, or a manifest."""
        return self._store.is_active()

    def _seen(self, contents: RunContents) -> RunContents:
        known = self._contents.get(contents)
        if known is None:
            known = contents.with_roles(self._given)
            if known is not contents:  # else it would keep itself
                self._contents[contents] = known
        return known

    def _summary(self, told: RunSummary) -> RunSummary:
        """A summary with these roles: the same one for the same one, as long as the run has not changed."""
        if self._tags.isdisjoint(told.tags):
            return told
        known = self._summaries.get(told.name)
        if known is not None and known[0] is told:
            return known[1]
        try:
            contents, exact = self.glance(told.name)
        except KeyError:  # gone since
            return told
        made = summarise(told.name, contents, exact and told.exact)
        # What the store itself says of a run it says also of this one.
        notes = (*told.notes, *(note for note in made.notes if note not in told.notes))
        made = dataclasses.replace(made, exact=told.exact, notes=notes)
        self._summaries[told.name] = told, made
        return made
