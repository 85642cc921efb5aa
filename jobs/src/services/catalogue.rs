//! All services of a run over its corpus: opened together, known by name, each with its fingerprint.

use super::ServiceEntry;
use super::corpus::{CORPUS, CorpusLookup};
use super::dataset_questions::DatasetQuestions;
use super::dense::build::{self, IndexBuild};
use super::fragments::FragmentTexts;
use super::service::{Availability, IndexState, OpeningContext, Service, ServiceSettings, Services, WaitingBatch};
use crate::cache::{Cache, ProgressReporter};
use crate::error::JobError;
use crate::mode::TimingMode;
use hopeval_corpus::Corpus;
use hopeval_methods::{Method, Request, RequestKind, Response, ServiceAbility, ServiceName, ServiceUse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use timely::worker::Worker;

/// All services of a run, shared by the workers of a process.
pub struct Catalogue {
    /// The corpus.
    pub corpus: Arc<Corpus>,
    services: Services,
    infos: BTreeMap<Arc<str>, ServiceInfo>,
    fragments: FragmentTexts,
}

/// Facts about a service.
#[derive(Debug)]
pub struct ServiceInfo {
    /// Its kind, as the job names it.
    pub kind: &'static str,
    /// Whether its answers are journalled; look-ups in the corpus are not worth it.
    pub journalled: bool,
    /// Whether a model computes the answers: slow to repeat, and perhaps impossible on this machine.
    pub has_model: bool,
    /// Whether one worker of the run sends all of its requests.
    pub has_one_owner: bool,
    /// Whether a server answers, perhaps for money, so that an answer must be durable at once.
    pub remote: bool,
    /// Set by the probe, since the abilities of a model depend on its checkpoint.
    known: OnceLock<ProbeResult>,
}

#[derive(Debug)]
struct ProbeResult {
    answers: Vec<RequestKind>,
    abilities: Vec<ServiceAbility>,
    fingerprint: [u8; 32],
}

impl ServiceInfo {
    /// The kinds of requests this service answers; empty before the catalogue is probed.
    pub fn answers(&self) -> &[RequestKind] {
        self.known.get().map_or(&[], |known| &known.answers)
    }

    /// Its further abilities; empty before the catalogue is probed.
    pub fn abilities(&self) -> &[ServiceAbility] {
        self.known.get().map_or(&[], |known| &known.abilities)
    }

    /// The hash of everything that can change an answer; `None` before the catalogue is probed.
    pub fn fingerprint(&self) -> Option<&[u8; 32]> {
        self.known.get().map(|known| &known.fingerprint)
    }
}

fn hash_identity<'a>(parts: impl IntoIterator<Item = &'a str>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("hopeval service 1");
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    *hasher.finalize().as_bytes()
}

/// The order of opening: services that depend on another service come last.
fn in_order(entries: &BTreeMap<String, ServiceEntry>) -> impl Iterator<Item = (&str, &ServiceEntry)> {
    let asks = |entry: &ServiceEntry| entry.settings().needed_service().is_some();
    let named = || entries.iter().map(|(name, entry)| (name.as_str(), entry));
    named().filter(move |(_, entry)| !asks(entry)).chain(named().filter(move |(_, entry)| asks(entry)))
}

/// The abilities that a method needs and a service lacks.
fn missing_abilities(info: &ServiceInfo, used: &ServiceUse) -> Vec<ServiceAbility> {
    used.needs.iter().copied().filter(|ability| !info.abilities().contains(ability)).collect()
}

fn ability_names(abilities: &[ServiceAbility]) -> String {
    abilities.iter().map(|ability| format!("`{}`", ability.name())).collect::<Vec<_>>().join(", ")
}

impl Catalogue {
    /// Opens the services of a job over `corpus`, with the `questions` of its dataset. Missing word indexes are built.
    /// Models are opened by [`Catalogue::probe`] or by their first request; showing a run needs no model.
    ///
    /// # Errors
    /// A full disk, a corrupt or foreign index.
    pub fn open(
        corpus: Arc<Corpus>,
        entries: &BTreeMap<String, ServiceEntry>,
        cache: &Cache,
        threads: usize,
        mode: TimingMode,
        questions: &DatasetQuestions,
        report: ProgressReporter<'_>,
    ) -> Result<Self, JobError> {
        let info = |kind, settings: &dyn ServiceSettings| ServiceInfo {
            kind,
            journalled: settings.is_journalled(),
            has_model: settings.has_model(),
            has_one_owner: settings.has_one_owner(),
            remote: settings.is_remote(),
            known: OnceLock::new(),
        };
        let (mut services, mut infos) = (Services::new(), BTreeMap::new());
        let fragments = FragmentTexts::default();
        for (name, entry) in in_order(entries) {
            let settings = entry.settings();
            let (corpus, opened, fragments) = (&corpus, &services, &fragments);
            let opening = OpeningContext { name, corpus, cache, threads, mode, report, opened, fragments, questions };
            let service = settings.open(&opening)?;
            services.insert(name.into(), service);
            infos.insert(name.into(), info(entry.kind(), settings));
        }
        services.insert(CORPUS.into(), Arc::new(CorpusLookup));
        let known = OnceLock::new();
        let (kind, journalled, has_model, has_one_owner, remote) = (CORPUS, false, false, false, false);
        let corpus_info = ServiceInfo { kind, journalled, has_model, has_one_owner, remote, known };
        infos.insert(CORPUS.into(), corpus_info);
        Ok(Self { corpus, services, infos, fragments })
    }

    /// Opens every model and the existing indexes. A model may read all of its weights for their digest. Returns each
    /// index file of a run, existing or to be made, under its first service. From then on requests have keys, and
    /// [`Catalogue::estimate`] works.
    ///
    /// # Errors
    /// A missing or unusable model, a missing device, a corrupt index.
    pub fn probe(&self, report: ProgressReporter<'_>) -> Result<BTreeMap<String, IndexState>, JobError> {
        let mut found: BTreeMap<String, IndexState> = BTreeMap::new();
        for (name, service) in &self.services {
            let availability = service.probe(&self.corpus, report)?;
            if let Some(info) = self.infos.get(name) {
                // Payloads name passages by their position in the corpus.
                let whole = [info.kind, self.corpus.digest()].into_iter();
                let fingerprint = hash_identity(whole.chain(availability.identity.iter().map(String::as_str)));
                let Availability { answers, abilities, .. } = availability;
                info.known.get_or_init(|| ProbeResult { answers, abilities, fingerprint });
            }
            if let Some(index) = availability.index
                && found.values().all(|other| other.path != index.path)
            {
                found.insert(name.to_string(), index);
            }
        }
        Ok(found)
    }

    /// Checks that all services can answer for a question that is evaluated: [`Service::check_question`].
    ///
    /// # Errors
    /// As there.
    pub fn check_question(&self, id: &str, text: &str) -> Result<(), JobError> {
        self.services.values().try_for_each(|service| service.check_question(id, text))
    }

    /// Opens everything: after [`Catalogue::probe`] it makes missing dense indexes, with one worker, and opens them.
    ///
    /// # Errors
    /// As [`Catalogue::probe`]; a passage refused by an encoder.
    pub fn open_all(&self, report: ProgressReporter<'_>) -> Result<(), JobError> {
        if self.probe(report)?.values().any(|index| index.passages_to_embed > 0) {
            build::build_alone(&self.corpus, &self.services, report)?;
        }
        self.open_indexes()
    }

    /// Makes missing dense indexes together with all other workers of the run, and opens them.
    ///
    /// # Errors
    /// As [`build::build_indexes`].
    pub fn make_indexes(&self, worker: &mut Worker, building: &Arc<IndexBuild>) -> Result<(), JobError> {
        build::build_indexes(worker, &self.corpus, &self.services, building)?;
        self.open_indexes()
    }

    fn open_indexes(&self) -> Result<(), JobError> {
        self.services.values().try_for_each(|service| service.open_index(&self.corpus))
    }

    /// Opens models on further devices: each of `workers` workers of this process gets its own device, if there are
    /// enough.
    ///
    /// # Errors
    /// As [`Catalogue::probe`].
    pub fn open_on_devices(&self, workers: usize) -> Result<(), JobError> {
        self.services.values().try_for_each(|service| service.open_on_devices(workers))
    }

    /// The texts of prompts' fragments. Whoever configures methods adds theirs.
    pub fn fragments(&self) -> &FragmentTexts {
        &self.fragments
    }

    /// The batch files of all services that have any, completed: [`Service::close_batches`].
    ///
    /// # Errors
    /// As there.
    pub fn close_batches(&self) -> Result<Vec<WaitingBatch>, JobError> {
        let closed = self.services.values().map(|service| service.close_batches());
        closed.filter_map(Result::transpose).collect()
    }

    /// A service's facts.
    pub fn info(&self, name: &ServiceName) -> Option<&ServiceInfo> {
        self.infos.get(&name.0)
    }

    /// The facts of all services, by name.
    pub fn infos(&self) -> impl Iterator<Item = (&Arc<str>, &ServiceInfo)> {
        self.infos.iter()
    }

    /// The opened services, by name.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// The services with journalled answers.
    pub(super) fn journalled_services(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<dyn Service>)> {
        self.services.iter().filter(|(name, _)| self.infos.get(*name).is_some_and(|info| info.journalled))
    }

    /// The fingerprints of all services, in hex. A run's numbers depend on them, its dataset and its methods. The
    /// fingerprint of a service is empty before the probe.
    pub fn fingerprints(&self) -> BTreeMap<String, String> {
        let hex = |info: &ServiceInfo| info.fingerprint().map(|f| blake3::Hash::from_bytes(*f).to_hex().to_string());
        self.infos().map(|(name, info)| (name.to_string(), hex(info).unwrap_or_default())).collect()
    }

    /// The services that a server answers.
    pub fn remote_services(&self) -> BTreeSet<Arc<str>> {
        self.infos().filter(|(_, info)| info.remote).map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Parameter counts of the open models, by service. A dense index has the count of its encoder.
    pub fn model_parameters(&self) -> BTreeMap<String, u64> {
        let known =
            |(name, service): (&Arc<str>, &Arc<dyn Service>)| Some((name.to_string(), service.parameter_count()?));
        self.services.iter().filter_map(known).collect()
    }

    /// Checks that all services of a configuration exist and can answer, with the abilities the method needs, and that
    /// a labeler has the tags the method expects. Needs a probed catalogue.
    ///
    /// # Errors
    /// [`JobError::ServiceUse`].
    pub fn check_services(&self, configuration: &str, method: &dyn Method) -> Result<(), JobError> {
        for used in method.service_uses() {
            let Some(reason) = self.misfit_reason(method, &used) else { continue };
            let fit = self.infos().filter(|(_, info)| info.answers().contains(&used.kind));
            let fit = fit.filter(|(_, info)| missing_abilities(info, &used).is_empty());
            let fit =
                fit.map(|(name, _)| match self.checkpoint_tags(name).filter(|_| used.kind == RequestKind::Label) {
                    Some(tags) => format!("{name} ({tags} tags)"),
                    None => name.to_string(),
                });
            let allowed = fit.collect::<Vec<_>>().join(", ");
            let wanted = || match &used.needs[..] {
                [] => used.kind.name().to_owned(),
                needs => format!("{} and can {}", used.kind.name(), ability_names(needs)),
            };
            return Err(JobError::ServiceUse {
                configuration: configuration.into(),
                parameter: used.parameter,
                service: used.service.to_string(),
                reason,
                allowed: if allowed.is_empty() { format!("none that answers {}", wanted()) } else { allowed },
            });
        }
        Ok(())
    }

    /// The reason why a service does not fit a method's use, if any.
    fn misfit_reason(&self, method: &dyn Method, used: &ServiceUse) -> Option<String> {
        let Some(info) = self.info(&used.service) else { return Some("no such service".to_owned()) };
        if info.answers().contains(&used.kind) {
            let missing = missing_abilities(info, used);
            return match missing.is_empty() {
                true => self.other_tags(method, used),
                false => Some(format!("a {} service cannot {}", info.kind, ability_names(&missing))),
            };
        }
        let kind = used.kind.name();
        let service = self.services.get(&used.service.0)?;
        Some(match service.checkpoint() {
            // Its abilities depend on its checkpoint, not on its kind.
            Some(checkpoint) => {
                let answers = info.answers().iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
                format!("the checkpoint {} answers {answers}, not {kind}", checkpoint.name)
            }
            None => format!("a {} service does not answer {kind}", info.kind),
        })
    }

    /// The reason why a labeler's tags do not match a method's parameters, if any.
    fn other_tags(&self, method: &dyn Method, used: &ServiceUse) -> Option<String> {
        let (parameter, wanted) = method.labeler_tags().filter(|_| used.kind == RequestKind::Label)?;
        let found = self.checkpoint_tags(&used.service.0).filter(|&found| found != wanted as usize)?;
        Some(format!("its checkpoint has {found} tags, and `{parameter}` = {wanted}"))
    }

    /// Number of sequence tags of an open checkpoint.
    fn checkpoint_tags(&self, service: &str) -> Option<usize> {
        Some(self.services.get(service)?.checkpoint()?.tags)
    }

    /// Whether a method uses a service with a model.
    pub fn needs_models(&self, method: &dyn Method) -> bool {
        method.service_uses().iter().any(|used| self.info(&used.service).is_some_and(|info| info.has_model))
    }

    /// Answers one request directly: for transcripts and single requests outside a run.
    pub fn answer(&self, request: &Request) -> Response {
        self.service_for(request).answer(&self.corpus, request)
    }

    /// The response for plans: from a model its work and an invented answer, from other services the real answer.
    pub fn estimate(&self, request: &Request) -> Response {
        self.service_for(request).estimate(&self.corpus, request)
    }

    /// The service of a request. For an unknown service it is the corpus, which refuses the request.
    fn service_for(&self, request: &Request) -> &dyn Service {
        self.services.get(&request.service.0).map_or(&CorpusLookup, AsRef::as_ref)
    }
}
