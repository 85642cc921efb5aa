// The parameters of a launch, and the data of a library of kernels: for its builder and its loader.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

// The parameters of a launch, filled in by Rust.
struct LaunchParameters {
    uint32_t grid_x, grid_y;
    uint32_t threads;
    // Bytes of dynamic shared memory.
    uint32_t shared;
    // 0: ascending, 1: descending, 2: shuffled by `seed`: blocks, warps of a block, and lanes of a warp.
    uint32_t order;
    // The number of arguments, and the kind of each: 'p' for an address, 'u' for an unsigned int, 'f' for a float.
    uint32_t arguments;
    const char* kinds;
    uint64_t seed;
    // The blocks before these, in x and in y, are left out: for tensors of which a test touches the end alone.
    uint32_t first_x, first_y;
};

// `emulated_kernel_<name>`: the kinds of a kernel's parameters, as above, and the most threads of a block.
struct EmulatedKernel {
    const char* kinds;
    uint32_t most_threads;
};

// `emulated_family_<name>`: a digest of a file's text, and the names of its kernels, each with a space before and
// behind it.
struct EmulatedFamily {
    uint64_t source;
    const char* kernels;
};

}  // extern "C"
