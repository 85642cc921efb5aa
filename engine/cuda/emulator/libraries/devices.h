// The devices of the simulated driver: memory, streams, and what is lost.
#pragma once

#include "simulated.h"

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace simulated {

struct Device;

// Work in the order in which it was asked for. It is done when somebody waits for it, and not before.
struct Stream {
    Device* device;
    std::deque<std::function<void()>> waiting;
    // Pieces of work that were asked for, and that are done.
    uint64_t asked = 0, done = 0;

    void push(std::function<void()> work);
    // Does the work up to this piece.
    void run_to(uint64_t piece);
};

// What a stream had been asked for when the event was recorded.
struct Event {
    Stream* stream = nullptr;
    uint64_t piece = 0;
};

// Memory that a buffer has, or had.
struct Chunk {
    unsigned char* at;
    size_t bytes;
};

// A chunk of the pool that no buffer has.
struct Spare {
    Chunk chunk;
    // Who freed it, and when: that stream may have it at once, others when that is done. No stream: it is.
    Stream* stream;
    uint64_t piece;

    bool is_done() const { return stream == nullptr || piece <= stream->done; }
};

// A buffer in the order of the calls.
struct Buffer {
    Chunk chunk;
    size_t bytes;
};

// Memory of the host that copies read when they are done.
struct Pinned {
    size_t bytes;
    // Copies that are still to read it.
    std::shared_ptr<std::atomic<int>> reads;
};

struct Device {
    unsigned number;
    // Of all but the counters.
    std::recursive_mutex lock;
    // How often the primary context is held; it is there as long as that is not 0.
    int held = 0;
    // What ended it.
    Result lost = SUCCESS;
    std::set<Stream*> streams;
    std::set<Event*> events;
    std::map<uint64_t, Buffer> buffers;
    std::vector<Spare> spares;
    std::map<uint64_t, Pinned> pinned;
    // Bytes of buffers, of chunks, and of what is beside the pool.
    size_t used = 0, reserved = 0, beside = 0;
    uint64_t threshold = 0;
    std::atomic<uint64_t> launches{0}, products{0}, taken{0}, peak{0};
    // Buffers for which there was no memory.
    std::atomic<uint64_t> refused{0};

    // The buffer that the address lies in, if any; with its first byte's address.
    std::map<uint64_t, Buffer>::iterator within(uint64_t address, size_t bytes);
    Result allocate(size_t bytes, Stream* stream, uint64_t* address);
    Result free(uint64_t address, Stream* stream);
    // Gives spare memory back whose free is done.
    void trim(size_t keep);
    // Takes memory beside the pool, or says that there is none.
    Result take_beside(size_t bytes);
    void give_back_beside(size_t bytes);
    // Counts a launch that is to be done now; false where the device is, or is now, lost.
    bool begins();
    void account();

private:
    void release(Chunk chunk);
};

// Bytes of each device, and of them what a context takes.
size_t memory();
constexpr size_t CONTEXT = 2 << 20;

// The devices that CUDA_VISIBLE_DEVICES leaves, in its order.
std::vector<Device*> visible();
Device& device(unsigned number);

// The calling thread's context.
extern __thread Device* current;
// Whether the process ends: every call says so then.
bool ending();
// The report is written from now on, at the process's end.
void begun();

}  // namespace simulated
