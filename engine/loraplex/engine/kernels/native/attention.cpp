// Attention over paged keys and values, for chunks and single tokens alike.
//
// Softmax is taken online over blocks of 64 keys (FlashAttention, arXiv 2205.14135). The blocks
// begin at multiples of 64 from the sequence's start, so a row's result does not depend on how its
// prompt was cut into chunks, nor on what else is in the batch.
#include <cmath>

#include "dots.h"
#include "threads.h"

namespace {

constexpr long KEYS = 64, ROWS = 4, MOST_GROUP = 16, MOST_HEAD = 256;

struct Shape {
    long heads, kv_heads, head_size, layer, layers, block_tokens, window;
    float scale;
};

struct Item {
    long sequence, first_row, rows, kv_head, first_head, heads;
};

struct Scratch {
    alignas(32) float scores[ROWS * MOST_GROUP][KEYS];
    alignas(32) float values[ROWS * MOST_GROUP][MOST_HEAD];
    float largest[ROWS * MOST_GROUP], total[ROWS * MOST_GROUP];
    const float *key[KEYS], *value[KEYS];
};

// Turns one query's scores into weights, and makes room for them beside those of earlier blocks.
void soften(Scratch& scratch, long query, long first, long last, long keys, long head_size) {
    float* scores = scratch.scores[query];
    long padded = pieces(keys, LANES) * LANES;
    for (long k = 0; k < first; k++) scores[k] = -INFINITY;
    for (long k = last; k < padded; k++) scores[k] = -INFINITY;
    f8 best = broadcast(-INFINITY);
    for (long k = 0; k < padded; k += LANES) {
        f8 s = load(scores + k);
        best = s > best ? s : best;
    }
    float largest = std::fmax(scratch.largest[query], largest_of(best));
    f8 sum{};
    for (long k = 0; k < padded; k += LANES) {
        f8 weight = exponential(load(scores + k) - broadcast(largest));
        store(scores + k, weight);
        sum += weight;
    }
    float before = exponential(broadcast(scratch.largest[query] - largest))[0];
    scratch.total[query] = scratch.total[query] * before + sum_of(sum);
    scratch.largest[query] = largest;
    if (before != 1.0f)
        for (long c = 0; c < head_size; c++) scratch.values[query][c] *= before;
}

void attend(const Shape& shape, const Item& item, const float* query, const float* pages,
            const int32_t* table, long context, long sequence_rows, float* output,
            Scratch& scratch) {
    long row_size = shape.heads * shape.head_size, queries = item.rows * item.heads;
    long token_size = 2 * shape.kv_heads * shape.head_size;
    long page_size = shape.layers * shape.block_tokens * token_size;
    const float* own = pages + shape.layer * shape.block_tokens * token_size +
                       item.kv_head * shape.head_size;
    alignas(32) float scaled[ROWS * MOST_GROUP * MOST_HEAD];
    for (long q = 0; q < queries; q++) {
        const float* from = query + q / item.heads * row_size +
                            (item.first_head + q % item.heads) * shape.head_size;
        for (long c = 0; c < shape.head_size; c++)
            scaled[q * shape.head_size + c] = from[c] * shape.scale;
        std::memset(scratch.values[q], 0, shape.head_size * sizeof(float));
        scratch.largest[q] = -INFINITY, scratch.total[q] = 0;
    }
    // The item's rows see keys up to their own places, the last of them all there are here.
    long position = context - sequence_rows + item.first_row;
    long end = position + item.rows;
    long begin = shape.window ? most(0, position + 1 - shape.window) : 0;
    for (long block = begin / KEYS * KEYS; block < end; block += KEYS) {
        long keys = least(KEYS, end - block);
        for (long k = 0; k < keys; k++) {
            long token = block + k;
            scratch.key[k] = own + table[token / shape.block_tokens] * page_size +
                             token % shape.block_tokens * token_size;
            scratch.value[k] = scratch.key[k] + shape.kv_heads * shape.head_size;
        }
        for (long k = 0; k < keys;) {
            // Tokens of one page lie at equal distances.
            long run = least(keys - k, shape.block_tokens - (block + k) % shape.block_tokens);
            dots_of_all(scaled, shape.head_size, queries, scratch.key[k], token_size, run,
                        shape.head_size, &scratch.scores[0][k], KEYS);
            k += run;
        }
        for (long q = 0; q < queries; q++) {
            long place = position + q / item.heads;
            long last = least(keys, place + 1 - block);
            long first = shape.window ? most(0, place + 1 - shape.window - block) : 0;
            if (last <= 0 || first >= last) {
                std::memset(scratch.scores[q], 0, keys * sizeof(float));
                continue;
            }
            soften(scratch, q, first, last, keys, shape.head_size);
        }
        long whole = keys / 4 * 4, q = 0;
        for (; q + 2 <= queries; q += 2) {
            for (long k = 0; k < whole; k += 4)
                add_weighted<2, 4>(scratch.values[q], MOST_HEAD, &scratch.scores[q][k], KEYS,
                                   scratch.value + k, shape.head_size);
            for (long k = whole; k < keys; k++)
                add_weighted<2, 1>(scratch.values[q], MOST_HEAD, &scratch.scores[q][k], KEYS,
                                   scratch.value + k, shape.head_size);
        }
        for (; q < queries; q++) {
            for (long k = 0; k < whole; k += 4)
                add_weighted<1, 4>(scratch.values[q], MOST_HEAD, &scratch.scores[q][k], KEYS,
                                   scratch.value + k, shape.head_size);
            for (long k = whole; k < keys; k++)
                add_weighted<1, 1>(scratch.values[q], MOST_HEAD, &scratch.scores[q][k], KEYS,
                                   scratch.value + k, shape.head_size);
        }
    }
    for (long q = 0; q < queries; q++) {
        float* to = output + q / item.heads * row_size +
                    (item.first_head + q % item.heads) * shape.head_size;
        for (long c = 0; c < shape.head_size; c++)
            to[c] = end > 0 ? scratch.values[q][c] / scratch.total[q] : 0.0f;
    }
}

}  // namespace

extern "C" void loraplex_attention(const float* query, const float* pages,
                                   const int32_t* block_tables, long blocks,
                                   const int32_t* query_starts, const int32_t* context_tokens,
                                   long sequences, const Shape* shape_, float* output) {
    const Shape& shape = *shape_;
    long group = shape.heads / shape.kv_heads;
    // A key is read once for all heads that share it, unless that would leave threads idle.
    long heads = least(group, MOST_GROUP);
#pragma omp parallel
    {
        Scratch scratch;
        if (query_starts[sequences] * shape.kv_heads < 2 * thread_count()) heads = 1;
        long item = 0, mine = thread_number(), threads = thread_count();
        for (long s = 0; s < sequences; s++) {
            long start = query_starts[s], rows = query_starts[s + 1] - start;
            for (long row = 0; row < rows; row += ROWS)
                for (long kv_head = 0; kv_head < shape.kv_heads; kv_head++)
                    for (long head = 0; head < group; head += heads) {
                        if (item++ % threads != mine) continue;
                        long offset = (start + row) * shape.heads * shape.head_size;
                        attend(shape,
                               {s, row, least(ROWS, rows - row), kv_head, kv_head * group + head,
                                least(heads, group - head)},
                               query + offset, pages, block_tables + s * blocks,
                               context_tokens[s], rows, output + offset, scratch);
                    }
        }
    }
}
