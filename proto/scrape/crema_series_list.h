/* crema_series_list - the rows of crema_series.h: X(id, type, name, labels, help), in the order
 * in which they are shown. */
#ifndef CREMA_SERIES_LIST_H
#define CREMA_SERIES_LIST_H

#define CREMA_SERIES_LIST(X)                                                                       \
    X(BUILD, GAUGE, "crema_build_info", TWO("program", "version"),                                 \
      "Always 1; the labels name the program and its version.")                                    \
    X(CPU, COUNTER, "process_cpu_seconds_total", NONE,                                             \
      "Processor time of this process, user and system.")                                          \
    X(MEMORY, GAUGE, "process_resident_memory_bytes", NONE, "Resident memory of this process.")    \
    X(STARTED, GAUGE, "process_start_time_seconds", NONE,                                          \
      "When this process started, seconds since 1970 UTC.")                                        \
    X(SCRAPES, COUNTER, "crema_scrapes_total", NONE,                                               \
      "Requests answered at the address of --metrics.")                                            \
    X(SCRAPES_REFUSED, COUNTER, "crema_scrapes_refused_total", NONE,                               \
      "Connections to that address that were refused or cut: too many per second, or too slow.")   \
                                                                                                   \
    X(SINK_HEALTHY, GAUGE, "crema_sink_healthy", NONE,                                             \
      "1 while the journal can be written (as --health-file); else 0.")                            \
    X(SINK_AGGREGATORS, GAUGE, "crema_sink_aggregators", NONE,                                     \
      "Aggregators that the sink has heard from.")                                                 \
    X(SINK_MESSAGES, COUNTER, "crema_sink_messages_total", NONE, "Messages received.")             \
    X(SINK_BAD, COUNTER, "crema_sink_bad_messages_total", NONE,                                    \
      "Messages that could not be decoded.")                                                       \
    X(SINK_PUTS, COUNTER, "crema_sink_puts_total", NONE, "Batches of records received.")           \
    X(SINK_RECEIVED, COUNTER, "crema_sink_received_records_total", NONE,                           \
      "Records received, repeats included.")                                                       \
    X(SINK_RECORDS, COUNTER, "crema_sink_records_total", NONE, "Records written to a journal.")    \
    X(SINK_UNCOMMITTED, GAUGE, "crema_sink_uncommitted_records", NONE,                             \
      "Records written and not yet synced to disk.")                                               \
    X(SINK_COMMITS, COUNTER, "crema_sink_commits_total", NONE,                                     \
      "Groups of records synced to disk.")                                                         \
    X(SINK_COMMITTED_BYTES, COUNTER, "crema_sink_committed_bytes_total", NONE,                     \
      "Bytes of journal synced to disk.")                                                          \
    X(SINK_LATENCY, HISTOGRAM, "crema_sink_commit_latency_seconds", NONE,                          \
      "From the arrival of a group's first record until the group was durable.")                   \
    X(SINK_SYNC, HISTOGRAM, "crema_sink_sync_seconds", NONE,                                       \
      "Time that writing and syncing a group took.")                                               \
    X(SINK_REPEATS, COUNTER, "crema_sink_repeated_puts_total", NONE,                               \
      "Batches whose records were all in the journal already.")                                    \
    X(SINK_GAPS, COUNTER, "crema_sink_gaps_total", NONE,                                           \
      "Batches refused because records before them were missing; they are asked for again.")       \
    X(SINK_REFUSED, COUNTER, "crema_sink_refused_messages_total", NONE,                            \
      "Valid messages that could not be accepted.")                                                \
    X(SINK_FULL, COUNTER, "crema_sink_full_total", NONE,                                           \
      "Batches refused because the store was full.")                                               \
    X(SINK_NOT_ALLOWED, COUNTER, "crema_sink_not_allowed_total", NONE,                             \
      "Messages that their sender's key may not send.")                                            \
    X(SINK_KEYS_REFUSED, COUNTER, "crema_sink_keys_refused_total", NONE,                           \
      "Connections refused because their key is not admitted.")                                    \
    X(SINK_CROWDED, COUNTER, "crema_sink_connections_closed_total", NONE,                          \
      "Connections closed because their address had too many.")                                    \
    X(SINK_UNTAKEN, COUNTER, "crema_sink_untaken_messages_total", NONE,                            \
      "Messages not sent because the aggregator had too many unread.")                             \
    X(SINK_STREAMS, GAUGE, "crema_sink_streams", NONE, "Streams held in memory.")                  \
    X(SINK_RUNS, GAUGE, "crema_sink_runs", ONE("phase"),                                           \
      "Runs of the store by phase; resting: sealed, and out of memory; unread: there since "       \
      "before the start and not read yet.")                                                        \
    X(SINK_JOURNAL, GAUGE, "crema_sink_journal_bytes", NONE, "Bytes of all journals.")             \
    X(SINK_RESTING, GAUGE, "crema_sink_resting_journal_bytes", NONE,                               \
      "Bytes of the journals of sealed runs, which are freed by --retain.")                        \
    X(SINK_STORE_FREE, GAUGE, "crema_sink_store_free_bytes", NONE,                                 \
      "Bytes that journals may still take: the disk and --journal-limit.")                         \
    X(SINK_SHORT, GAUGE, "crema_sink_space_short", NONE,                                           \
      "1 while the store is short of room, so that agents are slowed down; else 0.")               \
    X(SINK_NO_SPACE, GAUGE, "crema_sink_space_full", NONE,                                         \
      "1 while the store accepts no records because it is full; else 0.")                          \
    X(SINK_SEALING, GAUGE, "crema_sink_sealing_runs", ONE("state"),                                \
      "Runs whose file is being made, and runs that wait for it.")                                 \
    X(SINK_VERDICTS, COUNTER, "crema_sink_sealed_files_total", ONE("verdict"),                     \
      "Run files made, new revisions included, by verdict.")                                       \
    X(SINK_REASONS, COUNTER, "crema_sink_verdict_reasons_total", ONE("reason"),                    \
      "Reasons of the verdicts in those files.")                                                   \
    X(SINK_SEAL_FAILED, COUNTER, "crema_sink_seal_failures_total", NONE,                           \
      "Failed attempts to make a run file; each is repeated.")                                     \
    X(SINK_DAMAGED, COUNTER, "crema_sink_damaged_bytes_total", NONE,                               \
      "Bytes of journals that were synced and can no longer be read, found since the start.")      \
    X(SINK_MISSING, COUNTER, "crema_sink_missing_records_total", NONE,                             \
      "Records that were acknowledged and can no longer be read, found since the start.")          \
    X(SINK_LATE, COUNTER, "crema_sink_late_records_total", NONE,                                   \
      "Records that came for freed runs and are in no file: an upper bound, over all starts.")     \
                                                                                                   \
    X(AGG_HEALTHY, GAUGE, "crema_aggregator_healthy", NONE,                                        \
      "1 while the sink answers (as --health-file); else 0.")                                      \
    X(AGG_AGENTS, GAUGE, "crema_aggregator_agents", ONE("state"),                                  \
      "Agents by the state of their session; lost: silent for ten heartbeats and at least 30 s.")  \
    X(AGG_BACKLOG, GAUGE, "crema_aggregator_backlog_records", NONE,                                \
      "Records that are known to exist and are not durable, of all agents and of runs without a "  \
      "file.")                                                                                     \
    X(AGG_AGENT_BACKLOG, GAUGE, "crema_aggregator_agent_backlog_records", TWO("agent", "host"),    \
      "The same for the 20 agents with the most of them.")                                         \
    X(AGG_RUNS, GAUGE, "crema_aggregator_runs", ONE("phase"),                                      \
      "Runs that the aggregator follows, by phase; barrier: ended, and agents are asked what "     \
      "they hold.")                                                                                \
    X(AGG_STREAMS, GAUGE, "crema_aggregator_streams", NONE,                                        \
      "Streams that the aggregator follows.")                                                      \
    X(AGG_DATA, COUNTER, "crema_aggregator_batches_total", NONE,                                   \
      "Batches of records accepted from agents.")                                                  \
    X(AGG_RECEIVED_BYTES, COUNTER, "crema_aggregator_received_bytes_total", NONE,                  \
      "Bytes of records in these batches.")                                                        \
    X(AGG_DATA_DROPPED, COUNTER, "crema_aggregator_dropped_batches_total", NONE,                   \
      "Batches that were not accepted; agents send them again.")                                   \
    X(AGG_REPEATS, COUNTER, "crema_aggregator_repeated_batches_total", NONE,                       \
      "Of these, batches that had been accepted before.")                                          \
    X(AGG_GAPS, COUNTER, "crema_aggregator_gaps_total", NONE,                                      \
      "Of these, batches with records missing before them.")                                       \
    X(AGG_RECORDS, COUNTER, "crema_aggregator_records_total", NONE,                                \
      "Records passed on to the sink.")                                                            \
    X(AGG_BYTES, COUNTER, "crema_aggregator_bytes_total", NONE,                                    \
      "Bytes of records passed on to the sink.")                                                   \
    X(AGG_COMMITTED, COUNTER, "crema_aggregator_committed_records_total", NONE,                    \
      "Records that the sink has reported durable.")                                               \
    X(AGG_NACKS, COUNTER, "crema_aggregator_nacks_total", NONE,                                    \
      "Batches that the sink refused: records before them were missing, or too much of "           \
      "their run waited.")                                                                         \
    X(AGG_REPLAYS, COUNTER, "crema_aggregator_replays_total", NONE,                                \
      "Times that an agent was asked again for a stream.")                                         \
    X(AGG_CREDIT, GAUGE, "crema_aggregator_credit_bytes", NONE,                                    \
      "Bytes that all agents together may have in transit (--credit).")                            \
    X(AGG_CREDIT_GRANTED, GAUGE, "crema_aggregator_credit_granted_bytes", NONE,                    \
      "Of these, bytes granted to agents and not released.")                                       \
    X(AGG_CREDIT_USED, GAUGE, "crema_aggregator_credit_used_bytes", NONE,                          \
      "Bytes received from agents and not durable yet.")                                           \
    X(AGG_SPLIT_LEFT, COUNTER, "crema_aggregator_split_left_out_total", NONE,                      \
      "Runs and records left out of the live split, which affects no run file.")                   \
    X(AGG_MESSAGES, COUNTER, "crema_aggregator_messages_total", NONE,                              \
      "Messages received from agents and clients.")                                                \
    X(AGG_BAD, COUNTER, "crema_aggregator_bad_messages_total", NONE,                               \
      "Messages that could not be decoded.")                                                       \
    X(AGG_HELLOS, COUNTER, "crema_aggregator_hellos_total", NONE, "HELLO messages of agents.")     \
    X(AGG_FENCES, COUNTER, "crema_aggregator_fences_total", NONE,                                  \
      "Peers that were refused or sent away.")                                                     \
    X(AGG_REFUSED, COUNTER, "crema_aggregator_refused_total", NONE,                                \
      "Valid requests that could not be granted.")                                                 \
    X(AGG_NO_ROOM, COUNTER, "crema_aggregator_no_room_total", NONE,                                \
      "Agents and streams refused because the tables were full.")                                  \
    X(AGG_NOT_ALLOWED, COUNTER, "crema_aggregator_not_allowed_total", NONE,                        \
      "Messages that their sender's key may not send.")                                            \
    X(AGG_REVOKED, COUNTER, "crema_aggregator_revoked_messages_total", NONE,                       \
      "Messages sent with revoked keys.")                                                          \
    X(AGG_KEYS_REFUSED, COUNTER, "crema_aggregator_keys_refused_total", NONE,                      \
      "Connections refused because their key is not admitted.")                                    \
    X(AGG_CROWDED, COUNTER, "crema_aggregator_connections_closed_total", NONE,                     \
      "Connections closed because their address had too many.")                                    \
    X(AGG_UNTAKEN, COUNTER, "crema_aggregator_untaken_messages_total", NONE,                       \
      "Messages not sent because the peer had too many unread.")                                   \
    X(AGG_UNROUTABLE, COUNTER, "crema_aggregator_unroutable_messages_total", NONE,                 \
      "Messages to peers that had left.")                                                          \
    X(AGG_DROPPED, COUNTER, "crema_aggregator_dropped_messages_total", ONE("to"),                  \
      "Messages that a full socket did not accept; they are sent again.")                          \
    X(AGG_VERDICTS, COUNTER, "crema_aggregator_verdicts_total", ONE("verdict"),                    \
      "Verdicts given, later ones of the same run included.")                                      \
    X(AGG_REASONS, COUNTER, "crema_aggregator_verdict_reasons_total", ONE("reason"),               \
      "Reasons of these verdicts.")

#endif
