// Means over the rows of a sequence: a thread for each column, which adds the rows in their order.
#include "prelude.cuh"

// out [gridDim.x, columns], in float whatever x is: it is what a text is compared by. cu_seqlens [gridDim.x + 1].
template <typename T>
__device__ void average(float* out, const T* x, const u32* cu_seqlens, u32 columns) {
    const size_t sequence = blockIdx.x;
    const u32 column = blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    const size_t first = cu_seqlens[sequence], end = cu_seqlens[sequence + 1];
    float sum = 0.0f;
    for (size_t row = first; row < end; row++) sum += to_float(x[row * columns + column]);
    out[sequence * columns + column] = sum / static_cast<float>(end - first);
}

KERNEL(128) average_f32(float* out, const float* x, const u32* cu_seqlens, u32 columns) {
    average(out, x, cu_seqlens, columns);
}
KERNEL(128) average_bf16(float* out, const bf16* x, const u32* cu_seqlens, u32 columns) {
    average(out, x, cu_seqlens, columns);
}
