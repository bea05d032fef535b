/* crema_msg_copy: copies are whole, and nothing of the original is looked at again. */
#include "must.h"

#include <stdlib.h>
#include <string.h>

#include "crema_wire.h"
#include "message_parts.h"

static void
must_copy_a_run_message_whole(void **state)
{
    (void)state;
    char texts[5][8] = {"key", "", "value", "two", "prefix"};
    char *keys[] = {texts[0], texts[1]}, *values[] = {texts[2], texts[3]}, *prefixes[] = {texts[4]};
    crema_id_t run_id = {{1}};
    const crema_msg_t msg = {.type = CREMA_MSG_RUN_END,
                             .run_end = {.run_id = crema_id_field(&run_id),
                                         .t_start_ns = 2,
                                         .t_end_ns = 3,
                                         .n_keys = 2,
                                         .keys = keys,
                                         .n_values = 2,
                                         .values = values,
                                         .n_processor_prefixes = 1,
                                         .processor_prefixes = prefixes,
                                         .dismiss = true}};
    crema_msg_t *whole = NULL;
    must(crema_msg_copy(&msg, &whole));
    const Crema__RunEnd *copy = &whole->run_end;
    assert_int_equal(whole->type, CREMA_MSG_RUN_END);
    memset(texts, '?', sizeof texts);
    memset(keys, 0, sizeof keys);
    memset(values, 0, sizeof values);
    memset(prefixes, 0, sizeof prefixes);
    memset(&run_id, 0, sizeof run_id);
    assert_int_equal(crema_id_of(copy->run_id)->bytes[0], 1);
    assert_int_equal(copy->t_start_ns, 2);
    assert_int_equal(copy->t_end_ns, 3);
    assert_true(copy->dismiss);
    assert_string_equal(copy->keys[0], "key");
    assert_string_equal(copy->keys[1], "");
    assert_string_equal(copy->values[0], "value");
    assert_string_equal(copy->values[1], "two");
    assert_string_equal(copy->processor_prefixes[0], "prefix");
    crema_msg_destroy(&whole);
}

static void
must_copy_an_empty_message(void **state)
{
    (void)state;
    const crema_msg_t run = {.type = CREMA_MSG_RUN_OPEN, .run_id = body_id((crema_id_t){{1}})};
    const crema_msg_t sealed = {.type = CREMA_MSG_SEALED, .run_id = body_id((crema_id_t){{1}})};
    crema_msg_t *run_copy = NULL, *sealed_copy = NULL;
    must(crema_msg_copy(&run, &run_copy));
    must(crema_msg_copy(&sealed, &sealed_copy));
    assert_int_equal(run_copy->run_open.n_keys, 0);
    assert_string_equal(sealed_copy->sealed.path, "");
    assert_string_equal(sealed_copy->sealed.error, "");
    crema_msg_destroy(&run_copy);
    crema_msg_destroy(&sealed_copy);
}

static void
must_copy_reasons(void **state)
{
    (void)state;
    char code[] = "agent_lost", subject[] = "node", text[] = "a sentence";
    Crema__Reason reasons[] = {crema_reason(code, subject, text, 7),
                               crema_reason(code, NULL, text, 8)};
    const crema_msg_t msg = {.type = CREMA_MSG_SEALED,
                             .sealed = {.run_id = body_id((crema_id_t){{1}}),
                                        .path = "/x.h5",
                                        .verdict = "PARTIAL",
                                        .error = "none",
                                        .revision = 4,
                                        .n_reasons = 2,
                                        .reasons = body_reasons(2, reasons)}};
    crema_msg_t *whole = NULL;
    must(crema_msg_copy(&msg, &whole));
    const Crema__Sealed *copy = &whole->sealed;
    code[0] = subject[0] = text[0] = '?';
    assert_string_equal(copy->path, "/x.h5");
    assert_string_equal(copy->verdict, "PARTIAL");
    assert_string_equal(copy->error, "none");
    assert_int_equal(copy->revision, 4);
    assert_string_equal(copy->reasons[0]->code, "agent_lost");
    assert_string_equal(copy->reasons[0]->subject, "node");
    assert_string_equal(copy->reasons[0]->text, "a sentence");
    assert_int_equal(copy->reasons[0]->count, 7);
    assert_string_equal(copy->reasons[1]->subject, "");
    assert_int_equal(copy->reasons[1]->count, 8);
    crema_msg_destroy(&whole);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_copy_a_run_message_whole),
        cmocka_unit_test(must_copy_an_empty_message),
        cmocka_unit_test(must_copy_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
