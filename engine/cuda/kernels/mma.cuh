// Tensor cores and asynchronous copies: the only place with inline PTX, all of it of sm_80 and later.
//
// A tile of a matrix is spread over the lanes of a warp. Of an 8 x 8 tile of bf16, lane l holds two neighbours in a register:
//
//   row l / 4, columns 2 * (l % 4) and 2 * (l % 4) + 1, the first in the lower half
//
//   operand     size      registers
//   a           16 x 16   [0] upper left tile, [1] lower left, [2] upper right, [3] lower right
//   b           16 x 8    [0] upper tile, [1] lower, both as their transposes
//   c, in f32   16 x 8    [0] and [1] the neighbours of the upper tile, [2] and [3] those of the lower
//
// Where HOPEVAL_EMULATED is defined, the same functions exchange what the lanes hold.
#pragma once

#include "prelude.cuh"

// Bytes that an asynchronous copy moves, and that a row of an 8 x 8 tile has; addresses of both are multiples of it.
constexpr u32 CHUNK_BYTES = 16;
// Numbers of it.
constexpr u32 CHUNK = CHUNK_BYTES / sizeof(bf16);

#ifndef HOPEVAL_EMULATED

__device__ __forceinline__ u32 shared_address(const void* shared) {
    return static_cast<u32>(__cvta_generic_to_shared(shared));
}

// As `pack_bf16`, in one instruction.
__device__ __forceinline__ u32 round_pair(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// 2^x in one instruction, within two units in the last place; 0 below 2^-126.
__device__ __forceinline__ float exp2_approximately(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// c += a · b.
__device__ __forceinline__ void multiply_add(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8 x 8 tiles of shared memory: lane l says where row l % 8 of tile l / 8 lies, at a multiple of 16 bytes.
__device__ __forceinline__ void load_tiles(u32 (&tiles)[4], const bf16* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// The same, each tile transposed.
__device__ __forceinline__ void load_tiles_transposed(u32 (&tiles)[4], const bf16* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// Copies 16 bytes to shared memory, or writes zeros and reads nothing. They are there after `copy_wait`, for the others of the
// block after a barrier behind it.
__device__ __forceinline__ void copy_async(bf16* to, const bf16* from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(there ? CHUNK_BYTES : 0u)
                 : "memory");
}

// Ends the thread's group of copies.
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for all groups of the thread's copies but the last `PENDING`.
template <u32 PENDING>
__device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

#else

namespace twin {

struct Factors {
    u32 a[4];
    u32 b[2];
};

__device__ __forceinline__ float half_of(u32 pair, u32 which) {
    return __uint_as_float(which == 0 ? pair << 16 : pair & 0xffff0000u);
}

}  // namespace twin

__device__ __forceinline__ u32 round_pair(float low, float high) { return pack_bf16(low, high); }

__device__ __forceinline__ float exp2_approximately(float x) {
    const float y = exp2f(x);
    return y < 1.17549435e-38f ? 0.0f : y;
}

// Each call of these is a place where a warp's lanes must meet.
__device__ __forceinline__ void multiply_add(const hopeval::Site* site, float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    const twin::Factors* lanes = hopeval::exchanged(site, twin::Factors{{a[0], a[1], a[2], a[3]}, {b0, b1}});
    for (u32 i = 0; i < 4; i++) {
        const u32 row = hopeval::lane() / 4, column = hopeval::lane() % 4 * 2 + i % 2;
        for (u32 k = 0; k < 16; k++) {
            const u32 pair = k % 8 / 2;
            const float left = twin::half_of(lanes[row * 4 + pair].a[i / 2 + k / 8 * 2], k % 2);
            c[i] = fmaf(left, twin::half_of(lanes[column * 4 + pair].b[k / 8], k % 2), c[i]);
        }
    }
}

__device__ __forceinline__ void load_tiles(const hopeval::Site* site, u32 (&tiles)[4], const bf16* row) {
    const uint4 mine = *reinterpret_cast<const uint4*>(row);
    const uint4* rows = hopeval::exchanged(site, mine);
    for (u32 i = 0; i < 4; i++) {
        const uint4& held = rows[i * 8 + hopeval::lane() / 4];
        const u32 pairs[4] = {held.x, held.y, held.z, held.w};
        tiles[i] = pairs[hopeval::lane() % 4];
    }
}

__device__ __forceinline__ void load_tiles_transposed(const hopeval::Site* site, u32 (&tiles)[4], const bf16* row) {
    const uint4 mine = *reinterpret_cast<const uint4*>(row);
    const uint4* rows = hopeval::exchanged(site, mine);
    for (u32 i = 0; i < 4; i++) {
        const u32 column = hopeval::lane() / 4, first = i * 8 + hopeval::lane() % 4 * 2;
        u16 low, high;
        __builtin_memcpy(&low, reinterpret_cast<const unsigned char*>(rows + first) + 2 * column, 2);
        __builtin_memcpy(&high, reinterpret_cast<const unsigned char*>(rows + first + 1) + 2 * column, 2);
        tiles[i] = static_cast<u32>(low) | (static_cast<u32>(high) << 16);
    }
}

#define multiply_add(...) multiply_add(HOPEVAL_SITE, __VA_ARGS__)
#define load_tiles(...) load_tiles(HOPEVAL_SITE, __VA_ARGS__)
#define load_tiles_transposed(...) load_tiles_transposed(HOPEVAL_SITE, __VA_ARGS__)

__device__ __forceinline__ void copy_async(bf16* to, const bf16* from, bool there) {
    hopeval::copy_later(to, there ? from : nullptr, CHUNK_BYTES);
}
__device__ __forceinline__ void copy_commit() { hopeval::commit_copies(); }
template <u32 PENDING>
__device__ __forceinline__ void copy_wait() {
    hopeval::wait_copies(PENDING);
}

#endif
