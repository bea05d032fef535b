/* crema_sender: whose turn it is, from where, and what may be freed. */
#include "must.h"

#include <stdlib.h>
#include <string.h>

#include "crema_sender.h"

static const crema_id_t s_run = {{9}};

static crema_id_t
s_id(uint8_t n)
{
    return (crema_id_t){{n, 0x33}};
}

/* What the spool holds. */
static crema_spool_stream_t s_spool[5];

static crema_err_t
s_try_to_hold(crema_sender_t *sender, uint8_t n, uint64_t hi, bool *ret_new)
{
    s_spool[n].stream_id = s_id(n);
    s_spool[n].run_id = s_run;
    s_spool[n].first_avail = 1;
    s_spool[n].hi = hi;
    return crema_sender_follow(sender, &s_spool[n], ret_new);
}

static void
s_hold(crema_sender_t *sender, uint8_t n, uint64_t hi)
{
    bool is_new;
    must(s_try_to_hold(sender, n, hi, &is_new));
}

static void
s_confirm(crema_sender_t *sender, uint8_t n, uint64_t recv_next, uint64_t committed, int64_t now)
{
    crema_stream_row_t row = {.stream_id = s_id(n), .recv_next = recv_next, .committed = committed};
    crema_sender_confirm(sender, &row, now);
}

/* 0 when it is nobody's turn, else the stream's number; *ret_next is where it goes on. */
static uint8_t
s_turn(crema_sender_t *sender, uint64_t *ret_next)
{
    const crema_spool_stream_t *stream = crema_sender_turn(sender);
    if (!stream)
        return 0;
    *ret_next = stream->cursor.next;
    return stream->stream_id.bytes[0];
}

static crema_sender_t *
s_sender(void)
{
    crema_sender_t *sender = NULL;
    memset(s_spool, 0, sizeof s_spool);
    must(crema_sender_new(3, &sender));
    return sender;
}

static void
must_give_turns_in_turn(void **state)
{
    (void)state;
    crema_sender_t *sender = s_sender();
    uint64_t next = 0;
    for (uint8_t n = 1; n <= 3; n++)
        s_hold(sender, n, 4);
    assert_int_equal(s_turn(sender, &next), 0); /* none is placed */
    for (uint8_t n = 1; n <= 3; n++)
        s_confirm(sender, n, n, 0, 0);
    for (uint8_t round = 0; round < 6; round++) {
        uint8_t n = (uint8_t)(round % 3 + 1);
        assert_int_equal(s_turn(sender, &next), n);
        assert_int_equal(next, (uint64_t)n + round / 3);
        crema_id_t id = s_id(n);
        crema_sender_sent(sender, &id, next, 1, 0);
    }
    assert_int_equal(s_turn(sender, &next), 1); /* 3 has sent all it has, 2 waits behind 1 */
    assert_int_equal(s_turn(sender, &next), 2);
    assert_int_equal(s_turn(sender, &next), 0); /* both are set aside */
    crema_id_t first = s_id(1);
    crema_sender_sent(sender, &first, 3, 0, 0);
    assert_int_equal(s_turn(sender, &next), 0); /* could not be sent: not before the next retry */
    crema_sender_retry(sender);
    assert_int_equal(s_turn(sender, &next), 1);
    assert_int_equal(next, 3);
    crema_sender_destroy(&sender);
    assert_null(sender);
    crema_sender_destroy(&sender);
}

static void
must_free_what_is_committed_and_held(void **state)
{
    (void)state;
    static const struct {
        uint64_t hi, committed, want; /* 0: nothing new to free */
    } rows[] = {{5, 0, 0}, {5, 3, 3}, {5, 3, 0}, {5, 2, 0}, {5, 9, 5}, {8, 9, 8}, {12, 9, 9}};
    crema_sender_t *sender = s_sender();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t committed = 0;
        s_hold(sender, 1, rows[i].hi);
        s_confirm(sender, 1, 1, rows[i].committed, 0);
        bool told = crema_sender_trim(sender, &committed) == &s_spool[1];
        if (told != (rows[i].want != 0) || committed != rows[i].want)
            fail_msg("row %zu: %llu", i, (unsigned long long)committed);
        if (told)
            s_spool[1].committed = committed; /* as crema_spool_trim() does */
    }
    assert_int_equal(crema_sender_undelivered(sender), 1);
    assert_int_equal(crema_sender_uncommitted_records(sender), 3);
    assert_int_equal(crema_sender_committed_records(sender), 9);
    crema_sender_forget(sender, &s_spool[1]);
    crema_sender_forget(sender, &s_spool[1]);
    assert_int_equal(crema_sender_undelivered(sender), 0);
    assert_int_equal(crema_sender_count(sender), 0);
    crema_sender_destroy(&sender);
}

static void
must_forget_what_is_gone_and_leave_no_trace_in_what_stays(void **state)
{
    (void)state;
    crema_sender_t *sender = s_sender();
    Crema__StreamTable *table;
    must(crema_stream_table_new(1, &table));
    for (uint8_t n = 1; n <= 3; n++)
        s_hold(sender, n, 5);
    s_confirm(sender, 2, 3, 2, 0);
    crema_sender_forget(sender, &s_spool[1]);
    crema_sender_forget(sender, &s_spool[3]);
    assert_int_equal(crema_sender_count(sender), 1);
    assert_int_equal(crema_sender_undelivered(sender), 1);
    assert_int_equal(crema_sender_rows(sender, 0, 1, false, table), 1);
    const crema_stream_row_t row = crema_stream_table_row(table, 0);
    free(table);
    crema_id_t two = s_id(2);
    assert_true(crema_id_equal(&row.stream_id, &two));
    assert_int_equal(row.committed, 2);
    assert_int_equal(row.recv_next, 3);
    crema_sender_destroy(&sender); /* the spool's streams outlive it: another sender begins anew */
    sender = NULL;
    must(crema_sender_new(3, &sender));
    s_hold(sender, 2, 5);
    uint64_t next;
    assert_int_equal(s_turn(sender, &next), 0);
    assert_int_equal(crema_sender_uncommitted_records(sender), 5);
    crema_sender_destroy(&sender);
}

static void
must_go_back_only_where_nothing_moved(void **state)
{
    (void)state;
    crema_sender_t *sender = s_sender();
    uint64_t next = 0;
    crema_id_t one = s_id(1), two = s_id(2), unknown = s_id(77);
    s_hold(sender, 1, 9);
    s_hold(sender, 2, 9);
    s_confirm(sender, 1, 1, 0, 0);
    s_confirm(sender, 2, 1, 0, 0);
    crema_sender_sent(sender, &one, 1, 5, 100);
    crema_sender_sent(sender, &two, 1, 5, 100);
    s_confirm(sender, 2, 3, 2, 150);
    assert_int_equal(crema_sender_rewind_stale(sender, 100, 199), 0);
    assert_int_equal(crema_sender_rewind_stale(sender, 100, 200), 1);
    assert_int_equal(crema_sender_rewind_stale(sender, 100, 201), 0);
    assert_int_equal(crema_sender_rewind_stale(sender, 100, 250), 1);
    s_turn(sender, &next);
    assert_int_equal(next, 1);
    s_turn(sender, &next);
    assert_int_equal(next, 3);
    assert_true(crema_sender_rewind(sender, &one, 4, 300));
    assert_false(crema_sender_rewind(sender, &one, 0, 300));
    assert_false(crema_sender_rewind(sender, &unknown, 4, 300));
    crema_sender_retry(sender);
    assert_int_equal(s_turn(sender, &next), 1);
    assert_int_equal(next, 4);
    crema_sender_destroy(&sender);
}

static void
must_start_over_in_a_new_session_with_what_the_store_has(void **state)
{
    (void)state;
    crema_sender_t *sender = s_sender();
    uint64_t next = 0;
    crema_id_t id = s_id(1);
    s_hold(sender, 1, 9);
    s_confirm(sender, 1, 8, 6, 0);
    crema_sender_begin_session(sender);
    assert_int_equal(s_turn(sender, &next), 0);
    crema_stream_row_t row = {.stream_id = id, .committed = 2, .recv_next = 0};
    crema_sender_welcome(sender, &row, 0);
    assert_int_equal(s_turn(sender, &next), 0); /* the receiver does not know yet */
    row.recv_next = 8;
    crema_sender_welcome(sender, &row, 0);
    assert_int_equal(s_turn(sender, &next), 1);
    assert_int_equal(next,
                     3); /* another store: behind what it has, although more was committed before */
    crema_sender_destroy(&sender);
}

static void
must_show_every_stream_and_refuse_one_too_many(void **state)
{
    (void)state;
    crema_sender_t *sender = s_sender();
    Crema__StreamTable *table;
    must(crema_stream_table_new(3, &table));
    bool is_new = false;
    for (uint8_t n = 1; n <= 3; n++)
        s_hold(sender, n, n);
    assert_int_equal(s_try_to_hold(sender, 4, 1, &is_new), CREMA_ELIMIT);
    s_spool[3].closed = true;
    s_spool[3].owner = 1000;
    must(s_try_to_hold(sender, 3, 3, &is_new));
    assert_false(is_new);
    assert_int_equal(crema_sender_rows(sender, 0, 2, true, table), 2);
    assert_int_equal(crema_sender_rows(sender, 2, 2, true, table), 1);
    const crema_stream_row_t last = crema_stream_table_row(table, 2);
    assert_int_equal(last.hi, 3);
    assert_int_equal(last.user, 1001);
    assert_int_equal(last.flags, CREMA_STREAM_FLAG_CLOSED);
    assert_int_equal(crema_sender_rows(sender, 3, 2, true, table), 0);
    free(table);
    assert_true(crema_sender_has_open(sender));
    crema_sender_forget(sender, &s_spool[1]);
    crema_sender_forget(sender, &s_spool[2]);
    assert_false(crema_sender_has_open(sender));
    crema_sender_destroy(&sender);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_give_turns_in_turn),
        cmocka_unit_test(must_free_what_is_committed_and_held),
        cmocka_unit_test(must_forget_what_is_gone_and_leave_no_trace_in_what_stays),
        cmocka_unit_test(must_go_back_only_where_nothing_moved),
        cmocka_unit_test(must_start_over_in_a_new_session_with_what_the_store_has),
        cmocka_unit_test(must_show_every_stream_and_refuse_one_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
