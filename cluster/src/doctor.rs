//! Looks at the machine, the store and the settings as a run would find them, and says what may be wrong.
//!
//! Values of variables that may hold a secret are never shown, only whether they are set.

mod cuda;

use hopeval_cuda::machine::Facts;
use std::fmt;
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;

/// Open files below which a run over several processes and segments may fail.
const FILES: u64 = 1024;
/// Free bytes of the store below which a run is likely to fail.
const DISK: u64 = 1 << 30;
const GIB: f64 = (1u64 << 30) as f64;

/// How good a fact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Nothing to do.
    Fine,
    /// A run may fail or be slow.
    Doubtful,
    /// A run will fail.
    Broken,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What was looked at.
    pub name: &'static str,
    /// What was found.
    pub found: String,
    /// How good that is.
    pub health: Health,
    /// What to do or to know about it; may be empty.
    pub note: String,
}

/// Everything that was found, in a fixed order. Its `Display` is a Markdown table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The facts.
    pub facts: Vec<Fact>,
}

/// What the report is to look at besides the machine.
pub struct Subject<'a> {
    /// The store, as the user names it.
    pub store: &'a str,
    /// Its folder, if it is a local one; it need not exist.
    pub folder: Option<&'a Path>,
    /// Writes, reads and deletes something in the store; an error says what failed.
    pub probe: &'a dyn Fn() -> Result<(), String>,
    /// Whether a variable of the environment is set and not empty.
    pub is_set: &'a dyn Fn(&str) -> bool,
}

impl fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("store", &self.store).field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Whether a variable of this process's environment is set and not empty.
pub fn env_is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Looks at everything. Takes as long as the probe of the store.
pub fn examine(subject: &Subject<'_>) -> Report {
    let mut facts = vec![
        fine("hopeval", env!("CARGO_PKG_VERSION"), ""),
        fine("target", target(), ""),
        cores(),
        memory(&|path| std::fs::read_to_string(path).ok()),
        fine("CPU features", features(), ""),
    ];
    facts.extend(cuda::facts(&Facts::gather()));
    facts.extend([files(), store(subject)]);
    facts.extend(subject.folder.map(disk));
    for (name, note) in [
        ("HF_HOME", "models named ORG/NAME lie below it"),
        ("HF_HUB_CACHE", "models named ORG/NAME lie there, before HF_HOME"),
    ] {
        facts.push(fine(name, if (subject.is_set)(name) { "set" } else { "not set" }, note));
    }
    Report { facts }
}

impl Report {
    /// The worst of all.
    pub fn health(&self) -> Health {
        self.facts.iter().map(|fact| fact.health).max().unwrap_or(Health::Fine)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.facts.iter().map(|fact| {
            let health = match fact.health {
                Health::Fine => "ok",
                Health::Doubtful => "check",
                Health::Broken => "BROKEN",
            };
            [fact.name, fact.found.as_str(), health, fact.note.as_str()].map(cell)
        });
        let head = ["", "found", "", "note"].map(str::to_owned);
        let rows: Vec<[String; 4]> = std::iter::once(head).chain(rows).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(3);
        let widths: [usize; 4] = std::array::from_fn(width);
        for (at, row) in rows.iter().enumerate() {
            for (cell, width) in row.iter().zip(widths) {
                write!(f, "| {cell:width$} ")?;
            }
            writeln!(f, "|")?;
            if at == 0 {
                widths.iter().try_for_each(|width| write!(f, "|{:-<1$}", "", width + 2))?;
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

/// Text that does not end its cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn fine(name: &'static str, found: impl Into<String>, note: &str) -> Fact {
    Fact { name, found: found.into(), health: Health::Fine, note: note.to_owned() }
}

fn doubtful(name: &'static str, found: impl Into<String>, note: &str) -> Fact {
    Fact { health: Health::Doubtful, ..fine(name, found, note) }
}

fn target() -> String {
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

fn cores() -> Fact {
    match std::thread::available_parallelism() {
        Ok(n) => fine("cores", n.to_string(), "as many as this process may use"),
        Err(e) => doubtful("cores", "unknown", &e.to_string()),
    }
}

/// Memory of the machine, or of the control group if that is less. `read` gives the text of a file.
fn memory(read: &dyn Fn(&str) -> Option<String>) -> Fact {
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

/// Vector extensions that kernels choose by.
#[cfg(target_arch = "x86_64")]
fn features() -> String {
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
fn features() -> String {
    "not looked for on this architecture".to_owned()
}

fn files() -> Fact {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) if soft < FILES => {
            doubtful("open files", format!("{soft} of {hard}"), "raise it: ulimit -n 4096")
        }
        Ok((soft, hard)) => fine("open files", format!("{soft} of {hard}"), ""),
        Err(e) => doubtful("open files", "unknown", &e.to_string()),
    }
}

fn store(subject: &Subject<'_>) -> Fact {
    match (subject.probe)() {
        Ok(()) => fine("store", format!("{} can be read and written", subject.store), ""),
        Err(why) => Fact { health: Health::Broken, ..fine("store", format!("{} cannot be used", subject.store), &why) },
    }
}

/// Free space where `folder` is or will be.
fn disk(folder: &Path) -> Fact {
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

    fn fact<'a>(report: &'a Report, name: &str) -> &'a Fact {
        report.facts.iter().find(|fact| fact.name == name).unwrap()
    }

    #[test]
    fn a_usable_machine_is_not_broken_and_secrets_stay_unseen() {
        let folder = tempfile::tempdir().unwrap();
        let report = examine(&Subject {
            store: "store",
            folder: Some(&folder.path().join("not/yet/there")),
            probe: &|| Ok(()),
            is_set: &|name| name == "HF_HOME",
        });
        assert!(report.health() < Health::Broken, "{report}");
        assert_eq!(fact(&report, "hopeval").found, env!("CARGO_PKG_VERSION"));
        assert!(fact(&report, "cores").found.parse::<usize>().unwrap() > 0);
        assert!(fact(&report, "disk of the store").found.ends_with("GiB free"), "{report}");
        assert_eq!(fact(&report, "HF_HOME").found, "set");
        assert_eq!(fact(&report, "HF_HUB_CACHE").found, "not set");
    }

    #[test]
    fn a_store_that_fails_is_named_with_its_reason() {
        let report = examine(&Subject {
            store: "s3://bucket/runs",
            folder: None,
            probe: &|| Err("403 Forbidden\nAccessDenied | try again".to_owned()),
            is_set: &|_| false,
        });
        assert_eq!(report.health(), Health::Broken);
        let text = report.to_string();
        let line = text.lines().find(|line| line.contains("s3://bucket/runs cannot be used")).unwrap();
        assert!(line.contains("| BROKEN |") && line.contains("403 Forbidden AccessDenied \\| try again"), "{line}");
        assert!(report.facts.iter().all(|fact| fact.name != "disk of the store"));
    }

    #[test]
    fn the_table_is_markdown_of_even_width() {
        let facts = vec![fine("a", "é", ""), doubtful("longer", "x", "do this")];
        let text = Report { facts }.to_string();
        let want = "|        | found |       | note    |\n\
                    |--------|-------|-------|---------|\n\
                    | a      | é     | ok    |         |\n\
                    | longer | x     | check | do this |\n";
        assert_eq!(text, want);
    }

    #[test]
    fn the_limit_of_a_container_counts() {
        let meminfo = "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\n";
        let with = |limit: &str| {
            let limit = limit.to_owned();
            memory(&move |path| Some(if path == "/proc/meminfo" { meminfo.to_owned() } else { limit.clone() })).found
        };
        assert_eq!(with("max\n"), "16.0 GiB, 8.0 available");
        assert_eq!(with("2147483648\n"), "16.0 GiB, 8.0 available; limited to 2.0 GiB");
        assert_eq!(memory(&|_| None).health, Health::Doubtful);
    }
}
