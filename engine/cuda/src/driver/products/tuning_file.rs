//! The tuned choices of a device on disk: one file for a numerics class, beside the machine code of kernels.
//!
//! The class names the device, cuBLASLt's version and the rules of the choice, so a file never serves another. A line
//! holds a shape, a range of rows and an algorithm; the first line is a digest of the rest. A file that is torn,
//! damaged or of another layout is as good as none: choices cost a moment, and change no result. Of processes that
//! write at once the last one wins, and what is lost is tuned again.

use super::tuning::RANGES;
use super::{AlgorithmChoice, Shape};
use crate::runtime::{ElementType, FusedFunction};
use cudarc::cublaslt::sys;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fs, io, process};

/// Begins a file: raised when its layout changes.
const LAYOUT: &str = "hopeval products 1";

/// Words of a line: those of a shape, the range, the workspace, whether it writes apart, and the algorithm.
const WORDS: usize = 7 + 3 + 8;

/// Choices by shape and range, and the place on disk.
#[derive(Default)]
pub(super) struct TuningFile {
    path: Option<PathBuf>,
    choices: HashMap<(Shape, usize), AlgorithmChoice>,
}

impl TuningFile {
    /// The choices that were made before for this numerics class; without a folder nothing is kept.
    pub(super) fn open(folder: Option<&Path>, numerics: &str) -> Self {
        let path = folder.map(|folder| folder.join(format!("products-{numerics}.txt")));
        let text = path.as_ref().and_then(|path| fs::read_to_string(path).ok());
        let choices = text.as_deref().and_then(parse_choices).unwrap_or_default();
        Self { path, choices }
    }

    pub(super) fn find_choice(&self, shape: Shape, range: usize) -> Option<AlgorithmChoice> {
        self.choices.get(&(shape, range)).copied()
    }

    /// Keeps a choice. A folder that cannot be written is told to the log.
    pub(super) fn keep_choice(&mut self, shape: Shape, range: usize, choice: AlgorithmChoice) {
        self.choices.insert((shape, range), choice);
        if let Some(path) = &self.path
            && let Err(error) = write_choices(path, &self.choices)
        {
            tracing::debug!("{}: {error}; products are tuned again next time", path.display());
        }
    }
}

fn write_choices(path: &Path, choices: &HashMap<(Shape, usize), AlgorithmChoice>) -> io::Result<()> {
    let mut lines: Vec<String> =
        choices.iter().map(|((shape, range), choice)| line_of(shape, *range, choice)).collect();
    lines.sort();
    let body = format!("{LAYOUT}\n{}\n", lines.join("\n"));
    let text = format!("{}\n{body}", blake3::hash(body.as_bytes()).to_hex());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = path.with_extension(format!("{}.part", process::id()));
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}

fn line_of(shape: &Shape, range: usize, choice: &AlgorithmChoice) -> String {
    let Shape { inner, out, element, output_element, fused, bias, residual } = *shape;
    let numbers = [
        inner as u64,
        out as u64,
        element.size() as u64,
        output_element.size() as u64,
        fused as u64,
        u64::from(bias),
        u64::from(residual),
        range as u64,
        choice.workspace as u64,
        u64::from(choice.is_apart),
    ];
    let words = numbers.into_iter().chain(choice.algorithm.data).map(|number| number.to_string());
    words.collect::<Vec<_>>().join(" ")
}

/// `None` if the text is not as [`write_choices`] makes it.
fn parse_choices(text: &str) -> Option<HashMap<(Shape, usize), AlgorithmChoice>> {
    let (digest, body) = text.split_once('\n')?;
    if digest != blake3::hash(body.as_bytes()).to_hex().as_str() {
        return None;
    }
    body.strip_prefix(LAYOUT)?.lines().skip(1).map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<((Shape, usize), AlgorithmChoice)> {
    let words = line.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
    let words: [u64; WORDS] = words.try_into().ok()?;
    let element = |size| match size {
        4 => Some(ElementType::F32),
        2 => Some(ElementType::Bf16),
        _ => None,
    };
    let fused = [FusedFunction::Nothing, FusedFunction::Relu, FusedFunction::GeluTanh];
    let shape = Shape {
        inner: usize::try_from(words[0]).ok()?,
        out: usize::try_from(words[1]).ok()?,
        element: element(words[2])?,
        output_element: element(words[3])?,
        fused: fused.into_iter().find(|fused| *fused as u64 == words[4])?,
        bias: words[5] == 1,
        residual: words[6] == 1,
    };
    let range = usize::try_from(words[7]).ok().filter(|&range| range < RANGES.len())?;
    let algorithm = sys::cublasLtMatmulAlgo_t { data: words[10..].try_into().ok()? };
    let choice = AlgorithmChoice { algorithm, workspace: usize::try_from(words[8]).ok()?, is_apart: words[9] == 1 };
    Some(((shape, range), choice))
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
        let mut file = TuningFile::open(Some(folder.path()), "sm90");
        file.keep_choice(shape(64), 3, choice(1));
        file.keep_choice(shape(72), 7, choice(9));
        let again = TuningFile::open(Some(folder.path()), "sm90");
        let found = again.find_choice(shape(72), 7).unwrap();
        assert_eq!((found.algorithm.data, found.workspace, found.is_apart), (choice(9).algorithm.data, 4096, true));
        assert_eq!(again.find_choice(shape(64), 3).unwrap().algorithm.data[0], 1);
        assert!(again.find_choice(shape(64), 4).is_none());
        assert!(TuningFile::open(Some(folder.path()), "sm80").find_choice(shape(64), 3).is_none());

        let path = folder.path().join("products-sm90.txt");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(" 4096 1 9 2", " 4096 1 8 2")).unwrap();
        assert!(TuningFile::open(Some(folder.path()), "sm90").find_choice(shape(72), 7).is_none());
        assert!(parse_line("1 2 3").is_none() && parse_choices("").is_none());
    }
}
