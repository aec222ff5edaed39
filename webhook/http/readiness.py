"""Whether a process is ready, with reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable

# A gate returns the reasons why the process is not ready.
Gate = Callable[[], Iterable[str]]


class Readiness:
    """The gates on which readiness depends, and notes beside it.

    draining: whether the process is about to end. was_ready: whether it has ever been found ready.
    """

    def __init__(self) -> None:
        self.draining = False
        self.was_ready = False
        self._gates: dict[str, Gate] = {}
        self._notes: dict[str, Gate] = {}

    def add_gate(self, name: str, gate: Gate) -> None:
        """Make readiness depend on a gate."""
        self._gates[name] = gate

    def add_note(self, name: str, note: Gate) -> None:
        """Show notes with readiness that do not make the process unready."""
        self._notes[name] = note

    def notes(self) -> list[str]:
        """Problems that do not make the process unready, a line for each."""
        return [f"{name}: {reason}" for name, note in self._notes.items() for reason in note()]

    def unready(self) -> list[str]:
        """Why the process is not ready, a line for each reason; empty when it is."""
        reasons = [f"{name}: {reason}" for name, gate in self._gates.items() for reason in gate()]
        self.was_ready = self.was_ready or not reasons
        return ["draining: the service is shutting down", *reasons] if self.draining else reasons
