// What every kernel uses: number types, loads and stores, reductions over a warp and a block, activations.
//
// No header of a toolkit is included, so that NVRTC needs no include path. Where HOPEVAL_EMULATED is defined, the C++
// compiler reads the same files and `emulator.h` stands in for what a GPU has: threadIdx and blockIdx, __syncthreads,
// __syncwarp, __shfl_sync, __shfl_xor_sync, the intrinsics used below, and the macros.
#pragma once

#ifdef HOPEVAL_EMULATED
#include "emulator.h"
// A loop whose array must stay in registers.
#define UNROLL
#else
#define UNROLL _Pragma("unroll")
// A kernel of at most so many threads a block.
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
// Shared memory of a size that is known here.
#define SHARED(type, name, count) __shared__ __align__(16) type name[count]
// Shared memory of the size that the launch says, from its first byte on; at most once in a kernel.
#define DYNAMIC_SHARED(type, name)                                      \
    extern __shared__ __align__(16) unsigned char dynamic_shared[];    \
    type* name = reinterpret_cast<type*>(dynamic_shared)
#endif

typedef unsigned int u32;
typedef unsigned short u16;

constexpr u32 WARP = 32;
constexpr u32 EVERY_LANE = 0xffffffffu;

// The upper half of a float.
struct bf16 {
    u16 bits;
};

__device__ __forceinline__ float infinity() { return __uint_as_float(0x7f800000u); }

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float(static_cast<u32>(x.bits) << 16); }

// Rounds to nearest, ties to even; NaN stays NaN.
__device__ __forceinline__ u16 bf16_bits(float x) {
    u32 bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<u16>((bits >> 16) | 0x40u);
    return static_cast<u16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

__device__ __forceinline__ void put(float& to, float x) { to = x; }
__device__ __forceinline__ void put(bf16& to, float x) { to.bits = bf16_bits(x); }

// Two numbers in a register, the first in the lower half: as tensor cores take them.
__device__ __forceinline__ u32 pack_bf16(float low, float high) {
    return static_cast<u32>(bf16_bits(low)) | (static_cast<u32>(bf16_bits(high)) << 16);
}

// Sums and maxima over a warp: every lane gets the result, by the same tree whatever the lanes hold.
__device__ __forceinline__ float warp_sum(float x) {
    for (u32 step = WARP / 2; step > 0; step /= 2) x += __shfl_xor_sync(EVERY_LANE, x, step);
    return x;
}
__device__ __forceinline__ float warp_max(float x) {
    for (u32 step = WARP / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(EVERY_LANE, x, step));
    return x;
}

// The same over a block of full warps, by way of `scratch` (WARP floats of shared memory); all threads must call.
__device__ __forceinline__ float block_sum(float x, float* scratch) {
    x = warp_sum(x);
    if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = x;
    __syncthreads();
    x = warp_sum(threadIdx.x % WARP < blockDim.x / WARP ? scratch[threadIdx.x % WARP] : 0.0f);
    __syncthreads();
    return x;
}
__device__ __forceinline__ float block_max(float x, float* scratch) {
    x = warp_max(x);
    if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = x;
    __syncthreads();
    x = warp_max(threadIdx.x % WARP < blockDim.x / WARP ? scratch[threadIdx.x % WARP] : -infinity());
    __syncthreads();
    return x;
}

#ifdef HOPEVAL_EMULATED
// Where lanes meet in one of these, they must come from the same call of it.
#define warp_sum(x) COLLECTIVE_CALL(warp_sum(x))
#define warp_max(x) COLLECTIVE_CALL(warp_max(x))
#define block_sum(x, scratch) COLLECTIVE_CALL(block_sum(x, scratch))
#define block_max(x, scratch) COLLECTIVE_CALL(block_max(x, scratch))
#endif

// The numbers of `hopeval_device::Activation`, as `Cuda` passes them.
enum Activation : u32 { IDENTITY = 0, RELU = 1, GELU = 2, GELU_TANH = 3, SILU = 4, TANH = 5 };

__device__ __forceinline__ float activate(float x, u32 activation) {
    switch (activation) {
        case RELU: return fmaxf(x, 0.0f);
        case GELU: return 0.5f * x * erfcf(-x * 0.70710678118654752f);
        case GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
        case SILU: return x / (1.0f + expf(-x));
        case TANH: return tanhf(x);
        default: return x;
    }
}
