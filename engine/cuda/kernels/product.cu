// Products of shapes that the library of products is not asked for: sizes that are no multiple of 8.
//
// A block of 256 threads makes a tile of 32 rows by 32 columns, four numbers a thread, in steps of 32 of the inner size; sums
// are in the order of the inner index. Heads of a few outputs and toy models come here, never a layer of a real model.
#include "prelude.cuh"

constexpr u32 SIDE = 32;
// A column more, so that a warp that reads down a column meets every bank once.
constexpr u32 PITCH = SIDE + 1;

// out [rows, columns] = scale * x [rows, inner] · weight[first.., inner]ᵀ; gridDim = (columns / 32, rows / 32), rounded up.
template <typename T, typename O>
__device__ void product(O* out, const T* x, const T* weight, u32 first, u32 rows, u32 inner, u32 columns, float scale) {
    SHARED(float, left, SIDE * PITCH);
    SHARED(float, right, SIDE * PITCH);
    const u32 across = threadIdx.x % SIDE, down = threadIdx.x / SIDE;
    const u32 row0 = blockIdx.y * SIDE, column0 = blockIdx.x * SIDE;
    constexpr u32 STEP = 256 / SIDE;
    float sums[SIDE / STEP] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (u32 k0 = 0; k0 < inner; k0 += SIDE) {
        for (u32 line = down; line < SIDE; line += STEP) {
            const u32 k = k0 + across, row = row0 + line, column = column0 + line;
            const bool in = k < inner;
            left[line * PITCH + across] = in && row < rows ? to_float(x[static_cast<size_t>(row) * inner + k]) : 0.0f;
            right[line * PITCH + across] =
                in && column < columns ? to_float(weight[(static_cast<size_t>(first) + column) * inner + k]) : 0.0f;
        }
        __syncthreads();
        for (u32 k = 0; k < SIDE; k++) {
            const float factor = right[across * PITCH + k];
            for (u32 i = 0; i < SIDE / STEP; i++) sums[i] = fmaf(left[(down + i * STEP) * PITCH + k], factor, sums[i]);
        }
        __syncthreads();
    }
    for (u32 i = 0; i < SIDE / STEP; i++) {
        const u32 row = row0 + down + i * STEP, column = column0 + across;
        if (row < rows && column < columns) put(out[static_cast<size_t>(row) * columns + column], scale * sums[i]);
    }
}

KERNEL(256) product_f32(float* out, const float* x, const float* weight, u32 first, u32 rows, u32 inner, u32 columns,
                        float scale) {
    product(out, x, weight, first, rows, inner, columns, scale);
}
KERNEL(256) product_bf16(bf16* out, const bf16* x, const bf16* weight, u32 first, u32 rows, u32 inner, u32 columns,
                         float scale) {
    product(out, x, weight, first, rows, inner, columns, scale);
}
KERNEL(256) product_bf16_f32(float* out, const bf16* x, const bf16* weight, u32 first, u32 rows, u32 inner,
                             u32 columns, float scale) {
    product(out, x, weight, first, rows, inner, columns, scale);
}
