/* crema_msg_copy: copies are whole, and nothing of the original is looked at again. */
#include "must.h"

#include <stdlib.h>
#include <string.h>

#include "crema_wire.h"

static void
must_copy_a_run_message_whole(void **state)
{
    (void)state;
    char texts[5][8] = {"key", "", "value", "two", "prefix"};
    const char *keys[] = {texts[0], texts[1]}, *values[] = {texts[2], texts[3]},
               *prefixes[] = {texts[4]};
    const crema_msg_t msg = {.type = CREMA_MSG_RUN_END,
                             .run = {.run_id = {{1}},
                                     .t_start_ns = 2,
                                     .t_end_ns = 3,
                                     .n_attributes = 2,
                                     .keys = keys,
                                     .values = values,
                                     .n_prefixes = 1,
                                     .processor_prefixes = prefixes,
                                     .dismiss = true}};
    crema_msg_t *whole = NULL;
    must(crema_msg_copy(&msg, &whole));
    const crema_run_msg_t *copy = &whole->run;
    assert_int_equal(whole->type, CREMA_MSG_RUN_END);
    memset(texts, '?', sizeof texts);
    memset(keys, 0, sizeof keys);
    memset(values, 0, sizeof values);
    memset(prefixes, 0, sizeof prefixes);
    assert_int_equal(copy->t_start_ns, 2);
    assert_int_equal(copy->t_end_ns, 3);
    assert_true(copy->dismiss);
    assert_string_equal(copy->keys[0], "key");
    assert_string_equal(copy->keys[1], "");
    assert_string_equal(copy->values[0], "value");
    assert_string_equal(copy->values[1], "two");
    assert_string_equal(copy->processor_prefixes[0], "prefix");
    free(whole);
}

static void
must_copy_an_empty_message(void **state)
{
    (void)state;
    const crema_msg_t run = {.type = CREMA_MSG_RUN_OPEN, .run.run_id = {{1}}};
    const crema_msg_t sealed = {.type = CREMA_MSG_SEALED, .sealed.run_id = {{1}}};
    crema_msg_t *run_copy = NULL, *sealed_copy = NULL;
    must(crema_msg_copy(&run, &run_copy));
    must(crema_msg_copy(&sealed, &sealed_copy));
    assert_int_equal(run_copy->run.n_attributes, 0);
    assert_string_equal(sealed_copy->sealed.path, "");
    assert_string_equal(sealed_copy->sealed.error, "");
    free(run_copy);
    free(sealed_copy);
}

static void
must_copy_reasons(void **state)
{
    (void)state;
    char code[] = "agent_lost", subject[] = "node", text[] = "a sentence";
    const crema_reason_t reasons[] = {{code, subject, text, 7}, {code, NULL, text, 8}};
    const crema_msg_t msg = {.type = CREMA_MSG_SEALED,
                             .sealed = {.run_id = {{1}},
                                        .path = "/x.h5",
                                        .verdict = "PARTIAL",
                                        .error = "none",
                                        .revision = 4,
                                        .n_reasons = 2,
                                        .reasons = reasons}};
    crema_msg_t *whole = NULL;
    must(crema_msg_copy(&msg, &whole));
    const crema_sealed_t *copy = &whole->sealed;
    code[0] = subject[0] = text[0] = '?';
    assert_string_equal(copy->path, "/x.h5");
    assert_string_equal(copy->verdict, "PARTIAL");
    assert_string_equal(copy->error, "none");
    assert_int_equal(copy->revision, 4);
    assert_string_equal(copy->reasons[0].code, "agent_lost");
    assert_string_equal(copy->reasons[0].subject, "node");
    assert_string_equal(copy->reasons[0].text, "a sentence");
    assert_int_equal(copy->reasons[0].count, 7);
    assert_string_equal(copy->reasons[1].subject, "");
    assert_int_equal(copy->reasons[1].count, 8);
    free(whole);
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
