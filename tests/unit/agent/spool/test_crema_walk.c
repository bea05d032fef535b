#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "crema_walk.h"
#include "record_frames.h"

/* A segment is written as a line of words and walked into one:
 *   "5" a record with that number, "5:70000" one with a body of so many bytes,
 *   "#12" twelve bytes of nonsense, "!5" a record whose body is damaged,
 *   "5~3" a record without its last three bytes. */
static int
segment_of(const char *words)
{
    char path[SCRATCH_BYTES];
    scratch_template("walk", path);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    static uint8_t bytes[CREMA_FRAME_HEADER_BYTES + (1 << 20)], body[1 << 20];
    memset(body, 'b', sizeof body);
    char *line = strdup(words), *rest = line, *word;
    while ((word = strsep(&rest, " "))) {
        size_t n = 40, cut = 0;
        if (*word == '#') {
            n = strtoul(word + 1, NULL, 10);
            memset(bytes, '#', n);
        } else {
            bool damaged = *word == '!';
            char *end;
            crema_frame_t frame = {.seq = strtoull(word + damaged, &end, 10), .t_ns = 1, .type = 3};
            if (*end == ':')
                n = strtoul(end + 1, &end, 10);
            if (*end == '~')
                cut = strtoul(end + 1, NULL, 10);
            frame.body = body;
            frame.len = (uint32_t)n;
            crema_frame_encode(&frame, bytes);
            n = crema_frame_bytes(&frame);
            bytes[n - 1] ^= damaged;
        }
        assert_int_equal(write(fd, bytes, n - cut), (ssize_t)(n - cut));
    }
    free(line);
    return fd;
}

/* `expect_b` 0: as much as there is. */
static const char *
walked(crema_walk_t *walk, int fd, uint64_t due, size_t expect_b)
{
    static char line[4096];
    char *out = line;
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    crema_walk_start(walk, fd, 0, (uint64_t)st.st_size, due);
    if (expect_b)
        crema_walk_expect(walk, expect_b);
    for (;;) {
        crema_walk_item_t item;
        assert_int_equal(crema_walk_step(walk, &item), CREMA_OK);
        if (item.kind == CREMA_WALK_RECORD) {
            crema_frame_t again;
            assert_int_equal(crema_frame_decode(item.bytes, crema_frame_bytes(&item.frame), &again),
                             CREMA_OK);
            out += sprintf(out, "%llu ", (unsigned long long)item.frame.seq);
        } else if (item.kind == CREMA_WALK_LOST) {
            out += sprintf(out, "lost:%llu-%llu/%llu ", (unsigned long long)item.first,
                           (unsigned long long)item.last, (unsigned long long)item.damaged_b);
        } else {
            sprintf(out, item.kind == CREMA_WALK_CLEAN ? "clean" : "tail:%llu",
                    (unsigned long long)item.damaged_b);
            return line;
        }
    }
}

static void
test_what_a_walk_makes_of_a_segment(void **state)
{
    (void)state;
    static const struct {
        const char *segment;
        uint64_t due;
        const char *want;
    } cases[] = {
        {"#0", 1, "clean"},
        {"1 2 3", 1, "1 2 3 clean"},
        {"7 8", 7, "7 8 clean"},
        {"1 2~1", 1, "1 tail:71"},
        {"1 2~71", 1, "1 tail:1"},
        {"1 !2", 1, "1 tail:72"},
        {"1 !2 3", 1, "1 lost:2-2/72 3 clean"},
        {"1 !2 !3 4", 1, "1 lost:2-3/144 4 clean"},
        {"!1 2", 1, "lost:1-1/72 2 clean"},
        {"1 2~1 3", 1, "1 lost:2-2/71 3 clean"},
        {"1 #9 2", 1, "1 2 clean"},         /* nothing is missing */
        {"1 4", 1, "1 lost:2-3/0 4 clean"}, /* nothing is damaged */
        {"1 2 2 3", 1, "1 2 3 clean"},      /* a repeat */
        {"1 2 1 #5 3", 1, "1 2 3 clean"},
        {"1 2 2", 1, "1 2 tail:72"},
        {"1 2", 2, "2 clean"}, /* what is not due any more */
        {"5 6", 4, "lost:4-4/0 5 6 clean"},
        {"1 #200 3 #7", 1, "1 lost:2-2/200 3 tail:7"},
        {"1 2:65536 3", 1, "1 2 3 clean"},
        {"1 2:65537 3", 1, "1 lost:2-2/65569 3 clean"}, /* larger than a record may be */
        {"1 18446744073709551615 2", 1, "1 2 clean"},   /* no number a column can hold */
        {"1 9223372036854775807 2", 1, "1 2 clean"},
        {"1 0 2", 1, "1 2 clean"},
    };
    crema_walk_t *walk;
    assert_int_equal(crema_walk_new(&walk), CREMA_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd = segment_of(cases[i].segment);
        assert_string_equal(walked(walk, fd, cases[i].due, 0), cases[i].want);
        assert_string_equal(walked(walk, fd, cases[i].due, 1), cases[i].want);
        close(fd);
    }
    crema_walk_destroy(&walk);
    assert_null(walk);
    crema_walk_destroy(&walk);
}

/* Damage of every length around the size of the window: the record behind it is found wherever it
 * lies. */
static void
test_the_record_behind_long_damage_is_found(void **state)
{
    (void)state;
    crema_walk_t *walk;
    assert_int_equal(crema_walk_new(&walk), CREMA_OK);
    for (size_t n = 4 * CREMA_WALK_RECORD_MAX - 120; n < 4 * CREMA_WALK_RECORD_MAX + 20; n += 3) {
        char segment[64], want[64];
        snprintf(segment, sizeof segment, "1 #%zu 3:65000 4", n);
        snprintf(want, sizeof want, "1 lost:2-2/%zu 3 4 clean", n);
        int fd = segment_of(segment);
        assert_string_equal(walked(walk, fd, 1, 0), want);
        assert_string_equal(walked(walk, fd, 1, 1), want);
        close(fd);
    }
    crema_walk_destroy(&walk);
}

static void
test_an_unreadable_file_is_an_error_and_a_shorter_one_is_not(void **state)
{
    (void)state;
    crema_walk_t *walk;
    crema_walk_item_t item;
    assert_int_equal(crema_walk_new(&walk), CREMA_OK);
    crema_walk_start(walk, -1, 0, 100, 1);
    assert_int_equal(crema_walk_step(walk, &item), CREMA_EIO);
    int fd = segment_of("1 2");
    crema_walk_start(walk, fd, 0, 1000, 1);
    assert_int_equal(crema_walk_peek(walk), 0); /* nothing was read yet */
    assert_int_equal(crema_walk_step(walk, &item), CREMA_OK);
    assert_int_equal(item.kind, CREMA_WALK_RECORD);
    assert_int_equal(crema_walk_offset(walk), 72);
    assert_int_equal(crema_walk_peek(walk), 72);
    assert_int_equal(crema_walk_step(walk, &item), CREMA_OK);
    assert_int_equal(crema_walk_step(walk, &item), CREMA_OK);
    assert_int_equal(item.kind, CREMA_WALK_CLEAN);
    assert_int_equal(crema_walk_offset(walk), 144);
    assert_int_equal(crema_walk_peek(walk), 0);
    close(fd);
    crema_walk_destroy(&walk);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_walk_makes_of_a_segment),
        cmocka_unit_test(test_the_record_behind_long_damage_is_found),
        cmocka_unit_test(test_an_unreadable_file_is_an_error_and_a_shorter_one_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
