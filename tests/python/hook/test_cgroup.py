"""CPU quotas, from directories as the kernel has them in both versions of control groups."""

from __future__ import annotations

import math

import pytest

from crema.hook import _cgroup


class Groups:
    """A group of jobs with a quota of two cores, and one of ours within it."""

    def __init__(self, top, version: int) -> None:
        self.version = version
        self.jobs = top / "jobs"
        self.ours = self.jobs / "ours"
        self.ours.mkdir(parents=True)

    def write(self, group, quota: str, periods: int, stopped: int) -> None:
        if self.version == 2:
            (group / "cpu.max").write_text(f"{quota} 100000\n")
        else:
            (group / "cpu.cfs_quota_us").write_text("-1" if quota == "max" else quota)
            (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.stat").write_text(
            f"usage_usec 1\nnr_periods {periods}\nnr_throttled {stopped}\n"
        )


@pytest.fixture
def own(tmp_path, monkeypatch):
    """What the kernel says of the groups of this process."""
    file = tmp_path / "own"
    monkeypatch.setattr(_cgroup, "_TOP", tmp_path)
    monkeypatch.setattr(_cgroup, "_OWN", file)
    return file


@pytest.fixture(params=[1, 2])
def groups(request, tmp_path, own):
    if request.param == 1:
        own.write_text("9:name=systemd:/\n3:cpu,cpuacct:/jobs/ours\n2:memory:/\n0::/\n")
        return Groups(tmp_path / "cpu", 1)
    own.write_text("0::/jobs/ours\n")
    return Groups(tmp_path, 2)


def test_the_quota_of_the_group_that_was_throttled_most(groups):
    groups.write(groups.jobs, "200000", 100, 10)
    groups.write(groups.ours, "20000", 50, 0)
    quota = _cgroup.Quota()
    cores, share = quota.throttled()
    assert cores == pytest.approx(0.2)
    assert math.isnan(share)  # nothing is known of the time before
    groups.write(groups.jobs, "200000", 120, 15)
    groups.write(groups.ours, "20000", 60, 1)
    assert quota.throttled() == (pytest.approx(2.0), pytest.approx(0.25))
    assert quota.throttled() == (pytest.approx(0.2), 0.0)


def test_a_container_sees_the_top_alone(own, tmp_path):
    own.write_text("0::/host/path/of/the/container\n")
    (tmp_path / "cpu.max").write_text("150000 100000")
    assert _cgroup.Quota().throttled()[0] == pytest.approx(1.5)


@pytest.mark.parametrize("text", ["", "0::/\n", "3:cpu:/gone (deleted)\n", None])
def test_numbers_that_cannot_be_seen_are_not_known(own, text):
    if text is not None:
        own.write_text(text)
    assert all(math.isnan(each) for each in _cgroup.Quota().throttled())
    assert (_cgroup.oom_kills(), _cgroup.memory_limit_b()) == (0, -1)


def test_share_is_unknown_without_a_quota(groups):
    groups.write(groups.jobs, "max", 100, 10)
    quota = _cgroup.Quota()
    for _ in range(2):
        assert all(math.isnan(each) for each in quota.throttled())
