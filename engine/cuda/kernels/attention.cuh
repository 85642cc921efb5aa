// What attention's kernels take, with tensor cores or without, and which keys a query sees.
#pragma once
#include "prelude.cuh"

// Numbers of `tiles` for each block in x.
constexpr u32 TILE_NUMBERS = 5;

template <typename T>
struct Operands {
    // [rows, heads * head_dim]
    T* out;
    // Rows of `q_stride` numbers, heads from column `q_start` on.
    const T* q;
    const T* k;
    const T* v;
    // For each block in x: first query row, query rows, position of the first, first of the keys in `keys`, keys.
    const u32* tiles;
    // Rows of keys and values, sequence by sequence.
    const u32* keys;
    // [buckets, heads]; missing where there is no such bias.
    const T* table;
    // [places, heads * head_dim], each may be missing.
    const T* position_keys;
    const T* position_queries;
    // The row of a relative position for the distances (query - key) -reach ..= reach.
    const u32* places;
    u32 q_start, q_stride, k_start, k_stride, v_start, v_stride;
    // Query heads that share a head of keys and values.
    u32 group;
    u32 head_dim;
    float scale;
    // Whether a query sees keys up to itself only, and then how many.
    u32 causal, window;
    u32 reach;
    // Whether every head of every row begins at a multiple of 16 bytes and has a multiple of them.
    u32 aligned;
};

// The parameters of a kernel for numbers T, and its operands.
#define PARAMETERS(T)                                                                                                    \
    T *out, const T *q, const T *k, const T *v, const u32 *tiles, const u32 *keys, const T *table,                       \
        const T *position_keys, const T *position_queries, const u32 *places, u32 q_start, u32 q_stride, u32 k_start,    \
        u32 k_stride, u32 v_start, u32 v_stride, u32 group, u32 head_dim, float scale, u32 causal, u32 window, u32 reach, \
        u32 aligned
#define OPERANDS(T)                                                                                                      \
    Operands<T> {                                                                                                        \
        out, q, k, v, tiles, keys, table, position_keys, position_queries, places, q_start, q_stride, k_start, k_stride, \
            v_start, v_stride, group, head_dim, scale, causal, window, reach, aligned                                    \
    }

// Which keys a query sees: from `first` on, before `end`.
struct Seen {
    u32 first, end;
};

template <typename T>
__device__ __forceinline__ Seen seen(const Operands<T>& o, u32 position, u32 keys) {
    if (o.causal == 0) return {0, keys};
    const u32 end = position + 1;
    return {end - min(o.window, end), min(end, keys)};
}
