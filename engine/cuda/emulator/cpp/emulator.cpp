// Runs launches: blocks one after another, threads as fibres that take turns.
//
//   wait at a warp's collective   next lane of the warp .. last lane, then its first lane again
//   wait at __syncthreads         next lane .. last lane, then the next warp .. last warp, then the block's first again
//   end of the thread             next lane .. last lane, then the next warp .. last warp, then the next block
//
// "Next" and "first" are those of the launch's order. All lanes of a warp must wait for the same, and all warps of a
// block for the same __syncthreads or their end. The same is one call in the source, from one place of each function
// that `COLLECTIVE_CALL` names. Anything else is an error in the kernel, and ends the launch with a message.
#include "emulator.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <memory>
#include <mutex>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef HOPEVAL_RACES
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void __tsan_read_range(void* from, size_t bytes);
void __tsan_write_range(void* to, size_t bytes);
}
#endif

#if !(defined(__x86_64__) || defined(__aarch64__)) || defined(HOPEVAL_UCONTEXT)
#define HOPEVAL_PORTABLE_SWITCH
#include <ucontext.h>
#endif

namespace hopeval {

__attribute__((tls_model("initial-exec"))) __thread Thread* here = nullptr;

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr size_t STACK = 256 << 10;
#else
constexpr size_t STACK = 64 << 10;
#endif
// The end of a stack that kernels' frames take: where races are looked for, deeper ones would pass for races of two
// blocks.
constexpr size_t MOST_OF_FRAMES = 32 << 10;
// A multiple of every machine's pages: an access beyond a stack is a fault.
constexpr size_t GUARD = 64 << 10;
// Static shared memory of every GPU.
constexpr size_t MOST_STATIC_SHARED = 48 << 10;

#ifdef HOPEVAL_PORTABLE_SWITCH
typedef ucontext_t Registers;
#else
// The stack pointer; the other registers that a call preserves lie on the stack.
typedef void* Registers;
extern "C" __attribute__((visibility("hidden"))) void hopeval_switch(Registers* from, Registers to);
// Registers not preserved by a call need not be kept: this is a call. Nobody changes floating-point control words.
#ifdef __x86_64__
constexpr size_t FRAME = 56, RETURN_ADDRESS = 48;
asm(R"(
    .text
    .p2align 4
    .globl hopeval_switch
    .hidden hopeval_switch
    .type hopeval_switch, @function
hopeval_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size hopeval_switch, . - hopeval_switch
)");
#else
// aarch64.
constexpr size_t FRAME = 160, RETURN_ADDRESS = 88;
asm(R"(
    .text
    .p2align 4
    .globl hopeval_switch
    .hidden hopeval_switch
    .type hopeval_switch, %function
hopeval_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size hopeval_switch, . - hopeval_switch
)");
#endif
#endif

// A line of execution: a fibre, or the OS thread that requested the launch.
struct Context {
    Registers registers;
    // The place of its stack, for address sanitizer.
    const void* bottom = nullptr;
    size_t size = 0;
    void* fake_stack = nullptr;
    // The thread that thread sanitizer takes it for.
    void* actor = nullptr;
};

struct Copy {
    void* to;
    uint32_t bytes;
    uint32_t group;
    unsigned char from[16];
};

struct Fibre : Thread {
    Context context;
    // The successor when this one waits, unless it is the last of its warp.
    Fibre* next;
    // Its place in the order of its warp, and its warp's in the order of the block.
    uint32_t place, warp_place;
    unsigned char* stack;
    std::vector<Copy> copies;
    uint32_t groups;
    // Its barriers of the warp and of the block so far.
    uint32_t warp_barriers, block_barriers;
    // The thread that makes its asynchronous copies, if there were any.
    void* copier = nullptr;
};

struct Shared {
    const void* site;
    void* memory;
};

// The data of a launch; simultaneous launches of several OS threads have one each, and later launches reuse them.
struct Machine {
    std::vector<std::unique_ptr<Fibre>> fibres;
    std::unique_ptr<Warp[]> warps{new Warp[MOST_THREADS / LANES]};
    // The first fibre of each warp, in the order of warps.
    std::vector<Fibre*> firsts;
    Block block;
    Context caller;
    const Call* call;
    // The barrier of the block's first warp, and the calls that led to it.
    Wait wait;
    Route route;
    std::vector<Shared> shared;
    // Objects for the barriers of the block, as below, and of each warp.
    char block_barrier[2], warp_barrier[MOST_THREADS / LANES][2];
    size_t static_shared;
    void* dynamic_shared;
    char error[448];

    ~Machine() {
        for (auto& fibre : fibres) munmap(fibre->stack - GUARD, STACK + GUARD);
    }
};

// The launch on this OS thread. It is found from a fibre only.
__attribute__((tls_model("initial-exec"))) __thread Machine* machine = nullptr;

// Happens-before, as thread sanitizer is told it where races are looked for; nothing elsewhere.
//
//   start of a block       after whatever came before the launch; not after other blocks
//   __syncthreads          everything that its threads did before, before everything that they do after it
//   __syncwarp             the same for the threads of a warp
//   shuffle, vote, mma,    nothing: PTX lets lanes wait for each other there, and promises nothing about memory.
//   ldmatrix               A tile is read by the lane that gives its address.
//   asynchronous copy      a thread of its own for each thread makes the copies: after their issue, before the end of
//                          the issuer's wait for them
//   end of a launch        after all of its threads
//
// A barrier has two objects, in turn: a thread that comes to the next barrier must not pass for one that was at this
// one. The emulator's own accesses are not seen: emulator.cpp is compiled without thread sanitizer, and `Unseen` hides
// its calls of the C library.
#ifdef HOPEVAL_RACES
struct Unseen {
    Unseen() {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
    ~Unseen() {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    }
};
void publish(void* object) { __tsan_release(object); }
void observe(void* object) { __tsan_acquire(object); }
void* new_actor() { return __tsan_create_fiber(0); }
void end_actor(void*& actor) {
    if (actor != nullptr) __tsan_destroy_fiber(actor);
    actor = nullptr;
}
void act_as(void* actor) { __tsan_switch_to_fiber(actor, __tsan_switch_to_fiber_no_sync); }
void* present_actor() { return __tsan_get_current_fiber(); }
// Blocks use the same stacks. Pages mapped anew have never been accessed.
void forget_accesses(void* stack, size_t bytes) {
    Unseen unseen;
    const int anew = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(stack, bytes, PROT_READ | PROT_WRITE, anew, -1, 0) != stack) abort();
}
void issue_copy(Fibre& fibre, void* to, const void* from, uint32_t bytes) {
    if (fibre.copier == nullptr) fibre.copier = new_actor();
    publish(&fibre.copies);
    act_as(fibre.copier);
    observe(&fibre.copies);
    if (from != nullptr) __tsan_read_range(const_cast<void*>(from), bytes);
    __tsan_write_range(to, bytes);
    act_as(fibre.context.actor);
}
// With groups that are still pending, those count as done.
void finish_copies(Fibre& fibre) {
    if (fibre.copier == nullptr) return;
    act_as(fibre.copier);
    publish(&fibre.groups);
    act_as(fibre.context.actor);
    observe(&fibre.groups);
}
#else
struct Unseen {
    Unseen() {}
};
void publish(void*) {}
void observe(void*) {}
void* new_actor() { return nullptr; }
void end_actor(void*&) {}
void act_as(void*) {}
void* present_actor() { return nullptr; }
void forget_accesses(void*, size_t) {}
void issue_copy(Fibre&, void*, const void*, uint32_t) {}
void finish_copies(Fibre&) {}
#endif

const char* name(Wait wait) {
    switch (wait) {
        case Wait::Exchange: return "a shuffle, vote or exchange";
        case Wait::SyncWarp: return "__syncwarp";
        case Wait::SyncThreads: return "__syncthreads";
        default: return "its end";
    }
}

__attribute__((no_sanitize_address)) inline void switch_context(Context& from, Context& to, bool ends) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(ends ? nullptr : &from.fake_stack, to.bottom, to.size);
#endif
    (void)ends;
    act_as(to.actor);
#ifdef HOPEVAL_PORTABLE_SWITCH
    swapcontext(&from.registers, &to.registers);
#else
    hopeval_switch(&from.registers, to.registers);
#endif
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

[[noreturn]] __attribute__((format(printf, 1, 2))) void stop(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(machine->error, sizeof(machine->error), format, arguments);
    va_end(arguments);
    switch_context(static_cast<Fibre*>(here)->context, machine->caller, false);
    abort();
}

// A fibre's start, on its own stack.
__attribute__((no_sanitize_address)) void begin() {
#ifdef __SANITIZE_ADDRESS__
    Context& caller = machine->caller;
    const void* bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
    // The first fibre of a launch learns the place of the caller's stack.
    if (caller.bottom == nullptr) caller.bottom = bottom, caller.size = size;
#endif
    (*machine->call)();
    wait_for(Wait::End, 0, nullptr);
    abort();
}

bool same_route(const Route& one, const Route& other) { return memcmp(&one, &other, sizeof(one)) == 0; }

void prepare(Fibre& fibre) {
    fibre.copies.clear();
    fibre.route = Route();
    fibre.groups = 0;
    fibre.warp_barriers = fibre.block_barriers = 0;
    end_actor(fibre.copier);
    end_actor(fibre.context.actor);
    fibre.context.actor = new_actor();
    forget_accesses(fibre.stack + STACK - MOST_OF_FRAMES, MOST_OF_FRAMES);
#ifdef HOPEVAL_PORTABLE_SWITCH
    getcontext(&fibre.context.registers);
    fibre.context.registers.uc_stack.ss_sp = fibre.stack;
    fibre.context.registers.uc_stack.ss_size = STACK;
    fibre.context.registers.uc_link = nullptr;
    makecontext(&fibre.context.registers, begin, 0);
#else
    // Stacks are a power of 2 apart: without a shift of their tops, all would compete for the same lines of the cache.
    size_t shift = fibre.lane * 704;
    // As if `begin` had called the switch: on x86-64 its own return address, which is never used, aligns its frame.
#ifdef __x86_64__
    unsigned char* top = fibre.stack + STACK - shift - sizeof(void*) - FRAME;
#else
    unsigned char* top = fibre.stack + STACK - shift - FRAME;
#endif
    void (*first)() = &begin;
    memset(top, 0, FRAME);
    memcpy(top + RETURN_ADDRESS, &first, sizeof(first));
    fibre.context.registers = top;
#endif
}

void* stack_of_a_fibre() {
    void* pages = mmap(nullptr, STACK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages, GUARD, PROT_NONE) != 0) {
        perror("a fibre's stack");
        abort();
    }
    return static_cast<unsigned char*>(pages) + GUARD;
}

uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// first..end in a launch's order.
std::vector<uint32_t> ordered(const LaunchParameters& parameters, uint32_t first, uint32_t end, uint64_t salt) {
    uint32_t count = end - first;
    std::vector<uint32_t> order(count);
    for (uint32_t i = 0; i < count; ++i) order[i] = parameters.order == 1 ? end - 1 - i : first + i;
    if (parameters.order != 2) return order;
    uint64_t state = mix(parameters.seed ^ mix(salt));
    for (uint32_t i = count; i > 1; --i) {
        state = mix(state);
        std::swap(order[i - 1], order[state % i]);
    }
    return order;
}

// Puts the first `threads` fibres into a launch's order.
void line_up(Machine& m, const LaunchParameters& parameters) {
    while (m.fibres.size() < parameters.threads) {
        std::unique_ptr<Fibre> fibre(new Fibre());
        fibre->stack = static_cast<unsigned char*>(stack_of_a_fibre());
        fibre->context.bottom = fibre->stack;
        fibre->context.size = STACK;
        m.fibres.push_back(std::move(fibre));
    }
    uint32_t warps = parameters.threads / LANES;
    m.firsts.clear();
    for (uint32_t warp : ordered(parameters, 0, warps, 1)) {
        std::vector<uint32_t> lanes = ordered(parameters, 0, LANES, 2 + warp);
        for (uint32_t place = 0; place < LANES; ++place) {
            Fibre& fibre = *m.fibres[warp * LANES + lanes[place]];
            fibre.index = {warp * LANES + lanes[place], 0, 0};
            fibre.lane = lanes[place];
            fibre.warp = &m.warps[warp];
            fibre.block = &m.block;
            fibre.place = place;
            fibre.warp_place = static_cast<uint32_t>(m.firsts.size());
            fibre.next = m.fibres[warp * LANES + lanes[(place + 1) % LANES]].get();
        }
        m.firsts.push_back(m.fibres[warp * LANES + lanes[0]].get());
    }
}

// Memory of exactly this many bytes, all ones.
void* ones(size_t bytes) {
    Unseen unseen;
    void* memory = malloc(bytes);
    if (memory == nullptr) abort();
    return memset(memory, 0xff, bytes);
}

void run_block(Machine& m, const LaunchParameters& parameters) {
    for (uint32_t thread = 0; thread < parameters.threads; ++thread) prepare(*m.fibres[thread]);
    for (uint32_t warp = 0; warp < parameters.threads / LANES; ++warp) m.warps[warp].turn = 0;
    m.static_shared = 0;
    m.dynamic_shared = ones(parameters.shared);
    Fibre* first = m.firsts[0];
    here = first;
    switch_context(m.caller, first->context, false);
    here = nullptr;
    Unseen unseen;
    for (Shared& shared : m.shared) free(shared.memory);
    m.shared.clear();
    free(m.dynamic_shared);
}

// Never destroyed: when the process ends, another thread may still run a launch.
std::mutex& idle_lock = *new std::mutex;
std::vector<std::unique_ptr<Machine>>& idle = *new std::vector<std::unique_ptr<Machine>>;

std::unique_ptr<Machine> take_machine() {
    std::lock_guard<std::mutex> guard(idle_lock);
    if (idle.empty()) return std::unique_ptr<Machine>(new Machine());
    std::unique_ptr<Machine> machine = std::move(idle.back());
    idle.pop_back();
    return machine;
}

void give_back(std::unique_ptr<Machine> machine) {
    std::lock_guard<std::mutex> guard(idle_lock);
    idle.push_back(std::move(machine));
}

const char* file_name(const char* path) {
    const char* slash = strrchr(path, '/');
    return slash == nullptr ? path : slash + 1;
}

// " at file:line, called at file:line"; nothing for a thread's end.
struct RouteText {
    char text[160] = "";

    explicit RouteText(const Route& route) {
        size_t length = 0;
        for (uint32_t i = 0; i < Route::MOST_CALLS && route.calls[i] != nullptr && length < sizeof(text); ++i) {
            const Site& site = *route.calls[i];
            const char* before = i == 0 ? "" : ", called";
            length += static_cast<size_t>(
                snprintf(text + length, sizeof(text) - length, "%s at %s:%u", before, file_name(site.file), site.line));
        }
    }
};

// Two threads that had to come to the same place. A function of its own, for arrays in the frame of a wait that never
// returns would leave address sanitizer's red zones on the stack.
[[noreturn]] __attribute__((noinline)) void stop_apart(
    const char* format, const Fibre* me, Wait wait, const Fibre* first, Wait its, const Route& route) {
    stop(format, me->index.x, name(wait), RouteText(me->route).text, first->index.x, name(its), RouteText(route).text);
}

// The object that stands for this barrier; the launch itself at a thread's end; null if a wait orders no memory.
inline void* barrier_object(Fibre& fibre, Wait wait) {
    Machine& m = *machine;
    switch (wait) {
        case Wait::SyncThreads: return &m.block_barrier[fibre.block_barriers++ % 2];
        case Wait::SyncWarp: return &m.warp_barrier[fibre.warp - m.warps.get()][fibre.warp_barriers++ % 2];
        case Wait::End: return &m;
        default: return nullptr;
    }
}

// The successor when the last lane of a warp waits for its block or has ended; null when the block has ended.
Fibre* after_the_warp(Machine& m, Fibre* me, Wait wait) {
    if (me->warp_place == 0) {
        m.wait = wait;
        m.route = me->route;
    } else if (m.wait != wait || !same_route(m.route, me->route)) {
        stop_apart("the warp of thread %u has come to %s%s, but the warp of thread %u to %s%s", me, wait, m.firsts[0],
                   m.wait, m.route);
    }
    if (me->warp_place + 1 < m.firsts.size()) return m.firsts[me->warp_place + 1];
    return wait == Wait::End ? nullptr : m.firsts[0];
}

}  // namespace

void fail(const char* what) { stop("%s", what); }

void wait_for(Wait wait, uint32_t bytes, const Site* site) {
    Fibre* me = static_cast<Fibre*>(here);
    Warp& warp = *me->warp;
    me->route.calls[0] = site;
    if (me->place == 0) {
        warp.wait = wait;
        warp.bytes = bytes;
        warp.route = me->route;
    } else if (warp.wait != wait || !same_route(warp.route, me->route)) {
        stop_apart("thread %u has come to %s%s, but thread %u of its warp to %s%s", me, wait,
                   machine->firsts[me->warp_place], warp.wait, warp.route);
    } else if (warp.bytes != bytes) {
        stop("thread %u exchanges %u bytes, but thread %u of its warp %u", me->index.x, bytes,
             machine->firsts[me->warp_place]->index.x, warp.bytes);
    }
    bool ends = wait == Wait::End;
    // The next lane; after the last one the first, which goes on only if no other warp need come here.
    Fibre* to = me->next;
    if (me->place == LANES - 1) {
        if (wait == Wait::Exchange || wait == Wait::SyncWarp) {
            warp.turn ^= 1;
        } else {
            to = after_the_warp(*machine, me, wait);
        }
    }
    void* barrier = barrier_object(*me, wait);
    if (barrier != nullptr) publish(barrier);
    // All fibres switch here, so that the processor predicts the switch's return.
    here = to;
    switch_context(me->context, to == nullptr ? machine->caller : to->context, ends);
    if (barrier != nullptr) observe(barrier);
}

void* shared_memory(const void* site, size_t bytes, const char* name) {
    Machine& m = *machine;
    for (Shared& shared : m.shared) {
        if (shared.site == site) return shared.memory;
    }
    m.static_shared += (bytes + 15) / 16 * 16;
    if (m.static_shared > MOST_STATIC_SHARED) stop("with %s there are %zu bytes of static shared memory", name, m.static_shared);
    m.shared.push_back({site, ones(bytes)});
    return m.shared.back().memory;
}

void* dynamic_shared_memory() { return machine->dynamic_shared; }

void copy_later(void* to, const void* from, uint32_t bytes) {
    if (bytes != 4 && bytes != 8 && bytes != 16) stop("an asynchronous copy of %u bytes", bytes);
    if (reinterpret_cast<uintptr_t>(to) % bytes != 0 || reinterpret_cast<uintptr_t>(from) % bytes != 0) {
        stop("an asynchronous copy of %u bytes from or to an address that is no multiple of that", bytes);
    }
    Fibre* me = static_cast<Fibre*>(here);
    issue_copy(*me, to, from, bytes);
    Unseen unseen;
    Copy copy = {to, bytes, me->groups, {}};
    if (from != nullptr) memcpy(copy.from, from, bytes);
    memset(to, 0xff, bytes);
    me->copies.push_back(copy);
}

void commit_copies() { static_cast<Fibre*>(here)->groups += 1; }

void wait_copies(uint32_t pending) {
    Fibre* me = static_cast<Fibre*>(here);
    finish_copies(*me);
    Unseen unseen;
    size_t done = 0;
    while (done < me->copies.size() && me->copies[done].group + pending < me->groups) {
        memcpy(me->copies[done].to, me->copies[done].from, me->copies[done].bytes);
        ++done;
    }
    me->copies.erase(me->copies.begin(), me->copies.begin() + static_cast<ptrdiff_t>(done));
}

int wrong_arguments(const char* kernel, const char* kinds, char* message, size_t message_size) {
    snprintf(message, message_size, "kernel %s: its parameters are \"%s\" (p: address, u: u32, f: float)", kernel, kinds);
    return 1;
}

int launch(const char* kernel, uint32_t most_threads, const LaunchParameters* parameters, const Call& call, char* message,
           size_t message_size) {
    if (parameters->threads == 0 || parameters->threads % LANES != 0 || parameters->threads > most_threads ||
        parameters->threads > MOST_THREADS) {
        snprintf(message, message_size, "kernel %s: %u threads a block; it takes a multiple of 32 of at most %u", kernel,
                 parameters->threads, most_threads);
        return 1;
    }
    if (parameters->grid_x == 0 || parameters->grid_y == 0 || parameters->grid_y > 65535 ||
        parameters->first_x >= parameters->grid_x || parameters->first_y >= parameters->grid_y) {
        snprintf(message, message_size, "kernel %s: %u x %u blocks", kernel, parameters->grid_x, parameters->grid_y);
        return 1;
    }
    std::unique_ptr<Machine> taken = take_machine();
    Machine& m = *taken;
    machine = &m;
    m.call = &call;
    m.error[0] = 0;
    m.caller = Context();
    m.caller.actor = present_actor();
    m.block.dimension = {parameters->threads, 1, 1};
    m.block.grid = {parameters->grid_x, parameters->grid_y, 1};
    line_up(m, *parameters);
    for (uint32_t y : ordered(*parameters, parameters->first_y, parameters->grid_y, MOST_THREADS)) {
        for (uint32_t x : ordered(*parameters, parameters->first_x, parameters->grid_x, MOST_THREADS + 1 + y)) {
            m.block.index = {x, y, 0};
            run_block(m, *parameters);
            if (m.error[0] == 0) continue;
            snprintf(message, message_size, "kernel %s, block (%u, %u): %s", kernel, x, y, m.error);
#ifdef __SANITIZE_ADDRESS__
            // Frames that never return leave their red zones.
            for (auto& fibre : m.fibres) __asan_unpoison_memory_region(fibre->stack, STACK);
#endif
            machine = nullptr;
            give_back(std::move(taken));
            return 1;
        }
    }
    observe(&m);
    machine = nullptr;
    give_back(std::move(taken));
    return 0;
}

}  // namespace hopeval

// Ends the launch on this thread, from a signal's handler, too; returns if there is none.
extern "C" __attribute__((visibility("default"))) void emulator_end_launch(const char* message) {
    if (hopeval::here != nullptr) hopeval::fail(message);
}
