// Attention of packed sequences over lists of key rows on tensor cores, for bf16 and heads of up to 128 numbers.
//
// A block of four warps takes 64 query rows of one sequence and one head, 16 rows a warp, and goes over its keys in tiles of
// 64: scores by tensor cores, the softmax as it goes (maximum, sum and output are rescaled when the maximum grows), weights
// rounded to bf16 and kept in registers as the left factor of the product with the values.
//
//   shared memory    rows x numbers     filled
//   keys             64 x (D + 8)       with tile t + 1, while the weights of tile t meet the values
//   values           64 x (D + 8)       with tile t, while its scores are computed; before the first tile it holds the queries
//   entries          2 x 128            tile t + 1's rows of keys, and of relative positions, while tile t is worked on
//   biases           2 x 64             relative: those of the 127 distances that a tile has
//   positions        2 x 2 x 64 x (D+8) disentangled: the positions' keys and queries of the same distances
//   terms            64 x 88            disentangled: products with positions, in f32
//
// A row is 16 bytes longer than its numbers: then eight rows one below the other, which is what `load_tiles` reads at once,
// lie in different banks. Keys are found through a list of their rows, so prefixes, caches and shared prompts are not copied.
//
// # Bits
// Tiles begin at multiples of 64 of a key's place in its sequence, wherever it lies and whoever asks. A key that a query does
// not see weighs 0, which changes no sum of finite numbers; a tile of such keys leaves the maximum alone, and the factor of
// what was summed before is 1: so it does not matter whether a tile is left out because nobody of the block sees it. What lies
// behind the last key is not read but 0. A row's place among the 64 does not matter either: tensor cores compute each row from
// its own numbers.
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

// Distances that 16 queries and 64 keys have, or 16 keys and 64 queries: 79, and one that is not used.
constexpr u32 TERMS = 80;
// From a row of terms to the next. Rows are written eight bytes a lane and read askew: at this pitch no bank is met more than
// twice.
constexpr u32 TERMS_PITCH = 88;

// From a row to the next in shared memory, in numbers.
template <u32 D>
constexpr u32 PITCH = D + CHUNK;

// Sends the numbers of one head of 64 rows to shared memory: line i is row `row_of(i)`, zeros from line `count` on.
template <u32 D, class RowOf>
__device__ __forceinline__ void send(bf16* to, const bf16* from, u32 stride, u32 count, const Operands<bf16>& o, RowOf row_of) {
    constexpr u32 CHUNKS = D / CHUNK;
    if (o.aligned != 0) {
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

// The warp's 16 rows times the 80 rows of `positions` from line `first` of 128 on, which go around: to its rows of `terms`.
template <u32 D>
__device__ __forceinline__ void multiply_positions(float* terms, const u32 (&left)[D / 16][4], const bf16* positions, u32 first) {
    float sums[TERMS / 8][4] = {};
    multiply<D>(sums, left, [=](u32 pair) { return positions + (first + pair * 16) % (2 * SIDE) * PITCH<D>; });
    const u32 lane = threadIdx.x % WARP;
    float* mine = terms + lane / 4 * TERMS_PITCH + lane % 4 * 2;
#pragma unroll
    for (u32 n = 0; n < TERMS / 8; n++) {
        *reinterpret_cast<float2*>(mine + n * 8) = make_float2(sums[n][0], sums[n][1]);
        *reinterpret_cast<float2*>(mine + 8 * TERMS_PITCH + n * 8) = make_float2(sums[n][2], sums[n][3]);
    }
}

template <u32 D, u32 BIAS>
__device__ __forceinline__ void attend(const Operands<bf16>& o) {
    DYNAMIC_SHARED(bf16, keys);
    bf16* const values = keys + SIDE * PITCH<D>;
    bf16* const position_keys = values + SIDE * PITCH<D>;
    bf16* const position_queries = position_keys + 2 * SIDE * PITCH<D>;
    float* const terms = reinterpret_cast<float*>(position_queries + 2 * SIDE * PITCH<D>);
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

    // What a thread fetches of tile t: the first 64 the row of a key, the others that of the relative position for distance
    // 64 steps below. A tile has 127 distances; the upper 63 are the lower ones of the tile before it.
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
        if (busy) multiply<D>(scores, queries, [=](u32 pair) { return keys + pair * 16 * PITCH<D>; });
        float next_bias = 0.0f;
        if (BIAS == RELATIVE && more && threadIdx.x >= SIDE) next_bias = bias_of(next);
        if (BIAS == DISENTANGLED) {
            // Line e of 127 holds the distance of row i and key j with i - j + 63 = e; tile by tile the lines go around.
            float* const strip = terms + warp * STRIP * TERMS_PITCH;
            if (o.position_keys != nullptr && busy) {
                // This warp's rows begin at line 16 * warp.
                multiply_positions<D>(strip, queries, position_keys, (warp * STRIP + t * SIDE) % (2 * SIDE));
                __syncwarp();
                const float* const mine = strip + lane / 4 * (TERMS_PITCH + 1) + SIDE - 1 - lane % 4 * 2;
#pragma unroll
                for (u32 n = 0; n < SIDE / 8; n++) {
#pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        const int key = n * 8 + i % 2, below = i / 2 * 8;
                        scores[n][i] += mine[below * static_cast<int>(TERMS_PITCH + 1) - key];
                    }
                }
                __syncwarp();
            }
            if (o.position_queries != nullptr) {
                // Each warp multiplies 16 keys: they begin at line 48 - 16 * warp.
                u32 left[D / 16][4];
                load_left<D>(left, keys + warp * STRIP * PITCH<D>);
                multiply_positions<D>(strip, left, position_queries, (3 * STRIP - warp * STRIP + t * SIDE) % (2 * SIDE));
                __syncthreads();
                const float* const mine = terms + lane % 4 * 2 * (TERMS_PITCH - 1) + row + STRIP - 1;
#pragma unroll
                for (u32 n = 0; n < SIDE / 8; n++) {
#pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        const u32 key = n * 8 + i % 2;
                        scores[n][i] += mine[key / STRIP * STRIP * TERMS_PITCH + key % STRIP * (TERMS_PITCH - 1) + i / 2 * 8];
                    }
                }
            }
        }

        u32 weights[SIDE / 16][4];
        if (busy) {
            const bool open = all_first <= t * SIDE && (t + 1) * SIDE <= all_end;
            const float scale = o.scale * LOG2_E;
            float tops[2] = {highest[0], highest[1]};
#pragma unroll
            for (u32 n = 0; n < SIDE / 8; n++) {
#pragma unroll
                for (u32 i = 0; i < 4; i++) {
                    const u32 column = n * 8 + lane % 4 * 2 + i % 2;
                    float score = scores[n][i] * scale;
                    if (BIAS == RELATIVE) score += biases[(row + i / 2 * 8 + SIDE - 1 - column + t * SIDE) % (2 * SIDE)];
                    if (!open) {
                        const u32 key = t * SIDE + column;
                        const Seen mine = i < 2 ? upper : lower;
                        if (key < mine.first || key >= mine.end) score = -infinity();
                    }
                    scores[n][i] = score;
                    tops[i / 2] = fmaxf(tops[i / 2], score);
                }
            }
#pragma unroll
            for (u32 h = 0; h < 2; h++) {
                tops[h] = fmaxf(tops[h], __shfl_xor_sync(EVERY_LANE, tops[h], 1));
                tops[h] = fmaxf(tops[h], __shfl_xor_sync(EVERY_LANE, tops[h], 2));
                // A row that has seen no key yet: all its exponentials are 0 then, not NaN.
                const float from = tops[h] == -infinity() ? 0.0f : tops[h];
                const float factor = exp2f(highest[h] - from);
                highest[h] = tops[h];
                float total = 0.0f;
#pragma unroll
                for (u32 n = 0; n < SIDE / 8; n++) {
                    const float first = exp2f(scores[n][2 * h] - from), second = exp2f(scores[n][2 * h + 1] - from);
                    total += first + second;
                    weights[n / 2][n % 2 * 2 + h] = round_pair(first, second);
                }
                totals[h] = totals[h] * factor + total;
#pragma unroll
                for (u32 n = 0; n < D / 8; n++) {
                    sums[n][2 * h] *= factor;
                    sums[n][2 * h + 1] *= factor;
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
