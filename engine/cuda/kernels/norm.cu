// Layer and RMS normalisation of rows, or of groups of their columns: a warp for a short group, a block for a long one.
//
// A short group is held in its warp's registers as it is stored, so it is read once and no thread waits for another
// warp. A long one is read two or three times (mean, mean square, result), the second and third time from the L1 cache.
// How many threads share a group, and so the order of the sums, follows from its width and alignment alone.
#include "vectors.cuh"

// Vectors of a short group that a lane holds, at most.
constexpr u32 HELD = 8;

// Normalises `width` numbers, at most WARP * PARTS vectors; `bias` is null for RMS.
template <typename T, u32 PARTS>
__device__ void norm_held(T* out, const T* x, const float* weight, const float* bias, float eps, u32 width) {
    constexpr u32 V = VECTOR<T>;
    const u32 parts = width / V, lane = threadIdx.x % WARP;
    uint4 held[PARTS];
    UNROLL for (u32 k = 0; k < PARTS; k++) {
        const u32 part = k * WARP + lane;
        if (part < parts) held[k] = reinterpret_cast<const uint4*>(x)[part];
    }
    float some[V];
    float mean = 0.0f;
    if (bias != nullptr) {
        float sum = 0.0f;
        UNROLL for (u32 k = 0; k < PARTS; k++) {
            if (k * WARP + lane < parts) {
                unpack_vector(some, held[k]);
                UNROLL for (u32 i = 0; i < V; i++) sum += some[i];
            }
        }
        mean = warp_sum(sum) / static_cast<float>(width);
    }
    float squares = 0.0f;
    UNROLL for (u32 k = 0; k < PARTS; k++) {
        if (k * WARP + lane < parts) {
            unpack_vector(some, held[k]);
            UNROLL for (u32 i = 0; i < V; i++) {
                const float centred = some[i] - mean;
                squares += centred * centred;
            }
        }
    }
    const float factor = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(width) + eps);
    UNROLL for (u32 k = 0; k < PARTS; k++) {
        const u32 part = k * WARP + lane;
        if (part < parts) {
            float other[V];
            unpack_vector(some, held[k]);
            load_vector(other, weight + part * V);
            UNROLL for (u32 i = 0; i < V; i++) some[i] = (some[i] - mean) * factor * other[i];
            if (bias != nullptr) {
                load_vector(other, bias + part * V);
                UNROLL for (u32 i = 0; i < V; i++) some[i] += other[i];
            }
            store_vector(out + part * V, some);
        }
    }
}

// The begin of the group with this number in [rows, stride], of `groups` groups a row from column `start` on.
__device__ __forceinline__ size_t group_begin(u32 number, u32 stride, u32 start, u32 groups, u32 width) {
    return static_cast<size_t>(number / groups) * stride + start + static_cast<size_t>(number % groups) * width;
}

// out and x [.., stride]: `count` groups of `width` columns from `start` on, a warp each. May be in place. Columns
// begin at vectors, and a group has at most WARP * HELD of them.
template <typename T>
__device__ void norm_short(T* out, const T* x, const float* weight, const float* bias, float eps, u32 stride, u32 start,
                           u32 groups, u32 width, u32 count) {
    const u32 number = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (number >= count) return;
    const size_t first = group_begin(number, stride, start, groups, width);
    out += first;
    x += first;
    const u32 parts = width / VECTOR<T>;
    if (parts <= WARP) {
        norm_held<T, 1>(out, x, weight, bias, eps, width);
    } else if (parts <= 2 * WARP) {
        norm_held<T, 2>(out, x, weight, bias, eps, width);
    } else if (parts <= 4 * WARP) {
        norm_held<T, 4>(out, x, weight, bias, eps, width);
    } else {
        norm_held<T, HELD>(out, x, weight, bias, eps, width);
    }
}

KERNEL(128) norm_short_f32(float* out, const float* x, const float* weight, const float* bias, float eps, u32 stride,
                           u32 start, u32 groups, u32 width, u32 count) {
    norm_short(out, x, weight, bias, eps, stride, start, groups, width, count);
}
KERNEL(128) norm_short_bf16(bf16* out, const bf16* x, const float* weight, const float* bias, float eps, u32 stride,
                            u32 start, u32 groups, u32 width, u32 count) {
    norm_short(out, x, weight, bias, eps, stride, start, groups, width, count);
}

// V numbers that lie together, loaded and stored at once.
template <typename T, u32 V>
struct alignas(sizeof(T) * V) Several {
    T at[V];
};

// Normalises `width` numbers by all threads of a block.
template <typename T, u32 V>
__device__ void norm_group(T* out, const T* x, const float* weight, const float* bias, float eps, u32 width,
                           float* scratch) {
    typedef Several<T, V> Part;
    const Part* from = reinterpret_cast<const Part*>(x);
    Part* to = reinterpret_cast<Part*>(out);
    const u32 parts = width / V;
    float mean = 0.0f;
    if (bias != nullptr) {
        float sum = 0.0f;
        for (u32 part = threadIdx.x; part < parts; part += blockDim.x) {
            const Part some = from[part];
            for (u32 i = 0; i < V; i++) sum += to_float(some.at[i]);
        }
        mean = block_sum(sum, scratch) / static_cast<float>(width);
    }
    float squares = 0.0f;
    for (u32 part = threadIdx.x; part < parts; part += blockDim.x) {
        const Part some = from[part];
        for (u32 i = 0; i < V; i++) {
            const float centred = to_float(some.at[i]) - mean;
            squares += centred * centred;
        }
    }
    const float factor = 1.0f / sqrtf(block_sum(squares, scratch) / static_cast<float>(width) + eps);
    for (u32 part = threadIdx.x; part < parts; part += blockDim.x) {
        const Part some = from[part];
        Part done;
        for (u32 i = 0; i < V; i++) {
            const u32 column = part * V + i;
            const float scaled = (to_float(some.at[i]) - mean) * factor * weight[column];
            put(done.at[i], bias == nullptr ? scaled : scaled + bias[column]);
        }
        to[part] = done;
    }
}

// out and x [rows, stride]: the groups of `width` columns from `start` on; gridDim = (rows * groups). May be in place.
template <typename T>
__device__ void norm(T* out, const T* x, const float* weight, const float* bias, float eps, u32 stride, u32 start,
                     u32 groups, u32 width) {
    SHARED(float, scratch, WARP);
    constexpr u32 V = VECTOR<T>;
    const size_t first = group_begin(blockIdx.x, stride, start, groups, width);
    if (width % V == 0 && start % V == 0 && stride % V == 0) {
        norm_group<T, V>(out + first, x + first, weight, bias, eps, width, scratch);
    } else {
        norm_group<T, 1>(out + first, x + first, weight, bias, eps, width, scratch);
    }
}

KERNEL(256) norm_f32(float* out, const float* x, const float* weight, const float* bias, float eps, u32 stride,
                     u32 start, u32 groups, u32 width) {
    norm(out, x, weight, bias, eps, stride, start, groups, width);
}
KERNEL(256) norm_bf16(bf16* out, const bf16* x, const float* weight, const float* bias, float eps, u32 stride,
                      u32 start, u32 groups, u32 width) {
    norm(out, x, weight, bias, eps, stride, start, groups, width);
}
