// libcuda.so.1, simulated: only the calls in use.
//
//   SIMULATED_CUDA_KERNELS   the emulator's shared library, which runs the kernels
//
// Launches, copies and frees are put into the stream and done at the next wait for it, so a missing wait shows.
#include "devices.h"
#include "emulated.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

using namespace simulated;

namespace {

typedef uint64_t Address;

// A loaded kernel.
struct Function {
    std::string name;
    const EmulatedKernel* kernel;
    struct Module* module;
    // The dynamic shared memory allowed for a launch.
    uint32_t shared;
};

struct Module {
    Device* device;
    Image image;
    std::map<std::string, std::unique_ptr<Function>> functions;
    // Launches still to be done.
    int launches = 0;
};

// The properties of a device that the kernels were made for.
constexpr int MAJOR = 9, MINOR = 0;
constexpr int MULTIPROCESSORS = 2;
// Bytes beside the pool.
constexpr size_t MODULE = 64 << 10;
// Bytes of pageable memory copied along with a command.
constexpr size_t TAKEN_ALONG = 64 << 10;
// Shared memory of a block: by default, and at most.
constexpr uint32_t SHARED = 48 << 10, MOST_SHARED = 227 << 10;
// The emulator learns a kernel's static shared memory as it runs: this is the most of any of ours.
constexpr uint32_t STATIC_SHARED = 8448;
constexpr uint32_t MOST_THREADS = 1024, MOST_BLOCKS_Y = 65535;

constexpr unsigned NON_BLOCKING = 1, WITHOUT_TIMING = 2;

// A kernel's access to no memory ends its launch, and the context.
__thread bool faulted = false;
struct sigaction before;
void (*end_launch)(const char* message) = nullptr;

// Returns if no kernel runs on this thread: the same access, made once more, then meets the previous handler.
void fault(int, siginfo_t*, void*) {
    faulted = true;
    end_launch("an access to no memory");
    faulted = false;
    sigaction(SIGSEGV, &before, nullptr);
}

void* kernels() {
    static void* kernels = [] {
        const char* path = getenv("SIMULATED_CUDA_KERNELS");
        void* opened = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (opened == nullptr) misused("no kernels at SIMULATED_CUDA_KERNELS: %s", path == nullptr ? "it is not set" : dlerror());
        end_launch = reinterpret_cast<decltype(end_launch)>(dlsym(opened, "emulator_end_launch"));
        struct sigaction catches = {};
        catches.sa_sigaction = fault;
        // On the fibre's own stack, which is abandoned.
        catches.sa_flags = SA_SIGINFO | SA_NODEFER;
        sigaction(SIGSEGV, &catches, &before);
        return opened;
    }();
    return kernels;
}

template <class T>
const T* symbol(const std::string& name) {
    return reinterpret_cast<const T*>(dlsym(kernels(), name.c_str()));
}

// A call on the current context.
struct Entered {
    Result result;
    Device& device;
    std::unique_lock<std::recursive_mutex> guard;

    Entered() : result(usable()), device(current == nullptr ? simulated::device(0) : *current), guard(device.lock) {}
    Stream* stream(void* handle) { return device.streams.count(static_cast<Stream*>(handle)) > 0 ? static_cast<Stream*>(handle) : nullptr; }
};

#define ENTER                                              \
    Entered entered;                                       \
    if (entered.result != SUCCESS) return entered.result;  \
    Device& device = entered.device;

#define ENTER_STREAM(handle)                         \
    ENTER                                            \
    Stream* stream = entered.stream(handle);         \
    if (stream == nullptr) return INVALID_HANDLE;

Device* visible_device(int ordinal) {
    std::vector<Device*> there = visible();
    return ordinal >= 0 && static_cast<size_t>(ordinal) < there.size() ? there[static_cast<size_t>(ordinal)] : nullptr;
}

std::atomic<bool> is_begun{false};

// The calls that describe devices.
#define DEVICE(ordinal)                              \
    if (!is_begun) return NOT_INITIALIZED;           \
    Device* of = visible_device(ordinal);            \
    if (of == nullptr) return INVALID_DEVICE;

size_t length(char kind) { return kind == 'p' ? 8 : 4; }

// The place of a parameter: each at a multiple of its length.
size_t offset(const EmulatedKernel& kernel, size_t index) {
    size_t at = 0;
    for (size_t i = 0;; ++i) {
        size_t bytes = length(kernel.kinds[i]);
        at = (at + bytes - 1) / bytes * bytes;
        if (i == index) return at;
        at += bytes;
    }
}

// A launch with its arguments' values.
struct Launched {
    Function* function;
    LaunchParameters parameters;
    std::vector<uint64_t> values;

    void run() {
        auto entry = symbol<int(const LaunchParameters*, void**, char*, size_t)>("emulate_" + function->name);
        std::vector<void*> arguments;
        for (uint64_t& value : values) arguments.push_back(&value);
        char message[512] = "";
        faulted = false;
        if (entry(&parameters, arguments.data(), message, sizeof(message)) == 0) return;
        // A real kernel would continue with whatever it finds.
        if (!faulted) misused("%s", message);
        function->module->device->lost = ILLEGAL_ADDRESS;
    }
};

}  // namespace

SIMULATED_LIBRARY("libcuda")

SIMULATED_CALL cuInit(unsigned flags) {
    if (flags != 0) return INVALID_VALUE;
    if (visible().empty()) return NO_DEVICE;
    is_begun = true;
    begun();
    return SUCCESS;
}

SIMULATED_CALL cuDriverGetVersion(int* version) {
    *version = simulated::version("SIMULATED_CUDA_DRIVER", 13000);
    return SUCCESS;
}

SIMULATED_CALL cuGetErrorString(int error, const char** text) {
    switch (error) {
        case OUT_OF_MEMORY: *text = "simulated: out of memory"; break;
        case ILLEGAL_ADDRESS: *text = "simulated: an illegal memory access was encountered"; break;
        default: *text = "simulated: as the error's name says"; break;
    }
    return SUCCESS;
}

SIMULATED_CALL cuDeviceGetCount(int* count) {
    if (!is_begun) return NOT_INITIALIZED;
    *count = static_cast<int>(visible().size());
    return SUCCESS;
}

SIMULATED_CALL cuDeviceGet(int* device, int ordinal) {
    DEVICE(ordinal)
    *device = ordinal;
    return SUCCESS;
}

SIMULATED_CALL cuDeviceGetAttribute(int* value, int attribute, int ordinal) {
    DEVICE(ordinal)
    switch (attribute) {
        case 16: *value = MULTIPROCESSORS; return SUCCESS;
        case 75: *value = MAJOR; return SUCCESS;
        case 76: *value = MINOR; return SUCCESS;
        // Memory pools.
        case 115: *value = 1; return SUCCESS;
        default: misused("nothing is known of attribute %d of a device", attribute);
    }
}

SIMULATED_CALL cuDeviceGetName(char* name, int size, int ordinal) {
    DEVICE(ordinal)
    snprintf(name, static_cast<size_t>(size), "Simulated CUDA device");
    return SUCCESS;
}

SIMULATED_CALL cuDeviceTotalMem_v2(size_t* bytes, int ordinal) {
    DEVICE(ordinal)
    *bytes = memory();
    return SUCCESS;
}

SIMULATED_CALL cuDeviceGetUuid_v2(unsigned char (*bytes)[16], int ordinal) {
    DEVICE(ordinal)
    uuid(of->number, *bytes);
    return SUCCESS;
}

SIMULATED_CALL cuDevicePrimaryCtxRetain(Device** context, int ordinal) {
    DEVICE(ordinal)
    std::lock_guard<std::recursive_mutex> guard(of->lock);
    if (of->lost != SUCCESS) return of->lost;
    ++of->held;
    count("contexts", 1);
    of->account();
    *context = of;
    return SUCCESS;
}

SIMULATED_CALL cuDevicePrimaryCtxRelease_v2(int ordinal) {
    DEVICE(ordinal)
    std::lock_guard<std::recursive_mutex> guard(of->lock);
    if (of->held == 0) return INVALID_CONTEXT;
    --of->held;
    count("contexts", -1);
    // The pool is the device's, and keeps what it holds only as long as the context is there.
    if (of->held == 0) of->trim(0);
    of->account();
    return SUCCESS;
}

SIMULATED_CALL cuCtxSetCurrent(Device* context) {
    if (!is_begun) return NOT_INITIALIZED;
    if (ending()) return DEINITIALIZED;
    if (context != nullptr) {
        std::lock_guard<std::recursive_mutex> guard(context->lock);
        if (context->held == 0) return INVALID_CONTEXT;
    }
    current = context;
    return SUCCESS;
}

SIMULATED_CALL cuStreamCreate(Stream** made, unsigned flags) {
    ENTER
    // The other kind waits for the nameless stream.
    if (flags != NON_BLOCKING) misused("a stream with the flags %u", flags);
    *made = new Stream;
    (*made)->device = &device;
    device.streams.insert(*made);
    count("streams", 1);
    return SUCCESS;
}

SIMULATED_CALL cuStreamSynchronize(void* handle) {
    ENTER_STREAM(handle)
    stream->run_to(stream->asked);
    return device.lost;
}

SIMULATED_CALL cuStreamDestroy_v2(void* handle) {
    ENTER_STREAM(handle)
    stream->run_to(stream->asked);
    for (Spare& spare : device.spares) {
        if (spare.stream == stream) spare.stream = nullptr;
    }
    for (Event* event : device.events) {
        if (event->stream == stream) event->stream = nullptr;
    }
    device.streams.erase(stream);
    delete stream;
    count("streams", -1);
    return SUCCESS;
}

// CUmemPoolProps, as far as it is looked at.
struct PoolProperties {
    int kind, handles, place, ordinal;
    void* security;
    size_t most;
};

// All pools of a device share its bookkeeping; only their number is known apart.
SIMULATED_CALL cuMemPoolCreate(Device** pool, const PoolProperties* properties) {
    if (properties->kind != 1 || properties->handles != 0 || properties->place != 1) misused("a pool of other memory than a device's");
    DEVICE(properties->ordinal)
    *pool = of;
    count("pools", 1);
    return SUCCESS;
}

SIMULATED_CALL cuMemPoolDestroy(Device*) {
    count("pools", -1);
    return SUCCESS;
}

SIMULATED_CALL cuMemPoolSetAttribute(Device* pool, int attribute, void* value) {
    if (attribute != 4) misused("nothing is known of attribute %d of a pool that is set", attribute);
    std::lock_guard<std::recursive_mutex> guard(pool->lock);
    memcpy(&pool->threshold, value, sizeof(pool->threshold));
    return SUCCESS;
}

SIMULATED_CALL cuMemPoolGetAttribute(Device* pool, int attribute, void* value) {
    std::lock_guard<std::recursive_mutex> guard(pool->lock);
    if (attribute != 5 && attribute != 7) misused("nothing is known of attribute %d of a pool", attribute);
    uint64_t bytes = attribute == 5 ? pool->reserved : pool->used;
    memcpy(value, &bytes, sizeof(bytes));
    return SUCCESS;
}

SIMULATED_CALL cuMemPoolTrimTo(Device* pool, size_t keep) {
    std::lock_guard<std::recursive_mutex> guard(pool->lock);
    if (pool->lost != SUCCESS) return pool->lost;
    pool->trim(keep);
    return SUCCESS;
}

SIMULATED_CALL cuMemGetInfo_v2(size_t* free, size_t* total) {
    ENTER
    *total = memory();
    *free = memory() - device.taken;
    return SUCCESS;
}

SIMULATED_CALL cuMemAllocFromPoolAsync(Address* address, size_t bytes, Device* pool, void* handle) {
    ENTER_STREAM(handle)
    if (pool != &device) misused("memory from the pool of another device");
    Result given = bytes == 0 ? INVALID_VALUE : device.allocate(bytes, stream, address);
    if (given == OUT_OF_MEMORY) ++device.refused;
    return given;
}

SIMULATED_CALL cuMemFreeAsync(Address address, void* handle) {
    ENTER_STREAM(handle)
    return device.free(address, stream);
}

SIMULATED_CALL cuMemHostAlloc(void** made, size_t bytes, unsigned flags) {
    ENTER
    if (bytes == 0 || flags != 0) return INVALID_VALUE;
    *made = malloc(bytes);
    if (*made == nullptr) return OUT_OF_MEMORY;
    device.pinned[reinterpret_cast<uint64_t>(*made)] = {bytes, std::make_shared<std::atomic<int>>(0)};
    count("pinned", 1);
    return SUCCESS;
}

SIMULATED_CALL cuMemFreeHost(void* memory) {
    ENTER
    auto found = device.pinned.find(reinterpret_cast<uint64_t>(memory));
    if (found == device.pinned.end()) return INVALID_VALUE;
    if (*found->second.uses > 0) misused("pinned memory is freed, and %d copies are still to use it", found->second.uses->load());
    device.pinned.erase(found);
    free(memory);
    count("pinned", -1);
    return SUCCESS;
}

// The pinned memory that a copy of these bytes uses; null if it uses other memory.
static const Pinned* pinned_of(Device& device, const void* memory, size_t bytes) {
    uint64_t at = reinterpret_cast<uint64_t>(memory);
    auto after = device.pinned.upper_bound(at);
    if (after == device.pinned.begin()) return nullptr;
    const auto& [begin, pinned] = *std::prev(after);
    if (at >= begin + pinned.bytes) return nullptr;
    if (at + bytes > begin + pinned.bytes) misused("a copy beyond the end of pinned memory");
    return &pinned;
}

// Pinned memory is read when the copy is done, and so is most other memory: a driver may read it in place without
// staging. Up to 64 KiB are read before the call returns.
SIMULATED_CALL cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* handle) {
    ENTER_STREAM(handle)
    if (device.within(to, bytes) == device.buffers.end()) return INVALID_VALUE;
    void* target = reinterpret_cast<void*>(to);
    if (const Pinned* pinned = pinned_of(device, from, bytes)) {
        ++*pinned->uses;
        stream->push([&device, target, from, bytes, uses = pinned->uses] {
            if (device.lost == SUCCESS) memcpy(target, from, bytes);
            --*uses;
        });
    } else if (bytes > TAKEN_ALONG) {
        stream->push([&device, target, from, bytes] {
            if (device.lost == SUCCESS) memcpy(target, from, bytes);
        });
    } else {
        auto copy = std::make_shared<std::string>(static_cast<const char*>(from), bytes);
        stream->push([&device, target, copy] {
            if (device.lost == SUCCESS) memcpy(target, copy->data(), copy->size());
        });
    }
    return SUCCESS;
}

SIMULATED_CALL cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* handle) {
    ENTER_STREAM(handle)
    if (device.within(to, bytes) == device.buffers.end() || device.within(from, bytes) == device.buffers.end()) return INVALID_VALUE;
    stream->push([&device, to, from, bytes] {
        if (device.lost == SUCCESS) memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    });
    return SUCCESS;
}

SIMULATED_CALL cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void* handle) {
    ENTER_STREAM(handle)
    if (device.within(to, bytes) == device.buffers.end()) return INVALID_VALUE;
    stream->push([&device, to, value, bytes] {
        if (device.lost == SUCCESS) memset(reinterpret_cast<void*>(to), value, bytes);
    });
    return SUCCESS;
}

// A copy into pageable memory, too, is done only at a wait: this reveals callers that rely on more.
SIMULATED_CALL cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* handle) {
    ENTER_STREAM(handle)
    if (device.within(from, bytes) == device.buffers.end()) return INVALID_VALUE;
    const Pinned* pinned = pinned_of(device, to, bytes);
    auto uses = pinned == nullptr ? nullptr : pinned->uses;
    if (uses != nullptr) ++*uses;
    stream->push([&device, to, from, bytes, uses] {
        if (device.lost == SUCCESS) memcpy(to, reinterpret_cast<void*>(from), bytes);
        if (uses != nullptr) --*uses;
    });
    stream->last_read = stream->asked;
    return SUCCESS;
}

SIMULATED_CALL cuEventCreate(Event** made, unsigned flags) {
    ENTER
    if (flags != WITHOUT_TIMING) misused("an event with the flags %u", flags);
    *made = new Event;
    device.events.insert(*made);
    count("events", 1);
    return SUCCESS;
}

SIMULATED_CALL cuEventRecord(Event* event, void* handle) {
    ENTER_STREAM(handle)
    if (device.events.count(event) == 0) return INVALID_HANDLE;
    *event = {stream, stream->asked, stream->asked > 0 && stream->last_read == stream->asked};
    return SUCCESS;
}

// No work requested after the event is done.
SIMULATED_CALL cuEventSynchronize(Event* event) {
    ENTER
    if (device.events.count(event) == 0) return INVALID_HANDLE;
    if (event->stream != nullptr) {
        uint64_t behind = event->stream->asked - event->piece;
        if (event->is_read && behind > device.ahead) device.ahead = behind;
        event->stream->run_to(event->piece);
    }
    return device.lost;
}

SIMULATED_CALL cuEventDestroy_v2(Event* event) {
    ENTER
    if (device.events.erase(event) == 0) return INVALID_HANDLE;
    delete event;
    count("events", -1);
    return SUCCESS;
}

SIMULATED_CALL cuModuleLoadData(Module** made, const void* code) {
    ENTER
    if (memcmp(code, MAGIC, sizeof(MAGIC)) != 0) return INVALID_IMAGE;
    Image image;
    memcpy(&image, code, sizeof(image));
    if (memcmp(image.tag, TAG, sizeof(TAG)) != 0) return INVALID_IMAGE;
    // Machine code runs on the devices of its generation, unless they are older.
    if (image.major != MAJOR || image.minor > MINOR) return NO_BINARY_FOR_GPU;
    auto* family = symbol<EmulatedFamily>(std::string("emulated_family_") + image.family);
    if (family == nullptr || family->source != image.source) return INVALID_IMAGE;
    Result taken = device.take_beside(MODULE);
    if (taken != SUCCESS) return taken;
    *made = new Module{&device, image, {}, 0};
    count("modules", 1);
    return SUCCESS;
}

SIMULATED_CALL cuModuleUnload(Module* module) {
    ENTER
    if (module->launches > 0) misused("a module is unloaded, and %d of its launches are not done", module->launches);
    device.give_back_beside(MODULE);
    delete module;
    count("modules", -1);
    return SUCCESS;
}

SIMULATED_CALL cuModuleGetFunction(Function** found, Module* module, const char* name) {
    ENTER
    auto* family = symbol<EmulatedFamily>(std::string("emulated_family_") + module->image.family);
    auto* kernel = symbol<EmulatedKernel>(std::string("emulated_kernel_") + name);
    bool is_there = kernel != nullptr && strstr(family->kernels, (std::string(" ") + name + " ").c_str()) != nullptr;
    if (!is_there) return NOT_FOUND;
    std::unique_ptr<Function>& function = module->functions[name];
    if (function == nullptr) function.reset(new Function{name, kernel, module, SHARED - STATIC_SHARED});
    *found = function.get();
    return SUCCESS;
}

SIMULATED_CALL cuFuncGetAttribute(int* value, int attribute, Function*) {
    ENTER
    if (attribute != 1) misused("nothing is known of attribute %d of a function", attribute);
    *value = STATIC_SHARED;
    return SUCCESS;
}

SIMULATED_CALL cuFuncSetAttribute(Function* function, int attribute, int value) {
    ENTER
    if (attribute != 8) misused("nothing is known of attribute %d of a function that is set", attribute);
    if (value < 0 || static_cast<uint32_t>(value) > MOST_SHARED - STATIC_SHARED) return INVALID_VALUE;
    function->shared = static_cast<uint32_t>(value);
    return SUCCESS;
}

SIMULATED_CALL cuFuncGetParamInfo(Function* function, size_t index, size_t* at, size_t* bytes) {
    ENTER
    const EmulatedKernel& kernel = *function->kernel;
    if (index >= strlen(kernel.kinds)) return INVALID_VALUE;
    *at = offset(kernel, index);
    if (bytes != nullptr) *bytes = length(kernel.kinds[index]);
    return SUCCESS;
}

SIMULATED_CALL cuLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                              unsigned block_z, unsigned shared, void* handle, void** arguments, void** extra) {
    ENTER_STREAM(handle)
    const EmulatedKernel& kernel = *function->kernel;
    if (grid_z != 1 || block_y != 1 || block_z != 1 || extra != nullptr) misused("a launch of %s in three dimensions", function->name.c_str());
    bool can_be = grid_x > 0 && grid_y > 0 && grid_y <= MOST_BLOCKS_Y && block_x > 0 && block_x <= MOST_THREADS;
    if (!can_be || block_x > kernel.most_threads || shared > function->shared) return INVALID_VALUE;
    uint32_t count = static_cast<uint32_t>(strlen(kernel.kinds));
    LaunchParameters parameters = {grid_x, grid_y, block_x, shared, 0, count, kernel.kinds, 0};
    Launched launched = {function, parameters, std::vector<uint64_t>(count)};
    for (uint32_t i = 0; i < count; ++i) {
        memcpy(&launched.values[i], arguments[i], length(kernel.kinds[i]));
        Address address = launched.values[i];
        bool is_an_address = kernel.kinds[i] == 'p' && address != 0;
        if (is_an_address && device.within(address, 1) == device.buffers.end()) {
            misused("%s is launched with %#lx, where no buffer is", function->name.c_str(), static_cast<unsigned long>(address));
        }
    }
    ++function->module->launches;
    stream->push([&device, launched]() mutable {
        if (device.begins()) {
            launched.run();
            ++device.launches;
        }
        --launched.function->module->launches;
    });
    return SUCCESS;
}
