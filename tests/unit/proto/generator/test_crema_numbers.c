/* What Python takes from the tables and the wire. */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_numbers.h"

static void
test_python_has_the_numbers_of_the_wire(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "\nTABLES = {\n    \"chunks\": (\n        0,\n        (\n            (\"t_start_ns\", ",
        "            (\"t_start_ns\", \"i64\", \"\"),\n",
        "            (\"worker_id\", \"dict:0\", \"\"),\n",
        "            (\"status\", \"enum\", \"ok,error,cancelled,lost,partial\"),\n",
        "            (\"attempt_ref\", \"i64\", \"\"),\n",
        "\nCOLUMNS = {\n",
        "        (\"wall_s\", \"f64\", \"s\", \"process(), wall time; with bit 7 ",
        "\nDICTS = {\n    \"worker\": 0,\n    \"task_prefix\": 1,\n",
        "\nSIDES = (\"unattributed\", \"processor\", ",
        "    \"BATCH\": 3,\n",
        "    \"RUN_STATE\": 67,\n",
        "\nRECORD_BODY_MAX = 65536\n",
        "\nWIRE_MAGIC = 1634562659\n",
    };
    char *text;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    crema_numbers_print_python(file);
    assert_int_equal(fclose(file), 0);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strstr(text, parts[i]))
            fail_msg("nothing of \"%s\"", parts[i]);
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_python_has_the_numbers_of_the_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
