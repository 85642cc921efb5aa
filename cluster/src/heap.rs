//! Keeps large blocks out of the C library's heap.

/// Blocks of this size and more are mapped one by one: 4 MiB. Smaller ones than these are allocated so often, while
/// models are computed, that mapping them costs the system time (from 2 MiB on 6 s of a run of 95 s; from here half a
/// second).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_FROM: nix::libc::c_int = 4 << 20;

/// Makes the C library map each large block by itself and return it to the system as soon as it is freed.
///
/// Left to itself, glibc raises its limit up to 32 MiB with each such block that is freed. From then on large
/// short-lived blocks lie in the heap between small long-lived ones, and the heap grows: the tables of 1,680,000
/// outcomes took 284 MB where 177 do, and the example run 620 MB where 512 do. So much free memory may stay at the
/// heap's end, too. A `MALLOC_MMAP_THRESHOLD_` or `MALLOC_TRIM_THRESHOLD_` of the environment is kept. Must be called
/// before the process has a second thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn map_large_blocks() {
    let parameters = [
        ("MALLOC_MMAP_THRESHOLD_", nix::libc::M_MMAP_THRESHOLD),
        ("MALLOC_TRIM_THRESHOLD_", nix::libc::M_TRIM_THRESHOLD),
    ];
    for (_, parameter) in parameters.into_iter().filter(|(variable, _)| std::env::var_os(variable).is_none()) {
        // SAFETY: the call only changes a parameter of the allocator. It must not run beside other calls of the
        // allocator: the process has one thread yet. A refused value (result 0) leaves the default.
        unsafe { nix::libc::mallopt(parameter, MAPPED_FROM) };
    }
}

/// Does nothing with other C libraries.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn map_large_blocks() {}
