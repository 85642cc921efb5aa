//! `train`: trains one of the small models with the program's embedded PyTorch scripts.
//!
//! ```text
//! check rows, scripts, interpreter and its packages ---> SCRIPT --rows --out ... ---> its end, as an exit code
//! ```
//!
//! The scripts are copies of `ops/train`, so the source tree is not needed. PyTorch is needed for this command alone. A
//! script's options are passed on unchanged.

mod interpreter;
mod model;
mod scripts;

use crate::print;
use anyhow::{Result, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_cluster::signals::{self, DrainNotice};
use interpreter::{Interpreter, TrainingEnd};
use model::TrainableModel;
use scripts::EmbeddedScripts;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct TrainArguments {
    /// Which model.
    #[arg(value_enum, value_name = "MODEL")]
    model: TrainableModel,
    /// The folder with its rows: MODEL.parquet, as `hopeval train-data` writes it, or MODEL.jsonl, plain or with .gz,
    /// as EfficientRAG's authors released rows of labeler and filter.
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

pub(crate) fn train(arguments: &TrainArguments, threads: Option<usize>) -> Result<u8> {
    let (model, script) = (arguments.model, arguments.model.script());
    model.check_rows(&arguments.rows)?;
    if let Some(own) = &arguments.scripts
        && !own.join(&script).is_file()
    {
        bail!("--scripts {}: there is no {script} in this folder", own.display());
    }
    // From here on a signal ends the children first.
    let signals = signals::install(DrainNotice::Silent)?;
    let interpreter = Interpreter { program: &arguments.python, signals: &signals };
    interpreter.check_packages(&scripts::requirements())?;
    let carried = if arguments.scripts.is_none() { Some(EmbeddedScripts::write()?) } else { None };
    let folder = carried.as_ref().map(EmbeddedScripts::path).or(arguments.scripts.as_deref()).unwrap_or(Path::new("."));

    let mut options = vec![OsString::from("--rows"), arguments.rows.clone().into()];
    options.extend(["--out".into(), arguments.out.clone().into()]);
    if let Some(threads) = threads {
        options.extend(["--threads".into(), threads.to_string().into()]);
    }
    // The user's options come last, because the script's parser takes the last of several.
    options.extend(arguments.options.iter().cloned());
    match interpreter.train(&folder.join(&script), &options)? {
        TrainingEnd::Finished => Ok(exit::DONE),
        TrainingEnd::Interrupted => {
            let out = arguments.out.display();
            print::note(&format!(
                "interrupted: the training of the {} in {out} is not finished; the same command begins it anew",
                model.name()
            ));
            Ok(exit::RESUMABLE)
        }
        TrainingEnd::Failed(end) => bail!("the {} was not trained: {script} {end}", model.name()),
    }
}
