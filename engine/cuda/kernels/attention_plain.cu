// Attention of packed sequences over lists of key rows without tensor cores: f32, and bf16 heads of any size.
//
// It is what `attention.cu` computes, in the plainest order: a warp takes one query row of one head and goes over its keys in
// logical order, 32 at a time. Each lane makes the score of one key, a chain over the head's numbers; then the lanes share the
// output's numbers and add the values of these keys one after the other. Maximum, sum and output are rescaled when the
// maximum grows. Chunks begin at multiples of 32 of a key's place in its sequence, and keys that are not seen are passed over,
// so the bits do not depend on where keys lie, nor on which rows come together.
#include "attention.cuh"
#include "prelude.cuh"

constexpr u32 WARPS = 4;
// Numbers of the output that a lane keeps at once; of larger heads the scores are made again for each 256.
constexpr u32 KEPT = 8;

// A query and a key of one head.
template <typename T>
__device__ __forceinline__ float score(const Operands<T>& o, const T* q, const T* k, u32 query, u32 key) {
    const u32 head = blockIdx.y, heads = gridDim.y;
    const bool relative = o.table != nullptr;
    const bool disentangled = o.position_keys != nullptr || o.position_queries != nullptr;
    u32 place = 0;
    if (relative || disentangled) {
        const int reach = static_cast<int>(o.reach), distance = static_cast<int>(query - key);
        place = o.places[max(-reach, min(distance, reach)) + reach];
    }
    float content = 0.0f, position = 0.0f;
    for (u32 i = 0; i < o.head_dim; i++) content = fmaf(to_float(q[i]), to_float(k[i]), content);
    const size_t row = static_cast<size_t>(place) * heads * o.head_dim + head * o.head_dim;
    if (o.position_keys != nullptr) {
        const T* there = o.position_keys + row;
        for (u32 i = 0; i < o.head_dim; i++) position = fmaf(to_float(q[i]), to_float(there[i]), position);
    }
    if (o.position_queries != nullptr) {
        const T* there = o.position_queries + row;
        for (u32 i = 0; i < o.head_dim; i++) position = fmaf(to_float(k[i]), to_float(there[i]), position);
    }
    const float product = o.scale * (content + position);
    return relative ? product + to_float(o.table[static_cast<size_t>(place) * heads + head]) : product;
}

// The numbers of one query row's head from `first` on, as many as the lanes keep.
template <typename T>
__device__ __forceinline__ void attend_row(const Operands<T>& o, const u32* key_rows, u32 key_count, u32 row, u32 position,
                                           u32 first) {
    const u32 lane = threadIdx.x % WARP, head = blockIdx.y, shared = head / o.group;
    const T* const q = o.q + static_cast<size_t>(row) * o.q_stride + o.q_start + head * o.head_dim;
    const T* const k = o.k + o.k_start + shared * o.head_dim;
    const T* const v = o.v + o.v_start + shared * o.head_dim + first;
    const u32 width = o.head_dim - first;
    const Seen keys = seen(o, position, key_count);

    float sums[KEPT] = {};
    float highest = -infinity(), total = 0.0f;
    for (u32 chunk = keys.first / WARP * WARP; chunk < keys.end; chunk += WARP) {
        const u32 key = chunk + lane;
        const bool there = key >= keys.first && key < keys.end;
        const u32 key_row = there ? key_rows[key] : 0;
        const float mine =
            there ? score(o, q, k + static_cast<size_t>(key_row) * o.k_stride, position, key) : -infinity();
        const float top = fmaxf(highest, warp_max(mine));
        // Nothing but -inf so far: all exponentials are 0 then, not NaN.
        const float from = top == -infinity() ? 0.0f : top;
        const float factor = expf(highest - from), weight = expf(mine - from);
        highest = top;
        total = total * factor + weight;
#pragma unroll
        for (u32 i = 0; i < KEPT; i++) sums[i] *= factor;
        for (u32 one = max(keys.first, chunk); one < min(keys.end, chunk + WARP); one++) {
            const float its = __shfl_sync(EVERY_LANE, weight, one - chunk);
            const T* const values = v + static_cast<size_t>(__shfl_sync(EVERY_LANE, key_row, one - chunk)) * o.v_stride;
#pragma unroll
            for (u32 i = 0; i < KEPT; i++) {
                if (lane + i * WARP < width) sums[i] = fmaf(its, to_float(values[lane + i * WARP]), sums[i]);
            }
        }
    }
    total = warp_sum(total);
    // Over no keys the result is 0.
    const float factor = total == 0.0f ? 0.0f : 1.0f / total;
    T* const out = o.out + (static_cast<size_t>(row) * gridDim.y + head) * o.head_dim + first;
#pragma unroll
    for (u32 i = 0; i < KEPT; i++) {
        if (lane + i * WARP < width) put(out[lane + i * WARP], sums[i] * factor);
    }
}

template <typename T>
__device__ __forceinline__ void attend(const Operands<T>& o) {
    const u32* const tile = o.tiles + static_cast<size_t>(blockIdx.x) * TILE_NUMBERS;
    const u32 first_row = tile[0], rows = tile[1], position = tile[2], key_count = tile[4];
    for (u32 i = threadIdx.x / WARP; i < rows; i += WARPS) {
        for (u32 first = 0; first < o.head_dim; first += KEPT * WARP) {
            attend_row(o, o.keys + tile[3], key_count, first_row + i, position + i, first);
        }
    }
}

KERNEL(128) attention_plain_f32(PARAMETERS(float)) { attend(OPERANDS(float)); }
KERNEL(128) attention_plain_bf16(PARAMETERS(bf16)) { attend(OPERANDS(bf16)); }
