// Rotary position embedding, in place: a thread for each pair of numbers that turn together.
#include "prelude.cuh"

// x [rows, stride]: heads of head_dim columns from `start` on; table [.., 2 * pairs]: cosines, then sines; `interleaved`
// pairs are 2i and 2i + 1, others i and pairs + i.
template <typename T>
__device__ void rotate(T* x, const T* table, const u32* positions, u32 rows, u32 stride, u32 start, u32 heads,
                       u32 head_dim, u32 pairs, u32 interleaved) {
    const size_t at = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= static_cast<size_t>(rows) * heads * pairs) return;
    const u32 pair = at % pairs;
    const u32 head = at / pairs % heads;
    const size_t row = at / (static_cast<size_t>(pairs) * heads);
    T* there = x + row * stride + start + head * head_dim;
    T& first = there[interleaved ? 2 * pair : pair];
    T& second = there[interleaved ? 2 * pair + 1 : pairs + pair];
    const T* angle = table + static_cast<size_t>(positions[row]) * 2 * pairs + pair;
    const float cosine = to_float(angle[0]), sine = to_float(angle[pairs]);
    const float left = to_float(first), right = to_float(second);
    put(first, left * cosine - right * sine);
    put(second, right * cosine + left * sine);
}

KERNEL(256) rotate_f32(float* x, const float* table, const u32* positions, u32 rows, u32 stride, u32 start, u32 heads,
                       u32 head_dim, u32 pairs, u32 interleaved) {
    rotate(x, table, positions, rows, stride, start, heads, head_dim, pairs, interleaved);
}
KERNEL(256) rotate_bf16(bf16* x, const bf16* table, const u32* positions, u32 rows, u32 stride, u32 start, u32 heads,
                        u32 head_dim, u32 pairs, u32 interleaved) {
    rotate(x, table, positions, rows, stride, start, heads, head_dim, pairs, interleaved);
}
