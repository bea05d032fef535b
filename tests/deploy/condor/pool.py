"""An HTCondor pool on this host alone: its own daemons, of one user, on loopback, in a directory."""

from __future__ import annotations

import os
import pathlib
import subprocess

from waiting import wait_for

# A "personal" HTCondor: the user that starts it owns all of it. Ports are free ones, and intervals short.
CONFIG = """
RELEASE_DIR = {root}/usr
LIB = $(RELEASE_DIR)/lib
LIBEXEC = $(RELEASE_DIR)/libexec/condor
LOCAL_DIR = {directory}
LOCK = $(LOCAL_DIR)/lock
use security:recommended_v9_0
use ROLE: CentralManager
use ROLE: Submit
use ROLE: Execute
CONDOR_HOST = 127.0.0.1
NETWORK_INTERFACE = 127.0.0.1
BIND_ALL_INTERFACES = False
COLLECTOR_HOST = $(CONDOR_HOST):0
SHARED_PORT_PORT = 0
SCHEDD_INTERVAL = 1
NEGOTIATOR_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
NEGOTIATOR_MIN_INTERVAL = 1
UPDATE_INTERVAL = 1
RUNBENCHMARKS = 0
DOCKER =
SINGULARITY =
JAVA =
NUM_CPUS = 4
MEMORY = 16000
"""


class Pool:
    """`environment` leads to it. Jobs run in directories of their own below `execute`."""

    def __init__(self, root: pathlib.Path, directory: pathlib.Path):
        self.directory = directory
        self.execute = directory / "execute"
        for name in ("execute", "lock", "log", "run", "spool"):
            (directory / name).mkdir(parents=True)
        config = directory / "condor_config"
        config.write_text(CONFIG.format(root=root, directory=directory))
        programs = f"{root}/usr/bin:{root}/usr/sbin"
        self.environment = {
            "CONDOR_CONFIG": str(config),
            "PATH": f"{programs}:{os.environ['PATH']}",
        }
        self.master = subprocess.Popen(
            ["condor_master", "-f"],
            env=os.environ | self.environment,
            executable=f"{root}/usr/sbin/condor_master",
        )
        for daemon in ("-startd", "-schedd"):
            asked = ("condor_status", daemon, "-af", "Name")
            wait_for(
                lambda asked=asked: self.run(*asked).stdout.strip(), 60, f"{daemon} of the pool"
            )

    def run(self, *command: str) -> subprocess.CompletedProcess:
        environment = os.environ | self.environment
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def say(self, *command: str) -> str:
        """What a command of HTCondor prints."""
        done = self.run(*command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def jobs(self) -> dict[str, int]:
        """The jobs in the queue and how often each was started."""
        rows = self.say("condor_q", "-af:j", "NumShadowStarts").splitlines()
        return {
            job: 0 if starts == "undefined" else int(starts) for job, starts in map(str.split, rows)
        }

    def log(self) -> str:
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')[-4000:]}"
            for path in sorted((self.directory / "log").glob("*Log*"))
        )

    def stop(self) -> None:
        self.master.terminate()
        try:
            self.master.wait(60)
        finally:
            self.master.kill()
