"""Room for an adapter that has waited too long: whose requests hold back until it can load."""

from dataclasses import dataclass

from loraplex.engine.memory.residency import AdapterKey, AdapterResidency, ResidentAdapter
from loraplex.engine.request import Request


@dataclass(frozen=True, slots=True)
class Drain:
    """Running requests end in their own time; meanwhile nobody takes what `ticket` waits for.

    Requests of `adapters` do not start, so that those become idle, and others start only where
    they leave room. Whoever runs ends within its `max_tokens`: that bounds the wait.
    """

    ticket: Request
    pages: int
    adapters: frozenset[AdapterKey]

    def held_pages(self, residency: AdapterResidency) -> int:
        """Pages that must be left over, beside those that the drained adapters will give."""
        in_use = (residency.get(key) for key in self.adapters)
        return max(0, self.pages - sum(len(e.pages) for e in in_use if e is not None and e.users))


def begin_drain(
    ticket: Request, pages: int, available_pages: int, residency: AdapterResidency
) -> Drain:
    """Hold back as few adapters as will do: those that the fewest running requests use."""
    missing = pages - available_pages
    drained: list[ResidentAdapter] = []
    # What is pinned gives no pages when its requests have ended.
    entries = residency.entries.values()
    in_use = [entry for entry in entries if entry.users and not residency.is_pinned(entry.key)]
    for entry in sorted(in_use, key=lambda entry: entry.users):
        if missing <= 0:
            break
        drained.append(entry)
        missing -= len(entry.pages)
    for entry in drained.copy():  # a large one that came later may make small ones needless
        if missing + len(entry.pages) <= 0:
            drained.remove(entry)
            missing += len(entry.pages)
    return Drain(ticket, pages, frozenset(entry.key for entry in drained))
