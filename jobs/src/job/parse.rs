//! Reads a job file with its overrides.

use super::file::Job;
use super::judging_job::JudgeFile;
use super::paths::absolute;
use super::sample::SampleSettings;
use super::service_sweep::{expand_services, has_swept_service};
use super::{check, overrides, parameter_files, preflight, single_mode};
use crate::bad_value::BadValue;
use crate::error::JobError;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest job file, in bytes.
const MOST_BYTES: u64 = 16 << 20;

impl Job {
    /// Reads a job file and applies `KEY=VALUE` overrides.
    ///
    /// # Errors
    /// [`JobError`] with the file, and with line and key if known.
    pub fn load(path: &Path, sets: &[String]) -> Result<Self, JobError> {
        Self::parse(&read_text(path)?, path, sets)
    }

    /// Reads the text of a job. Its own paths resolve against `path`, and errors name `path`.
    ///
    /// # Errors
    /// As [`Job::load`].
    pub fn parse(text: &str, path: &Path, sets: &[String]) -> Result<Self, JobError> {
        let mut job = parse_document(text, path, sets)?;
        let base = folder_of(path);
        job.resolve_paths(&base);
        parameter_files::resolve_rankings(&mut job, &base);
        parameter_files::read_files(&mut job, &base, path)?;
        check::check_values(&job, path)?;
        preflight::check_methods(&job, path)?;
        preflight::check_judges(&job, path)?;
        single_mode::check_modes(&job, path)?;
        job.dataset.draw = job.evaluated_sample();
        Ok(job)
    }

    /// Reads the judges of a file: of a job, or of a file that has only the tables of services, judges and `[run]`.
    /// Overrides apply as in [`Job::load`].
    ///
    /// # Errors
    /// As [`Job::load`].
    pub fn load_judges(path: &Path, sets: &[String]) -> Result<Self, JobError> {
        let text = read_text(path)?;
        let syntax = |source: toml::de::Error| JobError::Syntax {
            path: path.into(),
            message: source.to_string().trim_end().to_owned(),
        };
        let mut document: toml::Table = text.parse().map_err(syntax)?;
        if document.contains_key("dataset") {
            return Self::parse(&text, path, sets);
        }
        sets.iter().try_for_each(|set| overrides::apply_override(&mut document, set))?;
        overrides::resolve_services(&mut document, sets);
        // Without overrides and sweeps of services the text itself is read, so that errors have lines.
        let as_written = sets.is_empty() && !has_swept_service(&document);
        expand_services(&mut document).map_err(|bad| wrong_value(bad, path))?;
        let read: Result<JudgeFile, _> = if as_written { toml::from_str(&text) } else { document.try_into() };
        let mut job = read.map_err(syntax)?.into_job();
        let base = folder_of(path);
        job.resolve_paths(&base);
        parameter_files::read_files(&mut job, &base, path)?;
        check::check_tables(&job, path)?;
        preflight::check_judges(&job, path)?;
        Ok(job)
    }

    /// Makes every path in it absolute.
    fn resolve_paths(&mut self, base: &Path) {
        self.dataset.questions.resolve(base);
        if let Some(only) = &mut self.dataset.only
            && !only.as_os_str().is_empty()
        {
            *only = absolute(base, only);
        }
        self.corpus.source.resolve(base);
        for service in self.service.values_mut() {
            service.settings_mut().resolve_paths(base);
        }
        if let Some(tune) = &mut self.tune {
            tune.questions.resolve(base);
        }
    }

    /// The evaluated questions: those of the dataset's table, or all but the sample for choices.
    fn evaluated_sample(&self) -> Option<SampleSettings> {
        match &self.tune {
            // Checked to be others than the sample where that is the dataset's own.
            Some(_) if self.dataset.draw.is_some_and(|draw| draw.after > 0) => self.dataset.draw,
            Some(tune) if tune.takes_own() => Some(SampleSettings { rest: true, ..tune.sample_settings() }),
            _ => self.dataset.draw,
        }
    }
}

/// The text of a job file.
fn read_text(path: &Path) -> Result<String, JobError> {
    let mut text = String::new();
    let file = std::fs::File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text));
    let bytes = file.map_err(|source| JobError::Read { path: path.into(), source })?;
    if bytes as u64 > MOST_BYTES {
        let message = format!("it has more than {MOST_BYTES} bytes; allowed: a job file of at most so many");
        return Err(JobError::Syntax { path: path.into(), message });
    }
    Ok(text)
}

/// The folder of a job's file.
fn folder_of(path: &Path) -> PathBuf {
    // Made absolute first, because the parent of a bare file name is the empty path.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    absolute.parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// The error of a value in the file `path`.
fn wrong_value(bad: BadValue, path: &Path) -> JobError {
    let BadValue { key, found, allowed } = bad;
    JobError::Value { path: path.into(), key, found, allowed }
}

/// Reads a job from its text, without checking the values.
fn parse_document(text: &str, path: &Path, sets: &[String]) -> Result<Job, JobError> {
    let syntax = |source: toml::de::Error| JobError::Syntax {
        path: path.into(),
        message: source.to_string().trim_end().to_owned(),
    };
    let mut document: toml::Table = text.parse().map_err(syntax)?;
    // Without overrides and sweeps of services the text itself is read, so that errors have lines.
    if sets.is_empty() && !has_swept_service(&document) {
        return toml::from_str(text).map_err(syntax);
    }
    sets.iter().try_for_each(|set| overrides::apply_override(&mut document, set))?;
    overrides::refuse_unknown_tables(&document, sets)?;
    overrides::resolve_services(&mut document, sets);
    expand_services(&mut document).map_err(|bad| wrong_value(bad, path))?;
    if sets.is_empty() {
        // The rewritten document has no lines.
        return document.try_into().map_err(|error: toml::de::Error| {
            let message = error.to_string().trim_end().replace('\n', "; ");
            JobError::Syntax { path: path.into(), message }
        });
    }
    document.try_into().map_err(|error: toml::de::Error| match toml::from_str::<Job>(text) {
        // The file itself is wrong, and its error has the place.
        Err(in_file) if in_file.message() == error.message() => syntax(in_file),
        _ => {
            let message = error.to_string().trim_end().replace('\n', "; ");
            JobError::Override { sets: sets.join(" --set "), message }
        }
    })
}
