// Rotary position embedding, in place: a block of 128 threads for a row, a thread for a pair of numbers that turn
// together.
#include "prelude.cuh"

// x [gridDim.x, stride]: heads of head_dim columns from `start` on; table [.., 2 * pairs]: cosines, then sines;
// `interleaved` pairs are 2i and 2i + 1, others i and pairs + i.
template <typename T>
__device__ void rotate(T* x, const T* table, const u32* positions, u32 stride, u32 start, u32 heads, u32 head_dim,
                       u32 pairs, u32 interleaved) {
    const size_t row = blockIdx.x;
    x += row * stride + start;
    table += static_cast<size_t>(positions[row]) * 2 * pairs;
    for (u32 at = threadIdx.x; at < heads * pairs; at += blockDim.x) {
        const u32 pair = at % pairs;
        T* there = x + at / pairs * head_dim;
        T& first = there[interleaved ? 2 * pair : pair];
        T& second = there[interleaved ? 2 * pair + 1 : pairs + pair];
        const float cosine = to_float(table[pair]), sine = to_float(table[pairs + pair]);
        const float left = to_float(first), right = to_float(second);
        put(first, left * cosine - right * sine);
        put(second, right * cosine + left * sine);
    }
}

KERNEL(128) rotate_f32(float* x, const float* table, const u32* positions, u32 stride, u32 start, u32 heads,
                       u32 head_dim, u32 pairs, u32 interleaved) {
    rotate(x, table, positions, stride, start, heads, head_dim, pairs, interleaved);
}
KERNEL(128) rotate_bf16(bf16* x, const bf16* table, const u32* positions, u32 stride, u32 start, u32 heads,
                        u32 head_dim, u32 pairs, u32 interleaved) {
    rotate(x, table, positions, stride, start, heads, head_dim, pairs, interleaved);
}
