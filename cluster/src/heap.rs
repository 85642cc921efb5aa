//! Sets the C library's allocator: large blocks stay out of its heaps, and its heaps are few.

/// Blocks of this size and more are mapped one by one: 4 MiB. Smaller ones than these are allocated so often, while
/// models are computed, that mapping them costs the system time (from 2 MiB on 6 s of a run of 95 s; from here half a
/// second).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_FROM: nix::libc::c_int = 4 << 20;

/// Sets the allocator's limits. Each of them is kept where the environment sets it (`MALLOC_MMAP_THRESHOLD_`,
/// `MALLOC_TRIM_THRESHOLD_`, `MALLOC_ARENA_MAX`). Must be called before the process has a second thread.
///
/// * Each large block is mapped by itself, and returned to the system as soon as it is freed. Left to itself, glibc
///   raises its limit up to 32 MiB with each such block that is freed. From then on large short-lived blocks lie in the
///   heap between small long-lived ones, and the heap grows: the tables of 1,680,000 outcomes took 284 MB where 177 do,
///   and the example run 620 MB where 512 do. So much free memory may stay at the heap's end, too.
/// * There are as many heaps (*arenas*) as cores. glibc makes eight for each core, so that every thread has one. A run
///   has some twenty threads which mostly wait, and what one allocates another frees: the prompt of a call, a row of a
///   table. Its memory is then free in one heap and taken anew from another.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn set_limits() {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let arenas = nix::libc::c_int::try_from(cores).unwrap_or(nix::libc::c_int::MAX);
    let parameters = [
        ("MALLOC_MMAP_THRESHOLD_", nix::libc::M_MMAP_THRESHOLD, MAPPED_FROM),
        ("MALLOC_TRIM_THRESHOLD_", nix::libc::M_TRIM_THRESHOLD, MAPPED_FROM),
        ("MALLOC_ARENA_MAX", nix::libc::M_ARENA_MAX, arenas),
    ];
    for (_, parameter, value) in parameters.into_iter().filter(|(variable, ..)| std::env::var_os(variable).is_none()) {
        // SAFETY: the call only changes a parameter of the allocator. It must not run beside other calls of the
        // allocator: the process has one thread yet. A refused value (result 0) leaves the default.
        unsafe { nix::libc::mallopt(parameter, value) };
    }
}

/// Does nothing with other C libraries.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn set_limits() {}
