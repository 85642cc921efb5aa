//! All services of a run over its corpus: opened together, known by name, each with its fingerprint.

use super::ServiceEntry;
use super::corpus::{CORPUS, CorpusLookup};
use super::dense::build::{self, Building};
use super::service::{IndexState, Opening, Service, Services};
use crate::cache::{Cache, Report};
use crate::error::JobError;
use crate::mode::Mode;
use hopeval_corpus::Corpus;
use hopeval_methods::{Kind, Method, Request, Response, ServiceName, ServiceUse};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use timely::worker::Worker;

/// All services of a run, shared by the workers of a process.
pub struct Catalogue {
    /// The corpus.
    pub corpus: Arc<Corpus>,
    services: Services,
    infos: BTreeMap<Arc<str>, Info>,
}

/// Facts about a service.
#[derive(Debug)]
pub struct Info {
    /// Its kind, as the job names it.
    pub kind: &'static str,
    /// Whether its answers are journalled; corpus lookups are not worth it.
    pub journalled: bool,
    /// Whether answers are computed by a model: slow to compute again, and perhaps not here.
    pub has_model: bool,
    /// Known once the service was probed: a model's checkpoint says what it can.
    known: OnceLock<Known>,
}

#[derive(Debug)]
struct Known {
    answers: Vec<Kind>,
    fingerprint: [u8; 32],
}

impl Info {
    /// The kinds of requests that it answers; none before the catalogue was probed.
    pub fn answers(&self) -> &[Kind] {
        self.known.get().map_or(&[], |known| &known.answers)
    }

    /// The hash of everything that can change an answer; `None` before the catalogue was probed.
    pub fn fingerprint(&self) -> Option<&[u8; 32]> {
        self.known.get().map(|known| &known.fingerprint)
    }
}

fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a str>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("hopeval service 1");
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    *hasher.finalize().as_bytes()
}

/// The order of opening: services that ask another one come after those that ask nobody.
fn in_order(entries: &BTreeMap<String, ServiceEntry>) -> impl Iterator<Item = (&str, &ServiceEntry)> {
    let asks = |entry: &ServiceEntry| entry.settings().needs().is_some();
    let named = || entries.iter().map(|(name, entry)| (name.as_str(), entry));
    named().filter(move |(_, entry)| !asks(entry)).chain(named().filter(move |(_, entry)| asks(entry)))
}

impl Catalogue {
    /// Opens the services of a job over `corpus`; indexes of words are built where they are not there. Models are opened
    /// by [`Catalogue::probe`], or when they are first asked: who only looks at a run needs none.
    ///
    /// # Errors
    /// A full disk, a corrupt or foreign index.
    pub fn open(
        corpus: Arc<Corpus>,
        entries: &BTreeMap<String, ServiceEntry>,
        cache: &Cache,
        threads: usize,
        mode: Mode,
        report: Report<'_>,
    ) -> Result<Self, JobError> {
        let info = |kind, journalled, has_model| Info { kind, journalled, has_model, known: OnceLock::new() };
        let (mut services, mut infos) = (Services::new(), BTreeMap::new());
        for (name, entry) in in_order(entries) {
            let settings = entry.settings();
            let opening = Opening { name, corpus: &corpus, cache, threads, mode, report, opened: &services };
            let service = settings.open(&opening)?;
            services.insert(name.into(), service);
            infos.insert(name.into(), info(entry.kind(), settings.is_journalled(), settings.has_model()));
        }
        services.insert(CORPUS.into(), Arc::new(CorpusLookup));
        infos.insert(CORPUS.into(), info(CORPUS, false, false));
        Ok(Self { corpus, services, infos })
    }

    /// Opens every model, which may read all of its weights for their digest, and the indexes that are there. Tells each
    /// index file that a run finds or makes, by the first service that has it. Requests have keys from then on, and
    /// [`Catalogue::estimate`] can be asked.
    ///
    /// # Errors
    /// A model that is not there or that cannot be used, a device that is not there, a corrupt index.
    pub fn probe(&self, report: Report<'_>) -> Result<BTreeMap<String, IndexState>, JobError> {
        let mut found: BTreeMap<String, IndexState> = BTreeMap::new();
        for (name, service) in &self.services {
            let availability = service.probe(&self.corpus, report)?;
            if let Some(info) = self.infos.get(name) {
                // Payloads name passages by their position in the corpus.
                let whole = [info.kind, self.corpus.digest()].into_iter();
                let fingerprint = fingerprint(whole.chain(availability.identity.iter().map(String::as_str)));
                info.known.get_or_init(|| Known { answers: availability.answers, fingerprint });
            }
            if let Some(index) = availability.index
                && found.values().all(|other| other.path != index.path)
            {
                found.insert(name.to_string(), index);
            }
        }
        Ok(found)
    }

    /// Opens everything: what [`Catalogue::probe`] opens, and dense indexes that are not there, which are made alone.
    ///
    /// # Errors
    /// As there; a passage that an encoder refuses.
    pub fn open_all(&self, report: Report<'_>) -> Result<(), JobError> {
        if self.probe(report)?.values().any(|index| index.passages_to_embed > 0) {
            build::alone(&self.corpus, &self.services, report)?;
        }
        self.open_indexes()
    }

    /// Makes, with all other workers of the run, the dense indexes that a process lacks, and opens them: [`build::make`].
    ///
    /// # Errors
    /// As there.
    pub fn make_indexes(&self, worker: &mut Worker, building: &Arc<Building>) -> Result<(), JobError> {
        build::make(worker, &self.corpus, &self.services, building)?;
        self.open_indexes()
    }

    fn open_indexes(&self) -> Result<(), JobError> {
        self.services.values().try_for_each(|service| service.open_index(&self.corpus))
    }

    /// Opens models on further devices, so that each of `workers` workers of this process has its own, as far as there
    /// are.
    ///
    /// # Errors
    /// As [`Catalogue::probe`].
    pub fn open_on_devices(&self, workers: usize) -> Result<(), JobError> {
        self.services.values().try_for_each(|service| service.open_on_devices(workers))
    }

    /// A service's facts.
    pub fn info(&self, name: &ServiceName) -> Option<&Info> {
        self.infos.get(&name.0)
    }

    /// The facts of all services, by name.
    pub fn infos(&self) -> impl Iterator<Item = (&Arc<str>, &Info)> {
        self.infos.iter()
    }

    /// The opened services, by name.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// The services whose answers are journalled.
    pub(super) fn journalled(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<dyn Service>)> {
        self.services.iter().filter(|(name, _)| self.infos.get(*name).is_some_and(|info| info.journalled))
    }

    /// The fingerprints of all services, in hex: what a run's numbers depend on beside its dataset and its methods. Empty
    /// for one that was not probed.
    pub fn fingerprints(&self) -> BTreeMap<String, String> {
        let hex = |info: &Info| info.fingerprint().map(|f| blake3::Hash::from_bytes(*f).to_hex().to_string());
        self.infos().map(|(name, info)| (name.to_string(), hex(info).unwrap_or_default())).collect()
    }

    /// Parameters of the models that are open, by service; of a dense index, its encoder's.
    pub fn parameters(&self) -> BTreeMap<String, u64> {
        let known = |(name, service): (&Arc<str>, &Arc<dyn Service>)| Some((name.to_string(), service.parameters()?));
        self.services.iter().filter_map(known).collect()
    }

    /// Checks that every service a configuration uses exists and can answer, a labeler with the tags that the method
    /// expects. For a catalogue that was probed.
    ///
    /// # Errors
    /// [`JobError::ServiceUse`].
    pub fn check(&self, configuration: &str, method: &dyn Method) -> Result<(), JobError> {
        for used in method.services() {
            let Some(reason) = self.misfit(method, &used) else { continue };
            let fit = self.infos().filter(|(_, info)| info.answers().contains(&used.kind));
            let fit = fit.map(|(name, _)| match self.tags(name).filter(|_| used.kind == Kind::Label) {
                Some(tags) => format!("{name} ({tags} tags)"),
                None => name.to_string(),
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

    /// The reason why a service cannot be used as a method uses it.
    fn misfit(&self, method: &dyn Method, used: &ServiceUse) -> Option<String> {
        let Some(info) = self.info(&used.service) else { return Some("no such service".to_owned()) };
        if info.answers().contains(&used.kind) {
            return self.other_tags(method, used);
        }
        let kind = used.kind.name();
        let service = self.services.get(&used.service.0)?;
        Some(match service.checkpoint() {
            // Its abilities are a matter of its checkpoint, not of its kind.
            Some(checkpoint) => {
                let answers = info.answers().iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
                format!("the checkpoint {} answers {answers}, not {kind}", checkpoint.name)
            }
            None => format!("a {} service does not answer {kind}", info.kind),
        })
    }

    /// The reason why a labeler is not the one that a method's parameters speak of.
    fn other_tags(&self, method: &dyn Method, used: &ServiceUse) -> Option<String> {
        let (parameter, wanted) = method.tags().filter(|_| used.kind == Kind::Label)?;
        let found = self.tags(&used.service.0).filter(|&found| found != wanted as usize)?;
        Some(format!("its checkpoint has {found} tags, and `{parameter}` = {wanted}"))
    }

    /// Tags that an open checkpoint gives to a sequence.
    fn tags(&self, service: &str) -> Option<usize> {
        Some(self.services.get(service)?.checkpoint()?.tags)
    }

    /// Whether a method asks a service with a model.
    pub fn needs_models(&self, method: &dyn Method) -> bool {
        method.services().iter().any(|used| self.info(&used.service).is_some_and(|info| info.has_model))
    }

    /// Answers one request, here and now: for transcripts and small things outside a run.
    pub fn answer(&self, request: &Request) -> Response {
        self.service(request).answer(&self.corpus, request)
    }

    /// The response that a plan takes for `request`: of a model its work and an invented answer, else the answer.
    pub fn estimate(&self, request: &Request) -> Response {
        self.service(request).estimate(&self.corpus, request)
    }

    /// The service of a request; one that does not exist is the corpus's to refuse.
    fn service(&self, request: &Request) -> &dyn Service {
        self.services.get(&request.service.0).map_or(&CorpusLookup, AsRef::as_ref)
    }
}
