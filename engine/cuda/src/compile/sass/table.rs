//! The table of `ops/bench/gpu/sass.md`: a row for each kernel and architecture, and what changed against an older one.

use super::counts::{SassCounts, count_instructions};
use super::flow::InstructionRate;
use super::{ListingError, parse_listings};
use crate::attention::dynamic_shared;
use crate::compile::occupancy::{BlockResources, MultiprocessorLimits, TheoreticalOccupancy};
use crate::compile::resources::{ARCHITECTURES, FamilyResources};
use crate::kernels::KernelFamily;
use crate::machine::GpuArchitecture;
use std::collections::BTreeMap;
use std::thread;
use std::{fmt, io, panic};

/// Families that work number by number: for these the table has instructions of a number.
const NUMBER_BY_NUMBER: [&str; 4] = ["rows", "norm", "activation", "rotary"];

/// A row of the table.
#[derive(Clone, Debug)]
pub struct KernelRow {
    /// The file of the kernel.
    pub family: &'static str,
    /// The kernel.
    pub kernel: &'static str,
    /// The target.
    pub architecture: GpuArchitecture,
    /// Its instructions.
    pub counts: SassCounts,
    /// How many of its largest blocks run at once.
    pub occupancy: TheoreticalOccupancy,
}

/// A row that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// The disassembler failed.
    #[error("nvdisasm of {family}.cu for {architecture}")]
    Disassembler {
        /// The file.
        family: &'static str,
        /// The target.
        architecture: GpuArchitecture,
        /// Its answer.
        source: io::Error,
    },
    /// Its text has another form than the one known here.
    #[error("the listing of {family}.cu for {architecture}")]
    Listing {
        /// The file.
        family: &'static str,
        /// The target.
        architecture: GpuArchitecture,
        /// The place.
        source: ListingError,
    },
    /// A kernel has no code, or ptxas told nothing of it.
    #[error("{kernel} has no code or no registers for {architecture}")]
    Absent {
        /// The kernel.
        kernel: &'static str,
        /// The target.
        architecture: GpuArchitecture,
    },
}

/// Whether a larger count is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountPreference {
    /// Fewer are better.
    Fewer,
    /// More are better.
    More,
    /// It depends.
    Neither,
}

/// A column: its title, and the parts of its cells with their preferences. ` / ` lies between parts.
type TableColumn = (&'static str, &'static [(&'static str, CountPreference)]);

use CountPreference::{Fewer, More, Neither};

const BY_WIDTH: [(&str, CountPreference); 5] =
    [("128", More), ("64", Neither), ("32", Fewer), ("16", Fewer), ("8", Fewer)];

/// All columns behind the kernel and its architecture.
const COLUMNS: [TableColumn; 14] = [
    ("HMMA", &[("count", Neither)]),
    ("types", &[("types", Neither)]),
    ("LDSM", &[("plain", Neither), ("transposed", Neither)]),
    ("LDGSTS", &[("128", Neither), ("narrower", Fewer)]),
    ("LDG", &BY_WIDTH),
    ("STG", &BY_WIDTH),
    ("local", &[("count", Fewer)]),
    ("calls", &[("division", Fewer), ("other", Fewer)]),
    ("MUFU", &[("count", Fewer)]),
    ("BAR", &[("count", Fewer)]),
    ("all", &[("count", Fewer)]),
    ("loop", &[("count", Fewer)]),
    ("a number", &[("shortest", Fewer), ("longest", Fewer)]),
    ("occupancy", &[("blocks", Neither), ("percent", More), ("bound", Neither)]),
];

/// Disassembles all families for those of [`ARCHITECTURES`] with known limits, and counts. Rows are in the order of
/// families, kernels and architectures.
///
/// # Errors
/// [`RowError`].
pub fn measure_rows(
    measured: &[FamilyResources],
    disassemble: &(dyn Fn(&[u8]) -> io::Result<String> + Sync),
) -> Result<Vec<KernelRow>, RowError> {
    let targets = ARCHITECTURES.into_iter().enumerate();
    let targets = targets.filter_map(|(column, target)| Some((column, MultiprocessorLimits::of(target)?)));
    let columns = thread::scope(|scope| {
        let measure_all = move |(column, limits): (usize, MultiprocessorLimits)| {
            let rows = measured.iter().map(|family| measure_family(family, column, &limits, disassemble));
            rows.collect::<Result<Vec<_>, _>>()
        };
        let threads: Vec<_> = targets.map(|target| scope.spawn(move || measure_all(target))).collect();
        let joined =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)));
        joined.collect::<Result<Vec<_>, _>>()
    })?;
    let kernels =
        measured.iter().enumerate().flat_map(|(at, family)| (0..family.family.kernels.len()).map(move |k| (at, k)));
    Ok(kernels.flat_map(|(at, kernel)| columns.iter().map(move |rows| rows[at][kernel].clone())).collect())
}

/// The rows of a family's kernels for the architecture of this column.
fn measure_family(
    measured: &FamilyResources,
    column: usize,
    limits: &MultiprocessorLimits,
    disassemble: &(dyn Fn(&[u8]) -> io::Result<String> + Sync),
) -> Result<Vec<KernelRow>, RowError> {
    let architecture = ARCHITECTURES[column];
    let KernelFamily { name: family, kernels, .. } = *measured.family;
    let text = disassemble(&measured.cubins[column]).map_err(|source| RowError::Disassembler {
        family,
        architecture,
        source,
    })?;
    let listings = parse_listings(&text).map_err(|source| RowError::Listing { family, architecture, source })?;
    let row = |&kernel: &&'static str| {
        let listing = listings.iter().find(|listing| listing.kernel == kernel);
        let resources = measured.kernels[column].iter().find(|resources| resources.kernel == kernel);
        let threads = measured.family.block_threads(kernel);
        let (Some(listing), Some(resources), Some(threads)) = (listing, resources, threads) else {
            return Err(RowError::Absent { kernel, architecture });
        };
        let number = if kernel.ends_with("_f32") { 4 } else { 2 };
        let counts = count_instructions(listing, NUMBER_BY_NUMBER.contains(&family).then_some(number));
        let shared = resources.shared as usize + dynamic_shared(kernel);
        let occupancy = limits.occupancy(BlockResources { threads, registers: resources.registers, shared });
        Ok(KernelRow { family, kernel, architecture, counts, occupancy })
    };
    kernels.iter().map(row).collect()
}

/// The table, without any text around it.
pub fn format_rows(rows: &[KernelRow]) -> String {
    let titles = COLUMNS.iter().map(|(title, parts)| match parts {
        [_] => (*title).to_owned(),
        parts => format!("{title}: {}", parts.iter().map(|(part, _)| *part).collect::<Vec<_>>().join(" / ")),
    });
    let mut table = format!("| kernel | for | {} |\n", titles.collect::<Vec<_>>().join(" | "));
    table += &format!("|{}\n", " --- |".repeat(2 + COLUMNS.len()));
    for KernelRow { kernel, architecture, counts, occupancy, .. } in rows {
        table += &format!("| `{kernel}` | {architecture} | {} |\n", format_cells(counts, occupancy).join(" | "));
    }
    table
}

/// The cells of [`COLUMNS`].
fn format_cells(counts: &SassCounts, occupancy: &TheoreticalOccupancy) -> [String; COLUMNS.len()] {
    let join = |parts: &[usize]| parts.iter().map(usize::to_string).collect::<Vec<_>>().join(" / ");
    let types: Vec<&str> = counts.hmma_types.iter().map(String::as_str).collect();
    let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.1}"));
    let (shortest, longest) =
        counts.rate.map_or((None, None), |InstructionRate { shortest, longest }| (shortest, Some(longest)));
    let TheoreticalOccupancy { blocks, percent, bound } = occupancy;
    [
        join(&[counts.hmma]),
        if types.is_empty() { "-".to_owned() } else { types.join(", ") },
        join(&[counts.ldsm, counts.ldsm_transposed]),
        join(&[counts.ldgsts_wide, counts.ldgsts_narrow]),
        join(&counts.loads),
        join(&counts.stores),
        join(&[counts.local]),
        join(&[counts.division_calls, counts.other_calls]),
        join(&[counts.mufu]),
        join(&[counts.bar]),
        join(&[counts.all]),
        join(&[counts.longest_loop]),
        format!("{} / {}", rate(shortest), rate(longest)),
        format!("{blocks} / {percent} / {bound}"),
    ]
}

/// How a count moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeDirection {
    /// For the worse.
    Worse,
    /// It is neither better nor worse by itself, or its row or column came or went.
    Other,
    /// For the better.
    Better,
}

/// A difference between two tables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableChange {
    /// Its direction.
    pub direction: ChangeDirection,
    /// Kernel, architecture, and the count.
    pub place: String,
    /// Before and after.
    pub values: (String, String),
}

impl fmt::Display for TableChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = match self.direction {
            ChangeDirection::Worse => "worse",
            ChangeDirection::Other => "changed",
            ChangeDirection::Better => "better",
        };
        write!(f, "{direction}: {}: {} -> {}", self.place, self.values.0, self.values.1)
    }
}

/// All differences of two documents' tables, the worse ones first. Text around the tables does not count.
pub fn find_changes(before: &str, after: &str) -> Vec<TableChange> {
    let (before, after) = (read_rows(before), read_rows(after));
    let mut changes = Vec::new();
    for (place, old) in &before {
        match after.get(place) {
            Some(new) => changes.extend(compare_cells(place, old, new)),
            None => changes.push(other_change(place.clone(), "a row", "none")),
        }
    }
    let came = after.keys().filter(|place| !before.contains_key(*place));
    changes.extend(came.map(|place| other_change(place.clone(), "none", "a row")));
    changes.sort();
    changes
}

fn other_change(place: String, before: &str, after: &str) -> TableChange {
    TableChange { direction: ChangeDirection::Other, place, values: (before.to_owned(), after.to_owned()) }
}

/// The cells behind each "`kernel` for architecture".
fn read_rows(text: &str) -> BTreeMap<String, Vec<&str>> {
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        if let (true, Some(kernel), Some(architecture)) = (line.starts_with("| `"), cells.next(), cells.next()) {
            rows.insert(format!("{kernel} for {architecture}"), cells.collect());
        }
    }
    rows
}

fn compare_cells(place: &str, before: &[&str], after: &[&str]) -> Vec<TableChange> {
    if before.len() != after.len() || after.len() != COLUMNS.len() {
        return vec![other_change(place.to_owned(), &before.join(" | "), &after.join(" | "))];
    }
    let mut changes = Vec::new();
    for (((title, parts), old), new) in COLUMNS.iter().zip(before).zip(after) {
        let (old, new): (Vec<&str>, Vec<&str>) = (old.split(" / ").collect(), new.split(" / ").collect());
        if old.len() != parts.len() || new.len() != parts.len() {
            changes.push(other_change(format!("{place}: {title}"), &old.join(" / "), &new.join(" / ")));
            continue;
        }
        for (((part, preference), old), new) in parts.iter().zip(old).zip(new).filter(|((_, old), new)| old != new) {
            let direction = direction(*preference, old, new);
            let place = format!("{place}: {title}, {part}");
            changes.push(TableChange { direction, place, values: (old.to_owned(), new.to_owned()) });
        }
    }
    changes
}

fn direction(preference: CountPreference, before: &str, after: &str) -> ChangeDirection {
    let (Ok(before), Ok(after)) = (before.parse::<f64>(), after.parse::<f64>()) else { return ChangeDirection::Other };
    match (preference, after > before) {
        (Neither, _) => ChangeDirection::Other,
        (Fewer, true) | (More, false) => ChangeDirection::Worse,
        (Fewer, false) | (More, true) => ChangeDirection::Better,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LISTING, example};
    use super::*;
    use crate::compile::resources::KernelResources;
    use crate::kernels::FAMILIES;
    use std::{array, slice};

    fn rows() -> Vec<KernelRow> {
        let occupancy = TheoreticalOccupancy { blocks: 8, percent: 100.0, bound: "warps" };
        let counts = count_instructions(&example(), Some(2));
        let architecture = GpuArchitecture::new(9, 0);
        vec![KernelRow { family: "activation", kernel: "gate_bf16", architecture, counts, occupancy }]
    }

    #[test]
    fn a_row_has_all_counts() {
        let table = format_rows(&rows());
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("| kernel | for | HMMA | types | LDSM: plain / transposed |"), "{table}");
        assert_eq!(
            lines[2],
            "| `gate_bf16` | sm_90 | 0 | - | 0 / 0 | 0 / 0 | 1 / 0 / 1 / 0 / 0 | 1 / 0 / 0 / 1 / 0 | 0 | 1 / 0 | 3 | 0 \
             | 19 | 3 | 1.2 / 1.4 | 8 / 100 / warps |"
        );
    }

    #[test]
    fn each_change_has_a_direction_and_the_worse_come_first() {
        let old = format_rows(&rows());
        assert_eq!(find_changes(&old, &old), []);
        let mut changed = rows();
        changed[0].counts.division_calls = 0;
        changed[0].counts.local = 2;
        changed[0].counts.hmma = 4;
        changed[0].occupancy.percent = 87.5;
        let new = format_rows(&changed) + "| `gate_f32` | sm_90 | 0 |\n";
        let told: Vec<String> = find_changes(&old, &new).iter().map(TableChange::to_string).collect();
        assert_eq!(
            told,
            [
                "worse: `gate_bf16` for sm_90: local, count: 0 -> 2",
                "worse: `gate_bf16` for sm_90: occupancy, percent: 100 -> 87.5",
                "changed: `gate_bf16` for sm_90: HMMA, count: 0 -> 4",
                "changed: `gate_f32` for sm_90: none -> a row",
                "better: `gate_bf16` for sm_90: calls, division: 1 -> 0",
            ]
        );
        assert_eq!(find_changes(&new, "").len(), 2);
    }

    #[test]
    fn a_kernel_without_code_is_an_error() {
        let family = FAMILIES.iter().find(|family| family.name == "activation").unwrap();
        let resources = |kernel: &&str| KernelResources {
            kernel: (*kernel).to_owned(),
            registers: 32,
            shared: 0,
            stack: 0,
            spill_stores: 0,
            spill_loads: 0,
        };
        let kernels: Vec<_> = family.kernels.iter().map(resources).collect();
        let measured = FamilyResources {
            family,
            kernels: array::from_fn(|_| kernels.clone()),
            cubins: [const { Vec::new() }; ARCHITECTURES.len()],
        };
        let error = measure_rows(slice::from_ref(&measured), &|_| Ok(LISTING.to_owned())).unwrap_err();
        assert_eq!(error.to_string(), "gate_f32 has no code or no registers for sm_80");
        let error = measure_rows(slice::from_ref(&measured), &|_| Err(io::ErrorKind::NotFound.into())).unwrap_err();
        assert_eq!(error.to_string(), "nvdisasm of activation.cu for sm_80");
        // All four kernels with the same code, for three architectures.
        let all = |_: &[u8]| {
            let named = |kernel: &&str| LISTING.replace("gate_bf16", kernel);
            Ok(family.kernels.iter().map(named).collect::<Vec<_>>().concat())
        };
        let rows = measure_rows(slice::from_ref(&measured), &all).unwrap();
        let places: Vec<String> = rows.iter().map(|row| format!("{} {}", row.kernel, row.architecture)).collect();
        assert_eq!(places[..4], ["gate_f32 sm_80", "gate_f32 sm_90", "gate_f32 sm_100", "gate_bf16 sm_80"]);
        assert_eq!(rows.len(), 12);
    }
}
