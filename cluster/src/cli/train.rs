//! `train`: trains one of the small models with the PyTorch scripts that the program carries.
//!
//! ```text
//! rows, scripts, interpreter and its packages are looked at ---> SCRIPT --rows --out ... ---> its end, as an exit code
//! ```
//!
//! The scripts are those of `ops/train`, so nothing of the source tree is needed. PyTorch is needed for this command alone. What a
//! script does with its options is its own affair: they are passed on as they are.

mod interpreter;
mod scripts;

use crate::print;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hopeval_cluster::exit;
use hopeval_cluster::signals::{self, Notice};
use interpreter::{Interpreter, Trained};
use scripts::Carried;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct TrainArguments {
    /// Which model.
    #[arg(value_enum, value_name = "MODEL")]
    model: Model,
    /// The folder with its rows, MODEL.parquet, as `hopeval train-data` writes it.
    #[arg(long, value_name = "DIR")]
    rows: PathBuf,
    /// The folder to write the model and the log of its training to.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The Python interpreter, one that has PyTorch.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// Scripts of one's own instead of those that the program carries.
    #[arg(long, value_name = "DIR")]
    scripts: Option<PathBuf>,
    /// The script's own options, after `--`; `--help` there lists them.
    #[arg(last = true, value_name = "SCRIPT_OPTIONS")]
    options: Vec<OsString>,
}

/// The models that are trained here: each has a script and a file of rows of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Model {
    /// Scores paths by the likelihood of the question (PromptRank).
    Scorer,
    /// Labels the words of a chunk that matter, and the chunk (EfficientRAG).
    Labeler,
    /// Makes the next hop's query of what was found (EfficientRAG).
    Filter,
    /// Finds the answer's span.
    Reader,
    /// Makes vectors for dense retrieval.
    Encoder,
}

impl Model {
    fn name(self) -> &'static str {
        match self {
            Self::Scorer => "scorer",
            Self::Labeler => "labeler",
            Self::Filter => "filter",
            Self::Reader => "reader",
            Self::Encoder => "encoder",
        }
    }

    fn script(self) -> String {
        format!("{}.py", self.name())
    }

    fn rows(self) -> String {
        format!("{}.parquet", self.name())
    }

    /// What makes the rows, for messages.
    fn made_by(self) -> &'static str {
        match self {
            Self::Scorer | Self::Reader => {
                "`hopeval train-data --questions FILE --out DIR` makes it (with --run it does not), and ops/train/rows.py of a world"
            }
            Self::Labeler | Self::Filter | Self::Encoder => {
                "`hopeval train-data --out DIR` with --questions FILE or --run RUN makes it, and ops/train/rows.py of a world"
            }
        }
    }

    /// Sees that the rows are there, before anything is started.
    fn check_rows(self, folder: &Path) -> Result<()> {
        let (rows, shown) = (self.rows(), folder.display());
        if !folder.is_dir() {
            bail!("--rows {shown}: there is no such folder, and {rows} is needed in it\nhint: {}", self.made_by());
        }
        if !folder.join(&rows).is_file() {
            bail!("--rows {shown}: there is no {rows} in this folder\nhint: {}", self.made_by());
        }
        Ok(())
    }
}

pub(crate) fn train(arguments: &TrainArguments, threads: Option<usize>) -> Result<u8> {
    let (model, script) = (arguments.model, arguments.model.script());
    model.check_rows(&arguments.rows)?;
    if let Some(own) = &arguments.scripts
        && !own.join(&script).is_file()
    {
        bail!("--scripts {}: there is no {script} in this folder", own.display());
    }
    // From here on a signal ends the children first.
    let signals = signals::install(Notice::Silent)?;
    let interpreter = Interpreter { program: &arguments.python, signals: &signals };
    interpreter.check(&scripts::requirements())?;
    let carried = if arguments.scripts.is_none() { Some(Carried::write()?) } else { None };
    let folder = carried.as_ref().map(Carried::path).or(arguments.scripts.as_deref()).unwrap_or(Path::new("."));

    let mut options = vec![OsString::from("--rows"), arguments.rows.clone().into()];
    options.extend(["--out".into(), arguments.out.clone().into()]);
    if let Some(threads) = threads {
        options.extend(["--threads".into(), threads.to_string().into()]);
    }
    // Last, so that they count where the script's parser takes the last of several.
    options.extend(arguments.options.iter().cloned());
    match interpreter.train(&folder.join(&script), &options)? {
        Trained::Finished => Ok(exit::DONE),
        Trained::Interrupted => {
            let out = arguments.out.display();
            print::note(&format!(
                "interrupted: the training of the {} in {out} is not finished; the same command begins it anew",
                model.name()
            ));
            Ok(exit::RESUMABLE)
        }
        Trained::Failed(end) => bail!("the {} was not trained: {script} {end}", model.name()),
    }
}
