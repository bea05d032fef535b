#include "sink_filter.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

struct sink_filter {
    size_t row_bytes, chunk_rows;
    struct libdeflate_compressor *compressor;
    struct libdeflate_decompressor *decompressor;
    uint8_t *shuffled, *plain; /* a chunk each */
};

crema_err_t
sink_filter_new(size_t row_bytes, size_t chunk_rows, sink_filter_t **ret_self)
{
    sink_filter_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->row_bytes = row_bytes;
    self->chunk_rows = chunk_rows;
    self->compressor = libdeflate_alloc_compressor(SINK_FILTER_LEVEL);
    self->decompressor = libdeflate_alloc_decompressor();
    self->shuffled = malloc(row_bytes * chunk_rows);
    self->plain = malloc(row_bytes * chunk_rows);
    if (!self->compressor || !self->decompressor || !self->shuffled || !self->plain) {
        sink_filter_destroy(&self);
        return CREMA_ENOMEM;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
sink_filter_destroy(sink_filter_t **self_p)
{
    sink_filter_t *self = *self_p;
    if (!self)
        return;
    libdeflate_free_compressor(self->compressor);
    libdeflate_free_decompressor(self->decompressor);
    free(self->shuffled);
    free(self->plain);
    free(self);
    *self_p = NULL;
}

/* ---- shuffle */

static inline void
s_exchange(uint64_t *low, uint64_t *high, unsigned shift, uint64_t mask)
{
    uint64_t differ = ((*low >> shift) ^ *high) & mask;
    *high ^= differ;
    *low ^= differ << shift;
}

/* Eight bytes of eight rows: byte r of word c becomes byte c of word r. */
static inline void
s_transpose(uint64_t words[8])
{
    for (int i = 0; i < 4; i++)
        s_exchange(&words[i], &words[i + 4], 32, 0x00000000ffffffff);
    for (int i = 0; i < 8; i += i % 2 ? 3 : 1)
        s_exchange(&words[i], &words[i + 2], 16, 0x0000ffff0000ffff);
    for (int i = 0; i < 8; i += 2)
        s_exchange(&words[i], &words[i + 1], 8, 0x00ff00ff00ff00ff);
}

/* Bytes `column` to `column` + 7 of the rows, eight rows at a time; returns the rows done. */
static size_t
s_shuffle_eight(const sink_filter_t *self, const uint8_t *rows, size_t n, size_t column)
{
    uint8_t *out = self->shuffled + column * self->chunk_rows;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t words[8];
        for (size_t r = 0; r < 8; r++)
            memcpy(&words[r], rows + (i + r) * self->row_bytes + column, sizeof words[r]);
        s_transpose(words);
        for (size_t c = 0; c < 8; c++)
            memcpy(out + c * self->chunk_rows + i, &words[c], sizeof words[c]);
    }
    return i;
}

static void
s_shuffle_byte(const sink_filter_t *self, const uint8_t *rows, size_t from, size_t n, size_t column)
{
    uint8_t *out = self->shuffled + column * self->chunk_rows;
    for (size_t i = from; i < n; i++)
        out[i] = rows[i * self->row_bytes + column];
}

static void
s_shuffle(sink_filter_t *self, const uint8_t *rows, size_t n)
{
    size_t column = 0;
    if (n < self->chunk_rows)
        memset(self->shuffled, 0, self->row_bytes * self->chunk_rows);
    for (; column + 8 <= self->row_bytes; column += 8) {
        size_t done = s_shuffle_eight(self, rows, n, column);
        for (size_t c = 0; c < 8; c++)
            s_shuffle_byte(self, rows, done, n, column + c);
    }
    for (; column < self->row_bytes; column++)
        s_shuffle_byte(self, rows, 0, n, column);
}

/* ---- both */

size_t
sink_filter_bound(const sink_filter_t *self)
{
    return libdeflate_zlib_compress_bound(self->compressor, self->row_bytes * self->chunk_rows);
}

size_t
sink_filter_pack(sink_filter_t *self, const uint8_t *rows, size_t n, uint8_t *packed)
{
    s_shuffle(self, rows, n);
    return libdeflate_zlib_compress(self->compressor, self->shuffled,
                                    self->row_bytes * self->chunk_rows, packed,
                                    sink_filter_bound(self));
}

bool
sink_filter_holds(sink_filter_t *self, const uint8_t *packed, size_t bytes, const uint8_t *rows,
                  size_t n)
{
    const size_t size = self->row_bytes * self->chunk_rows;
    if (libdeflate_zlib_decompress(self->decompressor, packed, bytes, self->plain, size, NULL) !=
        LIBDEFLATE_SUCCESS) /* also if it is shorter */
        return false;
    s_shuffle(self, rows, n);
    return memcmp(self->plain, self->shuffled, size) == 0;
}

uint32_t
sink_filter_sum(uint32_t sum, const void *bytes, size_t n)
{
    return libdeflate_crc32(sum, bytes, n);
}
