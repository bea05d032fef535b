"""What the collector and the aggregator say to each other about one run."""

from __future__ import annotations

import contextlib
import pathlib
import time
import uuid
from collections.abc import Callable
from typing import Any

from . import _client
from ._alive import SignOfLife
from ._client import AggregatorClient
from ._host_agent import HostAgent
from ._patience import GRACE_S, Patience
from ._progress import Progress
from ._service import Service
from ._view import CremaError

REPEAT_S = 0.5  # a message to the aggregator is repeated until it is answered
FIRST_S = 0.02  # and more often at first: the aggregator may have no sink yet
OPEN_S = 20.0  # for the first answer
DISMISS_S = 10.0  # for the agents to exit after the verdict
DISMISS_SOME_S = 3.0  # where some may not exit, since a stream that they serve has not ended
SEALED_S = 5.0  # for the state of a run whose file exists
LEAVE_S = 0.02  # between two checks whether they have


class Dialogue:
    """The connection of one run's collector to its aggregator.

    Parameters
    ----------
    run_id : uuid.UUID
        The run.
    service : Service
        The pipeline.
    say : callable
        Prints a line for the user.
    """

    def __init__(self, run_id: uuid.UUID, service: Service, say: Callable[[str], None]) -> None:
        self._run_id = run_id.bytes
        self._service = service
        self._say = say
        self._alive: SignOfLife | None = None
        self.trouble = ""  # what kept the pipeline from going on while the end was waited for
        self._link = AggregatorClient(service.endpoint, service.keys)

    def close(self) -> None:
        """End the connection."""
        self._end_block()
        self._link.close()

    def begin_block(self, message: dict[str, Any]) -> None:
        """Give signs of life with this RUN_OPEN until something else is said."""
        self._alive = SignOfLife(self._link, message, self._say)

    def _end_block(self) -> None:
        if self._alive is not None:
            self._alive.stop()

    def admit(self, key: bytes) -> None:
        """Request the admission of agents with this public key; from any thread, returns at once."""
        if self._alive is not None:
            self._alive.admit(key)

    def _bring(self, state: Any) -> None:
        """Request what was not requested yet, if this state is of an aggregator that knows the run."""
        if self._alive is not None and state is not None and state.phase != _client.UNKNOWN:
            self._alive.bring()

    def open(self, message: dict[str, Any]) -> None:
        """Announce the run until the aggregator knows it."""
        deadline, wait_s = time.monotonic() + OPEN_S, FIRST_S
        while time.monotonic() < deadline:
            self._link.send(_client.RUN_OPEN, REPEAT_S, **message)
            wait_s = min(2 * wait_s, REPEAT_S)
            for state in self._link.states(self._run_id, wait_s):
                if state.phase == _client.FAILED or state.refusal:
                    raise CremaError(f"the run could not be opened: {state.error}")
                if state.phase != _client.UNKNOWN:
                    if state.trouble:
                        self._say(f"crema: {state.trouble}")
                    return
            if refusal := self.refusal():
                raise CremaError(refusal)
        trouble = self._service.trouble() or self._service.silence()
        raise CremaError(
            f"no aggregator answered at {self._service.endpoint} within {OPEN_S:g} s"
            + (f": {trouble}" if trouble else "")
        )

    def refusal(self) -> str:
        """Sentence saying that the aggregator refuses this client, or empty."""
        if self._link.failed:
            return f"there is no connection to {self._service.endpoint}: {self._link.failed}"
        if not self._link.fenced:
            return ""
        return (
            f"the aggregator at {self._service.endpoint} refuses this client: {self._link.fenced}"
        )

    def on_the_sinks_clock(self, t_ns: int) -> int:
        """Convert a time of this host to the services' clock; a difference within its uncertainty is ignored."""
        offset_ns, bound_ns = self._link.clock(self._run_id)
        return t_ns - offset_ns if abs(offset_ns) > bound_ns else t_ns

    def until_sealed(
        self,
        message: dict[str, Any],
        parts: list[dict[str, Any]],
        host: HostAgent,
        patience: Patience,
        quiet: bool,
    ) -> Any:
        """Say RUN_END until the file is there, the pipeline is lost or nothing moves any more; the last RunState."""
        self._end_block()
        state, before, kept, is_sealing = None, None, 0, False
        with contextlib.ExitStack() as stack:
            progress = None if quiet else stack.enter_context(Progress())
            while patience.left_s(GRACE_S) > 0 and not self._service.trouble():
                for part in parts[kept:]:
                    self._link.send(_client.RUN_WRITERS, **part)
                self._link.send(_client.RUN_END, **message)
                self._bring(state)
                for state in self._link.states(self._run_id, REPEAT_S):
                    host.look()  # it may have just started
                    kept = state.writers_kept  # a restarted aggregator has none
                    self.trouble = state.trouble or self.trouble
                    if _is_given_up(state):
                        continue  # sealed without its end, which is being sent now
                    if state.phase in (_client.SEALED, _client.FAILED) or state.refusal:
                        return state
                    if state.phase == _client.VERDICT and not is_sealing:
                        is_sealing = True
                        patience.seal(state.committed)
                    if before is not None and state.progress != before and not is_sealing:
                        patience.moved()
                    before = state.progress
                if self.refusal():
                    return state
                if progress is not None:
                    progress.show(state)
        return state

    def sealed(self, output: pathlib.Path) -> Any:
        """State of a run whose file exists: its verdict may still be on its way. None without a file, or if the state does not arrive."""
        self._end_block()
        file, until = output / f"{uuid.UUID(bytes=self._run_id)}.h5", time.monotonic() + SEALED_S
        while file.exists() and time.monotonic() < until:
            self._link.send(_client.RUN_QUERY, run_id=self._run_id)
            for state in self._link.states(self._run_id, REPEAT_S):
                if state.phase == _client.SEALED:
                    return state
        return None

    def see_agents_off(
        self, message: dict[str, Any], host: HostAgent, own_agent: bool, wait_s: float
    ) -> None:
        """Wait until the agents started for this run have exited: the aggregator dismisses them and must run until then."""
        supervisor = self._service.supervisor
        deadline = time.monotonic() + wait_s
        if own_agent:
            supervisor.dismiss("crema-agent")
        elif not self._service.owned:
            host.wait(deadline)  # the aggregator stays for the others
            return
        while time.monotonic() < deadline:
            if own_agent and not supervisor.alive("crema-agent"):
                return
            self._link.send(_client.RUN_END, **message)
            for state in self._link.states(self._run_id, LEAVE_S):
                if state.agents == 0:
                    host.wait(deadline)
                    if not host.serves():
                        return


def _is_given_up(state: Any) -> bool:
    return any(reason.code == "run_not_ended" for reason in state.reasons)
