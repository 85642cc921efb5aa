// The log-sum-exps of one tile of the vocabulary, for a grid of temperatures, and the target's logit: a block for a
// row.
//
// A thread keeps its 32 logits in registers, so the tile is read once, however many temperatures there are. The tiles'
// parts are joined on the host, in the order of the tiles.
#include "mma.cuh"
#include "prelude.cuh"

constexpr u32 THREADS = 256;
constexpr u32 EACH = 32;
// log2(e): the exponentials are of base 2.
constexpr float LOG2_E = 1.44269504088896341f;

// logits [gridDim.x, stride], of which `count` (at most THREADS * EACH) are entries first..first + count of the
// vocabulary; bias [vocabulary] or null; inverses [temperatures] of the temperatures. parts [gridDim.x, part_stride]:
// from `part` on the greatest logit, then a sum of exp((logit - greatest) / T) for each temperature: NaN where a logit
// is.
KERNEL(256) log_probs_tile(float* parts, float* target_logits, const float* logits, const float* bias,
                           const u32* targets, const float* inverses, u32 stride, u32 first, u32 count,
                           u32 temperatures, u32 part, u32 part_stride) {
    SHARED(float, scratch, WARP);
    const size_t row = blockIdx.x;
    const float* there = logits + row * stride;
    float mine[EACH];
    float highest = -infinity();
    // Nothing is stored in between, so that all loads are on their way at once.
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        mine[i] = at < count ? there[at] + (bias == nullptr ? 0.0f : bias[first + at]) : -infinity();
        highest = fmaxf(highest, mine[i]);
    }
    // Wraps around if the target lies before this tile.
    const u32 place = targets[row] - first;
    if (place < count && place % THREADS == threadIdx.x) {
        target_logits[row] = there[place] + (bias == nullptr ? 0.0f : bias[first + place]);
    }
    highest = block_max(highest, scratch);
    float* out = parts + row * part_stride + part;
    if (threadIdx.x == 0) out[0] = highest;
    for (u32 t = 0; t < temperatures; t++) {
        const float inverse = inverses[t] * LOG2_E;
        float sum = 0.0f;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            // Minus infinity stays out, also where the whole tile is; NaN, which the maximum passes over, comes in.
            if (mine[i] != -infinity()) sum += exp2_approximately((mine[i] - highest) * inverse);
        }
        sum = block_sum(sum, scratch);
        if (threadIdx.x == 0) out[1 + t] = sum;
    }
}

// As above, for one temperature of 1. parts [gridDim.x, part_stride]: from `part` on the greatest logit, the sum of
// exp(logit - greatest), NaN where a logit is, and the greatest's entry, the lowest of equals: below 2^24, so a float
// has it.
KERNEL(256) highest_tile(float* parts, const float* logits, const float* bias, u32 stride, u32 first, u32 count, u32 part,
                         u32 part_stride) {
    SHARED(float, scratch, WARP);
    const float* there = logits + static_cast<size_t>(blockIdx.x) * stride;
    float mine[EACH];
    float highest = -infinity();
    u32 place = threadIdx.x;
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        mine[i] = at < count ? there[at] + (bias == nullptr ? 0.0f : bias[first + at]) : -infinity();
        if (mine[i] > highest) {
            highest = mine[i];
            place = at;
        }
    }
    const float own = highest;
    highest = block_max(highest, scratch);
    const float entry = -block_max(own == highest ? -static_cast<float>(first + place) : -infinity(), scratch);
    float sum = 0.0f;
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        if (mine[i] != -infinity()) sum += exp2_approximately((mine[i] - highest) * LOG2_E);
    }
    sum = block_sum(sum, scratch);
    float* out = parts + static_cast<size_t>(blockIdx.x) * part_stride + part;
    if (threadIdx.x == 0) out[0] = highest, out[1] = sum, out[2] = entry;
}
