// The interface between the simulated libraries: the driver has the devices, cuBLASLt and NVML ask it, and NVRTC makes
// its images. The real libraries have none of this.
//
// They stand in for libcuda, libcublasLt, libnvrtc and libnvidia-ml in tests. They follow NVIDIA's documentation of the
// calls in use: their order, their arguments, their errors. They do not measure a GPU, and everything that they report
// about themselves says "simulated".
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

// The simulated NVRTC's image of a family of kernels. The kernels themselves are the emulator's: the digest shows
// whether it was built from the same file, headers aside.
struct Image {
    char magic[4];
    char tag[12];
    uint64_t source;
    int32_t major, minor;
    char family[64];
};
constexpr char MAGIC[4] = {0x7f, 'E', 'L', 'F'};
constexpr char TAG[12] = "simulated";

// FNV-1a, as in `sources.rs`.
inline uint64_t digest(const char* text) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text != 0; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3u;
    return hash;
}

// A device's work and memory.
struct Counters {
    // Finished kernels and products.
    uint64_t launches, products;
    // Bytes of memory, bytes in use, and the most bytes ever in use.
    uint64_t memory, taken, peak;
};

// Of all devices, whatever CUDA_VISIBLE_DEVICES says.
SIMULATED_EXPORT unsigned devices();
SIMULATED_EXPORT Counters counters(unsigned device);
SIMULATED_EXPORT void uuid(unsigned device, unsigned char (&bytes)[16]);
// "GPU-" and the bytes in groups of 4, 2, 2, 2 and 6.
SIMULATED_EXPORT std::string uuid_text(unsigned device);

// Success if the calling thread's context is usable; else the error of every call that needs one.
SIMULATED_EXPORT Result usable();

// True if this range lies within one buffer of the calling thread's context, in the order of the calls.
SIMULATED_EXPORT bool holds(const void* address, size_t bytes);

// Puts a product into a stream of the calling thread's context: it is done at the next wait.
SIMULATED_EXPORT Result enqueue_product(void* stream, std::function<void()> product);

// Counts objects that must be released, by kind.
SIMULATED_EXPORT void count(const char* kind, int more);

// The version in the environment's variable of this name, "12.4"; 1000 times the major one, and 10 times the minor one.
SIMULATED_EXPORT int version(const char* variable, int otherwise);

// Adds a line with the library's name to the file that SIMULATED_CUDA_LOADS names.
SIMULATED_EXPORT void note_load(const char* library);

// Notes each time that the loader loads a library, which it does again once the library was unloaded.
#define SIMULATED_LIBRARY(name) \
    __attribute__((constructor)) static void note_this_load() { simulated::note_load(name); }

// Ends the process: the caller made a mistake that the real library would not notice, with silently wrong results.
SIMULATED_EXPORT __attribute__((noreturn, format(printf, 1, 2))) void misused(const char* format, ...);

}  // namespace simulated
