"""Tables of /summary, the grid and the window of a run, from its raw rows: what docs/metrics.md says that each holds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd

from recompute import IDLE, NO_U16, NONE, OTHERS, Run, quantile, ratio, theil_sen


def _bytes(of) -> int:
    return int(of.clip(lower=0).sum())


def _memory_slope(chunks) -> float:
    known = chunks[chunks.rss_peak_b > 0]
    return theil_sen(known.n_events, known.rss_peak_b)[1]


def _weighted(samples, values) -> tuple[float, float]:
    """Sums of value x seconds to the next sample, and of these seconds."""
    total = seconds = 0.0
    for _, of in samples.assign(value=values).groupby("worker_id"):
        s = np.append(np.diff(of.t_ns) * 1e-9, 0.0)
        known = np.isfinite(of.value.to_numpy())
        total += (of.value.to_numpy()[known] * s[known]).sum()
        seconds += s[known].sum()
    return total, seconds


def _cpu_pct(samples) -> float:
    """CPU seconds between each worker's first and last sample, in percent of that time: each sample has those since the one before."""
    used = seconds = 0.0
    for _, of in samples.groupby("worker_id"):
        s, share = np.diff(of.t_ns) * 1e-9, of.cpu_pct.to_numpy()[1:]
        used += np.nansum(s * share)
        seconds += s[np.isfinite(share)].sum()
    return ratio(used, seconds)


def workflow(run: Run) -> dict[str, float]:
    """Metrics by name; those that need chunks, meters or samples only if there are some."""
    steps = [*run.steps, (run.t1, *run.steps[-1][1:])]
    trapezoids = sum((a[1] + b[1]) / 2 * run.s(b[0] - a[0]) for a, b in itertools.pairwise(steps))
    cores_raw = trapezoids / run.wall_s * ratio(run.thread_s, run.worker_s)
    instants = [run.t0 + (run.t1 - run.t0) // 1000 * i for i in range(1000)]
    found = {
        "wall_time": run.wall_s,
        "time_avg_workers": run.worker_s / run.wall_s,
        "time_avg_workers_raw": trapezoids / run.wall_s,
        "avg_workers": np.mean([[n for t, n, _ in run.steps if t <= at][-1] for at in instants]),
        "peak_workers": max(step[1] for step in run.steps),
        "total_cores": run.thread_s / run.wall_s,
        "total_cores_raw": cores_raw,
        "peak_cores": run.peak,
        "cores_per_worker": ratio(run.thread_s, run.worker_s),
        "slot_busy_pct": 100 * ratio(run.busy_s(), run.thread_s),
    }
    if len(run.chunks):
        found |= _of_chunks(run, cores_raw)
    budget = run.budget()
    if len(run.metered) or len(run.counted):
        cpu, noncpu = budget["cpu"], budget["noncpu"] + budget["user"]
        found |= {
            "processor_cpu_time_seconds": cpu,
            "processor_noncpu_time_seconds": noncpu,
            "processor_cpu_percentage": 100 * ratio(cpu, cpu + noncpu),
            "processor_noncpu_percentage": 100 * ratio(noncpu, cpu + noncpu),
            "io_overhead_raw": noncpu / run.wall_s,
            "noncpu_fraction_task": ratio(noncpu, cpu + noncpu),
            "noncpu_fraction_alloc": ratio(noncpu, run.thread_s),
        }
    if len(run.metered):
        found |= _of_meters(run, budget)
    return found | _of_samples(run)


def _of_chunks(run: Run, cores_raw: float) -> dict[str, float]:
    chunks, counted = run.chunks, run.counted
    wall_s, thread_s, n_events = run.wall_s, run.thread_s, run.n_events
    process_s, cpu_s, read_b = run.process_s, run.cpu_s, run.read_b
    open_s, n, wall = counted.open_s.sum(), len(counted), counted.wall_s
    sized = counted[(counted.bytes_uncompressed_b >= 0) & (counted.bytes_accessed_b >= 0)]
    grown = counted[(counted.rss_end_b >= 0) & (counted.rss_start_b >= 0) & (counted.n_events > 0)]
    found = {
        "data_rate_gbps": 8e-9 * read_b / wall_s,
        "data_rate_mb_s": 1e-6 * read_b / wall_s,
        "event_rate_wall_clock": n_events / wall_s / 1000,
        "event_rate_aggregated": ratio(n_events, process_s) / 1000,
        "event_rate_per_cpu_s": ratio(n_events, cpu_s),
        "event_rate_core_averaged": ratio(n_events, thread_s),
        "event_rate_core_averaged_raw": ratio(n_events, wall_s * cores_raw),
        "total_bytes_read_coffea": read_b,
        "total_events": n_events,
        "total_bytes_uncompressed": _bytes(sized.bytes_uncompressed_b) if len(sized) else NONE,
        "compression_ratio": ratio(_bytes(sized.bytes_uncompressed_b), _bytes(sized.bytes_accessed_b)),
        "num_chunks": n,
        "num_attempts": len(chunks),
        "num_failed_attempts": chunks.status.isin(["error", "cancelled"]).sum(),
        "num_lost_attempts": (chunks.status == "lost").sum(),
        "num_superseded_attempts": chunks.superseded.sum(),
        "total_cpu_time": process_s,
        "process_wall_time": process_s,
        "process_cpu_time": cpu_s,
        "open_time": counted.open_s.sum(min_count=1),
        "gc_time": counted.gc_s.sum(min_count=1),
        "avg_cpu_time_per_chunk": ratio(process_s, n),
        "avg_process_cpu_per_chunk": ratio(cpu_s, n),
        "chunk_wall_min": wall.min(),
        "chunk_wall_mean": wall.mean(),
        "chunk_wall_p50": quantile(wall, 0.5),
        "chunk_wall_p95": quantile(wall, 0.95),
        "chunk_wall_max": wall.max(),
        "chunk_s_per_event": ratio(process_s, n_events),
        "chunk_b_per_event": _memory_slope(counted),
        "chunk_b_per_event_raw": ((grown.rss_end_b - grown.rss_start_b) / grown.n_events).mean(),
        "core_occupancy": ratio(process_s + open_s, thread_s),
        "core_efficiency": ratio(process_s, thread_s),
        "cpu_efficiency": ratio(cpu_s, thread_s),
        "cpu_efficiency_raw": ratio(process_s, wall_s * cores_raw),
        "speedup": process_s / wall_s,
        "mean_busy_slots": process_s / wall_s,
        "efficiency_ratio_raw": process_s / wall_s,
        "efficiency_ratio": ratio(process_s, thread_s),
        "straggler_excess_fraction": ratio(sum((of.took_s - of.expected_s).clip(lower=0).sum()
                                               for of in models(run).values()), thread_s),
    }  # fmt: skip
    custom = run.of["custom"].assign(name=lambda rows: run.of.names("metric", rows.metric_id))
    report = custom.set_index("name").value
    once = counted["pass"].nunique() == 1
    for name, mine, theirs in (
        ("events", n_events, "entries"),
        ("bytes", read_b, "bytesread"),
        ("chunks", n, "chunks"),
    ):
        known = f"coffea.{theirs}" in report and once
        found[f"closure_{name}_chunks_vs_report"] = (
            ratio(mine, report[f"coffea.{theirs}"]) if known else NONE
        )
    return found


def _of_meters(run: Run, budget) -> dict[str, float]:
    sums = run.metered.groupby(["activity", "unit"]).value.sum()

    def of(activity: str, unit: str = "seconds") -> float:
        return sums.get((activity, unit), 0.0)

    known = run.seconds[run.seconds.kind != "idle"].value.sum()
    memory_b, disk_b = of("memory-read", "bytes"), of("disk-read", "bytes")
    beside = run.meters[run.meters.context.isin(["gather_dep", "get_data"])]
    return {
        "closure_seconds_known_vs_thread_seconds": ratio(known, run.thread_s),
        "cpu_time_seconds": of("thread-cpu"),
        "io_time_seconds": of("thread-noncpu"),
        "disk_read_bytes": disk_b,
        "disk_read_seconds": of("disk-read"),
        "disk_write_bytes": of("disk-write", "bytes"),
        "disk_write_seconds": of("disk-write"),
        "total_bytes_memory_read_dask": memory_b,
        "memory_read_count": of("memory-read", "count"),
        "spill_cache_hit_fraction": ratio(memory_b, memory_b + disk_b),
        "compression_time_seconds": of("compress"),
        "decompression_time_seconds": of("decompress"),
        "serialization_time_seconds": of("serialize"),
        "deserialization_time_seconds": of("deserialize"),
        "total_compression_overhead_seconds": of("compress") + of("decompress"),
        "total_serialization_overhead_seconds": of("serialize") + of("deserialize"),
        "overhead_cpu_time_seconds": sum(budget[f"{side} cpu"] for side in OTHERS),
        "overhead_noncpu_time_seconds": sum(budget[f"{side} noncpu"] for side in OTHERS),
        "transfer_time_seconds": beside.value[beside.unit == "seconds"].sum(),
    }


def _of_samples(run: Run) -> dict[str, float]:
    samples = run.samples
    if not len(samples):
        return {}
    rss = samples.rss_b.where(samples.rss_b >= 0)
    share = 100 * rss / samples.memory_limit_b.where(samples.memory_limit_b > 0)
    waits = [
        of.iloc[-1] - of.iloc[0]
        for _, of in samples.dropna(subset="cpu_wait_s").groupby("worker_id").cpu_wait_s
    ]
    hosts = run.of["dict/worker"].host
    sent = samples[samples.net_read_b >= 0]
    sent = sent.assign(host=[hosts[i] for i in sent.worker_id]).groupby(["host", "source"])
    received = (sent.net_read_b.max() - sent.net_read_b.min()).unstack()  # of a host, by observer
    received = received.reindex(columns=["worker", "agent"])
    wire_b = received.worker.fillna(received.agent).sum() if len(received) else NONE
    assigned = run.of["worker_samples"]
    assigned = assigned[
        (assigned.source == "scheduler") & (assigned.processing != NO_U16) & (assigned.nthreads > 0)
    ]
    return {
        "wire_rate_gbps": 8e-9 * wire_b / run.wall_s,
        "avg_memory_per_worker": ratio(*_weighted(samples, rss)),
        "avg_memory_per_worker_raw": rss.mean(),
        "peak_memory_per_worker": pd.concat([rss, run.chunks.rss_peak_b]).max(),
        "memory_utilization_avg": ratio(*_weighted(samples, share)),
        "memory_utilization_min": share.min(),
        "memory_utilization_max": share.max(),
        "cpu_pct_avg": _cpu_pct(samples),
        "cpu_utilization_raw": (100 * assigned.processing / assigned.nthreads).mean(),
        "cpu_wait_seconds": sum(waits) if waits else NONE,
    }


def waterfall(run: Run) -> dict[str, float]:
    budget, idle = run.budget(), run.idle()
    left = budget["runtime"] + budget["runtime of failed"]
    for name in IDLE:
        taken = min(left, idle[name])
        idle[name] -= taken
        left -= taken
    others = run.tasks[run.tasks.side == "foreign"]
    rows = {
        "processor_cpu": budget["cpu"],
        "processor_noncpu": budget["noncpu"],
        "user_metered": budget["user"],
        "runtime": budget["runtime"],
        "wasted": budget["wasted"],
        "other_runs": run.s((others.t_stop_ns - others.t_start_ns).sum()),
        "absent": run.cap_s - run.thread_s,
    }
    rows |= {side: budget[f"{side} cpu"] + budget[f"{side} noncpu"] for side in OTHERS}
    rows |= {f"idle_{name}": s for name, s in idle.items()}
    return rows | {"residual": run.cap_s - sum(rows.values())}


def per_worker(run: Run) -> dict[int, dict[str, float]]:
    scores = models(run)
    found = {}
    for worker in run.workers:
        spent, counted = run.spent(worker), run.counted[run.counted.worker_id == worker]
        present = [p for p in run.present if p.worker == worker]
        present_s = sum(run.s(p.t1 - p.t0) for p in present)
        thread_s = sum(run.s(p.t1 - p.t0) * p.nthreads for p in present)
        samples = run.samples[(run.samples.worker_id == worker) & (run.samples.rss_b >= 0)]
        others = {
            kind: sum(spent.get(f"{side} {kind}", 0) for side in OTHERS)
            for kind in ("cpu", "noncpu")
        }
        score = [s for of in scores.values() for s in of.score[of.worker_id == worker]]
        peaks = [*samples.rss_b, *run.chunks.rss_peak_b[run.chunks.worker_id == worker]]
        idle_s = (
            thread_s
            - run.busy_s(worker)
            - spent.get("runtime", 0)
            - spent.get("runtime of failed", 0)
        )
        found[worker] = {
            "n_chunks": len(counted),
            "n_events": counted.n_events.sum(),
            "present_s": present_s,
            "thread_s": thread_s,
            "busy_s": run.busy_s(worker),
            "cpu_s": spent["cpu"] + others["cpu"],
            "noncpu_s": spent["noncpu"] + spent.get("user", 0) + others["noncpu"],
            "overhead_s": sum(others.values()) + spent.get("runtime", 0),
            "idle_s": max(0, idle_s),
            "wasted_s": spent["wasted"],
            "bytes_read_b": _bytes(counted.bytes_read_b),
            "rss_peak_b": max(peaks, default=-1),
            "rss_mean_b": ratio(*_weighted(samples, samples.rss_b.astype(float))),
            "event_rate_hz": ratio(counted.n_events.sum(), present_s),
            "straggler_score": quantile(score, 0.5),
        }
    return found


def per_task_prefix(run: Run) -> dict[int, dict[str, float]]:
    found = {}
    for prefix in run.of["dict/task_prefix"].id:
        tasks = run.tasks[(run.tasks.task_prefix_id == prefix) & (run.tasks.side != "foreign")]
        well = tasks[tasks.status == "ok"]
        took = (well.t_stop_ns - well.t_start_ns) * 1e-9
        metered = run.metered[run.metered.task_prefix_id == prefix]
        s = metered[metered.unit == "seconds"].groupby("activity").value.sum()
        row = {
            "n_tasks": len(well) if len(run.tasks) else -1,
            "n_failed": len(tasks) - len(well) if len(run.tasks) else -1,
            "dur_p50_s": quantile(took, 0.5),
            "dur_p95_s": quantile(took, 0.95),
            "dur_max_s": took.max(),
        }
        if len(metered):
            row["cpu_s"], row["noncpu_s"] = s.get("thread-cpu", 0), s.get("thread-noncpu", 0)
            row["other_s"] = s.sum() - row["cpu_s"] - row["noncpu_s"]
            row["bytes_b"] = metered.value[metered.unit == "bytes"].sum()
        found[prefix] = row
    return found


def per_activity(run: Run) -> dict[tuple, dict[str, float]]:
    keys = ["context", "prefix", "activity", "unit", "side"]
    found = {}
    for key, value in run.meters.groupby(keys).value.sum().items():
        share = key[0] == "execute" and key[3] == "seconds"
        found[key] = {
            "value": value,
            "fraction_of_thread_seconds": value / run.thread_s if share else NONE,
        }
    return found


def split(run: Run) -> dict[str, dict[str, float]]:
    rows, budget = waterfall(run), run.budget()
    bytes_b = run.metered[run.metered.unit == "bytes"].groupby("side").value.sum()
    transfers = run.meters[run.meters.side == "transfer"].groupby("unit").value.sum()
    found = {
        side: {"cpu_s": budget[f"{side} cpu"], "noncpu_s": budget[f"{side} noncpu"]}
        for side in OTHERS
    }
    found["processor"] = {"cpu_s": budget["cpu"], "noncpu_s": budget["noncpu"] + budget["user"]}
    found["runtime"], found["wasted"] = (
        {"runtime_s": budget["runtime"]},
        {"failed_s": budget["wasted"]},
    )
    found["foreign"] = {"noncpu_s": rows["other_runs"]}
    found["transfer"] = {"noncpu_s": transfers.get("seconds", 0)}
    for side, row in found.items():
        row["bytes_b"] = transfers.get("bytes", 0) if side == "transfer" else bytes_b.get(side, 0)
    found["idle"] = {"noncpu_s": sum(s for name, s in rows.items() if name.startswith("idle_"))}
    return {side: {"cpu_s": 0, "noncpu_s": 0, "runtime_s": 0, "failed_s": 0, "bytes_b": 0,
                   "in_budget": side != "transfer"} | row for side, row in found.items()}  # fmt: skip


def per_dataset(run: Run) -> dict[int, dict[str, float]]:
    found = {}
    for dataset, of in run.counted.groupby("dataset_id"):
        found[dataset] = {
            "n_files": of.file_id.nunique(),
            "n_chunks": len(of),
            "n_events": of.n_events.sum(),
            "open_s": of.open_s.sum(),
            "wall_s": of.wall_s.sum(),
            "cpu_s": of.cpu_s.sum(),
            "gc_s": of.gc_s.sum(min_count=1),
            "bytes_b": _bytes(of.bytes_read_b),
            "event_rate_hz": ratio(of.n_events.sum(), of.wall_s.sum()),
            "s_per_event": ratio(of.wall_s.sum(), of.n_events.sum()),
            "memory_b_per_event": _memory_slope(of),
        }
    return found


def per_section(run: Run) -> dict[int, dict[str, float]]:
    found = {}
    for section, of in run.of["sections"].groupby("section_id"):
        grown = (of.rss_end_b - of.rss_start_b)[(of.rss_start_b >= 0) & (of.rss_end_b >= 0)]
        read = of.bytes_read_b[of.bytes_read_b >= 0]
        found[section] = {
            "n": len(of),
            "wall_s": of.wall_s.sum(),
            "self_s": of.self_s.sum(),
            "cpu_s": of.cpu_s.sum(),
            "dur_mean_s": of.wall_s.mean(),
            "dur_p95_s": quantile(of.wall_s, 0.95),
            "dur_max_s": of.wall_s.max(),
            "rss_delta_mean_b": grown.mean(),
            "rss_delta_max_b": grown.max(),
            "bytes_b": read.sum() if len(read) else -1,
        }
    return found


def per_pass(run: Run) -> dict[int, dict[str, float]]:
    found = {}
    for number, of in run.chunks.groupby("pass"):
        counted = of[of.counts]
        found[number] = {
            "n_attempts": len(of),
            "n_chunks": len(counted),
            "n_events": counted.n_events.sum(),
            "t_start_ns": of.t_start_ns.min(),
            "t_end_ns": of.t_end_ns.max(),
            "wall_s": counted.wall_s.sum(),
            "open_s": counted.open_s.sum(),
            "cpu_s": counted.cpu_s.sum(),
            "bytes_read_b": _bytes(counted.bytes_read_b),
            "wasted_s": of.took_s[~of.counts].sum(),
        }
    return found


def wasted(run: Run) -> dict[tuple, dict[str, float]]:
    """By worker, kind and reason."""
    chunks = run.chunks.assign(reason=run.chunks.status.mask(run.chunks.superseded, "superseded"))
    returned = chunks[chunks.status.isin(["ok", "partial"])]
    found: dict[tuple, dict[str, float]] = {}

    def add(key, recovered: bool, n_events: int, s: float) -> None:
        row = found.setdefault(
            key, {"n_attempts": 0, "n_recovered": 0, "wall_s": 0.0, "n_events": 0}
        )
        row["n_attempts"] += 1
        row["n_recovered"] += recovered
        row["wall_s"] += s
        row["n_events"] = row["n_events"] + n_events if n_events >= 0 else -1

    for row in chunks[~chunks.counts].itertuples():
        later = returned[
            (returned.chunk_id == row.chunk_id) & (returned.t_start_ns >= row.t_start_ns)
        ]
        later = later[(later["pass"] == chunks["pass"][row.Index]) & (later.index != row.Index)]
        add(
            (row.worker_id, "chunk", row.reason),
            len(later) > 0,
            row.entry_stop - row.entry_start,
            row.took_s,
        )
    tasks = run.tasks[~run.tasks.is_chunk & (run.tasks.side != "foreign")]
    for row in tasks[tasks.status != "ok"].itertuples():
        well = tasks[(tasks.task_key == row.task_key) & (tasks.status == "ok")]
        later = well[well.t_start_ns >= row.t_start_ns]
        add(
            (row.worker_id, "task", row.status),
            len(later) > 0,
            -1,
            run.s(row.t_stop_ns - row.t_start_ns),
        )
    return found


def models(run: Run) -> dict[int, object]:
    """Counted chunks of each dataset with a, b, what they were expected to take, and their scores."""
    found = {}
    for dataset, of in run.counted.groupby("dataset_id"):
        of = of[(of.n_events >= 0) & (of.took_s > 0)]
        a, b = theil_sen(of.n_events, of.took_s)
        of = of.assign(a=a, b=b, expected_s=a + b * of.n_events)
        if math.isnan(b):
            of["expected_s"] = np.median(of.took_s)
            apart = of[of.open_s.notna() & of.wall_s.notna() & (of.n_events > 0)]
            of["a"], of["b"] = apart.open_s.median(), (apart.wall_s / apart.n_events).median()
        of = of[of.expected_s > 0]
        x = np.log(of.took_s / of.expected_s)
        off = (x - x.median()).abs()
        scale = off.median() / 0.6745 or 1.253314 * off.mean() or 1.0
        found[dataset] = of.assign(score=(x - x.median()) / scale)
    return found


def efficiency(run: Run) -> dict[str, float]:
    thread_s = {
        w: sum(run.s(p.t1 - p.t0) * p.nthreads for p in run.present if p.worker == w)
        for w in run.workers
    }
    tail0, tail1 = run.tail()

    def threads_s(t0: int, t1: int) -> float:
        return sum(run.s(max(0, min(p.t1, t1) - max(p.t0, t0))) * p.nthreads for p in run.present)

    def busy_in(t0: int, t1: int) -> float:
        steps = [step for w in run.workers for step in run.busy_steps(w)[0]]
        return sum(run.s(max(0, min(end, t1) - max(start, t0))) * n for start, end, n in steps)

    found = {
        "wall_s": run.wall_s,
        "cap_s": run.cap_s,
        "alloc_s": run.thread_s,
        "n_threads_avg": run.thread_s / run.wall_s,
        "n_threads_peak": run.peak,
        "alloc_e": ratio(run.thread_s, run.cap_s),
        "tail_s": run.s(tail1 - tail0),
        "tail_loss": ratio(threads_s(tail0, tail1) - busy_in(tail0, tail1), run.thread_s),
    }
    if not len(run.chunks):
        return found
    useful = run.counted.groupby("worker_id").cpu_s.sum()
    present = {w: s for w, s in thread_s.items() if s > 0}
    average = sum(present.values()) / len(present)  # a short life says nothing of the whole run
    most = max(ratio(useful.get(w, 0), s) for w, s in present.items() if 2 * s >= average)
    bound = not run.of["summary/efficiency"].t_inf_exact[0]  # without the graph
    merges = run.tasks[(run.tasks.side == "merge") & (run.tasks.status == "ok")]
    levels, n = 0, len(run.counted)
    while n > 1:
        levels, n = levels + 1, -(-n // 20)  # coffea merges twenty outputs at a time
    shortest = ((merges.t_stop_ns - merges.t_start_ns) * 1e-9).min() if len(merges) else 0
    return (
        found
        | {
            "events": run.n_events,
            "process_s": run.process_s,
            "cpu_s": run.cpu_s,
            "x_total_hz": run.n_events / run.wall_s,
            "pe": ratio(useful.sum(), run.thread_s),
            "lb": ratio(useful.sum(), run.thread_s * most),
            "sched_e": most,
        }
        | ({"t_inf_s": run.counted.took_s.max() + levels * shortest} if bound else {})
    )


def grid(run: Run, times: np.ndarray) -> dict[str, np.ndarray]:
    """By variable: values by worker and step, or by step."""
    edges = np.append(times, run.t1) - run.t0
    seconds, n = np.diff(edges) * 1e-9, len(times)
    shape = (len(run.workers), n)
    threads, workers, busy, capped, events, read = (np.zeros(shape) for _ in range(6))

    def spread(into, t0, t1, each_s) -> None:
        """`each_s` for every second from t0 to t1."""
        ends = np.clip([t0 - run.t0, t1 - run.t0], edges[:-1, None], edges[1:, None])
        into += each_s * (ends[:, 1] - ends[:, 0]) * 1e-9

    for p in run.present:
        spread(threads[p.worker], p.t0, p.t1, p.nthreads)
        spread(workers[p.worker], p.t0, p.t1, 1)
    for slot in run.slots:
        spread(busy[slot.worker], slot.t0, slot.t1, 1)
    for worker in run.workers:
        for t0, t1, most in run.busy_steps(worker)[0]:
            spread(capped[worker], t0, t1, most)
    for chunk in run.counted.itertuples():
        s = run.s(chunk.t_end_ns - chunk.t_start_ns)
        spread(events[chunk.worker_id], chunk.t_start_ns, chunk.t_end_ns, chunk.n_events / s)
        spread(
            read[chunk.worker_id], chunk.t_start_ns, chunk.t_end_ns, max(0, chunk.bytes_read_b) / s
        )
    here = np.where(threads > 0, 1.0, NONE)
    found = {
        "busy_threads": here * busy / seconds,
        "slot_busy_pct": 100 * busy / np.where(threads > 0, threads, NONE),
        "event_rate": here * events / seconds,
        "bytes_rate": here * read / seconds,
        "n_workers": workers.sum(0) / seconds,
        "n_threads": threads.sum(0) / seconds,
        "busy_threads_total": capped.sum(0) / seconds,
        "event_rate_total": events.sum(0) / seconds,
        "data_rate_total": read.sum(0) / seconds,
    }
    samples = run.samples
    rss = samples.rss_b.where(samples.rss_b >= 0)
    sampled = {
        "cpu_pct": samples.cpu_pct,
        "rss_b": rss,
        "memory_pct": 100 * rss / samples.memory_limit_b.where(samples.memory_limit_b > 0),
        "executing": samples.executing.where(samples.executing != NO_U16),
    }
    step = edges[1] if n > 1 else max(edges[1], 10**8)  # the last one may end after the run
    at = (samples.t_ns - run.t0) // step
    for name, values in sampled.items():
        found[name] = np.full(shape, NONE)
        known = values.notna() & (at >= 0) & (at < n)
        for (worker, i), value in (
            values[known].groupby([samples.worker_id[known], at[known]]).mean().items()
        ):
            found[name][worker, i] = value
    return found


def worker_count(run: Run) -> list[tuple[int, int, int]]:
    return run.steps
