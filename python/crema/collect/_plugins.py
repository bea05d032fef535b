"""A run's plugins on a Dask cluster: registered, ended with the list of what was recorded, removed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..hook import _writers
from ..hook._agent import KEY_ACTION, key_topic
from ..hook._config import HookConfig
from ..hook._records import KIND_SCHEDULER
from ..read import _notes
from . import _cluster, _keys
from ._carrier import Carrier
from ._patience import CALL_S, Patience
from ._service import Service
from ._watch import Watch

if TYPE_CHECKING:
    from distributed import Client


class Plugins:
    """The plugins of one run.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    config : HookConfig
        The run.
    service : Service
        The pipeline.
    say : callable
        Prints a line for the user.
    admit : callable
        Requests the admission of an agent's public key.

    Attributes
    ----------
    carrier : Carrier or None
        Of records that travel over Dask.
    """

    def __init__(
        self,
        client: Client,
        config: HookConfig,
        service: Service,
        say: Callable[[str], None],
        admit: Callable[[bytes], None],
    ) -> None:
        self._client = client
        self._own_client: Client | None = None  # in place of one that was closed inside the block
        self._address = client.scheduler.address
        self._config = config
        self._service = service
        self._say = say
        self._admit = admit
        self._patience = Patience(CALL_S)  # of a way out that begins before the block
        self._hooked = False  # the cluster has some of the plugins
        self._with_scheduler = False  # the scheduler takes plugins
        self.carrier: Carrier | None = None
        self._announced_hosts = ""  # whose records travel over Dask
        self._missed = False  # a chunk was missed, and reported
        self._keys_end: Callable[[], None] = lambda: None  # ends the events with agents' keys
        self._known: list[_writers.Writer] = []  # writers known at the start
        self._lacking: dict[str, str] = {}  # processes that cannot record
        self.notes: dict[str, str] = {}  # attributes of the run, once it has ended

    def register(self, lack: str, block: contextlib.ExitStack) -> dict[str, str]:
        """Register the plugins; `block` ends what belongs to the block only.

        Parameters
        ----------
        lack : str
            Why the scheduler cannot record; empty if it can.

        Returns
        -------
        dict of str to str
            Workers that work unrecorded, and why.
        """
        from ..hook.scheduler import SchedulerHook
        from ..hook.worker import WorkerHook

        client, run_id = self._client, self._config.run_id
        self._hooked, self._with_scheduler = True, not lack
        self._subscribe()
        if self._with_scheduler:
            _cluster.register(client, SchedulerHook(self._config))
            self.carrier = self._make_carrier()
        else:
            text = "the times at which workers joined and left are not recorded"
            self._say(f"crema: {text}: the scheduler: {lack}")
            _cluster.note_start(client, run_id)
        hook = WorkerHook(self._config)
        reported = []
        if self._with_scheduler:
            reported = _cluster.register_on_workers(client, hook, run_id)
        else:
            _cluster.register(client, hook)
        block.callback(_cluster.on_event(client, hook.name, self._on_event))
        block.callback(Watch(client, self._say, self._on_restart).begin())
        silent = self._look_which_record(reported)
        self._lacking = _cluster.without({_cluster.SCHEDULER: lack} | silent)
        return silent

    def _look_which_record(self, reported: list[_writers.Writer]) -> dict[str, str]:
        """Note the writers that have opened their streams, which the scheduler's plugin has reported; returns the workers that have not, and why."""
        self._known = [
            writer for writer in reported if writer.stream or writer.kind == KIND_SCHEDULER
        ]
        workers = None  # all, where the scheduler's plugin does not know which are there
        if any(writer.kind != KIND_SCHEDULER for writer in reported):
            workers = [writer.name for writer in reported if writer.state == _writers.UNKNOWN]
            if not workers:
                return {}
        known, silent = _cluster.recording(self._client, self._config.run_id, workers)
        self._known += known
        return silent

    def end(self, patience: Patience) -> list[_writers.Writer]:
        """Let every process write its last records; returns what each has written."""
        self._patience = patience
        if not self._hooked:
            return []
        self._connect_again()
        writers = self._end(self._say)
        topic = key_topic(self._config.run_id)
        for event in _cluster.events(self._client, topic, patience.ask):
            self._on_key(event)  # events lost with a broken connection
        return writers

    def close(self) -> None:
        """Remove the plugins and end the route over Dask: nothing is left to be sent."""
        if self._hooked:
            self._end(lambda line: None)
        self._keys_end()
        if self._with_scheduler:
            self._with_scheduler = False
            carrier, self.carrier = self.carrier, None
            if carrier is not None:
                carrier.close()
            with contextlib.suppress(_cluster.ClusterError):
                _cluster.forget(self._client, self._config.run_id, self._patience.ask)
        if self._own_client is not None:
            with contextlib.suppress(Exception):  # Dask's, of a scheduler that has gone meanwhile
                self._own_client.close()
            self._own_client = None

    def _end(self, say: Callable[[str], None]) -> list[_writers.Writer]:
        self._hooked = False
        run_id = self._config.run_id
        return _cluster.end(
            self._client,
            run_id,
            self._known,
            self._lacking,
            self._with_scheduler,
            say,
            self._patience,
            self._left,
        )

    def _left(self, n: int) -> None:
        if n:
            self.notes[_notes.UNFINISHED] = str(n)

    def _connect_again(self) -> None:
        """Where the client was closed inside the block, another one asks in its place."""
        self._own_client = _cluster.again(self._client, self._address)
        if self._own_client is None:
            return
        self._client = self._own_client
        with contextlib.suppress(Exception):  # Dask's; the log of events is read at the end too
            self._subscribe()  # an agent that is just starting has not announced its key yet
        if self.carrier is not None:
            self.carrier.close()
            self.carrier = self._make_carrier()

    def _subscribe(self) -> None:
        """Receive the public keys of agents."""
        self._keys_end()
        self._keys_end = _cluster.on_event(
            self._client, key_topic(self._config.run_id), self._on_key
        )

    def _make_carrier(self) -> Carrier:
        run_id, endpoint = self._config.run_id, self._service.endpoint
        return Carrier(self._client, run_id, endpoint, self._announce_hosts)

    def _announce_hosts(self, hosts: str) -> None:
        if self._announced_hosts == hosts:  # by a carrier before this one
            return
        self._announced_hosts = hosts
        tried = self._service.endpoints.replace("tcp://", "").replace(",", ", ")
        self._say(f"crema: records of {hosts} travel over Dask: no connection to {tried}")

    def _on_key(self, event: Any) -> None:
        """Request the admission of a new agent's public key; called by Dask's client on its event loop."""
        if isinstance(event, dict) and event.get("action") == KEY_ACTION:
            self._admit(_keys.public_key(event.get("key")))

    def _on_restart(self) -> None:
        self._missed = (
            True  # no advice helps: the checkpointer passed through the scheduler's plugin
        )

    def _on_event(self, event: Any) -> None:
        """Handle an event of a worker's plugin during the run; called by Dask's client on its event loop."""
        prefix = event.get("prefix") if isinstance(event, dict) else None
        if prefix and not self._missed:
            self._missed = True
            remedy = "if it was a processor, give its Runner checkpointer=mc.checkpointer"
            if _cluster.SCHEDULER in self._lacking:
                remedy = "the scheduler, which passes the checkpointer on, needs crema too"
            self._say(f"crema: a task {prefix!r} has ended without a recorded chunk: {remedy}")
