// Attention of packed sequences over lists of key rows on tensor cores, for bf16 and heads of up to 128 numbers.
//
// A block of four warps takes 64 query rows of one sequence and one head, 16 rows a warp, and goes over its keys in
// tiles of 64: scores by tensor cores, the softmax as it goes (maximum, sum and output are rescaled when the maximum
// grows), weights rounded to bf16 and kept in registers as the left factor of the product with the values.
//
//   shared memory    rows x numbers     filled
//   keys             64 x (D + 8)       with tile t + 1, while the weights of tile t meet the values
//   values           64 x (D + 8)       with tile t, while its scores are computed; before the first tile it holds the queries
//   entries          2 x 128            tile t + 1's rows of keys, and of relative positions, while tile t is worked on
//   biases           2 x 64             relative: those of the 127 distances that a tile has
//   positions        2 x 2 x 64 x (D+8) disentangled: the positions' keys and queries of the same distances
//
// A row is 16 bytes longer than its numbers: then eight rows one below the other, which is what `load_tiles` reads at
// once, lie in different banks. Keys are found through a list of their rows, so prefixes, caches and shared prompts are
// not copied.
//
// # Bits
// Tiles begin at multiples of 64 of a key's place in its sequence, wherever it lies and whoever asks. A key that a
// query does not see weighs 0, which changes no sum of finite numbers; a tile of such keys leaves the maximum alone,
// and the factor of what was summed before is 1: so it does not matter whether a tile is left out because nobody of the
// block sees it. What lies behind the last key is not read but 0. A row's place among the 64 does not matter either:
// tensor cores compute each row from its own numbers.
#include "attention.cuh"
#include "mma.cuh"
#include "prelude.cuh"

constexpr u32 THREADS = 128;
// Query rows of a block, keys of a tile.
constexpr u32 SIDE = 64;
// Query rows of a warp.
constexpr u32 STRIP = 16;
// log2(e): the exponentials are of base 2.
constexpr float LOG2_E = 1.44269504088896341f;

enum Bias : u32 { NONE, RELATIVE, DISENTANGLED };

// From a row to the next in shared memory, in numbers.
template <u32 D>
constexpr u32 PITCH = D + CHUNK;

// Sends the numbers of one head of 64 rows to shared memory: line i is row `row_of(i)`, zeros from line `count` on.
template <u32 D, class RowOf>
__device__ __forceinline__ void send(bf16* to, const bf16* from, u32 stride, u32 count, const Operands<bf16>& o, RowOf row_of) {
    constexpr u32 CHUNKS = D / CHUNK;
    if (o.aligned != 0 && THREADS % CHUNKS == 0) {
        // A thread has the same chunk of every few lines. Of a line that is not there nothing is read, wherever it
        // lies.
        constexpr u32 LINES = THREADS / CHUNKS;
        const u32 begin = threadIdx.x / CHUNKS, first = threadIdx.x % CHUNKS * CHUNK;
        const bool within = first < o.head_dim;
        const char* const column = reinterpret_cast<const char*>(from + first);
        const u32 row_bytes = stride * sizeof(bf16);
        bf16* const mine = to + begin * PITCH<D> + first;
#pragma unroll
        for (u32 i = 0; i < SIDE; i += LINES) {
            const char* const line = column + static_cast<size_t>(row_of(begin + i)) * row_bytes;
            copy_async(mine + i * PITCH<D>, reinterpret_cast<const bf16*>(line), within && begin + i < count);
        }
    } else if (o.aligned != 0) {
#pragma unroll
        for (u32 i = threadIdx.x; i < SIDE * CHUNKS; i += THREADS) {
            const u32 line = i / CHUNKS, first = i % CHUNKS * CHUNK;
            const bool there = line < count && first < o.head_dim;
            const size_t offset = there ? static_cast<size_t>(row_of(line)) * stride + first : 0;
            copy_async(to + line * PITCH<D> + first, from + offset, there);
        }
    } else {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < SIDE * D; i += THREADS) {
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

template <u32 D, u32 BIAS>
__device__ __forceinline__ void attend(const Operands<bf16>& o) {
    DYNAMIC_SHARED(bf16, keys);
    bf16* const values = keys + SIDE * PITCH<D>;
    bf16* const position_keys = values + SIDE * PITCH<D>;
    bf16* const position_queries = position_keys + 2 * SIDE * PITCH<D>;
    SHARED(u32, entries, 2 * THREADS);
    SHARED(float, biases, 2 * SIDE);

    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const u32 head = blockIdx.y, heads = gridDim.y;
    const u32 width = heads * o.head_dim;
    const u32* const tile = o.tiles + static_cast<size_t>(blockIdx.x) * TILE_NUMBERS;
    const u32 first_row = tile[0], rows = tile[1], position = tile[2], key_count = tile[4];
    const u32* const key_rows = o.keys + tile[3];
    const bf16* const q = o.q + o.q_start + head * o.head_dim;
    const bf16* const k = o.k + o.k_start + head / o.group * o.head_dim;
    const bf16* const v = o.v + o.v_start + head / o.group * o.head_dim;

    // Tiles that some row sees.
    const u32 first_tile = seen(o, position, key_count).first / SIDE;
    const u32 end_tile = (seen(o, position + rows - 1, key_count).end + SIDE - 1) / SIDE;
    // Rows of the last block may leave warps without any; they only help to send.
    const bool busy = warp * STRIP < rows;
    // The two rows of this lane, 8 apart.
    const u32 row = warp * STRIP + lane / 4;
    const Seen upper = seen(o, position + row, key_count), lower = seen(o, position + row + 8, key_count);
    // Keys that all rows of this warp see.
    const u32 all_first = seen(o, position + warp * STRIP + STRIP - 1, key_count).first;
    const u32 all_end = seen(o, position + warp * STRIP, key_count).end;

    // What a thread fetches of tile t: the first 64 the row of a key, the others that of the relative position for
    // distance 64 steps below. A tile has 127 distances; the upper 63 are the lower ones of the tile before it.
    const auto fetch = [&](u32 t) -> u32 {
        if (threadIdx.x < SIDE) {
            const u32 key = t * SIDE + threadIdx.x;
            return key < key_count ? key_rows[key] : 0;
        }
        if (BIAS == NONE) return 0;
        const int reach = static_cast<int>(o.reach);
        const int distance = static_cast<int>(position - t * SIDE + (threadIdx.x - SIDE)) - static_cast<int>(SIDE - 1);
        return o.places[max(-reach, min(distance, reach)) + reach];
    };
    const auto keep = [&](u32 t, u32 entry) { entries[t % 2 * THREADS + threadIdx.x] = entry; };
    const auto key_row = [&](u32 t) {
        const u32* list = entries + t % 2 * THREADS;
        return [=](u32 line) { return list[line]; };
    };
    const auto bias_of = [&](u32 entry) { return to_float(o.table[static_cast<size_t>(entry) * heads + head]) * LOG2_E; };
    const auto send_keys = [&](u32 t) { send<D>(keys, k, o.k_stride, key_count - t * SIDE, o, key_row(t)); };
    const auto send_values = [&](u32 t) { send<D>(values, v, o.v_stride, key_count - t * SIDE, o, key_row(t)); };
    // The lower distances of tile t; they replace the upper ones of the tile before it.
    const auto send_positions = [&](u32 t) {
        const u32* list = entries + t % 2 * THREADS + SIDE;
        const auto place = [=](u32 line) { return list[line]; };
        const u32 slot = t % 2 * SIDE * PITCH<D>;
        const u32 first = head * o.head_dim;
        if (o.position_keys != nullptr) send<D>(position_keys + slot, o.position_keys + first, width, SIDE, o, place);
        if (o.position_queries != nullptr) {
            send<D>(position_queries + slot, o.position_queries + first, width, SIDE, o, place);
        }
    };

    float sums[D / 8][4] = {};
    float highest[2] = {-infinity(), -infinity()}, totals[2] = {0.0f, 0.0f};
    u32 queries[D / 16][4];

    if (first_tile < end_tile) {
        const u32 before = fetch(first_tile - 1), now = fetch(first_tile);
        keep(first_tile - 1, before);
        keep(first_tile, now);
        if (BIAS == RELATIVE && threadIdx.x >= SIDE) {
            biases[(first_tile - 1) % 2 * SIDE + threadIdx.x - SIDE] = bias_of(before);
            biases[first_tile % 2 * SIDE + threadIdx.x - SIDE] = bias_of(now);
        }
        __syncthreads();
        send<D>(values, q, o.q_stride, rows, o, [=](u32 line) { return first_row + line; });
        send_keys(first_tile);
        if (BIAS == DISENTANGLED) {
            send_positions(first_tile - 1);
            send_positions(first_tile);
        }
        copy_commit();
        copy_wait<0>();
        __syncthreads();
        load_left<D>(queries, values + warp * STRIP * PITCH<D>);
    }

    for (u32 t = first_tile; t < end_tile; t++) {
        const bool more = t + 1 < end_tile;
        // The keys are there; nobody reads the values of the tile before, or the queries, any more.
        copy_wait<0>();
        __syncthreads();
        send_values(t);
        copy_commit();
        const u32 next = more ? fetch(t + 1) : 0;

        float scores[SIDE / 8][4] = {};
        if (busy && BIAS == DISENTANGLED) {
            // This warp's rows begin at line 16 * warp; tile by tile the lines go around.
            multiply_disentangled<D>(scores, queries, keys, o.position_keys != nullptr ? position_keys : nullptr,
                                     o.position_queries != nullptr ? position_queries : nullptr, warp * STRIP + t * SIDE);
        } else if (busy) {
            multiply<D>(scores, queries, [=](u32 pair) { return keys + pair * 16 * PITCH<D>; });
        }
        float next_bias = 0.0f;
        if (BIAS == RELATIVE && more && threadIdx.x >= SIDE) next_bias = bias_of(next);

        u32 weights[SIDE / 16][4];
        if (busy) {
            const bool open = all_first <= t * SIDE && (t + 1) * SIDE <= all_end;
            const float scale = o.scale * LOG2_E;
            if (BIAS == RELATIVE) {
                const u32 distance = row + SIDE - 1 + t * SIDE - lane % 4 * 2;
#pragma unroll
                for (u32 n = 0; n < SIDE / 8; n++) {
#pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        const u32 at = (distance + i / 2 * 8 - n * 8 - i % 2) % (2 * SIDE);
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
        keep(t + 1, next);

        // The values are there; nobody reads the keys, the biases and the upper distances of this tile any more.
        copy_wait<0>();
        __syncthreads();
        if (more) {
            send_keys(t + 1);
            if (BIAS == DISENTANGLED) send_positions(t + 1);
            copy_commit();
            if (BIAS == RELATIVE && threadIdx.x >= SIDE) biases[(t + 1) % 2 * SIDE + threadIdx.x - SIDE] = next_bias;
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
    // By way of the keys' memory, which nobody reads any more, so that whole rows are written.
    bf16* const strip = keys + warp * STRIP * PITCH<D>;
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
    bf16* const out = o.out + static_cast<size_t>(first_row + warp * STRIP) * width + head * o.head_dim;
    if (o.aligned != 0) {
        for (u32 i = lane; i < count * (D / CHUNK); i += WARP) {
            const u32 line = i / (D / CHUNK), first = i % (D / CHUNK) * CHUNK;
            if (first >= o.head_dim) continue;
            *reinterpret_cast<uint4*>(out + static_cast<size_t>(line) * width + first) =
                *reinterpret_cast<const uint4*>(strip + line * PITCH<D> + first);
        }
    } else {
        for (u32 i = lane; i < count * o.head_dim; i += WARP) {
            const u32 line = i / o.head_dim, column = i % o.head_dim;
            out[static_cast<size_t>(line) * width + column] = strip[line * PITCH<D> + column];
        }
    }
}

KERNEL(128) attention_32(PARAMETERS(bf16)) { attend<32, NONE>(OPERANDS(bf16)); }
KERNEL(128) attention_64(PARAMETERS(bf16)) { attend<64, NONE>(OPERANDS(bf16)); }
KERNEL(128) attention_96(PARAMETERS(bf16)) { attend<96, NONE>(OPERANDS(bf16)); }
KERNEL(128) attention_128(PARAMETERS(bf16)) { attend<128, NONE>(OPERANDS(bf16)); }
KERNEL(128) attention_relative_32(PARAMETERS(bf16)) { attend<32, RELATIVE>(OPERANDS(bf16)); }
KERNEL(128) attention_relative_64(PARAMETERS(bf16)) { attend<64, RELATIVE>(OPERANDS(bf16)); }
KERNEL(128) attention_relative_96(PARAMETERS(bf16)) { attend<96, RELATIVE>(OPERANDS(bf16)); }
KERNEL(128) attention_relative_128(PARAMETERS(bf16)) { attend<128, RELATIVE>(OPERANDS(bf16)); }
KERNEL(128) attention_disentangled_32(PARAMETERS(bf16)) { attend<32, DISENTANGLED>(OPERANDS(bf16)); }
KERNEL(128) attention_disentangled_64(PARAMETERS(bf16)) { attend<64, DISENTANGLED>(OPERANDS(bf16)); }
