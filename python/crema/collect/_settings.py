"""What is recorded of a run: as the hook in every process and the aggregator learn it."""

from __future__ import annotations

import dataclasses
import os
import uuid
from typing import TYPE_CHECKING, Any

from ..hook._config import HookConfig
from . import _attributes
from ._service import Service

if TYPE_CHECKING:
    from distributed import Client

# After which an agent without writers gives up an aggregator that ended with its client.
ORPHAN_S = 60.0
_NEVER_S = 3600.0  # between samples that were not requested
_AGENT_SAMPLES_S = 0.1  # minimum sample interval of an agent


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of one run; `MetricsCollector` documents them.

    Raises
    ------
    ValueError
        If one is invalid.
    """

    processor: Any
    run_label: str
    sample_interval_s: float
    track_workers: bool
    attributes: dict[str, Any]
    look_interval_s: float = 0.05
    look_source: bool = True

    def __post_init__(self) -> None:
        """Check."""
        if not 0.01 <= self.sample_interval_s <= _NEVER_S:
            raise ValueError(
                f"sample_interval={self.sample_interval_s!r} is not within 0.01 s and an hour"
            )
        if not (self.look_interval_s == 0 or 0.005 <= self.look_interval_s <= _NEVER_S):
            raise ValueError(
                f"look_interval={self.look_interval_s!r} is neither 0 nor within 0.005 s and an hour"
            )
        _attributes.must_be_free(self.attributes)

    @property
    def agent_samples_s(self) -> float:
        """Seconds between two samples of an agent."""
        return max(self.sample_interval_s, _AGENT_SAMPLES_S) if self.track_workers else _NEVER_S

    @property
    def processor_prefixes(self) -> list[str]:
        """Prefixes of the processor's tasks."""
        return _attributes.processor_prefixes(self.processor)

    def hook_config(
        self, run_id: str, service: Service, client: Client | None, own_agent: bool
    ) -> HookConfig:
        """For every process that records; with `own_agent` they are on this machine."""
        here = {"spool": str(service.spool), "start_agent": False} if own_agent else {}
        # An operator's aggregator outlives this client: a dismissed agent waits for it. Our own
        # aggregator does not.
        patience = (
            ("--orphan-timeout", f"{ORPHAN_S:g}s") if service.owned else ("--drain-timeout", "1h")
        )
        return HookConfig(
            run_id=run_id,
            aggregator=service.endpoints,
            server_key=service.server_key,
            sample_interval_s=self.sample_interval_s,
            track_workers=self.track_workers,
            look_interval_s=self.look_interval_s,
            agent_options=("--sample-interval", f"{self.agent_samples_s:g}s", *patience),
            processor_prefixes=tuple(
                self.processor_prefixes[-1:]
            ),  # of chunks; a function has none
            name_key=os.urandom(16).hex(),
            client="" if client is None else client.id,
            **here,
        )

    def run_attributes(self, client: Client | None) -> dict[str, str]:
        """Attributes of the run that are known at its start."""
        return _attributes.of_client(
            {
                "run_label": self.run_label,
                "processor_name": _attributes.processor_name(self.processor),
                "sample_interval_s": self.sample_interval_s,
                **(_attributes.of_cluster(client) if client is not None else {}),
                **self.attributes,
            }
        )

    def run_open(
        self, run_id: uuid.UUID, service: Service, attributes: dict[str, str], t_start_ns: int
    ) -> dict[str, Any]:
        """The message that opens the run."""
        return {
            "run_id": run_id.bytes,
            "t_start_ns": t_start_ns,
            "keys": list(attributes),
            "values": list(attributes.values()),
            "processor_prefixes": self.processor_prefixes,
            "agent_key": service.agent_key,
        }
