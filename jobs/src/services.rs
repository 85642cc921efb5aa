//! Services: what answers the requests of methods, and with which fingerprint.
//!
//! | file | answers |
//! | --- | --- |
//! | [`corpus`] | look-ups in the mapped corpus, and how a passage is written out |
//! | [`sparse`] | retrieval by words: BM25, TF-IDF, TF-IDF of links |
//! | [`dense`] | retrieval by vectors that an encoder makes; [`dense::build`] and [`dense::shards`]: by all workers together |
//! | [`links`] | the corpus's links, shuffled: a control |
//! | [`lm`] | what a language model is asked, by what its checkpoint offers |
//! | [`models`] | where a model's name leads |
//! | [`desk`] | one worker's requests on their way to journal, memory or service |
//! | [`spent`] | what services did |

pub mod corpus;
pub mod dense;
pub mod desk;
pub mod links;
pub mod lm;
pub mod models;
pub mod record;
pub mod sparse;
pub mod spent;

pub use corpus::CORPUS;
pub use desk::{Desk, Manner};
pub use spent::{Books, Spent, books};

use crate::error::JobError;
use crate::job::Service;
use crate::prepare::corpora::Report;
use dense::build::{self, Building};
use dense::{Dense, Prospect};
use hopeval_corpus::Corpus;
use hopeval_index::{Bm25Index, Scratch, TfidfIndex};
use hopeval_methods::{FailureKind, Kind, Request, Response, ServiceName};
use links::ShuffledLinks;
use lm::Lm;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use timely::worker::Worker;

/// The engines of a job's services, by name.
pub type Engines = BTreeMap<Arc<str>, Arc<Engine>>;

/// What answers the requests of one service.
pub enum Engine {
    /// BM25.
    Bm25(Bm25Index),
    /// DrQA's TF-IDF.
    Tfidf(TfidfIndex),
    /// TF-IDF fitted on the passages of each request.
    LinkTfidf,
    /// Links that lead elsewhere.
    ShuffledLinks(ShuffledLinks),
    /// Vectors that a language model makes.
    Dense(Arc<Dense>),
    /// A language model.
    Lm(Arc<Lm>),
}

/// All services of a run, shared by the workers of a process.
pub struct Catalogue {
    /// The corpus.
    pub corpus: Arc<Corpus>,
    engines: Engines,
    infos: BTreeMap<Arc<str>, Info>,
}

impl Engine {
    /// Whether answers are computed by a model: slow to compute again, and perhaps not here.
    fn has_model(&self) -> bool {
        matches!(self, Self::Dense(_) | Self::Lm(_))
    }
}

/// What is known of a service.
#[derive(Debug)]
pub struct Info {
    /// Its kind, as the job names it.
    pub kind: &'static str,
    /// Whether its answers are journalled; corpus lookups are not worth it.
    pub journalled: bool,
    /// Known once the service is open: a model's checkpoint says what it can.
    known: OnceLock<Known>,
}

#[derive(Debug)]
struct Known {
    answers: Vec<Kind>,
    fingerprint: [u8; 32],
}

impl Info {
    /// What it can answer; nothing before the catalogue is open.
    pub fn answers(&self) -> &[Kind] {
        self.known.get().map_or(&[], |known| &known.answers)
    }

    /// Everything that can change an answer; none before the catalogue is open.
    pub fn fingerprint(&self) -> Option<&[u8; 32]> {
        self.known.get().map(|known| &known.fingerprint)
    }
}

/// Rises when a retriever's answers change although no parameter does.
const NUMERICS: &str = "f64 1";

fn fingerprint(parts: &[&str]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("hopeval service 1");
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    *hasher.finalize().as_bytes()
}

impl Catalogue {
    /// The services of a job over `corpus`. Models are opened by [`Catalogue::look`], or when they are first asked: who
    /// only looks at a run needs none.
    pub fn new(corpus: Arc<Corpus>, engines: Engines, services: &BTreeMap<String, Service>) -> Self {
        let digest = corpus.digest().to_owned();
        let mut infos: BTreeMap<Arc<str>, Info> = services
            .iter()
            .map(|(name, service)| {
                let known = OnceLock::new();
                let looks_up = matches!(service, Service::ShuffledLinks(_));
                if !matches!(service, Service::Lm(_) | Service::Dense(_)) {
                    // The definition with every default filled in.
                    let parameters =
                        serde_json::to_string(service).expect("plain data can be written as JSON; this is a bug");
                    let fingerprint = fingerprint(&[service.kind(), &digest, &parameters, NUMERICS]);
                    let answers = vec![if looks_up { Kind::Links } else { Kind::Retrieve }];
                    let _ = known.set(Known { answers, fingerprint });
                }
                (name.as_str().into(), Info { kind: service.kind(), journalled: !looks_up, known })
            })
            .collect();
        let answers = vec![Kind::Passages, Kind::Links];
        let known = OnceLock::from(Known { answers, fingerprint: fingerprint(&[CORPUS, &digest]) });
        infos.insert(CORPUS.into(), Info { kind: CORPUS, journalled: false, known });
        Self { corpus, engines, infos }
    }

    /// Opens every model, which may read all of its weights for their digest, and makes dense indexes that are not there, alone.
    ///
    /// # Errors
    /// A model that is not there or that cannot be used, a device that is not there, a passage that an encoder refuses.
    pub fn open(&self, report: Report<'_>) -> Result<(), JobError> {
        if self.look(report)?.values().any(|dense| dense.passages_to_embed > 0) {
            build::alone(&self.corpus, &self.engines, report)?;
        }
        self.open_indexes()
    }

    /// Makes, with all other workers of the run, the dense indexes that a process lacks, and opens them: [`build::make`].
    ///
    /// # Errors
    /// As there.
    pub fn make_indexes(&self, worker: &mut Worker, building: &Arc<Building>) -> Result<(), JobError> {
        build::make(worker, &self.corpus, &self.engines, building)?;
        self.open_indexes()
    }

    fn open_indexes(&self) -> Result<(), JobError> {
        self.engines.values().try_for_each(|engine| match engine.as_ref() {
            Engine::Dense(dense) => dense.open(&self.corpus).map(drop),
            _ => Ok(()),
        })
    }

    /// Opens every model, and the dense indexes that are there; what a run finds of each dense index, by the first service that
    /// has it. Needed before requests have keys; [`Catalogue::estimate`] can be asked then.
    ///
    /// # Errors
    /// A model that is not there or that cannot be used, a device that is not there, a corrupt index.
    pub fn look(&self, report: Report<'_>) -> Result<BTreeMap<String, Prospect>, JobError> {
        let mut found: BTreeMap<String, Prospect> = BTreeMap::new();
        for (name, engine) in &self.engines {
            let (answers, digest) = match engine.as_ref() {
                Engine::Lm(lm) => {
                    report(&format!("model {name}"), 0);
                    let model = lm.open()?;
                    (model.answers().to_vec(), model.digest().to_owned())
                }
                Engine::Dense(dense) => {
                    let prospect = dense.look(&self.corpus)?;
                    if found.values().all(|other| other.path != prospect.path) {
                        found.insert(name.to_string(), prospect);
                    }
                    (vec![Kind::Retrieve], dense.digest()?)
                }
                Engine::Bm25(_) | Engine::Tfidf(_) | Engine::LinkTfidf | Engine::ShuffledLinks(_) => continue,
            };
            if let Some(info) = self.infos.get(name) {
                // Payloads name passages by their position in the corpus.
                let fingerprint = fingerprint(&[info.kind, self.corpus.digest(), &digest]);
                info.known.get_or_init(|| Known { answers, fingerprint });
            }
        }
        Ok(found)
    }

    /// Opens models on further devices, so that each of `workers` workers of this process has its own, as far as there are.
    ///
    /// # Errors
    /// As [`Catalogue::look`].
    pub fn spread(&self, workers: usize) -> Result<(), JobError> {
        self.engines.values().try_for_each(|engine| match engine.as_ref() {
            Engine::Lm(lm) => lm.spread(workers),
            _ => Ok(()),
        })
    }

    /// A service.
    pub fn info(&self, name: &ServiceName) -> Option<&Info> {
        self.infos.get(&name.0)
    }

    /// All services, by name.
    pub fn infos(&self) -> impl Iterator<Item = (&str, &Info)> {
        self.infos.iter().map(|(name, info)| (name.as_ref(), info))
    }

    /// The fingerprints of all services, in hex: what a run's numbers depend on beside its dataset and its methods. Empty
    /// for one that is not open.
    pub fn fingerprints(&self) -> BTreeMap<String, String> {
        let hex = |info: &Info| info.fingerprint().map(|f| blake3::Hash::from_bytes(*f).to_hex().to_string());
        self.infos().map(|(name, info)| (name.to_owned(), hex(info).unwrap_or_default())).collect()
    }

    /// Parameters of the models that are open, by service; of a dense index, its encoder's.
    pub fn parameters(&self) -> BTreeMap<String, u64> {
        let of = |engine: &Engine| match engine {
            Engine::Lm(lm) => lm.opened().map(lm::Model::parameters),
            Engine::Dense(dense) => dense.encoder_parameters(),
            Engine::Bm25(_) | Engine::Tfidf(_) | Engine::LinkTfidf | Engine::ShuffledLinks(_) => None,
        };
        self.engines.iter().filter_map(|(name, engine)| Some((name.to_string(), of(engine)?))).collect()
    }

    /// Checks that every service a configuration uses exists and can answer, a labeler with the tags that the method expects. For a
    /// catalogue that is open.
    ///
    /// # Errors
    /// [`JobError::ServiceUse`].
    pub fn check(&self, configuration: &str, method: &dyn hopeval_methods::Method) -> Result<(), JobError> {
        let names = |kinds: &[Kind]| kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
        for used in method.services() {
            let reason = match self.info(&used.service) {
                None => "no such service".to_owned(),
                Some(info) if !info.answers().contains(&used.kind) => {
                    let kind = used.kind.name();
                    match self.engines.get(&used.service.0).map(AsRef::as_ref) {
                        // What it lacks is a matter of its checkpoint, not of its kind.
                        Some(Engine::Lm(lm)) => {
                            format!("the checkpoint {lm} answers {}, not {kind}", names(info.answers()))
                        }
                        _ => format!("a {} service does not answer {kind}", info.kind),
                    }
                }
                Some(_) => match self.other_tags(method, &used) {
                    Some(reason) => reason,
                    None => continue,
                },
            };
            let fit = self.infos().filter(|(_, info)| info.answers().contains(&used.kind));
            let fit = fit.map(|(name, _)| match self.tags(name).filter(|_| used.kind == Kind::Label) {
                Some(tags) => format!("{name} ({tags} tags)"),
                None => name.to_owned(),
            });
            let allowed = fit.collect::<Vec<_>>().join(", ");
            return Err(JobError::ServiceUse {
                configuration: configuration.into(),
                parameter: used.parameter,
                service: used.service.to_string(),
                reason,
                allowed: if allowed.is_empty() { format!("none that answers {}", used.kind.name()) } else { allowed },
            });
        }
        Ok(())
    }

    /// Why a labeler is not the one that a method's parameters speak of.
    fn other_tags(&self, method: &dyn hopeval_methods::Method, used: &hopeval_methods::ServiceUse) -> Option<String> {
        let (parameter, wanted) = method.tags().filter(|_| used.kind == Kind::Label)?;
        let found = self.tags(&used.service.0).filter(|&found| found != wanted as usize)?;
        Some(format!("its checkpoint has {found} tags, and `{parameter}` = {wanted}"))
    }

    /// Tags that an open checkpoint gives to a sequence.
    fn tags(&self, service: &str) -> Option<usize> {
        match self.engines.get(service).map(AsRef::as_ref) {
            Some(Engine::Lm(lm)) => lm.opened().map(lm::Model::tags),
            _ => None,
        }
    }

    /// Whether a method asks a service with a model.
    pub fn needs_models(&self, method: &dyn hopeval_methods::Method) -> bool {
        let engine =
            |used: hopeval_methods::ServiceUse| self.engines.get(&used.service.0).is_some_and(|e| e.has_model());
        method.services().into_iter().any(engine)
    }

    /// Answers one request, here and now: for transcripts and small things outside a run.
    pub fn answer(&self, request: &Request) -> Response {
        match self.engines.get(&request.service.0).map(AsRef::as_ref) {
            Some(Engine::Lm(lm)) => match lm.open() {
                Ok(model) => model.answer(&self.corpus, request),
                Err(error) => Response::failure(FailureKind::Unavailable, error.to_string()),
            },
            Some(Engine::Dense(dense)) => {
                dense.retrieve(&self.corpus, &[request], &mut Scratch::default(), None, 0).0.remove(0)
            }
            Some(Engine::ShuffledLinks(_)) | None => self.look_up(request),
            Some(engine) => sparse::retrieve(&self.corpus, engine, &[request], &mut Scratch::default()).remove(0),
        }
    }

    /// Answers what a service looks up in the mapped corpus, and does not compute.
    fn look_up(&self, request: &Request) -> Response {
        match self.engines.get(&request.service.0).map(AsRef::as_ref) {
            Some(Engine::ShuffledLinks(links)) => links.look_up(&self.corpus, request),
            _ => corpus::look_up(&self.corpus, request),
        }
    }
}

impl Catalogue {
    /// What a plan takes for the response to `request`: of a model its work and an invented answer, else the answer.
    pub fn estimate(&self, request: &Request) -> Response {
        match self.engines.get(&request.service.0).map(AsRef::as_ref) {
            Some(Engine::Lm(lm)) => match lm.open() {
                Ok(model) => model.estimate(&self.corpus, request),
                Err(error) => Response::failure(FailureKind::Unavailable, error.to_string()),
            },
            Some(Engine::Dense(dense)) => dense.estimate(&self.corpus, request),
            _ => self.answer(request),
        }
    }
}

/// What `request` asks is not what its service can answer.
fn cannot(request: &Request) -> Response {
    let message = format!("`{}` does not answer {}", request.service, request.ask.kind().name());
    Response::failure(FailureKind::Refused, message)
}

/// A first error that ends the run, from whichever thread met it.
#[derive(Clone, Default)]
pub struct Fault(Arc<Mutex<Option<JobError>>>);

impl Fault {
    /// Keeps the first error, which whoever takes it tells the user; others often follow from it.
    pub fn report(&self, error: JobError) {
        tracing::debug!(%error, "the run cannot go on");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Takes the error, if there is one.
    pub fn take(&self) -> Option<JobError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
