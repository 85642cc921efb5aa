//! Examines the machine, the store and the settings as a run would find them, and reports possible faults.
//!
//! Variables may hold secrets, so the report shows only whether they are set.

mod cuda;
mod machine;

use hopeval_cuda::machine::CudaFacts;
use std::fmt;
use std::path::Path;

const GIB: f64 = (1u64 << 30) as f64;

/// The health of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FactHealth {
    /// Nothing to do.
    Fine,
    /// A run may fail or be slow.
    Doubtful,
    /// A run will fail.
    Broken,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoctorFact {
    /// The examined thing.
    pub name: &'static str,
    /// The finding.
    pub found: String,
    /// Its health.
    pub health: FactHealth,
    /// A hint; may be empty.
    pub note: String,
}

/// All findings, in a fixed order. Its `Display` is a Markdown table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoctorReport {
    /// The facts.
    pub facts: Vec<DoctorFact>,
}

/// The examined things besides the machine.
pub struct DoctorSubject<'a> {
    /// The user's name of the store.
    pub store: &'a str,
    /// Its folder, if it is a local one; it need not exist.
    pub folder: Option<&'a Path>,
    /// Writes, reads and deletes something in the store. The error names the failed step.
    pub probe: &'a dyn Fn() -> Result<(), String>,
    /// Whether a variable of the environment is set and not empty.
    pub is_set: &'a dyn Fn(&str) -> bool,
}

impl fmt::Debug for DoctorSubject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("store", &self.store).field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Whether a variable of this process's environment is set and not empty.
pub fn env_is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Examines everything. Takes as long as the probe of the store.
pub fn examine(subject: &DoctorSubject<'_>) -> DoctorReport {
    let mut facts = vec![
        fine("hopeval", env!("CARGO_PKG_VERSION"), ""),
        fine("target", machine::target(), ""),
        machine::cores_fact(),
        machine::memory_fact(&|path| std::fs::read_to_string(path).ok()),
        fine("CPU features", machine::features(), ""),
    ];
    facts.extend(cuda::cuda_facts(&CudaFacts::collect_facts()));
    facts.extend([machine::open_files_fact(), store_fact(subject)]);
    facts.extend(subject.folder.map(machine::disk_fact));
    for (name, note) in [
        ("HF_HOME", "models named ORG/NAME lie below it"),
        ("HF_HUB_CACHE", "models named ORG/NAME lie there, before HF_HOME"),
    ] {
        facts.push(fine(name, if (subject.is_set)(name) { "set" } else { "not set" }, note));
    }
    DoctorReport { facts }
}

impl DoctorReport {
    /// The worst of all.
    pub fn health(&self) -> FactHealth {
        self.facts.iter().map(|fact| fact.health).max().unwrap_or(FactHealth::Fine)
    }
}

impl fmt::Display for DoctorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.facts.iter().map(|fact| {
            let health = match fact.health {
                FactHealth::Fine => "ok",
                FactHealth::Doubtful => "check",
                FactHealth::Broken => "BROKEN",
            };
            [fact.name, fact.found.as_str(), health, fact.note.as_str()].map(cell_text)
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

/// Text made safe for a cell: on one line, with escaped bars.
fn cell_text(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn fine(name: &'static str, found: impl Into<String>, note: &str) -> DoctorFact {
    DoctorFact { name, found: found.into(), health: FactHealth::Fine, note: note.to_owned() }
}

fn doubtful(name: &'static str, found: impl Into<String>, note: &str) -> DoctorFact {
    DoctorFact { health: FactHealth::Doubtful, ..fine(name, found, note) }
}

fn store_fact(subject: &DoctorSubject<'_>) -> DoctorFact {
    match (subject.probe)() {
        Ok(()) => fine("store", format!("{} can be read and written", subject.store), ""),
        Err(why) => DoctorFact {
            health: FactHealth::Broken,
            ..fine("store", format!("{} cannot be used", subject.store), &why)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact<'a>(report: &'a DoctorReport, name: &str) -> &'a DoctorFact {
        report.facts.iter().find(|fact| fact.name == name).unwrap()
    }

    #[test]
    fn a_usable_machine_is_not_broken_and_secrets_stay_unseen() {
        let folder = tempfile::tempdir().unwrap();
        let report = examine(&DoctorSubject {
            store: "store",
            folder: Some(&folder.path().join("not/yet/there")),
            probe: &|| Ok(()),
            is_set: &|name| name == "HF_HOME",
        });
        assert!(report.health() < FactHealth::Broken, "{report}");
        assert_eq!(fact(&report, "hopeval").found, env!("CARGO_PKG_VERSION"));
        assert!(fact(&report, "cores").found.parse::<usize>().unwrap() > 0);
        assert!(fact(&report, "disk of the store").found.ends_with("GiB free"), "{report}");
        assert_eq!(fact(&report, "HF_HOME").found, "set");
        assert_eq!(fact(&report, "HF_HUB_CACHE").found, "not set");
    }

    #[test]
    fn a_store_that_fails_is_named_with_its_reason() {
        let report = examine(&DoctorSubject {
            store: "s3://bucket/runs",
            folder: None,
            probe: &|| Err("403 Forbidden\nAccessDenied | try again".to_owned()),
            is_set: &|_| false,
        });
        assert_eq!(report.health(), FactHealth::Broken);
        let text = report.to_string();
        let line = text.lines().find(|line| line.contains("s3://bucket/runs cannot be used")).unwrap();
        assert!(line.contains("| BROKEN |") && line.contains("403 Forbidden AccessDenied \\| try again"), "{line}");
        assert!(report.facts.iter().all(|fact| fact.name != "disk of the store"));
    }

    #[test]
    fn the_table_is_markdown_of_even_width() {
        let facts = vec![fine("a", "é", ""), doubtful("longer", "x", "do this")];
        let text = DoctorReport { facts }.to_string();
        let want = "|        | found |       | note    |\n\
                    |--------|-------|-------|---------|\n\
                    | a      | é     | ok    |         |\n\
                    | longer | x     | check | do this |\n";
        assert_eq!(text, want);
    }
}
