/* sink_payload: SHA-256 as FIPS 180-4 has it, in any pieces. */
#include "must.h"
#include "sink_payload.h"

static void
must_be_sha256_in_any_pieces(void **state)
{
    (void)state;
    const char *text = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    const char *want = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
    for (size_t cut = 0; cut <= 56; cut++) {
        sink_payload_t *sum;
        uint8_t sha256[SINK_PAYLOAD_BYTES];
        char hex[2 * SINK_PAYLOAD_BYTES + 1];
        must(sink_payload_new(&sum));
        sink_payload_add(sum, text, cut);
        sink_payload_add(sum, text + cut, 56 - cut);
        sink_payload_end(&sum, sha256);
        assert_null(sum);
        sink_payload_hex(sha256, hex);
        assert_string_equal(hex, want);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(must_be_sha256_in_any_pieces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
