// Checks the emulator by itself: shared memory, barriers, shuffles and deferred copies in all orders, and its messages.
//
// Built and run by the tests of this crate, and by hand (the include path is that of the kernels' headers):
//   c++ -O2 -std=c++17 -fno-strict-aliasing -DHOPEVAL_EMULATED -I. -I../../kernels smoke.cpp emulator.cpp -o smoke
//   ./smoke
#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <chrono>
#include <vector>

namespace {
#include "prelude.cuh"

// A sum of each row, and the row in reverse, by way of static and dynamic shared memory.
KERNEL(256) reverse(const float* from, float* to, float* sums, u32 columns) {
    SHARED(float, scratch, WARP);
    DYNAMIC_SHARED(float, row);
    const float* source = from + static_cast<size_t>(blockIdx.x) * columns;
    float sum = 0.0f;
    for (u32 i = threadIdx.x; i < columns; i += blockDim.x) {
        row[i] = source[i];
        sum += source[i];
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < columns; i += blockDim.x) to[static_cast<size_t>(blockIdx.x) * columns + i] = row[columns - 1 - i];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// Each thread's neighbour of the next warp, with a barrier or without.
KERNEL(256) neighbour(u32* out, u32 barrier) {
    SHARED(u32, numbers, 256);
    numbers[threadIdx.x] = threadIdx.x;
    if (barrier != 0) __syncthreads();
    out[threadIdx.x] = numbers[(threadIdx.x + WARP) % blockDim.x];
}

// Asynchronous copies of two groups; a read before the wait gives ones.
KERNEL(32) copied(const u32* from, u32* out) {
    SHARED(u32, near, 64);
    hopeval::copy_later(&near[threadIdx.x], from + threadIdx.x, 4);
    hopeval::commit_copies();
    hopeval::copy_later(&near[32 + threadIdx.x], threadIdx.x < 16 ? from + 32 + threadIdx.x : nullptr, 4);
    hopeval::commit_copies();
    hopeval::wait_copies(1);
    __syncwarp();
    out[threadIdx.x] = near[31 - threadIdx.x];
    out[32 + threadIdx.x] = near[32 + threadIdx.x];
    hopeval::wait_copies(0);
    __syncwarp();
    out[64 + threadIdx.x] = near[63 - threadIdx.x];
}

KERNEL(64) diverges(u32 how) {
    if (how == 0 && threadIdx.x < 40) __syncthreads();
    if (how == 1 && threadIdx.x < 32) __syncthreads();
    if (how == 2 && threadIdx.x % 2 == 0) __shfl_sync(EVERY_LANE, 1.0f, 0);
    if (how == 3) __shfl_sync(0xffffu, 1.0f, 0);
    if (how == 4) threadIdx.x % 2 == 0 ? warp_sum(1.0f) : warp_sum(2.0f);
}

KERNEL(1024) exchanges(float* out, u32 times) {
    float x = static_cast<float>(threadIdx.x);
    for (u32 i = 0; i < times; ++i) x = 0.5f * __shfl_xor_sync(EVERY_LANE, x, 1) + 1.0f;
    out[threadIdx.x] = x;
}
}  // namespace

EMULATOR_EXPORT(reverse)
EMULATOR_EXPORT(neighbour)
EMULATOR_EXPORT(copied)
EMULATOR_EXPORT(diverges)
EMULATOR_EXPORT_OF(exchanges, 1024)

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
    if (holds) return;
    printf("not so: %s\n", what);
    ++failures;
}

LaunchParameters in_order(uint32_t order, uint32_t blocks, uint32_t threads, uint32_t shared, const char* kinds) {
    return {blocks, 1, threads, shared, order, static_cast<uint32_t>(strlen(kinds)), kinds, 7};
}

void sums_and_reverses(uint32_t order) {
    const uint32_t rows = 3, columns = 1000;
    std::vector<float> from(rows * columns), to(from.size()), sums(rows);
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i % 17);
    LaunchParameters parameters = in_order(order, rows, 256, columns * sizeof(float), "pppu");
    const float* a = from.data();
    float *b = to.data(), *c = sums.data();
    u32 d = columns;
    void* arguments[] = {&a, &b, &c, &d};
    char message[256] = "";
    expect(emulate_reverse(&parameters, arguments, message, sizeof(message)) == 0, message);
    for (uint32_t row = 0; row < rows; ++row) {
        float sum = 0;
        for (uint32_t i = 0; i < columns; ++i) {
            sum += from[row * columns + i];
            expect(to[row * columns + i] == from[row * columns + columns - 1 - i], "reversed");
        }
        expect(sums[row] == sum, "a block's sum");
    }
}

bool neighbours_are_right(uint32_t order, u32 barrier) {
    std::vector<u32> out(256);
    LaunchParameters parameters = in_order(order, 1, 256, 0, "pu");
    u32* a = out.data();
    void* arguments[] = {&a, &barrier};
    char message[256] = "";
    expect(emulate_neighbour(&parameters, arguments, message, sizeof(message)) == 0, message);
    for (u32 i = 0; i < 256; ++i) {
        if (out[i] != (i + 32) % 256) return false;
    }
    return true;
}

void copies(uint32_t order) {
    std::vector<u32> from(48), out(96);
    for (u32 i = 0; i < 48; ++i) from[i] = 100 + i;
    LaunchParameters parameters = in_order(order, 1, 32, 0, "pp");
    const u32* a = from.data();
    u32* b = out.data();
    void* arguments[] = {&a, &b};
    char message[256] = "";
    expect(emulate_copied(&parameters, arguments, message, sizeof(message)) == 0, message);
    for (u32 i = 0; i < 32; ++i) {
        expect(out[i] == 131 - i, "the first group");
        expect(out[32 + i] == 0xffffffffu, "the second group before it is waited for");
        expect(out[64 + i] == (31 - i < 16 ? 132 + 31 - i : 0), "the second group");
    }
}

void message_of(uint32_t order, u32 how, const char* part) {
    LaunchParameters parameters = in_order(order, 2, 64, 0, "u");
    void* arguments[] = {&how};
    char message[256] = "";
    expect(emulate_diverges(&parameters, arguments, message, sizeof(message)) != 0, "an error");
    if (order == 0) printf("%s\n", message);
    expect(strstr(message, "kernel diverges, block (") != nullptr && strstr(message, part) != nullptr, message);
}

void speed() {
    std::vector<float> out(256);
    LaunchParameters parameters = in_order(0, 1, 256, 0, "pu");
    float* a = out.data();
    u32 times = 20000;
    void* arguments[] = {&a, &times};
    char message[256] = "";
    auto start = std::chrono::steady_clock::now();
    emulate_exchanges(&parameters, arguments, message, sizeof(message));
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    printf("%.1f ns a switch, with a shuffle\n", elapsed.count() * 1e9 / (256.0 * times));
}

}  // namespace

int main() {
    for (uint32_t order = 0; order < 3; ++order) {
        sums_and_reverses(order);
        expect(neighbours_are_right(order, 1), "neighbours, with a barrier");
        copies(order);
        message_of(order, 0, "__syncthreads");
        message_of(order, 1, "the warp of thread");
        message_of(order, 2, "a shuffle");
        message_of(order, 3, "mask");
        message_of(order, 4, ", called at smoke.cpp:");
    }
    expect(!neighbours_are_right(0, 0), "a missing barrier shows in ascending order");
    expect(!neighbours_are_right(1, 0), "a missing barrier shows in descending order");
    LaunchParameters parameters = in_order(0, 1, 48, 0, "u");
    u32 how = 9;
    void* arguments[] = {&how};
    char message[256] = "";
    expect(emulate_diverges(&parameters, arguments, message, sizeof(message)) != 0, "48 threads");
    parameters = in_order(0, 1, 64, 0, "f");
    expect(emulate_diverges(&parameters, arguments, message, sizeof(message)) != 0, "a float for a u32");
    printf("%s\n", message);
    speed();
    printf(failures == 0 ? "all as it should be\n" : "%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
