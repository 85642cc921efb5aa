// The devices of the simulated driver.
//
//   SIMULATED_CUDA_DEVICES   how many there are; 1
//   SIMULATED_CUDA_MEMORY    bytes of each; 256 MiB
//   SIMULATED_CUDA_LOST_AT   "device:N": that device is lost at its Nth launch, kernels and products counted together
//   SIMULATED_CUDA_AT_ONCE   1: work is done when it is requested, not when someone waits for it
//   SIMULATED_CUDA_DRIVER    the CUDA version that the driver serves, "12.4"; 13.0
//   SIMULATED_CUDA_LIBRARIES the version of NVRTC and cuBLASLt; 13.99, which no release has
//   SIMULATED_CUDA_LOADS     a file that gets a line with a library's name each time that it is loaded
//   SIMULATED_CUDA_REPORT    a file that gets a line of JSON at the process's end: the work of each device, and its
//                            unreleased objects
//
// Memory is the host's. The bytes behind a buffer's chunk must not be written; a buffer holds ones (NaN) when it is
// new, and again once it is freed.
#include "devices.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace simulated {

__thread Device* current = nullptr;

namespace {

// The content of the bytes behind a buffer's chunk, checked when it is freed.
constexpr size_t FENCE = 256;
constexpr unsigned char FENCED = 0xab;
constexpr size_t ALIGNMENT = 256;

// Never destroyed: at the process's end other threads may still be in a call.
std::mutex& counts_lock = *new std::mutex;
std::map<std::string, long>& counts = *new std::map<std::string, long>;
std::atomic<bool> is_begun{false}, is_ending{false};

unsigned long number_of(const char* name, unsigned long otherwise) {
    const char* text = getenv(name);
    return text == nullptr || *text == 0 ? otherwise : strtoul(text, nullptr, 10);
}

std::vector<Device*>& all() {
    static std::vector<Device*>& all = *[] {
        auto* made = new std::vector<Device*>;
        for (unsigned long i = 0; i < number_of("SIMULATED_CUDA_DEVICES", 1); ++i) {
            made->push_back(new Device);
            made->back()->number = static_cast<unsigned>(i);
        }
        return made;
    }();
    return all;
}

// The launch at which a device is lost; 0: never.
uint64_t last_launch(unsigned number) {
    const char* text = getenv("SIMULATED_CUDA_LOST_AT");
    unsigned which = 0;
    unsigned long launch = 0;
    bool told = text != nullptr && sscanf(text, "%u:%lu", &which, &launch) == 2;
    return told && which == number ? launch : 0;
}

// The device named by an entry of CUDA_VISIBLE_DEVICES: its number, or the beginning of its UUID.
Device* named(const std::string& entry) {
    for (Device* device : all()) {
        bool is_uuid = entry.rfind("GPU-", 0) == 0 && uuid_text(device->number).rfind(entry, 0) == 0;
        if (is_uuid || entry == std::to_string(device->number)) return device;
    }
    return nullptr;
}

struct Report {
    ~Report() {
        is_ending = true;
        const char* path = getenv("SIMULATED_CUDA_REPORT");
        if (!is_begun || path == nullptr) return;
        std::string line = "{\"pid\":" + std::to_string(getpid()) + ",\"devices\":[";
        for (Device* device : all()) {
            Counters told = counters(device->number);
            if (device->number > 0) line += ",";
            line += "{\"launches\":" + std::to_string(told.launches) + ",\"products\":" + std::to_string(told.products) +
                    ",\"peak\":" + std::to_string(told.peak) + ",\"refused\":" + std::to_string(device->refused) +
                    ",\"ahead\":" + std::to_string(device->ahead) + "}";
        }
        line += "],\"left\":{";
        std::lock_guard<std::mutex> guard(counts_lock);
        bool first = true;
        for (auto& [kind, left] : counts) {
            line += std::string(first ? "" : ",") + "\"" + kind + "\":" + std::to_string(left);
            first = false;
        }
        line += "}}\n";
        // One write each, so that the lines of several processes stay whole.
        FILE* file = fopen(path, "a");
        if (file == nullptr) return;
        setvbuf(file, nullptr, _IOFBF, line.size() + 1);
        fputs(line.c_str(), file);
        fclose(file);
    }
} report;

}  // namespace

void misused(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("simulated CUDA: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n", stderr);
    va_end(arguments);
    abort();
}

void count(const char* kind, int more) {
    std::lock_guard<std::mutex> guard(counts_lock);
    counts[kind] += more;
}

int version(const char* variable, int otherwise) {
    const char* text = getenv(variable);
    int major = 0, minor = 0;
    bool is_told = text != nullptr && sscanf(text, "%d.%d", &major, &minor) == 2;
    return is_told ? major * 1000 + minor * 10 : otherwise;
}

void note_load(const char* library) {
    const char* path = getenv("SIMULATED_CUDA_LOADS");
    FILE* file = path == nullptr ? nullptr : fopen(path, "a");
    if (file == nullptr) return;
    fprintf(file, "%s\n", library);
    fclose(file);
}

bool ending() { return is_ending; }
void begun() { is_begun = true; }

size_t memory() {
    static const size_t bytes = number_of("SIMULATED_CUDA_MEMORY", 256 << 20);
    return bytes;
}

unsigned devices() { return static_cast<unsigned>(all().size()); }
Device& device(unsigned number) { return *all().at(number); }

Counters counters(unsigned number) {
    Device& of = device(number);
    return {of.launches, of.products, memory(), of.taken, of.peak};
}

void uuid(unsigned number, unsigned char (&bytes)[16]) {
    char text[17];
    snprintf(text, sizeof(text), "simulated GPU %02u", number);
    memcpy(bytes, text, sizeof(bytes));
}

std::string uuid_text(unsigned number) {
    unsigned char bytes[16];
    uuid(number, bytes);
    std::string text = "GPU";
    for (int i = 0; i < 16; ++i) {
        char digits[8];
        snprintf(digits, sizeof(digits), i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", bytes[i]);
        text += digits;
    }
    return text;
}

// The entries after one without a device are ignored, too, and each device is shown once.
std::vector<Device*> visible() {
    const char* text = getenv("CUDA_VISIBLE_DEVICES");
    if (text == nullptr) return all();
    std::vector<Device*> found;
    std::string entries = text;
    for (size_t from = 0; from <= entries.size();) {
        size_t to = std::min(entries.find(',', from), entries.size());
        Device* device = named(entries.substr(from, to - from));
        if (device == nullptr) return found;
        for (Device* other : found) {
            if (other == device) return {};
        }
        found.push_back(device);
        from = to + 1;
    }
    return found;
}

void Stream::push(std::function<void()> work) {
    static const bool at_once = number_of("SIMULATED_CUDA_AT_ONCE", 0) == 1;
    waiting.push_back(std::move(work));
    ++asked;
    if (at_once) run_to(asked);
}

void Stream::run_to(uint64_t piece) {
    while (done < piece) {
        std::function<void()> work = std::move(waiting.front());
        waiting.pop_front();
        ++done;
        work();
    }
}

std::map<uint64_t, Buffer>::iterator Device::within(uint64_t address, size_t bytes) {
    auto after = buffers.upper_bound(address);
    if (after == buffers.begin()) return buffers.end();
    auto found = std::prev(after);
    bool is_in = bytes <= found->second.bytes && address - found->first <= found->second.bytes - bytes;
    return is_in ? found : buffers.end();
}

void Device::account() {
    taken = reserved + beside + (held > 0 ? CONTEXT : 0);
    if (taken > peak) peak = taken.load();
}

void Device::release(Chunk chunk) {
    reserved -= chunk.bytes;
    ::free(chunk.at);
    account();
}

// A spare chunk serves requests of at least half its length; other lengths take chunks of their own, while there is
// memory.
Result Device::allocate(size_t bytes, Stream* stream, uint64_t* address) {
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (rounded < bytes) return OUT_OF_MEMORY;
    auto best = spares.end();
    for (auto spare = spares.begin(); spare != spares.end(); ++spare) {
        bool fits = spare->chunk.bytes >= rounded && spare->chunk.bytes / 2 <= rounded;
        if (fits && (spare->stream == stream || spare->is_done()) && (best == spares.end() || spare->chunk.bytes < best->chunk.bytes)) best = spare;
    }
    Chunk chunk;
    if (best != spares.end()) {
        chunk = best->chunk;
        spares.erase(best);
    } else {
        if (rounded > memory() || reserved + beside + CONTEXT > memory() - rounded) return OUT_OF_MEMORY;
        chunk = {static_cast<unsigned char*>(aligned_alloc(ALIGNMENT, rounded + FENCE)), rounded};
        if (chunk.at == nullptr) return OUT_OF_MEMORY;
        memset(chunk.at, 0xff, rounded);
        memset(chunk.at + rounded, FENCED, FENCE);
        reserved += rounded;
    }
    used += chunk.bytes;
    *address = reinterpret_cast<uint64_t>(chunk.at);
    buffers[*address] = {chunk, bytes};
    count("buffers", 1);
    account();
    return SUCCESS;
}

Result Device::free(uint64_t address, Stream* stream) {
    auto found = buffers.find(address);
    if (found == buffers.end()) return INVALID_VALUE;
    auto [chunk, bytes] = found->second;
    buffers.erase(found);
    count("buffers", -1);
    used -= chunk.bytes;
    stream->push([this, chunk = chunk, bytes = bytes] {
        for (size_t i = 0; i < FENCE; ++i) {
            if (chunk.at[chunk.bytes + i] != FENCED) misused("something wrote %zu bytes behind a buffer of %zu bytes", i + 1, bytes);
        }
        memset(chunk.at, 0xff, chunk.bytes);
    });
    spares.push_back({chunk, stream, stream->asked});
    return SUCCESS;
}

void Device::trim(size_t keep) {
    for (size_t i = spares.size(); i-- > 0 && reserved > keep;) {
        if (!spares[i].is_done()) continue;
        release(spares[i].chunk);
        spares.erase(spares.begin() + static_cast<ptrdiff_t>(i));
    }
}

Result Device::take_beside(size_t bytes) {
    if (bytes > memory() || reserved + beside + CONTEXT > memory() - bytes) return OUT_OF_MEMORY;
    beside += bytes;
    account();
    return SUCCESS;
}

void Device::give_back_beside(size_t bytes) {
    beside -= bytes;
    account();
}

bool Device::begins() {
    if (lost != SUCCESS) return false;
    if (launches + products + 1 == last_launch(number)) lost = ILLEGAL_ADDRESS;
    return lost == SUCCESS;
}

Result usable() {
    if (ending()) return DEINITIALIZED;
    if (!is_begun) return NOT_INITIALIZED;
    if (current == nullptr) return INVALID_CONTEXT;
    std::lock_guard<std::recursive_mutex> guard(current->lock);
    if (current->held == 0) return CONTEXT_IS_DESTROYED;
    return current->lost;
}

bool holds(const void* address, size_t bytes) {
    std::lock_guard<std::recursive_mutex> guard(current->lock);
    return current->within(reinterpret_cast<uint64_t>(address), bytes) != current->buffers.end();
}

Result enqueue_product(void* stream, std::function<void()> product) {
    Device* device = current;
    std::lock_guard<std::recursive_mutex> guard(device->lock);
    Stream* into = static_cast<Stream*>(stream);
    if (device->streams.count(into) == 0) return INVALID_HANDLE;
    into->push([device, product = std::move(product)] {
        if (!device->begins()) return;
        product();
        ++device->products;
    });
    return SUCCESS;
}

}  // namespace simulated
