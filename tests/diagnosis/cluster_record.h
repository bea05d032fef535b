/* cluster_record - what crema's hooks write of a simulated run: a real journal. */
#ifndef CLUSTER_RECORD_H
#define CLUSTER_RECORD_H

#include "diagnosis/cluster.h"

/* Runs the plan and records it in `dir`, which is made; returns how long the run took. */
double cluster_record(const cluster_plan_t *plan, const char *dir);

#endif
