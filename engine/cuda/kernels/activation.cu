// Gated activations, and what a product's epilogue could not do: a block of 128 threads for a row, sixteen bytes a
// thread.
//
// Both kernels read and write each number once, so memory bounds them if a number takes few instructions: there is no
// division by a row's length, the activation is chosen once for a row, and what is rounded to bf16 is computed by the
// GPU's fast functions.
#include "vectors.cuh"

// The activation of a number that stays in f32.
template <u32 ACTIVATION>
__device__ __forceinline__ float activated(float x, float) {
    return activate(x, ACTIVATION);
}

// The activation of a number that is rounded to bf16: within 4e-6 of the exact one, relatively.
template <u32 ACTIVATION>
__device__ __forceinline__ float activated(float x, bf16) {
    switch (ACTIVATION) {
        case GELU: {
            // x Phi(x) = max(x, 0) - |x| Phi(-|x|), and Phi(-z) = t P(t) exp(-z^2 / 2) with t = 1 / (1 + z / sqrt(8)):
            // a polynomial that was fitted to erfcx for the least relative error, which is 1.4e-6.
            const float z = fabsf(x);
            const float t = __fdividef(1.0f, 1.0f + 0.35355339059327376f * z);
            float tail = 0.044104572385549545f;
            tail = tail * t - 0.1783779263496399f;
            tail = tail * t + 0.19462507963180542f;
            tail = tail * t + 0.018935978412628174f;
            tail = tail * t + 0.14075548946857452f;
            tail = tail * t + 0.13879038393497467f;
            tail = tail * t + 0.14116576313972473f;
            return fmaxf(x, 0.0f) - z * (t * tail * __expf(-0.5f * x * x));
        }
        // (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)).
        case GELU_TANH: return __fdividef(x, 1.0f + __expf(-1.5957691216057308f * (x + 0.044715f * x * x * x)));
        case SILU: return __fdividef(x, 1.0f + __expf(-x));
        default: return activate(x, ACTIVATION);
    }
}

// out [n] = activation(x[..n]) * x[n..] of x [2 n].
template <u32 ACTIVATION, typename T>
__device__ void gate_row(T* out, const T* x, u32 n) {
    constexpr u32 V = VECTOR<T>;
    if (n % V != 0) {
        for (u32 at = threadIdx.x; at < n; at += blockDim.x) {
            put(out[at], activated<ACTIVATION>(to_float(x[at]), T()) * to_float(x[n + at]));
        }
        return;
    }
    for (u32 at = threadIdx.x * V; at < n; at += blockDim.x * V) {
        float gate[V], value[V];
        load_vector(gate, x + at);
        load_vector(value, x + n + at);
        for (u32 i = 0; i < V; i++) value[i] *= activated<ACTIVATION>(gate[i], T());
        store_vector(out + at, value);
    }
}

// x [n] = activation(x + bias [n]) + residual [n]; bias and residual may be null.
template <u32 ACTIVATION, typename T>
__device__ void finish_row(T* x, const float* bias, const T* residual, u32 n) {
    constexpr u32 V = VECTOR<T>;
    if (n % V != 0) {
        for (u32 at = threadIdx.x; at < n; at += blockDim.x) {
            float value = to_float(x[at]);
            if (bias != nullptr) value += bias[at];
            value = activated<ACTIVATION>(value, T());
            if (residual != nullptr) value += to_float(residual[at]);
            put(x[at], value);
        }
        return;
    }
    for (u32 at = threadIdx.x * V; at < n; at += blockDim.x * V) {
        float value[V], other[V];
        load_vector(value, x + at);
        if (bias != nullptr) {
            load_vector(other, bias + at);
            for (u32 i = 0; i < V; i++) value[i] += other[i];
        }
        for (u32 i = 0; i < V; i++) value[i] = activated<ACTIVATION>(value[i], T());
        if (residual != nullptr) {
            load_vector(other, residual + at);
            for (u32 i = 0; i < V; i++) value[i] += other[i];
        }
        store_vector(x + at, value);
    }
}

// out [gridDim.x, n] = activation(x[.., ..n]) * x[.., n..] of x [gridDim.x, 2 n].
template <typename T>
__device__ void gate(T* out, const T* x, u32 n, u32 activation) {
    const size_t row = blockIdx.x;
    out += row * n;
    x += row * 2 * n;
    switch (activation) {
        case RELU: return gate_row<RELU>(out, x, n);
        case GELU: return gate_row<GELU>(out, x, n);
        case GELU_TANH: return gate_row<GELU_TANH>(out, x, n);
        case SILU: return gate_row<SILU>(out, x, n);
        case TANH: return gate_row<TANH>(out, x, n);
        default: return gate_row<IDENTITY>(out, x, n);
    }
}

KERNEL(128) gate_f32(float* out, const float* x, u32 n, u32 activation) { gate(out, x, n, activation); }
KERNEL(128) gate_bf16(bf16* out, const bf16* x, u32 n, u32 activation) { gate(out, x, n, activation); }

// x [gridDim.x, n] = activation(x + bias [n]) + residual [gridDim.x, n]; bias and residual may be null.
template <typename T>
__device__ void finish(T* x, const float* bias, const T* residual, u32 n, u32 activation) {
    const size_t row = blockIdx.x;
    x += row * n;
    if (residual != nullptr) residual += row * n;
    switch (activation) {
        case RELU: return finish_row<RELU>(x, bias, residual, n);
        case GELU: return finish_row<GELU>(x, bias, residual, n);
        case GELU_TANH: return finish_row<GELU_TANH>(x, bias, residual, n);
        case SILU: return finish_row<SILU>(x, bias, residual, n);
        case TANH: return finish_row<TANH>(x, bias, residual, n);
        default: return finish_row<IDENTITY>(x, bias, residual, n);
    }
}

KERNEL(128) finish_f32(float* x, const float* bias, const float* residual, u32 n, u32 activation) {
    finish(x, bias, residual, n, activation);
}
KERNEL(128) finish_bf16(bf16* x, const float* bias, const bf16* residual, u32 n, u32 activation) {
    finish(x, bias, residual, n, activation);
}
