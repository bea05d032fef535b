/* Who a connection belongs to: the text that the handler of keys writes is read back, and each
 * role sends its own messages only. */
#include "must.h"

#include <string.h>

#include "crema_principal.h"

static void
test_what_is_printed_is_read_back(void **state)
{
    (void)state;
    uint8_t public_key[32];
    for (size_t i = 0; i < sizeof public_key; i++)
        public_key[i] = (uint8_t)(i + 1);
    for (int as = CREMA_AS_ANY; as < CREMA_AS_SERVER; as++) {
        crema_principal_t back, self = {.as = (crema_as_t)as, .name = "m.curie@cern.ch"};
        char text[CREMA_PRINCIPAL_TEXT_MAX];
        self.key = crema_principal_key(public_key);
        must(crema_principal_parse(crema_principal_print(&self, text), &back));
        assert_int_equal(back.as, self.as);
        assert_string_equal(back.name, self.name);
        assert_true(crema_principal_is_same(&back, &self));
        public_key[15]++;
        self.key = crema_principal_key(public_key);
        assert_false(crema_principal_is_same(&back, &self));
    }
}

static void
test_without_a_text_it_is_nobody(void **state)
{
    (void)state;
    crema_principal_t self = {.as = CREMA_AS_AGENT};
    must(crema_principal_parse(NULL, &self));
    assert_int_equal(self.as, CREMA_AS_ANY);
    assert_true(crema_id_is_zero(&self.key));
    self.as = CREMA_AS_AGENT;
    must(crema_principal_parse("", &self));
    assert_int_equal(self.as, CREMA_AS_ANY);
}

static void
test_an_agent_of_one_run_says_so_in_its_name(void **state)
{
    (void)state;
    const uint8_t public_key[32] = {1, 2, 3};
    char text[CREMA_PRINCIPAL_TEXT_MAX];
    crema_id_t run_id;
    crema_principal_t back;
    assert_true(crema_id_parse("00112233445566778899aabbccddeeff", &run_id));
    crema_principal_t self = crema_principal_of_run(&run_id, public_key);
    must(crema_principal_parse(crema_principal_print(&self, text), &back));
    assert_int_equal(back.as, CREMA_AS_AGENT);
    assert_true(crema_id_equal(&back.run_id, &run_id));
    assert_true(crema_principal_is_same(&back, &self));
    must(crema_principal_parse("agent default 0123456789abcdef0123456789abcdef", &back));
    assert_true(crema_id_is_zero(&back.run_id));
}

static void
test_other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const c_texts[] = {
        "client",
        "client alice",
        "client alice 0123",
        "client alice 00000000-0000-0000-0000-000000000000",
        "client alice 0123456789abcdef0123456789abcdeg",
        "client alice 0123456789abcdef0123456789abcdef ",
        "client  0123456789abcdef0123456789abcdef",
        "client al/ice 0123456789abcdef0123456789abcdef",
        "client .alice 0123456789abcdef0123456789abcdef",
        "server alice 0123456789abcdef0123456789abcdef",
        "king alice 0123456789abcdef0123456789abcdef",
        "aggregatoraggregator alice 0123456789abcdef0123456789abcdef",
    };
    crema_principal_t self = {.as = CREMA_AS_AGENT};
    for (size_t i = 0; i < sizeof c_texts / sizeof *c_texts; i++)
        if (crema_principal_parse(c_texts[i], &self) != CREMA_EINVAL)
            fail_msg("\"%s\" was taken", c_texts[i]);
    assert_int_equal(self.as, CREMA_AS_AGENT);
}

static void
test_names_are_short_and_plain(void **state)
{
    (void)state;
    char name[CREMA_PRINCIPAL_NAME_MAX + 2];
    memset(name, 'a', sizeof name);
    name[CREMA_PRINCIPAL_NAME_MAX] = '\0';
    assert_true(crema_principal_is_name(name));
    name[CREMA_PRINCIPAL_NAME_MAX] = 'a';
    name[CREMA_PRINCIPAL_NAME_MAX + 1] = '\0';
    assert_false(crema_principal_is_name(name));
    assert_true(crema_principal_is_name("a-1_2.b@c"));
    assert_false(crema_principal_is_name(""));
    assert_false(crema_principal_is_name(".."));
    assert_false(crema_principal_is_name("../x"));
    assert_false(crema_principal_is_name("a b"));
    assert_false(crema_principal_is_name("a\n"));
}

static void
test_each_role_sends_its_own_messages_only(void **state)
{
    (void)state;
    static const struct {
        crema_msg_type_t type;
        bool aggregator, agent, client;
    } c_rows[] = {
        {CREMA_MSG_HELLO, false, true, false},      {CREMA_MSG_DATA, false, true, false},
        {CREMA_MSG_HEARTBEAT, false, true, false},  {CREMA_MSG_BYE, false, true, false},
        {CREMA_MSG_WELCOME, false, false, false},   {CREMA_MSG_ACK, false, false, false},
        {CREMA_MSG_REPLAY, false, false, false},    {CREMA_MSG_BARRIER, false, false, false},
        {CREMA_MSG_FENCE, false, false, false},     {CREMA_MSG_OPEN, true, false, false},
        {CREMA_MSG_PUT, true, false, false},        {CREMA_MSG_RUN_SEAL, true, false, false},
        {CREMA_MSG_CLOCK, true, false, false},      {CREMA_MSG_STATE, false, false, false},
        {CREMA_MSG_COMMITTED, false, false, false}, {CREMA_MSG_NACK, false, false, false},
        {CREMA_MSG_FULL, false, false, false},      {CREMA_MSG_SEALED, false, false, false},
        {CREMA_MSG_RUN_OPEN, true, false, true},    {CREMA_MSG_RUN_END, true, false, true},
        {CREMA_MSG_RUN_QUERY, true, false, true},
    };
    const crema_principal_t any = {.as = CREMA_AS_ANY}, aggregator = {.as = CREMA_AS_AGGREGATOR},
                            agent = {.as = CREMA_AS_AGENT}, client = {.as = CREMA_AS_CLIENT},
                            monitor = {.as = CREMA_AS_MONITOR};
    for (size_t i = 0; i < sizeof c_rows / sizeof *c_rows; i++) {
        crema_msg_type_t type = c_rows[i].type;
        assert_true(crema_principal_may_send(&any, type));
        assert_int_equal(crema_principal_may_send(&aggregator, type), c_rows[i].aggregator);
        assert_int_equal(crema_principal_may_send(&agent, type), c_rows[i].agent);
        assert_int_equal(crema_principal_may_send(&client, type), c_rows[i].client);
        assert_false(crema_principal_may_send(&monitor, type));
    }
}

int
main(void)
{
    const struct CMUnitTest c_tests[] = {
        cmocka_unit_test(test_what_is_printed_is_read_back),
        cmocka_unit_test(test_without_a_text_it_is_nobody),
        cmocka_unit_test(test_an_agent_of_one_run_says_so_in_its_name),
        cmocka_unit_test(test_other_texts_are_refused),
        cmocka_unit_test(test_names_are_short_and_plain),
        cmocka_unit_test(test_each_role_sends_its_own_messages_only),
    };
    return cmocka_run_group_tests(c_tests, NULL, NULL);
}
