// Layer and RMS normalisation of rows, or of groups of their columns: a block for a row and a group.
//
// Three passes over the group (mean, mean square, result); the second and third find it in the L1 cache. How many
// threads share a group, and so the order of the sums, follows from its width alone.
#include "prelude.cuh"

// V numbers that lie together, loaded and stored at once.
template <typename T, u32 V>
struct alignas(sizeof(T) * V) Several {
    T at[V];
};

// Normalises `x + [start of the group]` into `out`, both `width` numbers; `bias` is null for RMS.
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
    constexpr u32 V = 16 / sizeof(T);
    const size_t first =
        static_cast<size_t>(blockIdx.x / groups) * stride + start + static_cast<size_t>(blockIdx.x % groups) * width;
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
