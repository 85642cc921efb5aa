//! Corpora and indexes of a job: built on first use into the cache, found again by what they were built from.
//!
//! A built corpus lies in `CACHE/corpora/KEY`, the key hashing the digests of its source files and the settings that
//! shape it; an index in `CACHE/indexes/KEY.idx`, its key hashing the corpus's digest and its parameters. Each is
//! written aside and renamed, so an interrupted build leaves nothing that looks finished, and two processes that
//! build the same thing at once both end with it.

use crate::error::JobError;
use crate::job::{CONTEXTS, Dataset, Job, Mode, Service};
use crate::services::dense::Dense;
use crate::services::links::ShuffledLinks;
use crate::services::lm::Lm;
use crate::services::{Engine, Engines};
use hopeval_corpus::{Corpus, CorpusBuilder, CorpusSettings, NewLink, NewPassage, PassageId, Source};
use hopeval_datasets::{DatasetSpec, PassageRecord, PassageSpec, Passages, Policy, Questions};
use hopeval_index::{Bm25Index, TfidfIndex};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Where corpora and indexes are kept on this machine.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
    /// Indexes that were read whole and found good; none where they are trusted.
    verified: Option<Arc<Mutex<BTreeSet<PathBuf>>>>,
}

/// Told what is being built, with how many passages are done.
pub type Report<'a> = &'a (dyn Fn(&str, u64) + Sync);

impl Cache {
    /// The cache in `root`; made when something is built.
    pub fn new(root: PathBuf) -> Self {
        Self { root, verified: None }
    }

    /// The same cache for computing figures: every byte of an index is checked once before it is used. Opening alone
    /// checks header and tables, which is enough for looking at a run.
    pub fn verifying(self) -> Self {
        Self { verified: Some(Arc::default()), ..self }
    }

    /// Calls `verify` unless the index at `path` was found good before, or need not be.
    fn verify_once(
        &self,
        path: &Path,
        verify: impl FnOnce() -> Result<(), hopeval_index::IndexError>,
    ) -> Result<(), hopeval_index::IndexError> {
        let Some(verified) = &self.verified else { return Ok(()) };
        let mut verified = verified.lock().unwrap_or_else(PoisonError::into_inner);
        if !verified.contains(path) {
            verify()?;
            verified.insert(path.to_owned());
        }
        Ok(())
    }

    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, JobError> {
        let path = self.root.join(name);
        std::fs::create_dir_all(&path).map_err(|source| JobError::Io {
            path: path.clone(),
            operation: "cannot make the folder",
            source,
        })?;
        Ok(path)
    }

    /// The job's corpus, built if it is not there.
    ///
    /// # Errors
    /// Sources that cannot be read, bad passages, a full disk.
    pub fn corpus(&self, job: &Job, report: Report<'_>) -> Result<Arc<Corpus>, JobError> {
        Ok(self.find_corpus(job, false, report)?.0)
    }

    /// The corpus that was built under `key`, if this machine has it: its sources are not needed any more.
    ///
    /// # Errors
    /// It is there and cannot be opened.
    pub fn built_corpus(&self, key: &str) -> Result<Option<Arc<Corpus>>, JobError> {
        let dir = self.root.join("corpora").join(key);
        if !dir.join("corpus.json").is_file() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Corpus::open(&dir)?)))
    }

    /// The job's corpus, built if it is not there, and the key that it is kept under; a built corpus that the job names
    /// by its folder has none. With `set_aside`, wrong rows of the dataset give it no passages; whoever reads the questions
    /// tells of them.
    ///
    /// # Errors
    /// As [`Cache::corpus`].
    pub fn find_corpus(
        &self,
        job: &Job,
        set_aside: bool,
        report: Report<'_>,
    ) -> Result<(Arc<Corpus>, Option<String>), JobError> {
        if let [path] = job.corpus.source.paths()
            && path.join("corpus.json").is_file()
        {
            return Ok((Arc::new(Corpus::open(path)?), None));
        }
        let settings = CorpusSettings {
            name: job.name.clone(),
            duplicates: job.corpus.duplicates,
            links: job.corpus.links,
            ..CorpusSettings::default()
        };
        // Rows of passages are never set aside: only contexts come with rows that can be.
        let set_aside = set_aside && job.corpus.source.paths().iter().any(|path| path.as_os_str() == CONTEXTS);
        let sources = sources(job)?;
        let key = corpus_key(&settings, &sources, set_aside);
        let dir = self.folder("corpora")?.join(&key);
        if !dir.join("corpus.json").is_file() {
            build(&dir, settings, sources, job, set_aside, report)?;
        }
        Ok((Arc::new(Corpus::open(&dir)?), Some(key)))
    }

    /// The job's services over `corpus`, their indexes built where they are not there.
    ///
    /// # Errors
    /// A full disk, a corrupt or foreign index.
    pub fn engines(
        &self,
        job: &Job,
        corpus: &Arc<Corpus>,
        threads: usize,
        report: Report<'_>,
    ) -> Result<Engines, JobError> {
        let folder = self.folder("indexes")?;
        let mut models: BTreeMap<&str, Arc<Lm>> = BTreeMap::new();
        for (name, service) in &job.service {
            if let Service::Lm(settings) = service {
                let alone = (job.run.mode == Mode::Latency).then(|| settings.alone());
                let settings = alone.as_ref().unwrap_or(settings);
                models.insert(name, Arc::new(Lm::new(name, settings, threads, &self.root)));
            }
        }
        let mut engines = BTreeMap::new();
        for (name, service) in &job.service {
            let failed = |source| JobError::Index { name: name.clone(), source };
            let texts = Texts(corpus);
            let digest = corpus.digest();
            let engine = match service {
                Service::Bm25(parameters) => {
                    let path = folder.join(format!("{}.idx", Bm25Index::key(digest, parameters)));
                    if !path.is_file() {
                        report(&format!("index {name}"), 0);
                        Bm25Index::build(&texts, digest, parameters, &path, threads).map_err(failed)?;
                    }
                    let index = Bm25Index::open(&path, digest, parameters).map_err(failed)?;
                    self.verify_once(&path, || index.verify()).map_err(failed)?;
                    Engine::Bm25(index)
                }
                Service::Tfidf(parameters) => {
                    let path = folder.join(format!("{}.idx", TfidfIndex::key(digest, parameters)));
                    if !path.is_file() {
                        report(&format!("index {name}"), 0);
                        TfidfIndex::build(&texts, digest, parameters, &path, threads).map_err(failed)?;
                    }
                    let index = TfidfIndex::open(&path, digest, parameters).map_err(failed)?;
                    self.verify_once(&path, || index.verify()).map_err(failed)?;
                    Engine::Tfidf(index)
                }
                Service::LinkTfidf {} => Engine::LinkTfidf,
                Service::ShuffledLinks(settings) => {
                    Engine::ShuffledLinks(ShuffledLinks::new(settings, corpus.len() as u32))
                }
                Service::Dense(settings) => {
                    let encoder = models.get(settings.encoder.as_str());
                    let encoder = Arc::clone(encoder.expect("a job's dense services name encoders; this is a bug"));
                    Engine::Dense(Arc::new(Dense::new(name, settings, encoder, &folder, self.verified.is_some())))
                }
                Service::Lm(_) => Engine::Lm(Arc::clone(&models[name.as_str()])),
            };
            engines.insert(name.as_str().into(), Arc::new(engine));
        }
        Ok(engines)
    }
}

impl Cache {
    /// Bytes of the job's index files.
    pub fn index_bytes(&self, job: &Job, digest: &str) -> u64 {
        let key = |service: &Service| match service {
            Service::Bm25(parameters) => Some(Bm25Index::key(digest, parameters)),
            Service::Tfidf(parameters) => Some(TfidfIndex::key(digest, parameters)),
            Service::LinkTfidf {} | Service::ShuffledLinks(_) | Service::Dense(_) | Service::Lm(_) => None,
        };
        let size = |key: String| self.root.join("indexes").join(format!("{key}.idx")).metadata().map_or(0, |m| m.len());
        let keys: BTreeSet<String> = job.service.values().filter_map(key).collect();
        keys.into_iter().map(size).sum()
    }
}

/// The corpus as an index reads it.
struct Texts<'a>(&'a Corpus);

impl hopeval_index::Passages for Texts<'_> {
    fn len(&self) -> u32 {
        // A corpus has at most u32::MAX passages: its ids are u32.
        self.0.len() as u32
    }

    fn title(&self, id: u32) -> &str {
        self.0.title(PassageId(id))
    }

    fn text(&self, id: u32) -> &str {
        self.0.text(PassageId(id))
    }
}

/// The files a corpus is built from, with their digests.
fn sources(job: &Job) -> Result<Vec<Source>, JobError> {
    let mut found = Vec::new();
    for path in job.corpus.source.paths() {
        if path.as_os_str() == CONTEXTS {
            for path in job.dataset.questions.paths() {
                found.push(Source { name: format!("{CONTEXTS}:{}", file_name(path)), digest: digest(path)? });
            }
        } else {
            found.push(Source { name: file_name(path), digest: digest(path)? });
        }
    }
    Ok(found)
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// BLAKE3 of a file, or of the names and digests of a folder's files.
pub fn digest(path: &Path) -> Result<String, JobError> {
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
            hasher.update(digest(&name)?.as_bytes());
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

fn corpus_key(settings: &CorpusSettings, sources: &[Source], set_aside: bool) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("hopeval corpus 1");
    let shape = (settings.duplicates, settings.links, settings.targets_per_title);
    for text in [serde_json::to_string(&shape), serde_json::to_string(sources)].into_iter().flatten() {
        hasher.update(text.as_bytes());
    }
    if set_aside {
        hasher.update(b"wrong rows set aside");
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

fn build(
    dir: &Path,
    settings: CorpusSettings,
    sources: Vec<Source>,
    job: &Job,
    set_aside: bool,
    report: Report<'_>,
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
            let policy = if set_aside { Policy::Quarantine(Box::new(|_| ())) } else { Policy::Strict };
            for question in Questions::open(&spec(&job.dataset, None), policy)? {
                question?.candidates.into_iter().try_for_each(&mut push)?;
            }
        } else {
            for record in Passages::open(&PassageSpec::file(path), Policy::Strict)? {
                push(record?)?;
            }
        }
    }
    builder.finish().map_err(|source| {
        let paths = job.corpus.source.paths().iter().map(|path| path.display().to_string());
        JobError::CorpusOf { files: paths.collect::<Vec<_>>().join(", "), source }
    })?;
    Ok(())
}

/// Adds one record to a corpus that is being built.
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

/// What to read of a dataset.
pub fn spec(dataset: &Dataset, limit: Option<u64>) -> DatasetSpec {
    DatasetSpec { format: dataset.format, paths: dataset.questions.paths().to_vec(), limit }
}
