/* Where thread-seconds go, and what holds a run back: names, meanings, limits, advice. */
#include "crema_metrics.h"

const crema_word_t crema_waterfall_words[CREMA_WATERFALL_COUNT] = {
    {"processor_cpu", "thread CPU of the processor's tasks, opening of files included",
     "useful from useless work", ""},
    {"processor_noncpu", "the rest of the processor's tasks",
     "input from the GIL, from waiting for a core, from native threads: see `/summary/bottlenecks`",
     ""},
    {"user_metered", "what the user metered inside the processor's tasks", "what the label means",
     ""},
    {"runtime", "Dask inside tasks: executor, offload, other, (de)serialize, (de)compress, spill",
     "which free slot it fell on: taken out of idle, first where tasks were waiting", ""},
    {"preprocess", "coffea's preprocessing tasks", "", ""},
    {"merge", "coffea's `reduce` tasks", "", ""},
    {"overhead", "other tasks: coffea's broadcasts; all others, where the processor is known", "",
     ""},
    {"unattributed", "other tasks, where nobody said what the processor is",
     "the processor's tasks from overhead: see `/summary/per_task_prefix`", ""},
    {"wasted", "attempts that failed, were cancelled, lost with their worker, or computed again",
     "of a killed worker: what it did after its last record", ""},
    {"idle_startup", "free threads before the run's first task began", "", ""},
    {"idle_drained", "free threads after the run's last task ended", "", ""},
    {"idle_tail",
     "free threads while the last chunks run: between the start of the last one and the end of all "
     "(of tasks, where there are "
     "no chunks)",
     "", ""},
    {"idle_join", "free threads of a worker before its first task", "", ""},
    {"idle_latency", "free threads while some task is ready", "the scheduler from the network", ""},
    {"idle_starved", "free threads while no task is ready", "the client from a dependency", ""},
    {"absent", "Cap - A: threads that had left, or had not come yet", "", ""},
    {"residual", "Cap less all others", "", ""},
};

const crema_word_t crema_bottleneck_words[CREMA_BOTTLENECK_COUNT] = {
    {"compute", "thread CPU in process(), garbage collection aside", "good code from bad",
     "the cores are busy: more of them help; profile process()"},
    {"garbage_collection", "Python's cyclic garbage collector in counted attempts",
     "what makes the garbage",
     "gc.freeze() after imports, a higher gc.set_threshold(), fewer Python objects"},
    {"input", "process() waits: neither CPU, nor the GIL, nor a missing core explain it",
     "reading from sleeping, locks, or waiting for a service; page faults",
     "faster storage or a cache nearby; fewer branches; more threads"},
    {"gil",
     "threads of one worker take turns on Python's lock: held x (k - 1) / k of the tasks' time "
     "without "
     "CPU, where k tasks run at once and `gil_contention` found it held; where nobody looked, "
     "other "
     "threads' CPU while one waited, if all want about one core (CPU + waiting for one <= 1.2)",
     "who holds it: one that computes from one that waits for a core meanwhile; a task that reads "
     "while another holds it is taken to wait for it",
     "more workers of one thread each in place of threads"},
    {"cores",
     "threads were ready to run and found no core: run-queue delay of the worker processes, of "
     "what "
     "the GIL does not explain",
     "other programs of the host from too many workers; which thread waited (Dask's own count too)",
     "fewer threads per host, or hosts of one's own"},
    {"user_metered", "seconds that the user metered in tasks", "what the label means",
     "look at /summary/per_activity"},
    {"chunk_overhead",
     "paid for every chunk whatever its size: opening files and building events, Dask's executor, "
     "waiting for the next task "
     "while one is ready",
     "a slow opening from a slow schema; CPU, waiting and turns on the GIL are the opening's in "
     "proportion to its time",
     "larger chunks (n_opt_events of /summary/chunk_model), fewer branches in the schema"},
    {"spill", "Dask's disk-read and disk-write in tasks", "",
     "more memory per worker, smaller outputs"},
    {"serialization", "Dask's (de)serialize and (de)compress in tasks",
     "coffea's own pickling, which is compute", "smaller outputs"},
    {"preprocessing", "coffea's preprocessing tasks", "", "keep the preprocessed fileset"},
    {"merging", "coffea's reduce tasks", "", "smaller outputs: fewer bins, fewer histograms"},
    {"other_tasks", "tasks that are neither chunks nor preprocessing nor merging", "",
     "look at /summary/per_task_prefix"},
    {"wasted", "failed, cancelled, lost and repeated attempts", "",
     "look at status in /chunks and events in /membership"},
    {"startup", "free threads before the first task", "the client from the scheduler",
     "start the workers later, or preprocess before"},
    {"drained", "free threads after the last task", "",
     "close the collector right after the analysis"},
    {"tail", "free threads while the last chunks run", "one slow chunk from an uneven split",
     "smaller chunks, the largest files first; look at /summary/stragglers"},
    {"scaling", "threads that had not come yet, had left, or waited for their first task", "",
     "wait for the workers before the run, or shorten start-up"},
    {"starved", "free threads while no task was ready", "the client from a dependency",
     "more chunks than threads; submit everything at once"},
};
