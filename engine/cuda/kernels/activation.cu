// Gated activations, and what a product's epilogue could not do: a thread for each number of the result.
#include "prelude.cuh"

// out [rows, n] = activation(x[.., ..n]) * x[.., n..] of x [rows, 2 n].
template <typename T>
__device__ void gate(T* out, const T* x, u32 rows, u32 n, u32 activation) {
    const size_t at = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= static_cast<size_t>(rows) * n) return;
    const size_t row = at / n, column = at % n;
    const T* there = x + row * 2 * n + column;
    put(out[at], activate(to_float(there[0]), activation) * to_float(there[n]));
}

KERNEL(256) gate_f32(float* out, const float* x, u32 rows, u32 n, u32 activation) { gate(out, x, rows, n, activation); }
KERNEL(256) gate_bf16(bf16* out, const bf16* x, u32 rows, u32 n, u32 activation) { gate(out, x, rows, n, activation); }

// x [rows, columns] = activation(x + bias [columns]) + residual [rows, columns]; bias and residual may be null.
template <typename T>
__device__ void finish(T* x, const float* bias, const T* residual, u32 rows, u32 columns, u32 activation) {
    const size_t at = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= static_cast<size_t>(rows) * columns) return;
    float value = to_float(x[at]);
    if (bias != nullptr) value += bias[at % columns];
    value = activate(value, activation);
    if (residual != nullptr) value += to_float(residual[at]);
    put(x[at], value);
}

KERNEL(256) finish_f32(float* x, const float* bias, const float* residual, u32 rows, u32 columns, u32 activation) {
    finish(x, bias, residual, rows, columns, activation);
}
KERNEL(256) finish_bf16(bf16* x, const float* bias, const bf16* residual, u32 rows, u32 columns, u32 activation) {
    finish(x, bias, residual, rows, columns, activation);
}
