// The token that a rule draws from a row's logits: a block for a row, and eight numbers of it for the host.
//
// Temperature, top-k, top-p and the quantile are those of `sampling.rs` of `hopeval_device`. The host sums weights one
// by one in f64; here they are summed in f64 in a tree, which the number of entries alone decides. So two decisions can
// differ: the last token that top-p keeps, and the token at the quantile. The kernel says how near the other choice
// was, and where that is too near the host decides from all the row's logits. Top-k counts, so it cannot differ.
//
// No list of candidates is kept, so none can be too short. Each pass reads the row again, which the product has left in
// the L2 cache: one for the maximum, one for the sums, a little more than one for the quantile, and for top-k and top-p
// one for each halving of the range of logits that holds the lowest kept one, about ten.
#include "mma.cuh"
#include "prelude.cuh"

constexpr u32 THREADS = 512;
constexpr u32 WARPS = THREADS / WARP;
// Loads of a thread that are on their way at once.
constexpr u32 EACH = 16;
constexpr float LOG2_E = 1.44269504088896341f;

// The numbers of a row's rule.
enum Rule : u32 { INVERSE_TEMPERATURE = 0, TOP_K = 1, TOP_P = 2, QUANTILE = 3, RULE = 4 };

// The numbers of a row's result: the bits of the token, its logit, the highest logit, the sum of
// exp(logit - highest), NaN where a logit is, and for each decision its distance from the other choice and the total.
enum Drawn : u32 {
    TOKEN = 0,
    LOGIT = 1,
    HIGHEST = 2,
    SUM = 3,
    TOP_P_DISTANCE = 4,
    TOP_P_TOTAL = 5,
    DISTANCE = 6,
    TOTAL = 7,
    DRAWN = 8
};

typedef unsigned long long u64;

// 2^x for -64 < x <= 0, within 1e-12 of it: a Taylor series for the fraction, and the whole part in the exponent.
__device__ __forceinline__ double exp2_exactly(double x) {
    // The lowest bits of a number of this size are whole.
    const double shift = 6755399441055744.0;
    const double shifted = x + shift;
    const double f = x - (shifted - shift);
    double sum = 7.054911620801121e-09;
    sum = sum * f + 1.0178086009239696e-07;
    sum = sum * f + 1.3215486790144305e-06;
    sum = sum * f + 1.5252733804059838e-05;
    sum = sum * f + 0.00015403530393381606;
    sum = sum * f + 0.0013333558146428441;
    sum = sum * f + 0.009618129107628477;
    sum = sum * f + 0.055504108664821576;
    sum = sum * f + 0.2402265069591007;
    sum = sum * f + 0.6931471805599453;
    sum = sum * f + 1.0;
    const u64 whole = static_cast<u64>(__double_as_longlong(shifted)) << 52;
    return __longlong_as_double(static_cast<long long>(static_cast<u64>(__double_as_longlong(sum)) + whole));
}

// A number that is greater for a greater logit, and differs where bits do: the host ranks by the same.
__device__ __forceinline__ u32 rank_of(float logit) {
    const u32 bits = __float_as_uint(logit);
    return bits >> 31 == 1 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float logit_of(u32 rank) {
    return __uint_as_float(rank >> 31 == 1 ? rank & 0x7fffffffu : ~rank);
}

// The rank of minus infinity, the lowest of a usable logit.
constexpr u32 LOWEST = 0x007fffffu;

// A row of logits.
struct Row {
    const float* logits;
    u32 entries;
    float highest;
    // log2(e) over the temperature.
    double inverse;

    // exp((logit - highest) / T), without those that no sum of fewer than 2^32 can tell from 0.
    __device__ __forceinline__ double weight(float logit) const {
        const double power = (static_cast<double>(logit) - static_cast<double>(highest)) * inverse;
        // Without a branch, so that a few are computed side by side.
        const double weight = exp2_exactly(power > -64.0 ? power : -64.0);
        return power > -64.0 ? weight : 0.0;
    }

    // Gives each logit from `first` to `end` to one of `step` threads, all loads of a few before the first use. Behind
    // the end there is minus infinity, which no sum and no choice has a use for: so a warp's lanes stay together.
    template <class Take>
    __device__ __forceinline__ void each(u32 first, u32 end, u32 thread, u32 step, Take take) const {
        for (u32 from = first; from < end; from += step * EACH) {
            const float* own = logits + from + thread;
            const u32 left = end - from;
            float some[EACH];
            UNROLL for (u32 i = 0; i < EACH; i++) some[i] = i * step + thread < left ? own[i * step] : -infinity();
            UNROLL for (u32 i = 0; i < EACH; i++) take(some[i]);
        }
    }
};

// The entries of at least a rank: their weights' sum, their number and their lowest rank; and the next rank below.
struct Upper {
    double weights;
    u32 count;
    u32 lowest;
    u32 below;
};

__device__ __forceinline__ Upper no_entries() { return {0.0, 0, 0xffffffffu, 0}; }

__device__ __forceinline__ Upper joined(const Upper& a, const Upper& b) {
    return {a.weights + b.weights, a.count + b.count, min(a.lowest, b.lowest), max(a.below, b.below)};
}

__device__ __forceinline__ double from_lane(double x, u32 step) {
    const u64 bits = static_cast<u64>(__double_as_longlong(x));
    const u32 low = __shfl_xor_sync(EVERY_LANE, static_cast<u32>(bits), step);
    const u32 high = __shfl_xor_sync(EVERY_LANE, static_cast<u32>(bits >> 32), step);
    return __longlong_as_double(static_cast<long long>(static_cast<u64>(high) << 32 | low));
}

// Joins a warp's lanes, and leaves the result in its place of `warps`, which has WARPS.
__device__ __forceinline__ void join_lanes(Upper x, Upper* warps) {
    for (u32 step = WARP / 2; step > 0; step /= 2) {
        const double weights = from_lane(x.weights, step);
        const u32 count = __shfl_xor_sync(EVERY_LANE, x.count, step);
        const u32 lowest = __shfl_xor_sync(EVERY_LANE, x.lowest, step);
        const u32 below = __shfl_xor_sync(EVERY_LANE, x.below, step);
        x = joined(x, {weights, count, lowest, below});
    }
    if (threadIdx.x % WARP == 0) {
        Upper& own = warps[threadIdx.x / WARP];
        own.weights = x.weights;
        own.count = x.count;
        own.lowest = x.lowest;
        own.below = x.below;
    }
}

// Joins the block's threads, all of which must call and get the same.
__device__ __forceinline__ Upper join_threads(const Upper& x, Upper* warps) {
    join_lanes(x, warps);
    __syncthreads();
    Upper all = warps[0];
    for (u32 warp = 1; warp < WARPS; warp++) all = joined(all, warps[warp]);
    __syncthreads();
    return all;
}

#ifdef HOPEVAL_EMULATED
#define join_threads(x, warps) COLLECTIVE_CALL(join_threads(x, warps))
#endif

// The kept entries: all above a rank, and the first `ties` of that rank.
struct Kept {
    u32 rank;
    double ties;
    // Of an entry of that rank.
    double tie_weight;
    // Of all kept entries.
    double total;
};

// The entry at the quantile of the kept ones: each warp sums a part of the entries, and the part with the quantile is
// divided in turn, until it is one entry. `warps` has WARPS; all threads must call. `distance` is that of the quantile
// from the nearer end of the entry's weight, or 0 where sums disagree.
__device__ u32 entry_at(const Row& row, const Kept& kept, double quantile, double& distance, Upper* warps) {
    const double target = quantile * kept.total;
    u32 first = 0, count = row.entries;
    // Of the entries before `first`.
    double weights = 0.0, ties = 0.0, own = kept.total;
    do {
        const u32 part = (count + WARPS - 1) / WARPS;
        const u32 begin = min(threadIdx.x / WARP * part, count);
        Upper mine = no_entries();
        row.each(first + begin, first + min(begin + part, count), threadIdx.x % WARP, WARP, [&](float logit) {
            const u32 rank = rank_of(logit);
            if (rank > kept.rank) mine.weights += row.weight(logit);
            if (rank == kept.rank) mine.count++;
        });
        join_lanes(mine, warps);
        __syncthreads();
        u32 found = WARPS;
        for (u32 warp = 0; warp < WARPS; warp++) {
            const double left = kept.ties > ties ? kept.ties - ties : 0.0;
            const double here = static_cast<double>(warps[warp].count);
            own = warps[warp].weights + (here < left ? here : left) * kept.tie_weight;
            if (target < weights + own) {
                found = warp;
                break;
            }
            weights += own;
            ties += here;
        }
        __syncthreads();
        if (found == WARPS) {
            distance = 0.0;
            return first;
        }
        first += found * part;
        count = min(part, count - found * part);
    } while (count > 1);
    const double before = target - weights, behind = weights + own - target;
    distance = before < behind ? before : behind;
    return first;
}

// The fewest ties that are enough, with all above them.
__device__ double fewest_ties(double above, double tie_weight, double wanted, u32 most) {
    u32 few = 1, enough = most;
    while (few < enough) {
        const u32 middle = few + (enough - few) / 2;
        if (above + static_cast<double>(middle) * tie_weight >= wanted) {
            enough = middle;
        } else {
            few = middle + 1;
        }
    }
    return static_cast<double>(enough);
}

// Keeps fewer entries: the highest ones that are `wanted`, by their number or by their weights. All threads must call.
// Returns the number of entries above the lowest kept rank.
__device__ __forceinline__ u32 keep_highest(const Row& row, Kept& kept, double wanted, bool by_weight, Upper* warps) {
    // All of rank `low` and above are enough, those of rank `high` and above are not.
    u32 low = kept.ties > 0.0 ? kept.rank : kept.rank + 1, high = rank_of(row.highest) + 1;
    double weights_above = 0.0;
    u32 count_above = 0;
    float step = 4.0f;
    for (u32 pass = 0; high - low > 1; pass++) {
        // Halves the range of logits, at first by doubled steps from above; at last halves that of ranks.
        const float from = logit_of(low), to = logit_of(high - 1);
        u32 middle = rank_of(from == -infinity() ? to - step : 0.5f * from + 0.5f * to);
        step *= 2.0f;
        if (pass >= 24 || middle <= low || middle >= high) middle = low + (high - low) / 2;
        Upper upper = no_entries();
        row.each(0, row.entries, threadIdx.x, THREADS, [&](float logit) {
            const u32 rank = rank_of(logit);
            if (rank >= middle) {
                upper.weights += row.weight(logit);
                upper.count++;
                upper.lowest = min(upper.lowest, rank);
            } else {
                upper.below = max(upper.below, rank);
            }
        });
        upper = join_threads(upper, warps);
        const double count = static_cast<double>(upper.count);
        if ((by_weight ? upper.weights : count) < wanted) {
            // No rank lies between.
            high = max(upper.below, low) + 1;
            weights_above = upper.weights;
            count_above = upper.count;
        } else if (!by_weight && count == wanted) {
            kept = {upper.lowest - 1, 0.0, 0.0, upper.weights};
            return upper.count;
        } else {
            low = upper.lowest;
        }
    }
    kept.rank = low;
    kept.tie_weight = row.weight(logit_of(low));
    kept.ties = by_weight ? fewest_ties(weights_above, kept.tie_weight, wanted, row.entries)
                          : wanted - static_cast<double>(count_above);
    kept.total = weights_above + kept.ties * kept.tie_weight;
    return count_above;
}

// Adds a bias to a row's logits, in place: a float that the host's sum has, too. Returns the highest of this thread's.
__device__ __forceinline__ float add_bias(float* logits, const float* bias, u32 entries) {
    float highest = -infinity();
    for (u32 from = 0; from < entries; from += THREADS * EACH) {
        float* own = logits + from + threadIdx.x;
        const u32 left = entries - from;
        float some[EACH];
        UNROLL for (u32 i = 0; i < EACH; i++) {
            const u32 at = i * THREADS + threadIdx.x;
            some[i] = at < left ? own[i * THREADS] + (bias == nullptr ? 0.0f : bias[from + at]) : -infinity();
        }
        UNROLL for (u32 i = 0; i < EACH; i++) {
            if (i * THREADS + threadIdx.x < left) own[i * THREADS] = some[i];
            highest = fmaxf(highest, some[i]);
        }
    }
    return highest;
}

// logits [gridDim.x, stride], of which `entries` are of the vocabulary, and get their bias; bias [entries] or null;
// rules [gridDim.x, RULE]: log2(e) over the temperature, k below `entries` or 0 for all, p or 1 for all, the quantile.
// drawn [gridDim.x, DRAWN].
KERNEL(512) draw_token(float* drawn, float* logits, const float* bias, const double* rules, u32 stride,
                       u32 entries) {
    SHARED(float, scratch, WARP);
    SHARED(Upper, warps, WARPS);
    const double* rule = rules + static_cast<size_t>(blockIdx.x) * RULE;
    float* out = drawn + static_cast<size_t>(blockIdx.x) * DRAWN;
    float* there = logits + static_cast<size_t>(blockIdx.x) * stride;
    // The barriers of the maximum stand between the new logits and their first use.
    const float highest = block_max(add_bias(there, bias, entries), scratch);
    const Row row = {there, entries, highest, rule[INVERSE_TEMPERATURE]};

    Upper plain = no_entries(), tempered = no_entries();
    row.each(0, entries, threadIdx.x, THREADS, [&](float logit) {
        // Minus infinity stays out, also where all are; NaN, which the maximum passes over, comes in.
        if (logit != -infinity()) plain.weights += exp2_approximately((logit - highest) * LOG2_E);
        tempered.weights += row.weight(logit);
    });
    const double sum = join_threads(plain, warps).weights;
    Kept kept = {LOWEST - 1, 0.0, 0.0, join_threads(tempered, warps).weights};
    if (threadIdx.x == 0) {
        out[HIGHEST] = highest;
        out[SUM] = static_cast<float>(sum);
    }
    // Without probabilities there is no token.
    if (sum != sum || highest == infinity() || highest == -infinity()) return;

    // Top-k, then top-p of what it keeps, and how near top-p came to keep one token more or less.
    if (threadIdx.x == 0) out[TOP_P_DISTANCE] = 1.0f, out[TOP_P_TOTAL] = 0.0f;
    for (u32 stage = 0; stage < 2; stage++) {
        const bool by_weight = stage == 1;
        if (by_weight ? rule[TOP_P] >= 1.0 : rule[TOP_K] <= 0.0) continue;
        const double all = kept.total, wanted = by_weight ? rule[TOP_P] * all : rule[TOP_K];
        const u32 above = keep_highest(row, kept, wanted, by_weight, warps);
        if (by_weight && threadIdx.x == 0) {
            const double one_less = wanted - (kept.total - kept.tie_weight);
            // One token is kept in any case.
            const bool is_one = above == 0 && kept.ties == 1.0;
            const double surplus = kept.total - wanted;
            out[TOP_P_DISTANCE] = static_cast<float>(is_one || surplus < one_less ? surplus : one_less);
            out[TOP_P_TOTAL] = static_cast<float>(all);
        }
    }
    double distance = 0.0;
    const u32 token = entry_at(row, kept, rule[QUANTILE], distance, warps);
    if (threadIdx.x == 0) {
        out[TOKEN] = __uint_as_float(token);
        out[LOGIT] = row.logits[token];
        out[DISTANCE] = static_cast<float>(distance);
        out[TOTAL] = static_cast<float>(kept.total);
    }
}
