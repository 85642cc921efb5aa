//! The rules for every kind of service, as a test. Each kind calls it.
//!
//! * The service's thread answers every request once, with any batch size, like [`super::service::Service::answer`].
//! * [`super::service::Service::estimate`] gives an answer of the requested kind.
//! * The fingerprint changes with every setting that can change an answer, and with no other. Every setting of the kind
//!   must be listed. A setting that changes the fingerprint without need is listed as such, and must stay so: another
//!   fingerprint would mean computing every journalled answer again.

use super::ServiceEntry;
use super::catalogue::Catalogue;
use super::dataset_questions::DatasetQuestions;
use super::key::request_key;
use super::served::{RecordedResponse, ServedResponse};
use super::thread::{ServiceTask, ServiceThread};
use super::usage::service_counters;
use crate::cache::Cache;
use crate::fault::RunFault;
use crate::mode::TimingMode;
use crate::write_backlog::WriteBacklog;
use hopeval_corpus::{Corpus, CorpusBuilder, CorpusSettings, NewLink, NewPassage};
use hopeval_datasets::DatasetSpec;
use hopeval_methods::{Request, RequestKind, RequestPayload, Response};
use hopeval_operators::gate::Gate;
use hopeval_operators::serve::{BackendAnswer, Submission};
use hopeval_operators::ticket::TicketBox;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// One kind of service under test.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceKind {
    /// The kind's name.
    pub(crate) kind: &'static str,
    /// The required keys of its table, as TOML.
    pub(crate) table: String,
    /// Further services for it, as whole TOML tables.
    pub(crate) needs: String,
    /// Other texts of `needs`, with the effect of their difference.
    pub(crate) other_needs: Vec<(String, Effect)>,
    /// The dataset of its questions, for a kind that reads it.
    pub(crate) questions: PathBuf,
    /// Requests it must answer.
    pub(crate) asks: Vec<RequestPayload>,
    /// Every setting, as `key = VALUE` with a value other than in `table`, and the setting's effect.
    pub(crate) settings: Vec<(String, Effect)>,
}

/// The effect of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It can change an answer.
    Answers,
    /// It cannot.
    None,
    /// It cannot, and moves the fingerprint all the same.
    MovesWithoutNeed,
}

/// The longest time for all answers of a tiny service.
const PATIENCE: Duration = Duration::from_secs(60);

/// The tested batch sizes of a service's thread.
const BATCHES: [usize; 2] = [1, 64];

/// Checks all rules for a kind.
///
/// # Panics
/// If the kind breaks a rule.
pub(crate) fn check_kind(kind: &ServiceKind) {
    check_answers(kind);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let corpus = corpus(dir.path());
    fingerprints(kind, &open(kind, "", &corpus, dir.path()), &corpus, dir.path());
}

/// Checks only the rules about answers.
///
/// # Panics
/// If the kind breaks a rule.
pub(crate) fn check_answers(kind: &ServiceKind) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let corpus = corpus(dir.path());
    let plain = open(kind, "", &corpus, dir.path());
    let requests: Vec<Request> = kind.asks.iter().map(|ask| Request::new(&UNDER_TEST.into(), ask.clone())).collect();
    assert!(!requests.is_empty(), "{}: nothing is asked", kind.kind);
    for request in &requests {
        let (answer, estimate) = (plain.answer(request), plain.estimate(request));
        assert_eq!(kind_of(&answer), Some(request.ask.kind()), "{}: {answer:?}", kind.kind);
        assert_eq!(kind_of(&estimate), Some(request.ask.kind()), "{}: {estimate:?}", kind.kind);
    }
    if plain.info(&UNDER_TEST.into()).is_some_and(|info| info.journalled) {
        BATCHES.iter().for_each(|&batch| answers_once(kind, &plain, &requests, batch));
    }
}

/// The name of the service under test.
const UNDER_TEST: &str = "under_test";

/// The kind of an answer, if it is one.
fn kind_of(response: &Response) -> Option<RequestKind> {
    response.result.as_ref().ok().map(hopeval_methods::Answer::kind)
}

/// Asks every request three times: the service's thread answers each once, with the answer of the request alone.
fn answers_once(kind: &ServiceKind, catalogue: &Catalogue, requests: &[Request], batch: usize) {
    let service = Arc::clone(&catalogue.services()[UNDER_TEST]);
    let tickets = TicketBox::<BackendAnswer<ServedResponse, RecordedResponse>>::default();
    let (sender, tasks) = channel::<ServiceTask>();
    let asked: Vec<&Request> = requests.iter().chain(requests).chain(requests).collect();
    for (slot, request) in asked.iter().enumerate() {
        let key = request_key(request, catalogue, &mut Vec::new());
        let request = Request::clone(request);
        let submission = Submission { key, bucket: 0, request, ticket: tickets.new_ticket(slot) };
        sender.send((submission, Instant::now())).expect("nobody has gone");
    }
    drop(sender);
    let name: Arc<str> = UNDER_TEST.into();
    let usage = service_counters([&name]);
    let corpus = Arc::clone(&catalogue.corpus);
    let (fault, gate, worker, inlet) = (RunFault::default(), Gate::default(), 0, None);
    let (name_of, counted) = (Arc::clone(&name), Arc::clone(&usage));
    let (journal_backlog, spending) = (WriteBacklog::unbounded(), None);
    let thread = ServiceThread {
        corpus,
        name: name_of,
        usage: counted,
        fault,
        gate,
        journal_backlog,
        worker,
        batch,
        spending,
        inlet,
    };
    service.serve(&thread, &tasks);
    let answered = tickets.wait_for(asked.len(), PATIENCE).expect("every request is answered");
    let mut slots = BTreeSet::new();
    for (slot, answer) in answered {
        let BackendAnswer { response, record } = answer.expect("no ticket is dropped");
        assert!(slots.insert(slot), "{}: request {slot} was answered twice", kind.kind);
        assert!(record.is_some(), "{}: an answer that is computed is journalled", kind.kind);
        // Facts of a call differ from run to run: samples of one call share its attempts.
        let both = [Arc::unwrap_or_clone(response.response), catalogue.answer(asked[slot])];
        let [answered, alone] = both.map(Response::without_facts);
        assert_eq!(answered, alone, "{}: batch {batch}", kind.kind);
    }
    assert_eq!(usage[&name].read().computed, asked.len() as u64, "{}: all are counted", kind.kind);
}

/// The fingerprint changes with the settings as listed, and every setting is listed.
fn fingerprints(kind: &ServiceKind, plain: &Catalogue, corpus: &Arc<Corpus>, dir: &Path) {
    let fingerprint = |catalogue: &Catalogue| catalogue.fingerprints()[UNDER_TEST].clone();
    let before = fingerprint(plain);
    let mut listed = BTreeSet::new();
    for (setting, effect) in &kind.settings {
        listed.insert(setting.split('=').next().unwrap_or_default().trim().to_owned());
        let moved = fingerprint(&open(kind, setting, corpus, dir)) != before;
        assert_eq!(moved, *effect != Effect::None, "{}: `{setting}`", kind.kind);
    }
    for (needs, effect) in &kind.other_needs {
        let kind = ServiceKind { needs: needs.clone(), ..kind.clone() };
        let moved = fingerprint(&open(&kind, "", corpus, dir)) != before;
        assert_eq!(moved, *effect != Effect::None, "{}: {needs}", kind.kind);
    }
    let entry = &entries(kind, "")[UNDER_TEST];
    assert_eq!(entry.kind(), kind.kind, "the file, the variant and the fingerprint have one name");
    assert_eq!(serde_json::to_value(entry).expect("plain data")["kind"], kind.kind);
    assert_eq!(listed, known_keys(kind), "{}: every setting is listed", kind.kind);
}

/// The keys that the table of the kind may have, as an unknown one is refused with them: a written table shows no
/// setting that is left out at its default.
fn known_keys(kind: &ServiceKind) -> BTreeSet<String> {
    let refused = toml::from_str::<BTreeMap<String, ServiceEntry>>(&job_text(kind, "no_such_setting = 0"));
    let error = refused.expect_err("a kind refuses unknown settings");
    let message = error.message();
    assert!(message.starts_with("unknown field `no_such_setting`"), "{}: {message}", kind.kind);
    message.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

/// The services of the job under test, with `setting` in the table of the kind.
fn entries(kind: &ServiceKind, setting: &str) -> BTreeMap<String, ServiceEntry> {
    let text = job_text(kind, setting);
    toml::from_str(&text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn job_text(kind: &ServiceKind, setting: &str) -> String {
    let key = setting.split('=').next().unwrap_or_default().trim();
    let same = |line: &&str| key.is_empty() || line.split('=').next().is_none_or(|other| other.trim() != key);
    let table: Vec<&str> = kind.table.lines().filter(same).collect();
    format!("[{UNDER_TEST}]\nkind = \"{}\"\n{}\n{setting}\n{}", kind.kind, table.join("\n"), kind.needs)
}

fn open(kind: &ServiceKind, setting: &str, corpus: &Arc<Corpus>, dir: &Path) -> Catalogue {
    let entries = entries(kind, setting);
    let others = |name: &str| entries.get(name).map(ServiceEntry::settings);
    entries[UNDER_TEST].settings().check(&others).unwrap_or_else(|error| panic!("{}: {error:?}", kind.kind));
    let cache = Cache::new(dir.join("cache"));
    let (mode, questions) = (TimingMode::default(), DatasetQuestions::new(DatasetSpec::file(&kind.questions)));
    let catalogue = Catalogue::open(Arc::clone(corpus), &entries, &cache, 1, mode, &questions, &|_, _| ());
    let catalogue = catalogue.unwrap_or_else(|error| panic!("{}: {error}", kind.kind));
    catalogue.open_all(&|_, _| ()).unwrap_or_else(|error| panic!("{} with {setting}: {error}", kind.kind));
    catalogue
}

/// A few passages that link to each other.
pub(crate) fn corpus(dir: &Path) -> Arc<Corpus> {
    let dir = dir.join("corpus");
    let mut builder = CorpusBuilder::create(&dir, CorpusSettings::default()).expect("a folder");
    let names = ["Arlen", "Breda", "Corin", "Delft", "Emden", "Fulda", "Ghent", "Halle"];
    for (n, title) in names.iter().enumerate() {
        let next = names[(n + 1) % names.len()];
        let text = format!("{title} is a city. It lies near {next}, and has {n} bridges.");
        let start = text.find(next).expect("it was just written") as u32;
        let links = [NewLink { title: next, start, end: start + next.len() as u32 }];
        let sentences = [format!("{title} is a city.").len() as u32, text.len() as u32];
        let passage = NewPassage { id: None, title, text: &text, sentences: &sentences, links: Some(&links) };
        builder.push(passage).expect("a good passage");
    }
    builder.finish().expect("a corpus");
    Arc::new(Corpus::open(&dir).expect("a corpus"))
}

/// A copy of a tiny model. Its digest is cached beside its weights, and must not be written into the fixtures.
pub(crate) fn tiny_model(name: &str, dir: &Path) -> PathBuf {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/lm/tests/fixtures").join(name);
    let folder = dir.join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    for file in std::fs::read_dir(fixture).expect("the fixture is there") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), folder.join(file.file_name())).expect("a copy");
    }
    folder
}

/// Settings with one effect.
pub(crate) fn settings(effect: Effect, settings: &[&str]) -> Vec<(String, Effect)> {
    settings.iter().map(|setting| ((*setting).to_owned(), effect)).collect()
}
