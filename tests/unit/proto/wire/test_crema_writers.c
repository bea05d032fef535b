/* crema_writers: a list put together of its parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena_fixture.h"
#include "crema_writers.h"
#include "message_parts.h"
#include "must.h"

static const crema_id_t s_run = {{0xee}};

static Crema__RunWriters
s_part(uint32_t part, uint32_t parts, size_t n, Crema__Writer *writers)
{
    return (Crema__RunWriters){.run_id = crema_id_field(&s_run),
                               .part = part,
                               .parts = parts,
                               .n_writers = n,
                               .writers = body_writers(n, writers)};
}

static void
must_be_whole_with_its_last_part(void **state)
{
    (void)state;
    crema_writers_t *list;
    must(crema_writers_new(&list));
    assert_false(crema_writers_is_whole(list));
    char name[] = "A";
    Crema__Writer a = {.last = 3, .state = CREMA_WRITER_ENDED, .name = name, .uuid = "u"};
    Crema__Writer b = {.last = 4, .name = "B"};
    Crema__RunWriters second = s_part(1, 2, 1, &a), first = s_part(0, 2, 1, &b);
    must(crema_writers_take(list, &second));
    name[0] = 'X'; /* it is copied */
    assert_false(crema_writers_is_whole(list));
    assert_null(crema_writers_part(list, 0));
    must(crema_writers_take(list, &first));
    assert_int_equal(crema_writers_take(list, &first), CREMA_EREPEAT);
    assert_true(crema_writers_is_whole(list));
    crema_writers_cursor_t cursor = {0};
    assert_string_equal(crema_writers_next(list, &cursor)->name, "B");
    const Crema__Writer *last = crema_writers_next(list, &cursor);
    assert_string_equal(last->name, "A");
    assert_string_equal(last->text, "");
    assert_int_equal(last->last, 3);
    assert_null(crema_writers_next(list, &cursor));
    crema_writers_destroy(&list);
}

static void
must_take_the_last_word(void **state)
{
    (void)state;
    crema_writers_t *list;
    must(crema_writers_new(&list));
    Crema__Writer a = {.last = 3, .name = "A"};
    Crema__RunWriters msg = s_part(0, 1, 1, &a);
    must(crema_writers_take(list, &msg));
    a.last = 5;
    must(crema_writers_take(list, &msg));
    crema_writers_cursor_t cursor = {0};
    assert_int_equal(crema_writers_next(list, &cursor)->last, 5);
    assert_null(crema_writers_next(list, &cursor));
    msg = s_part(2, 3, 0, NULL); /* of another list */
    must(crema_writers_take(list, &msg));
    assert_int_equal(crema_writers_parts(list), 3);
    assert_false(crema_writers_is_whole(list));
    crema_writers_destroy(&list);
}

static void
must_refuse_what_is_no_part(void **state)
{
    (void)state;
    crema_writers_t *list;
    must(crema_writers_new(&list));
    Crema__RunWriters msg = s_part(2, 2, 0, NULL);
    assert_int_equal(crema_writers_take(list, &msg), CREMA_EINVAL);
    msg = s_part(0, CREMA_WIRE_WRITER_PARTS_MAX + 1, 0, NULL);
    assert_int_equal(crema_writers_take(list, &msg), CREMA_ELIMIT);
    assert_int_equal(crema_writers_parts(list), 0);
    crema_writers_destroy(&list);
}

/* Ten thousand writers with names as Dask gives them, through the wire. */
static void
must_carry_ten_thousand_in_parts(void **state)
{
    (void)state;
    enum { N = 10000, A_PART = 1000 };
    static Crema__Writer writers[A_PART];
    static crema_id_t ids[A_PART];
    static char names[A_PART][64], uuids[A_PART][64];
    crema_writers_t *list;
    must(crema_writers_new(&list));
    for (uint32_t part = 0; part < N / A_PART; part++) {
        for (uint32_t i = 0; i < A_PART; i++) {
            uint32_t number = part * A_PART + i;
            snprintf(names[i], sizeof names[i], "tls://worker-%05u.cluster.example.org:40001",
                     number);
            snprintf(uuids[i], sizeof uuids[i], "htcondor--%05u-4a1f0d62-1f2e-4c9a", number);
            writers[i] = (Crema__Writer){.last = number + 2,
                                         .state = CREMA_WRITER_ENDED,
                                         .name = names[i],
                                         .uuid = uuids[i]};
            memcpy(ids[i].bytes, &number, sizeof number);
            ids[i].bytes[15] = 1;
            writers[i].stream_id = crema_id_field(&ids[i]);
        }
        crema_msg_t msg = {.type = CREMA_MSG_RUN_WRITERS,
                           .run_writers = s_part(part, N / A_PART, A_PART, writers)};
        crema_msg_t back;
        uint8_t *bytes;
        size_t size;
        must(crema_wire_encode(&msg, &bytes, &size));
        must(crema_wire_decode(bytes, size, fixture_arena, &back));
        must(crema_writers_take(list, &back.run_writers));
        free(bytes);
    }
    assert_true(crema_writers_is_whole(list));
    crema_writers_cursor_t cursor = {0};
    uint64_t sum = 0;
    for (const Crema__Writer *writer; (writer = crema_writers_next(list, &cursor)) != NULL;)
        sum += writer->last;
    assert_int_equal(sum, (uint64_t)N * (N - 1) / 2 + 2 * N);
    crema_writers_destroy(&list);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_be_whole_with_its_last_part),
        cmocka_unit_test(must_take_the_last_word),
        cmocka_unit_test(must_refuse_what_is_no_part),
        cmocka_unit_test(must_carry_ten_thousand_in_parts),
    };
    return cmocka_run_group_tests(tests, fixture_arena_set_up, fixture_arena_tear_down);
}
