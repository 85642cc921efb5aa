// libnvidia-ml.so.1, simulated: the devices' memory, and a millijoule for each finished kernel and product.
//
// It sees this process's work, and all devices, whatever CUDA_VISIBLE_DEVICES says.
#include "simulated.h"

#include <stdio.h>

using namespace simulated;

namespace {

// nvmlReturn_t.
enum Status : int {
    DONE = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_FOUND_HERE = 6,
    ARGUMENT_VERSION_MISMATCH = 25,
};

struct Memory {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct Utilization {
    unsigned gpu, memory;
};

// A device in use is busy.
constexpr unsigned BUSY = 50;

bool is_begun = false;

// A handle is the device's number plus one, so it is not null.
unsigned number(const void* handle) { return static_cast<unsigned>(reinterpret_cast<uintptr_t>(handle)) - 1; }

}  // namespace

SIMULATED_CALL nvmlInit_v2() {
    is_begun = true;
    return DONE;
}

SIMULATED_CALL nvmlShutdown() {
    is_begun = false;
    return DONE;
}

SIMULATED_CALL nvmlSystemGetDriverVersion(char* version, unsigned bytes) {
    if (!is_begun) return UNINITIALIZED;
    snprintf(version, bytes, "999.0.simulated");
    return DONE;
}

SIMULATED_CALL nvmlDeviceGetHandleByUUID(const char* wanted, void** handle) {
    if (!is_begun) return UNINITIALIZED;
    for (unsigned device = 0; device < devices(); ++device) {
        if (uuid_text(device) != wanted) continue;
        *handle = reinterpret_cast<void*>(static_cast<uintptr_t>(device) + 1);
        return DONE;
    }
    return NOT_FOUND_HERE;
}

SIMULATED_CALL nvmlDeviceGetMemoryInfo_v2(const void* handle, Memory* memory) {
    if (!is_begun) return UNINITIALIZED;
    if (memory->version != (sizeof(Memory) | 2u << 24)) return ARGUMENT_VERSION_MISMATCH;
    Counters told = counters(number(handle));
    memory->total = told.memory;
    memory->reserved = 0;
    memory->used = told.taken;
    memory->free = told.memory - told.taken;
    return DONE;
}

SIMULATED_CALL nvmlDeviceGetTotalEnergyConsumption(const void* handle, unsigned long long* millijoules) {
    if (!is_begun) return UNINITIALIZED;
    Counters told = counters(number(handle));
    *millijoules = told.launches + told.products;
    return DONE;
}

SIMULATED_CALL nvmlDeviceGetUtilizationRates(const void* handle, Utilization* utilization) {
    if (!is_begun) return UNINITIALIZED;
    Counters told = counters(number(handle));
    *utilization = {told.launches > 0 ? BUSY : 0, 0};
    return DONE;
}
