// The parts of a GPU that a kernel's source needs, on the CPU: included by prelude.cuh if HOPEVAL_EMULATED is defined.
//
// Blocks run one after another, the threads of a block as fibres of one OS thread: a fibre runs until it comes to a
// barrier, a collective of its warp, or its end, and then the next one runs. So a launch is deterministic for a given
// order of threads, and if a barrier is missing, another order gives other bits. Shared memory is heap memory of
// exactly its size, so address sanitizer sees an index outside of it, and it is filled with ones (NaN) before each
// block.
//
// It does not model a GPU's speed, or its memory beyond the promises of barriers, and its libm rounds as the CPU's
// does.
//
// Only these headers are included before a kernel's source, which is read within an unnamed namespace: any other header
// for a `.cuh` must be included here.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <type_traits>

#include "emulated.h"

#define __device__
#define __host__
#define __global__
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Frames of their own make reports easier to read.
#define __forceinline__ inline
#else
#define __forceinline__ inline __attribute__((always_inline))
#endif

struct __align__(8) uint2 { unsigned int x, y; };
struct __align__(16) uint4 { unsigned int x, y, z, w; };
struct __align__(8) int2 { int x, y; };
struct __align__(16) int4 { int x, y, z, w; };
struct __align__(8) float2 { float x, y; };
struct __align__(16) float4 { float x, y, z, w; };
inline uint2 make_uint2(unsigned int x, unsigned int y) { return {x, y}; }
inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace hopeval {

struct Index {
    unsigned int x, y, z;
};

constexpr uint32_t LANES = 32;
constexpr uint32_t MOST_THREADS = 1024;
// Bytes that a lane can give to an exchange.
constexpr uint32_t LARGEST_EXCHANGE = 256;

// The kinds of waits of a fibre.
enum class Wait : uint32_t { Exchange, SyncWarp, SyncThreads, End };

// A call in a kernel's source.
struct Site {
    const char* file;
    uint32_t line;
};

// The calls that led to a wait, the innermost first: lanes that meet must have come by the same ones.
struct Route {
    static constexpr uint32_t MOST_CALLS = 4;
    const Site* calls[MOST_CALLS];
};

// The exchanged values of a warp's lanes: two in turn, so a lane at the next collective does not overwrite values that
// others have yet to read.
struct Warp {
    alignas(64) unsigned char slots[2][LANES * LARGEST_EXCHANGE];
    uint32_t turn;
    // The wait of the warp's first lane, its number of exchanged bytes, and the calls that led to it.
    Wait wait;
    uint32_t bytes;
    Route route;
};

struct Block {
    Index index, dimension, grid;
};

// The part of a running thread's state visible to its kernel; the scheduler's part follows in emulator.cpp.
struct Thread {
    Index index;
    uint32_t lane;
    Warp* warp;
    const Block* block;
    // The calls of functions with collectives that it is in; the first place is for the collective itself.
    Route route;
};

// The running thread. A fibre never moves to another OS thread.
extern __attribute__((visibility("hidden"), tls_model("initial-exec"))) __thread Thread* here;

// Runs the other threads that must come here before this one goes on. They must come by the same call, for on a GPU two
// calls are two instructions. (A return address would not do: the compiler unrolls loops and copies calls into
// branches.)
__attribute__((visibility("hidden"))) void wait_for(Wait wait, uint32_t bytes, const Site* site);
__attribute__((visibility("hidden"))) void* shared_memory(const void* site, size_t bytes, const char* name);
__attribute__((visibility("hidden"))) void* dynamic_shared_memory();
// Ends the launch with an error.
__attribute__((visibility("hidden"), noreturn)) void fail(const char* what);

inline uint32_t lane() { return here->lane; }

// Lanes read the exchange's memory after others wrote it: no race of the kernel, so thread sanitizer does not see the
// writes.
#ifdef __SANITIZE_THREAD__
#define HOPEVAL_UNSEEN_WRITES inline __attribute__((no_sanitize_thread, noinline))
#else
#define HOPEVAL_UNSEEN_WRITES inline
#endif

// All lanes' values, once all lanes of the warp have come here; valid until the calling lane's next collective.
template <class T>
HOPEVAL_UNSEEN_WRITES const T* exchanged(const Site* site, const T& mine) {
    static_assert(sizeof(T) <= LARGEST_EXCHANGE && alignof(T) <= 64 && std::is_trivially_copyable<T>::value, "too much");
    Thread* thread = here;
    unsigned char* slots = thread->warp->slots[thread->warp->turn];
    __builtin_memcpy(slots + thread->lane * sizeof(T), &mine, sizeof(T));
    wait_for(Wait::Exchange, sizeof(T), site);
    return reinterpret_cast<const T*>(slots);
}

HOPEVAL_UNSEEN_WRITES void set_route(const Route& route) { here->route = route; }

// Calls a function with collectives from this place.
template <class F>
inline auto called_at(const Site* site, F function) {
    const Route before = here->route;
    Route route = before;
    for (uint32_t i = Route::MOST_CALLS - 1; i > 1; --i) route.calls[i] = route.calls[i - 1];
    route.calls[1] = site;
    set_route(route);
    auto result = function();
    set_route(before);
    return result;
}

// An asynchronous copy of at most 16 bytes, zeros if `from` is null: it happens at the `wait_copies` for its group.
// Until then the destination holds ones, so a missing wait shows.
__attribute__((visibility("hidden"))) void copy_later(void* to, const void* from, uint32_t bytes);
// Ends the calling thread's group of copies.
__attribute__((visibility("hidden"))) void commit_copies();
// Does the calling thread's copies of all groups but the last `pending`.
__attribute__((visibility("hidden"))) void wait_copies(uint32_t pending);

template <class T, class F>
inline T from_lane(const Site* site, uint32_t mask, const T& value, uint32_t width, F source) {
    if (mask != 0xffffffffu) fail("a shuffle's mask is not all lanes");
    if (width != 32 && width != 16 && width != 8 && width != 4 && width != 2 && width != 1) fail("a shuffle's width is no power of 2");
    uint32_t first = here->lane & ~(width - 1);
    const T* all = exchanged(site, value);
    return all[source(here->lane, first)];
}

inline uint32_t ballot(const Site* site, uint32_t mask, int predicate) {
    if (mask != 0xffffffffu) fail("a vote's mask is not all lanes");
    const unsigned char* all = exchanged<unsigned char>(site, predicate != 0);
    uint32_t votes = 0;
    for (uint32_t i = 0; i < LANES; ++i) votes |= static_cast<uint32_t>(all[i]) << i;
    return votes;
}

}  // namespace hopeval

#define threadIdx (::hopeval::here->index)
#define blockIdx (::hopeval::here->block->index)
#define blockDim (::hopeval::here->block->dimension)
#define gridDim (::hopeval::here->block->grid)

// The sources' `extern "C"` names stay within their file; EMULATOR_EXPORT makes them callable.
#define KERNEL(threads) void
// By reference to an array, so that undefined-behaviour sanitizer knows its length.
#define SHARED(type, name, count)                                                                                       \
    static char shared_site_##name;                                                                                     \
    type(&name)[count] = *static_cast<type(*)[count]>(                                                                  \
        ::hopeval::shared_memory(&shared_site_##name, sizeof(type) * (count), #name))
#define DYNAMIC_SHARED(type, name) type* name = static_cast<type*>(::hopeval::dynamic_shared_memory())

// The collectives of one place in the source. The place of a template is a place for each of its instances.
#define HOPEVAL_SITE                                                          \
    ([]() -> const ::hopeval::Site* {                                         \
        static constexpr ::hopeval::Site site = {__FILE__, __LINE__};         \
        return &site;                                                         \
    }())
#define __syncthreads ::hopeval::Collective{HOPEVAL_SITE}.sync_threads
#define __syncwarp ::hopeval::Collective{HOPEVAL_SITE}.sync_warp
#define __shfl_sync ::hopeval::Collective{HOPEVAL_SITE}.shuffle
#define __shfl_xor_sync ::hopeval::Collective{HOPEVAL_SITE}.shuffle_xor
#define __shfl_down_sync ::hopeval::Collective{HOPEVAL_SITE}.shuffle_down
#define __shfl_up_sync ::hopeval::Collective{HOPEVAL_SITE}.shuffle_up
#define __ballot_sync ::hopeval::Collective{HOPEVAL_SITE}.ballot
#define __any_sync ::hopeval::Collective{HOPEVAL_SITE}.any
#define __all_sync ::hopeval::Collective{HOPEVAL_SITE}.all
// A call of a function that has collectives: `#define sum(x) COLLECTIVE_CALL(sum(x))` behind its definition makes each
// of its calls a place.
#define COLLECTIVE_CALL(call) ::hopeval::called_at(HOPEVAL_SITE, [&] { return call; })

namespace hopeval {

struct Collective {
    const Site* site;

    void sync_threads() const { wait_for(Wait::SyncThreads, 0, site); }
    void sync_warp(unsigned int mask = 0xffffffffu) const {
        if (mask != 0xffffffffu) fail("the mask of __syncwarp is not all lanes");
        wait_for(Wait::SyncWarp, 0, site);
    }
    template <class T>
    T shuffle(unsigned int mask, T value, int source, int width = 32) const {
        return from_lane(site, mask, value, width, [=](uint32_t, uint32_t first) {
            return first + (static_cast<uint32_t>(source) & (static_cast<uint32_t>(width) - 1));
        });
    }
    template <class T>
    T shuffle_xor(unsigned int mask, T value, int with, int width = 32) const {
        return from_lane(site, mask, value, width, [=](uint32_t lane, uint32_t first) {
            uint32_t source = lane ^ static_cast<uint32_t>(with);
            return source < first + static_cast<uint32_t>(width) ? source & 31u : lane;
        });
    }
    template <class T>
    T shuffle_down(unsigned int mask, T value, unsigned int by, int width = 32) const {
        return from_lane(site, mask, value, width, [=](uint32_t lane, uint32_t first) {
            return by < first + static_cast<uint32_t>(width) - lane ? lane + by : lane;
        });
    }
    template <class T>
    T shuffle_up(unsigned int mask, T value, unsigned int by, int width = 32) const {
        return from_lane(site, mask, value, width, [=](uint32_t lane, uint32_t first) {
            return by <= lane - first ? lane - by : lane;
        });
    }
    unsigned int ballot(unsigned int mask, int predicate) const { return hopeval::ballot(site, mask, predicate); }
    int any(unsigned int mask, int predicate) const { return ballot(mask, predicate) != 0; }
    int all(unsigned int mask, int predicate) const { return ballot(mask, predicate) == 0xffffffffu; }
};

}  // namespace hopeval

inline void __threadfence() {}
inline void __threadfence_block() {}

inline unsigned int __float_as_uint(float x) {
    unsigned int bits;
    __builtin_memcpy(&bits, &x, sizeof(bits));
    return bits;
}
inline float __uint_as_float(unsigned int bits) {
    float x;
    __builtin_memcpy(&x, &bits, sizeof(x));
    return x;
}
inline int __float_as_int(float x) { return static_cast<int>(__float_as_uint(x)); }
inline float __int_as_float(int bits) { return __uint_as_float(static_cast<unsigned int>(bits)); }
inline long long __double_as_longlong(double x) {
    long long bits;
    __builtin_memcpy(&bits, &x, sizeof(bits));
    return bits;
}
inline double __longlong_as_double(long long bits) {
    double x;
    __builtin_memcpy(&x, &bits, sizeof(x));
    return x;
}

// The fast ones of a GPU are less exact than these.
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
namespace hopeval {
inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
}  // namespace hopeval
// Some C libraries have one of this name.
#define rsqrtf(x) ::hopeval::rsqrt(x)

inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __clz(unsigned int x) { return x == 0 ? 32 : __builtin_clz(x); }
inline int __ffs(unsigned int x) { return __builtin_ffs(static_cast<int>(x)); }

template <class T>
inline T __ldg(const T* from) {
    return *from;
}

#define HOPEVAL_MIN_MAX(type)                                       \
    inline type min(type x, type y) { return y < x ? y : x; }      \
    inline type max(type x, type y) { return x < y ? y : x; }
HOPEVAL_MIN_MAX(int)
HOPEVAL_MIN_MAX(unsigned int)
HOPEVAL_MIN_MAX(long)
HOPEVAL_MIN_MAX(unsigned long)
HOPEVAL_MIN_MAX(long long)
HOPEVAL_MIN_MAX(unsigned long long)
#undef HOPEVAL_MIN_MAX

namespace hopeval {

// A call of a kernel with its arguments.
struct Call {
    virtual void operator()() const = 0;

protected:
    ~Call() = default;
};

__attribute__((visibility("hidden"))) int launch(
    const char* kernel, uint32_t most_threads, const LaunchParameters* parameters, const Call& call, char* message, size_t message_size);
__attribute__((visibility("hidden"))) int wrong_arguments(const char* kernel, const char* kinds, char* message, size_t message_size);

template <class T>
constexpr char kind() {
    static_assert(std::is_pointer<T>::value || std::is_same<T, unsigned int>::value || std::is_same<T, float>::value,
                  "a kernel's parameters are pointers, u32 and float");
    return std::is_pointer<T>::value ? 'p' : std::is_same<T, float>::value ? 'f' : 'u';
}

template <size_t... I>
struct Places {};
template <size_t N, size_t... I>
struct PlacesTo : PlacesTo<N - 1, N - 1, I...> {};
template <size_t... I>
struct PlacesTo<0, I...> {
    typedef Places<I...> type;
};

template <class... P>
struct KernelCall final : Call {
    void (*kernel)(P...);
    void** arguments;

    KernelCall(void (*kernel)(P...), void** arguments) : kernel(kernel), arguments(arguments) {}
    void operator()() const override { call(typename PlacesTo<sizeof...(P)>::type()); }

private:
    template <size_t... I>
    void call(Places<I...>) const {
        kernel(*static_cast<typename std::remove_const<P>::type*>(arguments[I])...);
    }
};

template <class... P>
struct Kinds {
    static constexpr char text[] = {kind<typename std::remove_const<P>::type>()..., 0};
};
template <class... P>
constexpr const char* kinds_of(void (*)(P...)) {
    return Kinds<P...>::text;
}

template <class... P>
inline int launch_kernel(const char* name, uint32_t most_threads, void (*kernel)(P...), const LaunchParameters* parameters,
                         void** arguments, char* message, size_t message_size) {
    const char* kinds = kinds_of(kernel);
    bool same = parameters->arguments == sizeof...(P);
    for (size_t i = 0; same && i < sizeof...(P); ++i) same = parameters->kinds[i] == kinds[i];
    if (!same) return wrong_arguments(name, kinds, message, message_size);
    return launch(name, most_threads, parameters, KernelCall<P...>(kernel, arguments), message, message_size);
}

}  // namespace hopeval

#define EMULATOR_DATA(type, name, ...)                                              \
    extern "C" __attribute__((visibility("default"))) const type name;              \
    const type name = {__VA_ARGS__};
#define EMULATOR_FAMILY(name, source, kernels) EMULATOR_DATA(EmulatedFamily, emulated_family_##name, source, kernels)

// `emulate_<name>`: runs a launch, and returns 0, or another number and a message about the kernel's fault.
#define EMULATOR_EXPORT_OF(name, most_threads)                                                                                  \
    EMULATOR_DATA(EmulatedKernel, emulated_kernel_##name, hopeval::kinds_of(&name), most_threads)                               \
    extern "C" __attribute__((visibility("default"))) int emulate_##name(                                                       \
        const LaunchParameters* parameters, void** arguments, char* message, size_t message_size) {                             \
        return hopeval::launch_kernel(#name, most_threads, &name, parameters, arguments, message, message_size);                \
    }
#define EMULATOR_EXPORT(name) EMULATOR_EXPORT_OF(name, hopeval::MOST_THREADS)
