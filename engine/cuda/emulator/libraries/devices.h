// The devices of the simulated driver: memory, streams, and the loss of a device.
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

// Work in the order of the requests. It is done at the next wait, and not before.
struct Stream {
    Device* device;
    std::deque<std::function<void()>> waiting;
    // Numbers of requested and of finished pieces of work.
    uint64_t asked = 0, done = 0;
    // The last piece that copies to the host.
    uint64_t last_read = 0;

    void push(std::function<void()> work);
    // Does the work up to this piece.
    void run_to(uint64_t piece);
};

// The position of a stream when the event was recorded.
struct Event {
    Stream* stream = nullptr;
    uint64_t piece = 0;
    // Whether that piece copies to the host.
    bool is_read = false;
};

// Memory of a present or former buffer.
struct Chunk {
    unsigned char* at;
    size_t bytes;
};

// An unused chunk of the pool.
struct Spare {
    Chunk chunk;
    // The stream that freed it, and when: this stream may reuse it at once, others after that work. No stream: it is
    // done.
    Stream* stream;
    uint64_t piece;

    bool is_done() const { return stream == nullptr || piece <= stream->done; }
};

// A buffer in the order of the calls.
struct Buffer {
    Chunk chunk;
    size_t bytes;
};

// Host memory that copies use when they are done.
struct Pinned {
    size_t bytes;
    // Pending copies from it and to it.
    std::shared_ptr<std::atomic<int>> uses;
};

struct Device {
    unsigned number;
    // For everything except the counters.
    std::recursive_mutex lock;
    // Number of holders of the primary context; it exists while this is not 0.
    int held = 0;
    // The reason of its end.
    Result lost = SUCCESS;
    std::set<Stream*> streams;
    std::set<Event*> events;
    std::map<uint64_t, Buffer> buffers;
    std::vector<Spare> spares;
    std::map<uint64_t, Pinned> pinned;
    // Bytes of buffers, of chunks, and of memory beside the pool.
    size_t used = 0, reserved = 0, beside = 0;
    uint64_t threshold = 0;
    std::atomic<uint64_t> launches{0}, products{0}, taken{0}, peak{0};
    // Buffers refused for lack of memory.
    std::atomic<uint64_t> refused{0};
    // Most pieces of work that were requested behind a copy to the host when it was waited for.
    std::atomic<uint64_t> ahead{0};

    // The buffer that contains the address, if any; with its first byte's address.
    std::map<uint64_t, Buffer>::iterator within(uint64_t address, size_t bytes);
    Result allocate(size_t bytes, Stream* stream, uint64_t* address);
    Result free(uint64_t address, Stream* stream);
    // Returns spare memory whose free is done.
    void trim(size_t keep);
    // Takes memory beside the pool; false if there is none.
    Result take_beside(size_t bytes);
    void give_back_beside(size_t bytes);
    // Counts a launch before it is done; false if the device is lost, or is lost now.
    bool begins();
    void account();

private:
    void release(Chunk chunk);
};

// Bytes of each device, and the bytes of a context.
size_t memory();
constexpr size_t CONTEXT = 2 << 20;

// The devices left by CUDA_VISIBLE_DEVICES, in its order.
std::vector<Device*> visible();
Device& device(unsigned number);

// The calling thread's context.
extern __thread Device* current;
// True while the process ends: every call then returns an error that says so.
bool ending();
// The report is written from now on, at the process's end.
void begun();

}  // namespace simulated
