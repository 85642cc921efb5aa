//! The tuned choices of a device on disk: one file for a numerics class, beside the machine code of kernels.
//!
//! The class names the device, cuBLASLt's version and the rules of the choice, so a file never serves another. A line
//! holds a shape, the most rows of a range, the leader and the algorithm; the first line is a digest of the rest. A
//! file that is torn, damaged or of another layout is as good as none: choices cost a moment, and change no result. A
//! write adds to what others have written since; of two that write at the same moment one wins, and the other's newest
//! choice is tuned again next time.

use super::tuning::RANGES;
use super::{AlgorithmChoice, Shape, WORKSPACE};
use crate::runtime::{ElementType, FusedFunction};
use cudarc::cublaslt::sys;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{fs, io, process};

/// Begins a file: raised when its layout changes.
const LAYOUT: &str = "hopeval products 2";

/// Words of an algorithm.
const ALGORITHM: usize = 8;

/// Words of a line: those of a shape, the most rows of a range, the leader, the workspace, whether it writes apart, and
/// the algorithm.
const WORDS: usize = 7 + 1 + ALGORITHM + 2 + ALGORITHM;

/// A shape, the most rows of a range, and the leader whose bits the choice has.
type ChoiceKey = (Shape, usize, [u64; ALGORITHM]);

/// Choices, and the place on disk.
#[derive(Default)]
pub(super) struct TuningFile {
    path: Option<PathBuf>,
    choices: HashMap<ChoiceKey, AlgorithmChoice>,
}

impl TuningFile {
    /// The choices that were made before for this numerics class; without a folder nothing is kept.
    pub(super) fn open(folder: Option<&Path>, numerics: &str) -> Self {
        let path = folder.map(|folder| folder.join(format!("products-{numerics}.txt")));
        let choices = path.as_deref().map(read_choices).unwrap_or_default();
        Self { path, choices }
    }

    pub(super) fn find_choice(&self, shape: Shape, range: usize, leader: &AlgorithmChoice) -> Option<AlgorithmChoice> {
        self.choices.get(&(shape, RANGES[range], leader.algorithm.data)).copied()
    }

    /// Keeps a choice. A folder that cannot be written is told to the log.
    pub(super) fn keep_choice(
        &mut self,
        shape: Shape,
        range: usize,
        leader: &AlgorithmChoice,
        choice: AlgorithmChoice,
    ) {
        if let Some(path) = &self.path {
            self.choices.extend(read_choices(path));
        }
        self.choices.insert((shape, RANGES[range], leader.algorithm.data), choice);
        if let Some(path) = &self.path
            && let Err(error) = write_choices(path, &self.choices)
        {
            tracing::debug!("{}: {error}; products are tuned again next time", path.display());
        }
    }
}

/// The choices of a file; none if it is not whole.
fn read_choices(path: &Path) -> HashMap<ChoiceKey, AlgorithmChoice> {
    fs::read_to_string(path).ok().as_deref().and_then(parse_choices).unwrap_or_default()
}

fn write_choices(path: &Path, choices: &HashMap<ChoiceKey, AlgorithmChoice>) -> io::Result<()> {
    // Engines of one process may write at once.
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let mut lines: Vec<String> = choices.iter().map(|(key, choice)| line_of(key, choice)).collect();
    lines.sort();
    let body = format!("{LAYOUT}\n{}\n", lines.join("\n"));
    let text = format!("{}\n{body}", blake3::hash(body.as_bytes()).to_hex());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = path.with_extension(format!("{}-{}.part", process::id(), WRITES.fetch_add(1, Relaxed)));
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}

fn line_of((shape, rows, leader): &ChoiceKey, choice: &AlgorithmChoice) -> String {
    let Shape { inner, out, element, output_element, fused, bias, residual } = *shape;
    let of_shape = [
        inner as u64,
        out as u64,
        element.size() as u64,
        output_element.size() as u64,
        fused as u64,
        u64::from(bias),
        u64::from(residual),
        *rows as u64,
    ];
    let of_choice = [choice.workspace as u64, u64::from(choice.is_apart)];
    let numbers = of_shape.into_iter().chain(*leader).chain(of_choice).chain(choice.algorithm.data);
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
}

/// `None` if the text is not as [`write_choices`] makes it.
fn parse_choices(text: &str) -> Option<HashMap<ChoiceKey, AlgorithmChoice>> {
    let (digest, body) = text.split_once('\n')?;
    if digest != blake3::hash(body.as_bytes()).to_hex().as_str() {
        return None;
    }
    body.strip_prefix(LAYOUT)?.lines().skip(1).map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<(ChoiceKey, AlgorithmChoice)> {
    let words = line.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
    let words: [u64; WORDS] = words.try_into().ok()?;
    let size = |at: usize| usize::try_from(words[at]).ok();
    let element = |size| match size {
        4 => Some(ElementType::F32),
        2 => Some(ElementType::Bf16),
        _ => None,
    };
    let fused = [FusedFunction::Nothing, FusedFunction::Relu, FusedFunction::GeluTanh];
    let shape = Shape {
        inner: size(0)?,
        out: size(1)?,
        element: element(words[2])?,
        output_element: element(words[3])?,
        fused: fused.into_iter().find(|fused| *fused as u64 == words[4])?,
        bias: words[5] == 1,
        residual: words[6] == 1,
    };
    let leader = words[8..8 + ALGORITHM].try_into().ok()?;
    let workspace = size(8 + ALGORITHM).filter(|&workspace| workspace <= WORKSPACE)?;
    let algorithm = sys::cublasLtMatmulAlgo_t { data: words[10 + ALGORITHM..].try_into().ok()? };
    let choice = AlgorithmChoice { algorithm, workspace, is_apart: words[9 + ALGORITHM] == 1 };
    Some(((shape, size(7)?, leader), choice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(inner: usize) -> Shape {
        Shape {
            inner,
            out: 128,
            element: ElementType::Bf16,
            output_element: ElementType::F32,
            fused: FusedFunction::GeluTanh,
            bias: true,
            residual: false,
        }
    }

    fn choice(first: u64) -> AlgorithmChoice {
        let algorithm = sys::cublasLtMatmulAlgo_t { data: [first, 2, 3, 4, 5, 6, 7, u64::MAX] };
        AlgorithmChoice { algorithm, workspace: 4096, is_apart: true }
    }

    #[test]
    fn choices_come_back_and_a_damaged_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let leader = choice(40);
        let open = |numerics| TuningFile::open(Some(folder.path()), numerics);
        let mut file = open("sm90");
        // Two engines that opened the file before either wrote: both choices are kept.
        let mut beside = open("sm90");
        file.keep_choice(shape(64), 3, &leader, choice(1));
        beside.keep_choice(shape(72), 7, &leader, choice(9));
        let again = open("sm90");
        let found = again.find_choice(shape(72), 7, &leader).unwrap();
        assert_eq!((found.algorithm.data, found.workspace, found.is_apart), (choice(9).algorithm.data, 4096, true));
        assert_eq!(again.find_choice(shape(64), 3, &leader).unwrap().algorithm.data[0], 1);
        assert!(again.find_choice(shape(64), 4, &leader).is_none(), "of another range");
        assert!(again.find_choice(shape(64), 3, &choice(41)).is_none(), "of another leader");
        assert!(open("sm80").find_choice(shape(64), 3, &leader).is_none());

        let path = folder.path().join("products-sm90.txt");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(" 4096 1 9 2"), "{text}");
        fs::write(&path, text.replace(" 4096 1 9 2", " 4096 1 8 2")).unwrap();
        assert!(open("sm90").find_choice(shape(72), 7, &leader).is_none());
        assert!(parse_line("1 2 3").is_none() && parse_choices("").is_none());
        let line =
            line_of(&(shape(64), 64, [0; ALGORITHM]), &AlgorithmChoice { workspace: WORKSPACE + 1, ..choice(1) });
        assert!(parse_line(&line).is_none(), "more memory than there is");
    }
}
