/* sink_payload: SHA-256 as FIPS 180-4 has it, in any pieces. */
#include <sodium.h>

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

/* With the processor's instructions, where it has them, as without. */
static void
must_agree_with_libsodium_at_any_length(void **state)
{
    (void)state;
    uint8_t bytes[700], sha256[SINK_PAYLOAD_BYTES], want[SINK_PAYLOAD_BYTES];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i / 7);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        crypto_hash_sha256(want, bytes, size);
        for (size_t cut = 0; cut <= size; cut += 37) {
            sink_payload_t *sum;
            must(sink_payload_new(&sum));
            sink_payload_add(sum, bytes, cut);
            sink_payload_add(sum, bytes + cut, size - cut);
            sink_payload_end(&sum, sha256);
            assert_memory_equal(sha256, want, sizeof want);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_be_sha256_in_any_pieces),
        cmocka_unit_test(must_agree_with_libsodium_at_any_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
