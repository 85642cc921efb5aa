// Sixteen bytes of a row at once, in f32: four floats, or eight bf16 numbers. Both sides lie at multiples of sixteen
// bytes.
#pragma once

#include "mma.cuh"

// Numbers of a vector.
template <typename T>
constexpr u32 VECTOR = 16 / sizeof(T);

// The numbers of a vector's bits.
__device__ __forceinline__ void unpack_vector(float (&to)[4], uint4 bits) {
    to[0] = __uint_as_float(bits.x), to[1] = __uint_as_float(bits.y);
    to[2] = __uint_as_float(bits.z), to[3] = __uint_as_float(bits.w);
}
__device__ __forceinline__ void unpack_vector(float (&to)[8], uint4 bits) {
    const u32 pairs[4] = {bits.x, bits.y, bits.z, bits.w};
    for (u32 i = 0; i < 4; i++) {
        to[2 * i] = __uint_as_float(pairs[i] << 16);
        to[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
    }
}

__device__ __forceinline__ void load_vector(float (&to)[4], const float* from) {
    unpack_vector(to, *reinterpret_cast<const uint4*>(from));
}
__device__ __forceinline__ void load_vector(float (&to)[8], const bf16* from) {
    unpack_vector(to, *reinterpret_cast<const uint4*>(from));
}
// As many exact numbers as a vector of bf16 has.
__device__ __forceinline__ void load_vector(float (&to)[8], const float* from) {
    const float4 first = reinterpret_cast<const float4*>(from)[0], second = reinterpret_cast<const float4*>(from)[1];
    to[0] = first.x, to[1] = first.y, to[2] = first.z, to[3] = first.w;
    to[4] = second.x, to[5] = second.y, to[6] = second.z, to[7] = second.w;
}

__device__ __forceinline__ void store_vector(float* to, const float (&x)[4]) {
    *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
}
__device__ __forceinline__ void store_vector(bf16* to, const float (&x)[8]) {
    *reinterpret_cast<uint4*>(to) =
        make_uint4(round_pair(x[0], x[1]), round_pair(x[2], x[3]), round_pair(x[4], x[5]), round_pair(x[6], x[7]));
}
