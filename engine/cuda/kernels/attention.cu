// Attention of packed sequences over lists of key rows on tensor cores, for bf16 and heads of up to 128 numbers.
//
// A block of four warps takes 64 query rows of one sequence and one head, 16 rows a warp, and goes over its keys in
// tiles of 64: scores by tensor cores, the softmax as it goes (maximum, sum and output are rescaled when the maximum
// grows), weights rounded to bf16 and kept in registers as the left factor of the product with the values. A block of
// two warps does the same for up to 32 rows: half of a block of four would hold registers and do nothing. Where a
// sequence has one query row, and its heads share keys in groups of up to 32, a block has the heads of a group in place
// of rows: so a step of generation reads the keys of a grouped model once for a group.
//
// A block of four warps has two stages in shared memory, but for disentangled attention: tile t + 1 is copied while
// tile t is worked on, and its threads meet once a tile. With one stage they meet twice, and the copies overlap with
// half of the work; but more blocks of two warps fit, and the positions of disentangled attention fit at all.
//
//   shared memory    rows x numbers     filled
//   keys             64 x (D + 8)       two stages: with tile t + 1, while tile t is worked on
//   values           64 x (D + 8)       one stage: keys with tile t + 1, while the weights of tile t meet the values;
//                                       values with tile t, while its scores are computed
//   entries          2 x 128            the rows of keys, and of relative positions, of the tiles that are copied next
//   biases           4 x 64             relative: of a tile's 127 distances the lower 64; the upper ones are those of
//                                       the tile before
//   positions        2 x 2 x 64 x (D+8) disentangled: the positions' keys and queries of the same distances
//
// Queries are loaded by way of values that are not there yet. A row is 16 bytes longer than its numbers: then eight
// rows one below the other, which is what `load_tiles` reads at once, lie in different banks. Keys are found through a
// list of their rows, so prefixes, caches and shared prompts are not copied.
//
// # Bits
// Tiles begin at multiples of 64 of a key's place in its sequence, wherever it lies and whoever asks. A key that a
// query does not see weighs 0, which changes no sum of finite numbers; a tile of such keys leaves the maximum alone,
// and the factor of what was summed before is 1: so it does not matter whether a tile is left out because nobody of the
// block sees it. What lies behind the last key is not read but 0. A row's place in its block and the block's height do
// not matter either: tensor cores compute each row from its own numbers.
#include "attention.cuh"
#include "mma.cuh"
#include "prelude.cuh"

// Keys of a tile, and query rows of a block of four warps.
constexpr u32 SIDE = 64;
// Query rows of a warp.
constexpr u32 STRIP = 16;
// log2(e): the exponentials are of base 2.
constexpr float LOG2_E = 1.44269504088896341f;

enum Bias : u32 { NONE, RELATIVE, DISENTANGLED };

// From a row to the next in shared memory, in numbers.
template <u32 D>
constexpr u32 PITCH = D + CHUNK;

// Sends the numbers of one head of `LINES` rows to shared memory: line i is row `row_of(i)`, zeros from line `count`
// on.
template <u32 D, u32 THREADS, u32 LINES, class RowOf>
__device__ __forceinline__ void send(bf16* to, const bf16* from, u32 stride, u32 count, const Operands<bf16>& o,
                                     RowOf row_of) {
    constexpr u32 CHUNKS = D / CHUNK;
    if (o.aligned != 0 && THREADS % CHUNKS == 0) {
        // A thread has the same chunk of every few lines. Of a line that is not there nothing is read, wherever it
        // lies.
        constexpr u32 STEP = THREADS / CHUNKS;
        const u32 begin = threadIdx.x / CHUNKS, first = threadIdx.x % CHUNKS * CHUNK;
        const bool within = first < o.head_dim;
        const char* const column = reinterpret_cast<const char*>(from + first);
        const u32 row_bytes = stride * sizeof(bf16);
        bf16* const mine = to + begin * PITCH<D> + first;
#pragma unroll
        for (u32 i = 0; i < LINES; i += STEP) {
            const char* const line = column + static_cast<size_t>(row_of(begin + i)) * row_bytes;
            copy_async(mine + i * PITCH<D>, reinterpret_cast<const bf16*>(line), within && begin + i < count);
        }
    } else if (o.aligned != 0) {
#pragma unroll
        for (u32 i = threadIdx.x; i < LINES * CHUNKS; i += THREADS) {
            const u32 line = i / CHUNKS, first = i % CHUNKS * CHUNK;
            const bool there = line < count && first < o.head_dim;
            const size_t offset = there ? static_cast<size_t>(row_of(line)) * stride + first : 0;
            copy_async(to + line * PITCH<D> + first, from + offset, there);
        }
    } else {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < LINES * D; i += THREADS) {
            const u32 line = i / D, column = i % D;
            const bool there = line < count && column < o.head_dim;
            to[line * PITCH<D> + column] = there ? from[static_cast<size_t>(row_of(line)) * stride + column] : bf16{0};
        }
    }
}

// Sixteen rows as the left factor of products.
template <u32 D>
__device__ __forceinline__ void load_left(u32 (&left)[D / 16][4], const bf16* rows) {
    const u32 lane = threadIdx.x % WARP;
    const bf16* mine = rows + lane % 16 * PITCH<D> + lane / 16 * CHUNK;
#pragma unroll
    for (u32 k = 0; k < D / 16; k++) load_tiles(left[k], mine + k * 16);
}

// sums[n] += left · rows[8 n .. 8 n + 8]ᵀ; the rows of each pair are found by `pair_of`.
template <u32 D, u32 N, class PairOf>
__device__ __forceinline__ void multiply(float (&sums)[N][4], const u32 (&left)[D / 16][4], PairOf pair_of) {
    const u32 lane = threadIdx.x % WARP;
    const u32 mine = (lane / 16 * 8 + lane % 8) * PITCH<D> + lane / 8 % 2 * CHUNK;
#pragma unroll
    for (u32 k = 0; k < D / 16; k++) {
#pragma unroll
        for (u32 n = 0; n < N; n += 2) {
            u32 right[4];
            load_tiles(right, pair_of(n / 2) + mine + k * 16);
            multiply_add(sums[n], left[k], right[0], right[1]);
            multiply_add(sums[n + 1], left[k], right[2], right[3]);
        }
    }
}

// Neighbours of two tiles change places.
__device__ __forceinline__ void cross(float (&tiles)[2][4], bool crossed) {
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const float first = tiles[i / 2][i % 2 * 2], second = tiles[i / 2][i % 2 * 2 + 1];
        tiles[i / 2][i % 2 * 2] = crossed ? second : first;
        tiles[i / 2][i % 2 * 2 + 1] = crossed ? first : second;
    }
}

// The scores of a warp's 16 queries and 64 keys: q_i · k_j + q_i · position_keys[e] + position_queries[e] · k_j, where
// line e = i - j + 63 of 79 is that of the distance of query i and key j; line 0 is line `first` of 128, which go
// around. Either kind of positions may be null.
//
// For eight keys and eight queries the lines e lie in two neighbouring groups of eight. With r a lane's row and c its
// column, e is line (r - c - 1) % 8 of the first group, or of the second if r > c. So each term is in a register of the
// same row of lanes (products of queries, whose columns are lines) or the same column of lanes (products of keys, whose
// rows are lines): one shuffle brings it, and each lane gives to one other, so it knows which group that one needs.
// Sixteen keys are worked on at once; they need four groups, two of which the sixteen keys before them had.
template <u32 D>
__device__ __forceinline__ void multiply_disentangled(float (&scores)[SIDE / 8][4], const u32 (&queries)[D / 16][4],
                                                      const bf16* keys, const bf16* position_keys,
                                                      const bf16* position_queries, u32 first) {
    const u32 lane = threadIdx.x % WARP, row = lane / 4, quad = lane % 4;
    const u32 as_right = (lane / 16 * 8 + lane % 8) * PITCH<D> + lane / 8 % 2 * CHUNK;
    const u32 as_left = lane % 16 * PITCH<D> + lane / 16 * CHUNK;
    // Two groups: sixteen lines.
    const auto groups = [=](u32 group) { return (first + group * 8) % (2 * SIDE) * PITCH<D>; };

    // For each of a lane's two columns c: whom it takes a product of queries and one of keys from, and whether it gives
    // of the second group. Of products of queries a lane of an even row gives its second line to the first column, and
    // the first to the second: they change places beforehand.
    const bool crossed = row % 2 == 0;
    u32 from_row[2], from_column[2];
    bool second_of_queries[2], second_of_keys[2];
#pragma unroll
    for (u32 b = 0; b < 2; b++) {
        const u32 c = 2 * quad + b, line = (row - c - 1) % 8;
        from_row[b] = row * 4 + line / 2;
        from_column[b] = line * 4 + quad;
        second_of_queries[b] = row > (row - 1 - 2 * quad - (row - b - 1) % 2) % 8;
        second_of_keys[b] = (row + c + 1) % 8 > c;
    }

    // Groups 8 - 2p and 9 - 2p of the pair p of keys.
    float upper[2][4] = {};
    u32 upper_left[D / 16][4] = {};
#pragma unroll
    for (u32 k = 0; k < D / 16; k++) {
        if (position_keys != nullptr) {
            u32 right[4];
            load_tiles(right, position_keys + groups(8) + as_right + k * 16);
            multiply_add(upper[0], queries[k], right[0], right[1]);
            multiply_add(upper[1], queries[k], right[2], right[3]);
            if (k + 1 == D / 16) cross(upper, crossed);
        }
        if (position_queries != nullptr) load_tiles(upper_left[k], position_queries + groups(8) + as_left + k * 16);
    }
#pragma unroll
    for (u32 p = 0; p < SIDE / 16; p++) {
        // Products of keys with groups 6 - 2p to 9 - 2p: by two groups, and by eight keys.
        float of_keys[2][2][4] = {};
#pragma unroll
        for (u32 k = 0; k < D / 16; k++) {
            u32 right[4];
            load_tiles(right, keys + p * 16 * PITCH<D> + as_right + k * 16);
            multiply_add(scores[2 * p], queries[k], right[0], right[1]);
            multiply_add(scores[2 * p + 1], queries[k], right[2], right[3]);
            if (position_queries != nullptr) {
                multiply_add(of_keys[1][0], upper_left[k], right[0], right[1]);
                multiply_add(of_keys[1][1], upper_left[k], right[2], right[3]);
                load_tiles(upper_left[k], position_queries + groups(6 - 2 * p) + as_left + k * 16);
                multiply_add(of_keys[0][0], upper_left[k], right[0], right[1]);
                multiply_add(of_keys[0][1], upper_left[k], right[2], right[3]);
            }
        }
        // Eight keys of the pair: their groups are the second to the fourth, or the first to the third. The two halves
        // of a warp's queries are a group apart.
        if (position_queries != nullptr) {
#pragma unroll
            for (u32 i = 0; i < 8; i++) {
                const u32 half = i / 4, h = i / 2 % 2, b = i % 2, near = 1 - half + h, far = near + 1;
                const float of_near = of_keys[near / 2][half][near % 2 * 2 + b];
                const float of_far = of_keys[far / 2][half][far % 2 * 2 + b];
                const float given = second_of_keys[b] ? of_far : of_near;
                scores[2 * p + half][2 * h + b] += __shfl_sync(EVERY_LANE, given, from_column[b]);
            }
        }
        if (position_keys == nullptr) continue;
        // Products of queries with groups 6 - 2p and 7 - 2p.
        float lower[2][4] = {};
#pragma unroll
        for (u32 k = 0; k < D / 16; k++) {
            u32 right[4];
            load_tiles(right, position_keys + groups(6 - 2 * p) + as_right + k * 16);
            multiply_add(lower[0], queries[k], right[0], right[1]);
            multiply_add(lower[1], queries[k], right[2], right[3]);
        }
        cross(lower, crossed);
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const u32 half = i / 4, h = i / 2 % 2, b = i % 2, near = 1 - half + h, far = near + 1;
            const float of_near = near < 2 ? lower[near % 2][2 * h + b] : upper[near % 2][2 * h + b];
            const float of_far = far < 2 ? lower[far % 2][2 * h + b] : upper[far % 2][2 * h + b];
            const float given = second_of_queries[b] ? of_far : of_near;
            scores[2 * p + half][2 * h + b] += __shfl_sync(EVERY_LANE, given, from_row[b]);
        }
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            upper[0][i] = lower[0][i];
            upper[1][i] = lower[1][i];
        }
    }
}

// With GROUPED the rows of a block are the heads of one query row that share a head of keys and values.
template <u32 D, u32 BIAS, u32 WARPS, bool GROUPED = false>
__device__ __forceinline__ void attend(const Operands<bf16>& o) {
    static_assert(!GROUPED || BIAS == NONE, "a bias is of one head");
    constexpr u32 THREADS = WARPS * WARP, ROWS = WARPS * STRIP;
    constexpr u32 STAGES = WARPS == 4 && BIAS != DISENTANGLED ? 2 : 1;
    // From a stage's keys to its values.
    constexpr u32 ONE = SIDE * PITCH<D>;
    // Of a tile: the rows of 64 keys, and of 64 relative positions. Those that a thread fetches.
    constexpr u32 ENTRIES = 2 * SIDE, EACH = ENTRIES / THREADS;
    DYNAMIC_SHARED(bf16, stages);
    bf16* const position_keys = stages + 2 * ONE;
    bf16* const position_queries = position_keys + 2 * ONE;
    SHARED(u32, entries, 2 * ENTRIES);
    SHARED(float, biases, 4 * SIDE);

    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const u32 head = GROUPED ? blockIdx.y * o.group : blockIdx.y, heads = GROUPED ? gridDim.y * o.group : gridDim.y;
    const u32 width = heads * o.head_dim;
    const u32* const tile = o.tiles + static_cast<size_t>(blockIdx.x) * TILE_NUMBERS;
    const u32 first_row = tile[0], rows = GROUPED ? o.group : tile[1], position = tile[2], key_count = tile[4];
    const u32* const key_rows = o.keys + tile[3];
    const bf16* const q = o.q + o.q_start + head * o.head_dim;
    const bf16* const k = o.k + o.k_start + head / o.group * o.head_dim;
    const bf16* const v = o.v + o.v_start + head / o.group * o.head_dim;

    // Tiles that some row sees.
    const u32 first_tile = seen(o, position, key_count).first / SIDE;
    const u32 end_tile = (seen(o, GROUPED ? position : position + rows - 1, key_count).end + SIDE - 1) / SIDE;
    // Rows of the last block may leave warps without any; they only help to send.
    const bool busy = warp * STRIP < rows;
    // The two rows of this lane, 8 apart.
    const u32 row = warp * STRIP + lane / 4;
    const Seen upper = seen(o, GROUPED ? position : position + row, key_count);
    const Seen lower = seen(o, GROUPED ? position : position + row + 8, key_count);
    // Keys that all rows of this warp see.
    const u32 all_first = seen(o, GROUPED ? position : position + warp * STRIP + STRIP - 1, key_count).first;
    const u32 all_end = seen(o, GROUPED ? position : position + warp * STRIP, key_count).end;

    const auto keys_of = [=](u32 t) { return stages + t % STAGES * 2 * ONE; };
    const auto values_of = [=](u32 t) { return stages + (t % STAGES * 2 + 1) * ONE; };
    // The entries of tile t that a thread fetches: of the first 64 each is the row of a key, of the others that of the
    // relative position for distance 64 steps below. A tile has 127 distances; the upper 63 are the lower ones of the
    // tile before it.
    const auto fetch = [&](u32 (&found)[EACH], u32 t) {
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            const u32 entry = threadIdx.x + i * THREADS;
            found[i] = 0;
            if (entry < SIDE) {
                const u32 key = t * SIDE + entry;
                if (key < key_count) found[i] = key_rows[key];
            } else if (BIAS != NONE) {
                const int reach = static_cast<int>(o.reach);
                const int steps = static_cast<int>(position - t * SIDE + (entry - SIDE));
                const int distance = steps - static_cast<int>(SIDE - 1);
                found[i] = o.places[max(-reach, min(distance, reach)) + reach];
            }
        }
    };
    const auto keep = [&](u32 t, const u32 (&found)[EACH]) {
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            const u32 entry = threadIdx.x + i * THREADS;
            if (entry < SIDE || BIAS == DISENTANGLED) entries[t % 2 * ENTRIES + entry] = found[i];
        }
    };
    const auto key_row = [&](u32 t) {
        const u32* list = entries + t % 2 * ENTRIES;
        return [=](u32 line) { return list[line]; };
    };
    // The bias of the distance that a thread fetched last.
    const auto bias_of = [&](const u32 (&found)[EACH]) {
        return to_float(o.table[static_cast<size_t>(found[EACH - 1]) * heads + head]) * LOG2_E;
    };
    const bool has_distance = threadIdx.x + (EACH - 1) * THREADS >= SIDE;
    // Later tiles lie before earlier ones, around 256: distances grow from a tile to the one before it.
    const auto keep_bias = [&](u32 t, float bias) {
        if (BIAS == RELATIVE && has_distance) biases[(0u - t) % 4 * SIDE + threadIdx.x % SIDE] = bias;
    };
    const auto send_keys = [&](u32 t) {
        send<D, THREADS, SIDE>(keys_of(t), k, o.k_stride, key_count - t * SIDE, o, key_row(t));
    };
    const auto send_values = [&](u32 t) {
        send<D, THREADS, SIDE>(values_of(t), v, o.v_stride, key_count - t * SIDE, o, key_row(t));
    };
    // The lower distances of tile t; they replace the upper ones of the tile before it.
    const auto send_positions = [&](u32 t) {
        const u32* list = entries + t % 2 * ENTRIES + SIDE;
        const auto place = [=](u32 line) { return list[line]; };
        const u32 slot = t % 2 * ONE;
        const u32 first = head * o.head_dim;
        if (o.position_keys != nullptr) {
            send<D, THREADS, SIDE>(position_keys + slot, o.position_keys + first, width, SIDE, o, place);
        }
        if (o.position_queries != nullptr) {
            send<D, THREADS, SIDE>(position_queries + slot, o.position_queries + first, width, SIDE, o, place);
        }
    };

    float sums[D / 8][4] = {};
    float highest[2] = {-infinity(), -infinity()}, totals[2] = {0.0f, 0.0f};
    u32 queries[D / 16][4];

    if (first_tile < end_tile) {
        u32 before[EACH], now[EACH], after[EACH];
        fetch(before, first_tile - 1);
        fetch(now, first_tile);
        if (STAGES == 2) fetch(after, first_tile + 1);
        keep(first_tile, now);
        keep(first_tile + 1, STAGES == 2 ? after : before);
        if (BIAS == RELATIVE && has_distance) {
            keep_bias(first_tile - 1, bias_of(before));
            keep_bias(first_tile, bias_of(now));
            if (STAGES == 2) keep_bias(first_tile + 1, bias_of(after));
        }
        __syncthreads();
        // With two stages by way of the other one.
        bf16* const through = values_of(first_tile + 1);
        if (GROUPED) {
            const bf16* const heads_of_row = q + static_cast<size_t>(first_row) * o.q_stride;
            send<D, THREADS, ROWS>(through, heads_of_row, o.head_dim, rows, o, [=](u32 line) { return line; });
        } else {
            send<D, THREADS, ROWS>(through, q, o.q_stride, rows, o, [=](u32 line) { return first_row + line; });
        }
        send_keys(first_tile);
        if (STAGES == 2) send_values(first_tile);
        if (BIAS == DISENTANGLED) {
            send_positions(first_tile - 1);
            send_positions(first_tile);
        }
        copy_commit();
        copy_wait<0>();
        __syncthreads();
        load_left<D>(queries, through + warp * STRIP * PITCH<D>);
    }

    for (u32 t = first_tile; t < end_tile; t++) {
        const bool more = t + 1 < end_tile;
        const bf16* const keys = keys_of(t);
        const bf16* const values = values_of(t);
        // The keys are there, with two stages the values too; nobody reads the tile before, or the queries, any more.
        copy_wait<0>();
        __syncthreads();
        if (STAGES == 1) {
            send_values(t);
        } else if (more) {
            send_keys(t + 1);
            send_values(t + 1);
        }
        copy_commit();
        u32 next[EACH] = {};
        if (t + STAGES < end_tile) fetch(next, t + STAGES);

        float scores[SIDE / 8][4] = {};
        if (busy && BIAS == DISENTANGLED) {
            // This warp's rows begin at line 16 * warp; tile by tile the lines go around.
            multiply_disentangled<D>(scores, queries, keys, o.position_keys != nullptr ? position_keys : nullptr,
                                     o.position_queries != nullptr ? position_queries : nullptr,
                                     warp * STRIP + t * SIDE);
        } else if (busy) {
            multiply<D>(scores, queries, [=](u32 pair) { return keys + pair * 16 * PITCH<D>; });
        }
        float next_bias = 0.0f;
        if (BIAS == RELATIVE && has_distance && t + STAGES < end_tile) next_bias = bias_of(next);

        u32 weights[SIDE / 16][4];
        if (busy) {
            const bool open = all_first <= t * SIDE && (t + 1) * SIDE <= all_end;
            const float scale = o.scale * LOG2_E;
            if (BIAS == RELATIVE) {
                const u32 distance = row + SIDE - 1 - t * SIDE - lane % 4 * 2;
#pragma unroll
                for (u32 n = 0; n < SIDE / 8; n++) {
#pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        const u32 at = (distance + i / 2 * 8 - n * 8 - i % 2) % (4 * SIDE);
                        scores[n][i] = scores[n][i] * scale + biases[at];
                    }
                }
            }
            if (!open) {
#pragma unroll
                for (u32 n = 0; n < SIDE / 8; n++) {
#pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        const u32 key = t * SIDE + n * 8 + lane % 4 * 2 + i % 2;
                        const Seen mine = i < 2 ? upper : lower;
                        if (key < mine.first || key >= mine.end) scores[n][i] = -infinity();
                    }
                }
            }
            float factors[2];
#pragma unroll
            for (u32 h = 0; h < 2; h++) {
                float top = -infinity();
#pragma unroll
                for (u32 n = 0; n < SIDE / 8; n++) top = fmaxf(top, fmaxf(scores[n][2 * h], scores[n][2 * h + 1]));
                top = fmaxf(top, __shfl_xor_sync(EVERY_LANE, top, 1));
                top = fmaxf(top, __shfl_xor_sync(EVERY_LANE, top, 2));
                // Scores are scaled together with the subtraction of the maximum; biased ones are scaled already.
                const float by = BIAS == RELATIVE ? 1.0f : scale;
                top = fmaxf(highest[h], top * by);
                // A row that has seen no key yet: all its exponentials are 0 then, not NaN.
                const float from = top == -infinity() ? 0.0f : top;
                factors[h] = exp2_approximately(highest[h] - from);
                highest[h] = top;
                float total = 0.0f;
#pragma unroll
                for (u32 n = 0; n < SIDE / 8; n++) {
                    const float first = exp2_approximately(scores[n][2 * h] * by - from);
                    const float second = exp2_approximately(scores[n][2 * h + 1] * by - from);
                    total += first + second;
                    weights[n / 2][n % 2 * 2 + h] = round_pair(first, second);
                }
                totals[h] = totals[h] * factors[h] + total;
            }
            // A factor of 1 changes nothing; most tiles leave the maximum alone.
            if (__any_sync(EVERY_LANE, factors[0] != 1.0f || factors[1] != 1.0f)) {
#pragma unroll
                for (u32 n = 0; n < D / 8; n++) {
#pragma unroll
                    for (u32 i = 0; i < 4; i++) sums[n][i] *= factors[i / 2];
                }
            }
        }
        // Slots that were read before the threads met last.
        keep(t + STAGES, next);
        keep_bias(t + STAGES, next_bias);
        if (STAGES == 1) {
            // The values are there; nobody reads the keys and the upper distances of this tile any more.
            copy_wait<0>();
            __syncthreads();
            if (more) {
                send_keys(t + 1);
                if (BIAS == DISENTANGLED) send_positions(t + 1);
                copy_commit();
            }
        }
        if (busy) {
            const bf16* const mine = values + lane % 16 * PITCH<D> + lane / 16 * CHUNK;
#pragma unroll
            for (u32 n = 0; n < SIDE / 16; n++) {
#pragma unroll
                for (u32 m = 0; m < D / 8; m += 2) {
                    u32 right[4];
                    load_tiles_transposed(right, mine + n * 16 * PITCH<D> + m * 8);
                    multiply_add(sums[m], weights[n], right[0], right[1]);
                    multiply_add(sums[m + 1], weights[n], right[2], right[3]);
                }
            }
        }
    }

    if (!busy) return;
    // By way of keys that nobody reads any more, so that whole rows are written.
    bf16* const strip = keys_of(end_tile) + warp * STRIP * PITCH<D>;
#pragma unroll
    for (u32 h = 0; h < 2; h++) {
        float total = totals[h];
        total += __shfl_xor_sync(EVERY_LANE, total, 1);
        total += __shfl_xor_sync(EVERY_LANE, total, 2);
        // Over no keys the result is 0.
        const float factor = total == 0.0f ? 0.0f : 1.0f / total;
        u32* const line = reinterpret_cast<u32*>(strip + (lane / 4 + h * 8) * PITCH<D> + lane % 4 * 2);
#pragma unroll
        for (u32 n = 0; n < D / 8; n++) line[n * 4] = round_pair(sums[n][2 * h] * factor, sums[n][2 * h + 1] * factor);
    }
    __syncwarp();
    const u32 count = min(STRIP, rows - warp * STRIP);
    // From a line to the next: a row, or a head.
    const u32 step = GROUPED ? o.head_dim : width;
    bf16* const out = GROUPED
        ? o.out + static_cast<size_t>(first_row) * width + (head + warp * STRIP) * o.head_dim
        : o.out + static_cast<size_t>(first_row + warp * STRIP) * width + head * o.head_dim;
    if (o.aligned != 0) {
        for (u32 i = lane; i < count * (D / CHUNK); i += WARP) {
            const u32 line = i / (D / CHUNK), first = i % (D / CHUNK) * CHUNK;
            if (first >= o.head_dim) continue;
            *reinterpret_cast<uint4*>(out + static_cast<size_t>(line) * step + first) =
                *reinterpret_cast<const uint4*>(strip + line * PITCH<D> + first);
        }
    } else {
        for (u32 i = lane; i < count * o.head_dim; i += WARP) {
            const u32 line = i / o.head_dim, column = i % o.head_dim;
            out[static_cast<size_t>(line) * step + column] = strip[line * PITCH<D> + column];
        }
    }
}

// Heads of up to so many numbers; `short` for blocks of up to 32 query rows, `grouped` of one row's heads.
KERNEL(128) attention_32(PARAMETERS(bf16)) { attend<32, NONE, 4>(OPERANDS(bf16)); }
KERNEL(128) attention_64(PARAMETERS(bf16)) { attend<64, NONE, 4>(OPERANDS(bf16)); }
KERNEL(128) attention_96(PARAMETERS(bf16)) { attend<96, NONE, 4>(OPERANDS(bf16)); }
KERNEL(128) attention_128(PARAMETERS(bf16)) { attend<128, NONE, 4>(OPERANDS(bf16)); }
KERNEL(128) attention_relative_32(PARAMETERS(bf16)) { attend<32, RELATIVE, 4>(OPERANDS(bf16)); }
KERNEL(128) attention_relative_64(PARAMETERS(bf16)) { attend<64, RELATIVE, 4>(OPERANDS(bf16)); }
KERNEL(128) attention_relative_96(PARAMETERS(bf16)) { attend<96, RELATIVE, 4>(OPERANDS(bf16)); }
KERNEL(128) attention_relative_128(PARAMETERS(bf16)) { attend<128, RELATIVE, 4>(OPERANDS(bf16)); }
KERNEL(128) attention_disentangled_32(PARAMETERS(bf16)) { attend<32, DISENTANGLED, 4>(OPERANDS(bf16)); }
KERNEL(128) attention_disentangled_64(PARAMETERS(bf16)) { attend<64, DISENTANGLED, 4>(OPERANDS(bf16)); }
KERNEL(64) attention_short_32(PARAMETERS(bf16)) { attend<32, NONE, 2>(OPERANDS(bf16)); }
KERNEL(64) attention_short_64(PARAMETERS(bf16)) { attend<64, NONE, 2>(OPERANDS(bf16)); }
KERNEL(64) attention_short_96(PARAMETERS(bf16)) { attend<96, NONE, 2>(OPERANDS(bf16)); }
KERNEL(64) attention_short_128(PARAMETERS(bf16)) { attend<128, NONE, 2>(OPERANDS(bf16)); }
KERNEL(64) attention_short_relative_32(PARAMETERS(bf16)) { attend<32, RELATIVE, 2>(OPERANDS(bf16)); }
KERNEL(64) attention_short_relative_64(PARAMETERS(bf16)) { attend<64, RELATIVE, 2>(OPERANDS(bf16)); }
KERNEL(64) attention_short_relative_96(PARAMETERS(bf16)) { attend<96, RELATIVE, 2>(OPERANDS(bf16)); }
KERNEL(64) attention_short_relative_128(PARAMETERS(bf16)) { attend<128, RELATIVE, 2>(OPERANDS(bf16)); }
KERNEL(64) attention_grouped_32(PARAMETERS(bf16)) { attend<32, NONE, 2, true>(OPERANDS(bf16)); }
KERNEL(64) attention_grouped_64(PARAMETERS(bf16)) { attend<64, NONE, 2, true>(OPERANDS(bf16)); }
KERNEL(64) attention_grouped_96(PARAMETERS(bf16)) { attend<96, NONE, 2, true>(OPERANDS(bf16)); }
KERNEL(64) attention_grouped_128(PARAMETERS(bf16)) { attend<128, NONE, 2, true>(OPERANDS(bf16)); }
