"""The collector's calls to Dask: what its processes are, where they run, and whether they have the hooks."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import __version__
from ..hook import _columns, _writers
from ..hook._records import KIND_SCHEDULER
from . import _marking
from ._patience import CALL_S, ClusterError, NoAnswerError, Patience, bounded

if TYPE_CHECKING:
    from distributed import Client

    Ask = Callable[[Callable[[], Any], str], Any]

SCHEDULER = "scheduler"
NO_PLUGINS = "it accepts no plugins"


_LOOK_S = 5.0  # for workers of which the scheduler had no answer
_NO_CREMA = "no crema"
# Another version of crema can record too if it uses this version's protocol.
_OTHER_PROTOCOL = f"whose protocol is not that of {__version__} here"


class Installed(NamedTuple):
    """The crema installation of a worker or the scheduler.

    Parameters
    ----------
    version : str
        Version of crema; empty if missing or unknown.
    lack : str
        Why it cannot record for this client; empty if it can.
    """

    version: str
    lack: str


def check(client: Client, workers_too: bool) -> dict[str, str]:
    """Processes that cannot record for this client: name of a worker, if those are asked too, or ``"scheduler"``, to the reason.

    Raises
    ------
    ClusterError
        If the client is none that can be asked.
    """
    found = installed(client, workers_too)
    return {name: its.lack for name, its in found.items() if its.lack}


def must_answer(client: Client) -> None:
    """Whether the client can be asked from here at all.

    Raises
    ------
    ClusterError
        If not; the message says why and what would help.
    """
    if not hasattr(client, "register_plugin"):
        raise ClusterError(f"client is a {type(client).__name__}, not a distributed.Client")
    if client.asynchronous:
        raise ClusterError("the client is asynchronous: enter the collector with `async with`")
    if client.status == "closed":
        raise ClusterError("the client is closed: make another one")


def installed(client: Client, workers_too: bool = True) -> dict[str, Installed]:
    """The installation of each worker by name, and last of the ``"scheduler"``, without workers that left meanwhile.

    Raises
    ------
    ClusterError
        If the client is none that can be asked.
    """
    must_answer(client)
    answers = _ask_workers(client, None) if workers_too else {}
    found = {name: _of_answer(answer) for name, answer in answers.items()}
    probe = _make_probe()
    try:
        found[SCHEDULER] = _of_answer(
            bounded(lambda: client.run_on_scheduler(probe), "looking for crema on the scheduler")
        )
    except ValueError:  # distributed.scheduler.pickle is off
        found[SCHEDULER] = Installed("", NO_PLUGINS)
    return found


def _ask_workers(
    client: Client, workers: list[str] | None, run_id: str = "", limit_s: float = CALL_S
) -> dict[str, Any]:
    """Answers to the probe by name; without workers that left meanwhile."""
    probe = _make_probe(run_id)
    answers = bounded(
        lambda: client.run(probe, workers=workers, on_error="return"),
        "looking for crema on the workers",
        limit_s,
    )
    return {n: found for n, found in sorted(answers.items()) if not isinstance(found, OSError)}


def _make_probe(run_id: str = "") -> Callable[..., dict[str, Any]]:
    wire = _columns.WIRE_VERSION

    # A nested function is pickled by value: a module function could not even be unpickled without crema.
    def probe(dask_worker: Any = None) -> dict[str, Any]:
        try:
            import crema
        except Exception:
            return {}
        try:
            from crema.hook._columns import WIRE_VERSION
        except Exception:
            WIRE_VERSION = None  # noqa: N806
        found = {"version": str(getattr(crema, "__version__", "")), "wire": WIRE_VERSION}
        if run_id and wire == WIRE_VERSION:
            from crema.hook import worker

            found["state"] = worker.status(run_id, dask_worker)
        return found

    return probe


def _of_answer(answer: Any) -> Installed:
    """Interpret the answer of a process to the probe."""
    if isinstance(answer, BaseException):
        return Installed("", f"it did not answer: {answer}")
    if not answer:
        return Installed("", _NO_CREMA)
    version = answer["version"]
    if answer["wire"] == _columns.WIRE_VERSION:
        return Installed(version, "")
    return Installed(version, f"crema {version}, {_OTHER_PROTOCOL}")


def listed(lacking: dict[str, str]) -> str:
    """Names and reasons for people, in one line."""
    names = [f"{name} ({lack})" for name, lack in lacking.items()]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _calls(module: str, name: str, run_id: str) -> Callable[..., Any]:
    """A function for ``client.run`` that calls one of crema's with run and worker; where that does not record, the answer is ModuleNotFoundError."""
    wire, other = _columns.WIRE_VERSION, _OTHER_PROTOCOL

    def call(dask_worker: Any) -> Any:
        import importlib
        import sys

        try:
            import crema
            from crema.hook._columns import WIRE_VERSION

            function = getattr(importlib.import_module(f"crema.hook.{module}"), name)
        except Exception as error:
            version = getattr(sys.modules.get("crema"), "__version__", "")
            what = f"crema {version}, which cannot record" if version else "no crema that records"
            return ModuleNotFoundError(f"it has {what} for this client: {error}")
        if wire != WIRE_VERSION:
            return ModuleNotFoundError(f"it has crema {crema.__version__}, {other}")
        return function(run_id, dask_worker)

    return call


def without(lacking: dict[str, str]) -> dict[str, str]:
    """Those that certainly record nothing: name to the reason. Others may still have opened their streams."""
    return {
        name: lack
        for name, lack in lacking.items()
        if lack == _NO_CREMA or lack.endswith(_OTHER_PROTOCOL)
    }


def register(client: Client, hook: Any, how: Callable[[], Any] | None = None) -> Any:
    """Install a plugin on the scheduler, or on all workers, present and future.

    Raises
    ------
    ClusterError
        If its set-up failed somewhere.
    """
    name = type(hook).__name__
    try:
        return bounded(how or (lambda: client.register_plugin(hook)), f"registering {name}")
    except ClusterError:
        raise
    except Exception as error:
        raise ClusterError(f"{name} could not be set up: {error!r}") from error


def register_on_workers(client: Client, hook: Any, run_id: str) -> list[_writers.Writer]:
    """Install a plugin on all workers by way of the scheduler, which has its own; returns the writers that this knows then.

    A worker answers with its report. Dask's own function fails if a worker leaves meanwhile.
    """
    from distributed.protocol import pickle as by_value

    plugin, name = pickle.dumps(hook), hook.name

    async def add(dask_worker: Any) -> Any:  # pickled by value: a worker may have no crema
        import pickle

        if name not in getattr(dask_worker, "plugins", ()):  # it may be asked twice
            hook = pickle.loads(plugin)
            hook.reports = False
            await dask_worker.plugin_add(plugin=hook, name=name)
        try:
            from crema.hook import worker

            return worker.report(run_id, dask_worker)
        except Exception:
            return None  # it has no crema, or an earlier version: the client asks

    function = by_value.dumps(add)

    async def install(dask_scheduler: Any) -> list[Any]:
        from crema.hook import scheduler

        dask_scheduler.worker_plugins[name] = plugin
        if hasattr(scheduler, "give"):
            await scheduler.give(run_id, dask_scheduler, function)
        else:  # an earlier version: the client asks those whose events are late
            await dask_scheduler.broadcast(
                msg={"op": "run", "function": function}, on_error="ignore"
            )
        return await scheduler.writers(run_id, dask_scheduler)

    return register(client, hook, lambda: client.run_on_scheduler(install))


def recording(
    client: Client, run_id: str, workers: list[str] | None = None
) -> tuple[list[_writers.Writer], dict[str, str]]:
    """Those of these workers, or of all, that have opened their streams, and name to reason of those that have not; see their logs."""
    known, silent = [], {}
    try:
        answers = _ask_workers(client, workers, run_id, CALL_S if workers is None else _LOOK_S)
    except NoAnswerError:
        if workers is None:
            raise
        return [], dict.fromkeys(workers, "no answer yet: it records once it goes on")
    for name, answer in answers.items():
        if lack := _of_answer(answer).lack:
            silent[name] = lack
        elif state := answer["state"]:
            stream, uuid = bytes.fromhex(state["stream_id"]), state["uuid"]
            known.append(_writers.Writer(name, state=_writers.LEFT, stream=stream, uuid=uuid))
        else:
            silent[name] = "it cannot write its records, see its log"
    return known, silent


def on_event(client: Client, topic: str, handler: Callable[[Any], None]) -> Callable[[], None]:
    """Let `handler` receive the events of a topic; returns a function that ends this."""
    handlers = [handler]

    def take(event: tuple[float, Any]) -> None:
        with contextlib.suppress(Exception):  # Dask would log it
            for handle in handlers:
                handle(event[1])

    def end() -> None:
        handlers.clear()  # the client keeps `take`, which must not keep the whole run
        with contextlib.suppress(Exception):  # the scheduler is gone
            client.unsubscribe_topic(topic)

    client.subscribe_topic(topic, take)
    return end


def events(client: Client, topic: str, ask: Ask) -> list[Any]:
    """The events of a topic in the scheduler's log; empty if it cannot be asked."""
    try:
        return [event for _, event in ask(lambda: client.get_events(topic), "reading events")]
    except Exception:
        return []


_AGAIN_S = 3.0  # for a scheduler whose client is closed


def again(client: Client, address: str) -> Client | None:
    """A client in place of one that was closed; None if it is not, or if the scheduler does not answer."""
    from distributed import Client

    if client.status != "closed":
        return None
    try:
        return bounded(
            lambda: Client(
                address,
                timeout=_AGAIN_S,
                security=client.security,
                set_as_default=False,
                name="crema",
                asynchronous=False,
            ),
            "connecting again",
            2 * _AGAIN_S,
        )
    except Exception:
        return None


def forget(client: Client, run_id: str, ask: Ask) -> None:
    """Remove the plugins from scheduler and workers.

    Raises
    ------
    ClusterError
        If Dask does not answer; it may be gone.
    """
    from ..hook import scheduler

    try:
        ask(lambda: client.run_on_scheduler(scheduler.forget, run_id), "taking the plugins back")
    except Exception as error:
        raise ClusterError(f"the plugins were not taken back: {error!r}") from error


def _stop(
    client: Client, run_id: str, limit_s: float
) -> tuple[list[_writers.Writer], list[str] | None, int]:
    """Let the scheduler's plugin end the recording: result of its function `stop`, and how many tasks of the run were not through."""
    sent = _marking.sent(run_id, client.id)

    async def stop(dask_scheduler: Any) -> Any:  # pickled by value: earlier versions have no `stop`
        import inspect

        from crema.hook import _marks, scheduler

        if not hasattr(scheduler, "stop"):
            return [], None, 0
        takes = inspect.signature(scheduler.stop).parameters
        limit = {"limit_s": limit_s} if "limit_s" in takes else {}  # earlier versions have none
        stopped = await scheduler.stop(run_id, dask_scheduler, sent, **limit)
        return (*stopped, getattr(_marks, "unfinished", lambda *of: 0)(dask_scheduler, run_id))

    return client.run_on_scheduler(stop)


_BEGAN = "crema-began"  # of the event that marks where the run begins in the scheduler's log


def note_start(client: Client, run_id: str) -> None:
    """Mark the start of the run in the scheduler's log of events, to which workers report their streams even if it accepts no plugins."""
    with contextlib.suppress(Exception):  # then it is not known at the end which workers were there
        bounded(
            lambda: client.log_event(f"crema-{run_id}", {"action": _BEGAN}),
            "marking the start of the run",
        )


def writers_in_events(client: Client, run_id: str) -> list[_writers.Writer]:
    """Processes that may have recorded since `note_start`, from the scheduler's log of events.

    Raises
    ------
    ClusterError
        If the log, whose length is limited, does not reach back to the start.
    """
    ours, everybody = client.get_events(f"crema-{run_id}"), client.get_events("all")
    began = ours[0][0] if ours and ours[0][1].get("action") == _BEGAN else None
    # This client joined before the start: a log that begins later was cut.
    if began is None or not everybody or everybody[0][0] > began:
        raise ClusterError(
            "the scheduler accepts no plugins, and its log of events does not reach back to the start of the run, "
            "so that workers that left before are not known"
        )
    roll = _writers.Roll()
    for _, msg in ours:
        if msg.get("action") == _writers.ACTION:
            roll.add(_writers.of_event(msg))
    named = {writer.name for writer in roll.writers()}
    for when, msg in everybody:
        came = when > began and isinstance(msg, dict) and msg.get("action") == "add-worker"
        if came and msg["worker"] not in named:
            roll.add(
                [_writers.unknown(msg["worker"], "it joined during the run and reported no stream")]
            )
    return roll.writers()


RESTARTED = "the scheduler was restarted during the run, and no longer knows it"


def _after_restart(answers: Any) -> Any:
    """The workers' answers, where a restarted scheduler has not given them the plugin."""
    if isinstance(answers, BaseException):
        return answers
    silent = "the scheduler was restarted, and this worker joined after that"
    return {
        name: [
            writer._replace(text=silent) if writer.state == _writers.SILENT else writer
            for writer in answer
        ]
        if isinstance(answer, list)
        else answer
        for name, answer in answers.items()
    }


def end(
    client: Client,
    run_id: str,
    known: list[_writers.Writer],
    lacking: dict[str, str],
    with_scheduler: bool,
    say: Callable[[str], None],
    patience: Patience,
    unfinished: Callable[[int], None] = lambda n: None,
) -> list[_writers.Writer]:
    """Let all processes write their last records and end their streams.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster, which may be gone.
    run_id : str
        The run, as hex digits.
    known : list of Writer
        Writers known at the start.
    lacking : dict of str
        Processes that were there and recorded nothing, from `without`.
    with_scheduler : bool
        The scheduler has a plugin.
    say : callable
        Takes a line about what did not work.
    patience : Patience
        What is left of the time for leaving the block.
    unfinished : callable
        Takes the number of the run's tasks that were not through, if known.

    Returns
    -------
    list of Writer
        All processes that may have recorded.
    """
    from ..hook import scheduler

    flush = _calls("worker", "finish", run_id)
    what = "the last flush of the workers"
    closed = ClusterError("the client was closed, and its scheduler does not answer")
    if client.status == "closed":
        say(f"crema: {closed}")

    def ask(call: Callable[[], Any], what: str, **of: bool) -> Any:
        if client.status == "closed":
            return closed
        try:
            return patience.ask(call, what, **of)
        except Exception as error:
            if error not in said:
                said.append(error)
                say(f"crema: {error}")
            return error

    said: list[Exception] = []
    limit_s = patience.for_dask_s()
    stopped = ask(lambda: _stop(client, run_id, limit_s), what) if with_scheduler else None
    found, others, left = stopped if isinstance(stopped, tuple) else ([], None, 0)
    unfinished(left)
    answers = {}
    if isinstance(stopped, ClusterError):
        answers = stopped  # a scheduler that did not answer would not answer now
    elif others or others is None:
        answers = ask(
            lambda: client.run(flush, workers=others, on_error="return"), what, of_workers=True
        )
    if with_scheduler and (others or others is None):
        found = ask(
            lambda: client.run_on_scheduler(scheduler.end, run_id),
            "the last flush of the scheduler",
        )
    elif not with_scheduler:
        ask(
            lambda: client.unregister_worker_plugin(name=f"crema-{run_id}"),
            "taking the plugin back from the workers",
        )
        found = ask(
            lambda: writers_in_events(client, run_id), "reading the scheduler's log of events"
        )
    roll = _writers.Roll()
    roll.add(known)
    address, lack = getattr(client.scheduler, "address", "") or SCHEDULER, lacking.get(SCHEDULER)
    if with_scheduler and not isinstance(found, BaseException) and not found:
        found = ClusterError(RESTARTED)
        answers = _after_restart(answers)
    if not isinstance(found, BaseException):
        roll.add(found)
    elif with_scheduler:
        why = str(found) if isinstance(found, ClusterError) else found
        roll.add([_writers.unknown(address, why, KIND_SCHEDULER)])
        # A separate name: what is known of the scheduler must not hide that these are not listed.
        roll.add([_writers.unknown("any worker that joined or left", why)])
    else:
        roll.add([_writers.unknown("workers that left", found)])
    if lack:
        roll.add([_writers.Writer(address, KIND_SCHEDULER, _writers.SILENT, text=lack)])
    roll.add_answers(
        {name: ModuleNotFoundError(lack) for name, lack in lacking.items() if name != SCHEDULER}
    )
    if isinstance(stopped, NoAnswerError):
        roll.lost(f"the scheduler was asked first, and did not answer: {stopped}")
    elif isinstance(answers, BaseException):
        roll.lost(answers)
    else:
        roll.add_answers(answers)
    return roll.writers()
