/* sink_attribute: the contract's list, numbers as numbers, unknown where nobody said. */
#include <math.h>
#include <string.h>

#include "crema_reserved.h"
#include "must.h"
#include "sink_attribute.h"

static const sink_attribute_t *
s_find(const sink_attributes_t *self, const char *name)
{
    const sink_attribute_t *all;
    size_t n = sink_attributes_all(self, &all);
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

static void
must_write_numbers_as_numbers(void **state)
{
    (void)state;
    sink_attributes_t *self;
    must(sink_attributes_new(&self));
    const struct {
        const char *name, *text;
    } said[] = {{"chunksize", "100000"},
                {"n_files", "1e3"},
                {"requested_workers", "many"},
                {"input_bytes", "9007199254740993"},
                {"cores_per_worker", "1.5"},
                {"io_file_percent", ""},
                {"run_label", "42"}};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        must(sink_attributes_text(self, said[i].name, said[i].text));
    assert_int_equal(s_find(self, "chunksize")->integer, 100000);
    assert_int_equal(s_find(self, "n_files")->integer, 1000);
    assert_int_equal(s_find(self, "requested_workers")->integer, -1);
    assert_true(s_find(self, "input_bytes")->integer == 9007199254740993LL);
    assert_true(s_find(self, "cores_per_worker")->real == 1.5);
    assert_true(isnan(s_find(self, "io_file_percent")->real));
    assert_string_equal(s_find(self, "run_label")->text, "42");
    assert_int_equal(s_find(self, "t_run_start_ns")->integer, 0);
    sink_attributes_destroy(&self);
    assert_null(self);
}

static void
must_keep_what_else_was_said_if_it_has_a_name(void **state)
{
    (void)state;
    sink_attributes_t *self;
    const sink_attribute_t *contract;
    must(sink_attributes_new(&self));
    must(sink_attributes_text(self, "workers_at_start", "4"));
    must(sink_attributes_text(self, "coffea.entries", "1100"));
    must(sink_attributes_text(self, "Bad Name", "x"));
    must(sink_attributes_text(self, "", "x"));
    assert_int_equal(s_find(self, "workers_at_start")->type, SINK_ATTRIBUTE_TEXT);
    assert_string_equal(s_find(self, "coffea.entries")->text, "1100");
    assert_null(s_find(self, "Bad Name"));
    const sink_attribute_t *all;
    assert_int_equal(sink_attributes_all(self, &all), sink_attribute_contract(&contract) + 2);
    sink_attributes_destroy(&self);
}

static void
must_let_the_first_speaker_stand_where_asked(void **state)
{
    (void)state;
    sink_attributes_t *self;
    sink_texts_t *texts;
    must(sink_attributes_new(&self));
    crema_limits_t limits = crema_limits();
    must(sink_texts_new(&limits, &texts));
    must(sink_texts_put(texts, "dask_version", "1", true));
    must(sink_texts_put(texts, "coffea_version", "2", true));
    must(sink_texts_put(texts, "site", "", true));
    must(sink_attributes_text(self, "dask_version", "9"));
    must(sink_attributes_text(self, "site", "here"));
    must(sink_attributes_texts(self, texts, false));
    assert_string_equal(s_find(self, "dask_version")->text, "9");
    assert_string_equal(s_find(self, "coffea_version")->text, "2");
    must(sink_attributes_texts(self, texts, true));
    assert_string_equal(s_find(self, "dask_version")->text, "1");
    assert_string_equal(s_find(self, "site")->text, "here");
    sink_texts_destroy(&texts);
    sink_attributes_destroy(&self);
}

/* What a file says of itself is the sink's to say. */
static void
must_refuse_names_that_only_the_sink_writes(void **state)
{
    (void)state;
    sink_attributes_t *self;
    sink_texts_t *texts;
    const sink_attribute_t *contract;
    size_t n_contract = sink_attribute_contract(&contract);
    must(sink_attributes_new(&self));
    crema_limits_t limits = crema_limits();
    must(sink_texts_new(&limits, &texts));
    for (const char *const *name = crema_reserved_names; *name; name++) {
        bool is_known = false;
        must(sink_texts_put(texts, *name, "NanoAODv9", true));
        for (size_t k = 0; k < n_contract; k++)
            is_known |= strcmp(contract[k].name, *name) == 0;
        assert_true(is_known);
    }
    must(sink_attributes_texts(self, texts, true));
    must(sink_attributes_texts(self, texts, false));
    assert_string_equal(s_find(self, "format")->text, SINK_FORMAT);
    assert_string_equal(s_find(self, "verdict_notes")->text, "[]");
    assert_int_equal(s_find(self, "loss_total")->integer, -1);
    assert_false(crema_reserved("chunksize"));
    sink_texts_destroy(&texts);
    sink_attributes_destroy(&self);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_write_numbers_as_numbers),
        cmocka_unit_test(must_keep_what_else_was_said_if_it_has_a_name),
        cmocka_unit_test(must_let_the_first_speaker_stand_where_asked),
        cmocka_unit_test(must_refuse_names_that_only_the_sink_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
