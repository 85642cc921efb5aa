// What the simulated libraries know of each other: the driver has the devices, cuBLASLt and NVML ask it, and NVRTC makes what it
// loads. None of this is in the real ones.
//
// They stand in for libcuda, libcublasLt, libnvrtc and libnvidia-ml in tests, by what NVIDIA's documentation says of the calls that are
// made of them: their order, their arguments, and what an error is. They are no measure of a GPU, and all that they tell of
// themselves says "simulated".
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <functional>
#include <string>

#define SIMULATED_EXPORT __attribute__((visibility("default")))

// A call of the real library, found by its name.
#define SIMULATED_CALL extern "C" SIMULATED_EXPORT int

namespace simulated {

// The driver's results, as cuda.h numbers them.
enum Result : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    DEINITIALIZED = 4,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    CONTEXT_IS_DESTROYED = 709,
    NOT_SUPPORTED = 801,
};

// What the simulated NVRTC makes of a family of kernels. The kernels themselves are those that the emulator was built from: the
// digest says whether it was built from the same file, headers aside.
struct Image {
    char magic[4];
    char tag[12];
    uint64_t source;
    int32_t major, minor;
    char family[64];
};
constexpr char MAGIC[4] = {0x7f, 'E', 'L', 'F'};
constexpr char TAG[12] = "simulated";

// FNV-1a, as `sources.rs` has it.
inline uint64_t digest(const char* text) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text != 0; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3u;
    return hash;
}

// What a device has done and holds.
struct Counters {
    // Kernels and products that were done.
    uint64_t launches, products;
    // Bytes of memory, those that are taken, and the most that ever were.
    uint64_t memory, taken, peak;
};

// Of all devices, whatever CUDA_VISIBLE_DEVICES says.
SIMULATED_EXPORT unsigned devices();
SIMULATED_EXPORT Counters counters(unsigned device);
SIMULATED_EXPORT void uuid(unsigned device, unsigned char (&bytes)[16]);
// "GPU-" and the bytes in groups of 4, 2, 2, 2 and 6.
SIMULATED_EXPORT std::string uuid_text(unsigned device);

// Success if the calling thread's context can be used, or what each call gives that needs one.
SIMULATED_EXPORT Result usable();

// Whether so many bytes lie within one buffer of the calling thread's context, in the order of the calls.
SIMULATED_EXPORT bool holds(const void* address, size_t bytes);

// Puts a product into a stream of the calling thread's context: it is done when somebody waits for it.
SIMULATED_EXPORT Result enqueue_product(void* stream, std::function<void()> product);

// Counts things that must be given back, by their kind.
SIMULATED_EXPORT void count(const char* kind, int more);

// Ends the process: the caller did what the real library does not notice, and what would be wrong silently.
SIMULATED_EXPORT __attribute__((noreturn, format(printf, 1, 2))) void misused(const char* format, ...);

}  // namespace simulated
