//! The corpus of a job: built on first use into the cache, and found again by a hash of its sources.
//!
//! A built corpus lies in `CACHE/corpora/KEY`. The key hashes the digests of the source files and the settings of the
//! build. The corpus is written aside and renamed, so an interrupted build never looks finished, and two processes can
//! build the same corpus at once.

use crate::cache::{Cache, ProgressReporter};
use crate::error::JobError;
use crate::job::file::{DatasetEntry, Job};
use crate::job::paths::CONTEXTS;
use hopeval_corpus::{Corpus, CorpusBuilder, CorpusSettings, CorpusSource, NewLink, NewPassage};
use hopeval_datasets::{DatasetSpec, Format, PassageRecord, PassageSpec, Passages, Questions, RowPolicy};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Cache {
    /// The job's corpus, built if it is missing.
    ///
    /// # Errors
    /// Unreadable sources, bad passages, a full disk.
    pub fn corpus(&self, job: &Job, report: ProgressReporter<'_>) -> Result<Arc<Corpus>, JobError> {
        Ok(self.find_corpus(job, false, report)?.0)
    }

    /// The corpus built under `key`, if this machine has it. Its sources are no longer needed.
    ///
    /// # Errors
    /// The corpus exists and cannot be opened.
    pub fn built_corpus(&self, key: &str) -> Result<Option<Arc<Corpus>>, JobError> {
        let dir = self.root().join("corpora").join(key);
        if !dir.join("corpus.json").is_file() {
            return Ok(None);
        }
        self.open_corpus(&dir).map(Some)
    }

    fn open_corpus(&self, dir: &Path) -> Result<Arc<Corpus>, JobError> {
        let corpus = Corpus::open(dir)?;
        self.verify_once(dir, || corpus.verify_files())?;
        Ok(Arc::new(corpus))
    }

    /// The job's corpus, built if it is missing, and its key in the cache. The key is `None` if the job names the
    /// folder of a built corpus. With `set_aside`, wrong rows of the dataset add no passages; they are reported when
    /// the questions are read.
    ///
    /// # Errors
    /// As [`Cache::corpus`].
    pub fn find_corpus(
        &self,
        job: &Job,
        set_aside: bool,
        report: ProgressReporter<'_>,
    ) -> Result<(Arc<Corpus>, Option<String>), JobError> {
        if let [path] = job.corpus.source.paths()
            && path.join("corpus.json").is_file()
        {
            return Ok((self.open_corpus(path)?, None));
        }
        let settings = CorpusSettings {
            name: job.name.clone(),
            duplicates: job.corpus.duplicates,
            links: job.corpus.links,
            ..CorpusSettings::default()
        };
        // Rows of passages are never set aside, only rows of questions with their contexts.
        let set_aside = set_aside && job.corpus.source.paths().iter().any(|path| path.as_os_str() == CONTEXTS);
        let sources = source_files(job)?;
        let key = corpus_key(&settings, &sources, set_aside, &mappings(job));
        let dir = self.ensure_folder("corpora")?.join(&key);
        if !dir.join("corpus.json").is_file() {
            build_corpus(&dir, settings, sources, job, set_aside, report)?;
        }
        Ok((self.open_corpus(&dir)?, Some(key)))
    }
}

/// The source files of a corpus, with their digests.
fn source_files(job: &Job) -> Result<Vec<CorpusSource>, JobError> {
    let mut found = Vec::new();
    for path in job.corpus.source.paths() {
        if path.as_os_str() == CONTEXTS {
            for path in job.dataset.questions.paths() {
                found
                    .push(CorpusSource { name: format!("{CONTEXTS}:{}", file_name(path)), digest: digest_path(path)? });
            }
        } else {
            found.push(CorpusSource { name: file_name(path), digest: digest_path(path)? });
        }
    }
    Ok(found)
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// BLAKE3 of a file, or of the names and digests of a folder's files.
pub fn digest_path(path: &Path) -> Result<String, JobError> {
    let failed = |source| JobError::Io { path: path.into(), operation: "cannot read", source };
    let mut hasher = blake3::Hasher::new();
    if path.is_dir() {
        let mut names: Vec<PathBuf> = std::fs::read_dir(path)
            .map_err(failed)?
            .map(|e| e.map(|e| e.path()))
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        names.sort();
        for name in names {
            hasher.update(file_name(&name).as_bytes());
            hasher.update(digest_path(&name)?.as_bytes());
        }
    } else {
        let mut file = std::fs::File::open(path).map_err(failed)?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer).map_err(failed)? {
                0 => break,
                n => hasher.update(&buffer[..n]),
            };
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// The mappings that the passages are read by, as text; empty without one.
fn mappings(job: &Job) -> String {
    let mut mappings = String::new();
    if let Some(fields) = &job.corpus.fields {
        mappings.push_str(&format!("passages {}", serde_json::to_string(fields).unwrap_or_default()));
    }
    let given = job.corpus.source.paths().iter().any(|path| path.as_os_str() == CONTEXTS);
    let mapped = job.dataset.fields.is_some() || job.dataset.format == Some(Format::Fields);
    if given && mapped {
        mappings.push_str(&format!("questions {}", serde_json::to_string(&job.dataset.fields).unwrap_or_default()));
    }
    mappings
}

fn corpus_key(settings: &CorpusSettings, sources: &[CorpusSource], set_aside: bool, mappings: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("hopeval corpus 1");
    let shape = (settings.duplicates, settings.links, settings.targets_per_title);
    for text in [serde_json::to_string(&shape), serde_json::to_string(sources)].into_iter().flatten() {
        hasher.update(text.as_bytes());
    }
    if set_aside {
        hasher.update(b"wrong rows set aside");
    }
    hasher.update(mappings.as_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}

fn build_corpus(
    dir: &Path,
    settings: CorpusSettings,
    sources: Vec<CorpusSource>,
    job: &Job,
    set_aside: bool,
    report: ProgressReporter<'_>,
) -> Result<(), JobError> {
    let mut builder = CorpusBuilder::create(dir, settings)?;
    for source in sources {
        builder.add_source(source);
    }
    let mut done = 0;
    let mut push = |record: PassageRecord| -> Result<(), JobError> {
        push_record(&mut builder, &record)?;
        done += 1;
        if done % 4096 == 0 {
            report("corpus", done);
        }
        Ok(())
    };
    for path in job.corpus.source.paths() {
        if path.as_os_str() == CONTEXTS {
            let policy = if set_aside { RowPolicy::Quarantine(Box::new(|_| ())) } else { RowPolicy::Strict };
            for question in Questions::open(&dataset_spec(&job.dataset, None), policy)? {
                question?.candidates.into_iter().try_for_each(&mut push)?;
            }
        } else {
            let spec = PassageSpec { fields: job.corpus.fields.clone(), ..PassageSpec::file(path) };
            for record in Passages::open(&spec, RowPolicy::Strict)? {
                push(record?)?;
            }
        }
    }
    report("corpus", done);
    tracing::info!(passages = done, "the corpus is built");
    builder.finish().map_err(|source| {
        let paths = job.corpus.source.paths().iter().map(|path| path.display().to_string());
        JobError::CorpusOf { files: paths.collect::<Vec<_>>().join(", "), source }
    })?;
    Ok(())
}

/// Adds one record to a corpus under construction.
pub fn push_record(builder: &mut CorpusBuilder, record: &PassageRecord) -> Result<(), JobError> {
    let links: Option<Vec<NewLink<'_>>> = record
        .links
        .as_ref()
        .map(|links| links.iter().map(|l| NewLink { title: &l.title, start: l.start, end: l.end }).collect());
    let passage = NewPassage {
        id: record.id.as_deref(),
        title: &record.title,
        text: &record.text,
        sentences: &record.sentences,
        links: links.as_deref(),
    };
    builder.push(passage)?;
    Ok(())
}

/// The files, format, mapping and limit for reading a dataset.
pub fn dataset_spec(dataset: &DatasetEntry, limit: Option<u64>) -> DatasetSpec {
    let (format, fields) = (dataset.format, dataset.fields.clone());
    DatasetSpec { format, paths: dataset.questions.paths().to_vec(), limit, fields }
}
