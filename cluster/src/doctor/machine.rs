//! Facts of the machine: processor, memory, open files, disk.

use super::{DoctorFact, GIB, doubtful, fine};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;
use std::path::Path;

/// Open files below which a run over several processes and segments may fail.
const FILES: u64 = 1024;
/// Free bytes of the store below which a run is likely to fail.
const DISK: u64 = 1 << 30;

pub(super) fn target() -> String {
    let environment = if cfg!(target_env = "musl") {
        "-musl"
    } else if cfg!(target_env = "gnu") {
        "-gnu"
    } else {
        ""
    };
    let mode = if cfg!(debug_assertions) { " (debug build: slow)" } else { "" };
    format!("{}-{}{environment}{mode}", std::env::consts::ARCH, std::env::consts::OS)
}

pub(super) fn cores_fact() -> DoctorFact {
    match std::thread::available_parallelism() {
        Ok(n) => fine("cores", n.to_string(), "as many as this process may use"),
        Err(e) => doubtful("cores", "unknown", &e.to_string()),
    }
}

/// Memory of the machine, or of the control group if it has less. `read` gives the text of a file.
pub(super) fn memory_fact(read: &dyn Fn(&str) -> Option<String>) -> DoctorFact {
    let meminfo = read("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
    };
    let limit = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse::<u64>().ok());
    let (Some(total), Some(free)) = (field("MemTotal"), field("MemAvailable")) else {
        return doubtful("memory", "unknown", "there is no /proc/meminfo");
    };
    let found = format!("{:.1} GiB, {:.1} available", total as f64 / GIB, free as f64 / GIB);
    match limit {
        Some(limit) if limit < total => fine(
            "memory",
            format!("{found}; limited to {:.1} GiB", limit as f64 / GIB),
            "the limit of the control group",
        ),
        _ => fine("memory", found, ""),
    }
}

/// Vector extensions, which decide the choice of kernels.
#[cfg(target_arch = "x86_64")]
pub(super) fn features() -> String {
    let known = [
        ("avx2", std::is_x86_feature_detected!("avx2")),
        ("fma", std::is_x86_feature_detected!("fma")),
        ("avx512f", std::is_x86_feature_detected!("avx512f")),
        ("avx512bf16", std::is_x86_feature_detected!("avx512bf16")),
        ("avx512vnni", std::is_x86_feature_detected!("avx512vnni")),
    ];
    let have: Vec<&str> = known.into_iter().filter_map(|(name, has)| has.then_some(name)).collect();
    if have.is_empty() { "none beyond x86-64".to_owned() } else { have.join(", ") }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn features() -> String {
    "not looked for on this architecture".to_owned()
}

pub(super) fn open_files_fact() -> DoctorFact {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) if soft < FILES => {
            doubtful("open files", format!("{soft} of {hard}"), "raise it: ulimit -n 4096")
        }
        Ok((soft, hard)) => fine("open files", format!("{soft} of {hard}"), ""),
        Err(e) => doubtful("open files", "unknown", &e.to_string()),
    }
}

/// Free space on the disk of `folder`, which need not exist yet.
pub(super) fn disk_fact(folder: &Path) -> DoctorFact {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let existing = absolute.ancestors().find(|path| path.exists()).unwrap_or(&absolute);
    match statvfs(existing) {
        Ok(stat) => {
            let free = stat.blocks_available().saturating_mul(stat.fragment_size());
            let found = format!("{:.1} GiB free", free as f64 / GIB);
            let place = existing.display().to_string();
            if free < DISK {
                doubtful("disk of the store", found, &place)
            } else {
                fine("disk of the store", found, &place)
            }
        }
        Err(e) => doubtful("disk of the store", "unknown", &e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::FactHealth;

    #[test]
    fn the_limit_of_a_container_counts() {
        let meminfo = "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\n";
        let with = |limit: &str| {
            let limit = limit.to_owned();
            memory_fact(&move |path| Some(if path == "/proc/meminfo" { meminfo.to_owned() } else { limit.clone() }))
                .found
        };
        assert_eq!(with("max\n"), "16.0 GiB, 8.0 available");
        assert_eq!(with("2147483648\n"), "16.0 GiB, 8.0 available; limited to 2.0 GiB");
        assert_eq!(memory_fact(&|_| None).health, FactHealth::Doubtful);
    }
}
