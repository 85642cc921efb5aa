// Rows that are looked up, moved and converted: a block of 128 threads for a row, or a thread for a number.
#include "prelude.cuh"

// The first row of a table that an id names; nothing for a table that is not there.
template <typename T>
__device__ __forceinline__ float entry(const T* table, const u32* ids, size_t row, u32 columns, u32 column) {
    return table == nullptr ? 0.0f : to_float(table[static_cast<size_t>(ids[row]) * columns + column]);
}

// out [gridDim.x, columns] = scale * sum of table_i [.., columns] at ids_i [gridDim.x], in the order of the tables.
template <typename T>
__device__ void embed(T* out, const T* table0, const u32* ids0, const T* table1, const u32* ids1, const T* table2,
                      const u32* ids2, const T* table3, const u32* ids3, u32 columns, float scale) {
    const size_t row = blockIdx.x;
    for (u32 column = threadIdx.x; column < columns; column += blockDim.x) {
        float sum = entry(table0, ids0, row, columns, column);
        sum += entry(table1, ids1, row, columns, column);
        sum += entry(table2, ids2, row, columns, column);
        sum += entry(table3, ids3, row, columns, column);
        put(out[row * columns + column], scale * sum);
    }
}

KERNEL(128) embed_f32(float* out, const float* table0, const u32* ids0, const float* table1, const u32* ids1,
                      const float* table2, const u32* ids2, const float* table3, const u32* ids3, u32 columns,
                      float scale) {
    embed(out, table0, ids0, table1, ids1, table2, ids2, table3, ids3, columns, scale);
}
KERNEL(128) embed_bf16(bf16* out, const bf16* table0, const u32* ids0, const bf16* table1, const u32* ids1,
                       const bf16* table2, const u32* ids2, const bf16* table3, const u32* ids3, u32 columns,
                       float scale) {
    embed(out, table0, ids0, table1, ids1, table2, ids2, table3, ids3, columns, scale);
}

// `count` numbers, sixteen bytes at a time where both begin at a multiple of that.
template <typename T>
__device__ void copy_row(T* to, const T* from, u32 count) {
    constexpr u32 EACH = 16 / sizeof(T);
    const bool aligned = (reinterpret_cast<size_t>(to) % 16 == 0) && (reinterpret_cast<size_t>(from) % 16 == 0);
    const u32 whole = aligned ? count / EACH : 0;
    for (u32 at = threadIdx.x; at < whole; at += blockDim.x) {
        reinterpret_cast<uint4*>(to)[at] = reinterpret_cast<const uint4*>(from)[at];
    }
    for (u32 at = whole * EACH + threadIdx.x; at < count; at += blockDim.x) to[at] = from[at];
}

// out [gridDim.x, columns] = x [.., columns] at rows [gridDim.x].
template <typename T>
__device__ void gather(T* out, const T* x, const u32* rows, u32 columns) {
    const size_t row = blockIdx.x;
    copy_row(out + row * columns, x + static_cast<size_t>(rows[row]) * columns, columns);
}

KERNEL(128) gather_f32(float* out, const float* x, const u32* rows, u32 columns) { gather(out, x, rows, columns); }
KERNEL(128) gather_bf16(bf16* out, const bf16* x, const u32* rows, u32 columns) { gather(out, x, rows, columns); }

// into [.., columns] at rows [gridDim.x] = from [gridDim.x, stride], its columns from `start` on.
template <typename T>
__device__ void scatter(T* into, const u32* rows, const T* from, u32 columns, u32 start, u32 stride) {
    const size_t row = blockIdx.x;
    copy_row(into + static_cast<size_t>(rows[row]) * columns, from + row * stride + start, columns);
}

KERNEL(128) scatter_f32(float* into, const u32* rows, const float* from, u32 columns, u32 start, u32 stride) {
    scatter(into, rows, from, columns, start, stride);
}
KERNEL(128) scatter_bf16(bf16* into, const u32* rows, const bf16* from, u32 columns, u32 start, u32 stride) {
    scatter(into, rows, from, columns, start, stride);
}

// out [gridDim.x] = 1 for a block that finds a vector of a [vectors] with other bits than that of b, else 0; `vectors`
// is below 2^31.
KERNEL(256) find_differences(u32* out, const uint4* a, const uint4* b, u32 vectors) {
    SHARED(float, scratch, WARP);
    u32 different = 0;
    const u32 step = blockDim.x * gridDim.x;
    for (u32 at = blockDim.x * blockIdx.x + threadIdx.x; at < vectors; at += step) {
        const uint4 first = a[at], second = b[at];
        different |= (first.x ^ second.x) | (first.y ^ second.y) | (first.z ^ second.z) | (first.w ^ second.w);
    }
    const float found = block_max(different == 0 ? 0.0f : 1.0f, scratch);
    if (threadIdx.x == 0) out[blockIdx.x] = found == 0.0f ? 0 : 1;
}

// out [count] = x [count], rounded; a thread for a number.
KERNEL(256) round_to_bf16(bf16* out, const float* x, u32 count_low, u32 count_high) {
    const size_t count = static_cast<size_t>(count_high) << 32 | count_low;
    const size_t at = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < count) put(out[at], x[at]);
}
