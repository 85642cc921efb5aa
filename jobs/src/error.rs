//! The errors of jobs, by meaning.

use hopeval_device::DeviceError;
use hopeval_lm::LmError;
use hopeval_methods::{Failure, FailureKind};
use hopeval_results::{FileRemedy, JournalError, LogError, NoteError, RunError, Store, StoreError, TableError};
use hopeval_wordrules::WordRulesError;
use std::path::{Path, PathBuf};

/// Errors of loading, preparing, running and finishing a job.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The job file cannot be read.
    #[error("{}: cannot read the job file", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The job file is not TOML, or has a forbidden key or type.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The message, with line and column if known.
        message: String,
    },
    /// A value of the job makes no sense.
    #[error("{}: `{key}` = {found}; allowed: {allowed}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The job's value.
        found: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// Another error in the contents of a file.
    #[error("{}: {source}", path.display())]
    Within {
        /// The file.
        path: PathBuf,
        /// The error.
        #[source]
        source: Box<JobError>,
    },
    /// A file that a parameter of a method names cannot be used.
    #[error("{}: `{key}`: {}{}: {found}; allowed: {allowed}", job.display(), file.display(), Line(*line))]
    ParameterFile {
        /// The job's file.
        job: PathBuf,
        /// The key.
        key: String,
        /// The file.
        file: PathBuf,
        /// The line, if known.
        line: Option<u64>,
        /// The mistake.
        found: String,
        /// The allowed contents.
        allowed: &'static str,
    },
    /// A `--set` is malformed.
    #[error("--set {set}: {reason}")]
    Set {
        /// The argument.
        set: String,
        /// The reason.
        reason: &'static str,
    },
    /// The job with its overrides has a forbidden key or type.
    #[error("--set {sets}: {message}")]
    Override {
        /// The arguments.
        sets: String,
        /// The message, with the place.
        message: String,
    },
    /// A service's parameters make no sense.
    #[error("{}: [service.{name}]", path.display())]
    Service {
        /// The file.
        path: PathBuf,
        /// The service.
        name: String,
        /// Why.
        #[source]
        source: hopeval_index::IndexError,
    },
    /// An endpoint's settings make no sense.
    #[error("{}: [service.{name}]", path.display())]
    EndpointSettings {
        /// The file.
        path: PathBuf,
        /// The service.
        name: String,
        /// The key, and the allowed values.
        #[source]
        source: hopeval_endpoint::EndpointError,
    },
    /// A method's kind or parameters are wrong.
    #[error("configuration `{configuration}`")]
    Method {
        /// The configuration.
        configuration: String,
        /// Why.
        #[source]
        source: hopeval_methods::MethodError,
    },
    /// A method names a service that is not in the job or cannot answer.
    #[error("configuration `{configuration}`: `{parameter}` = \"{service}\": {reason}; the job has {allowed}")]
    ServiceUse {
        /// The configuration.
        configuration: String,
        /// The parameter naming the service.
        parameter: &'static str,
        /// The service named.
        service: String,
        /// Why it cannot be used.
        reason: String,
        /// The services that could be named.
        allowed: String,
    },
    /// The `[measures]` make no sense.
    #[error("[measures]")]
    Measures(#[from] hopeval_measures::registry::BadSetting),
    /// A dataset or passage source cannot be read.
    #[error(transparent)]
    Dataset(#[from] hopeval_datasets::DatasetError),
    /// A question cannot be evaluated on this corpus.
    #[error("{}{}: question `{question}`: field `{field}`: {found}; allowed: {allowed}", path.display(), Line(*line))]
    Question {
        /// The dataset's file.
        path: PathBuf,
        /// The first line of the question's row, if known.
        line: Option<u64>,
        /// The question's id.
        question: String,
        /// The field.
        field: &'static str,
        /// The field's value.
        found: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// The dataset holds no questions, or none is left.
    #[error("{}: no questions{found}", path.display())]
    NoQuestions {
        /// The dataset's first file.
        path: PathBuf,
        /// The numbers of those that were left out or set aside, and by which settings; empty if the file has none.
        found: String,
    },
    /// A file of question ids (`dataset.only`) cannot be used.
    #[error("{}{}: {found}; allowed: {allowed}", path.display(), Line(*line))]
    QuestionIds {
        /// The file.
        path: PathBuf,
        /// The line, if known.
        line: Option<u64>,
        /// The mistake.
        found: String,
        /// The allowed contents.
        allowed: &'static str,
    },
    /// The dataset or the corpus has another number of rows than the job says.
    #[error(
        "{}: `{key}` = {expected}, and {found} could be read\nhint: the file is not whole, or not the job's",
        path.display()
    )]
    Unexpected {
        /// The first file.
        path: PathBuf,
        /// The key of the job.
        key: &'static str,
        /// Its value.
        expected: u64,
        /// The number of rows.
        found: u64,
    },
    /// No measure is defined for any question of any configuration: the tables would be empty.
    #[error("{}: no measure is defined for any question: {found}\nhint: {hint}", path.display())]
    Unmeasurable {
        /// The dataset's first file.
        path: PathBuf,
        /// The gold of the questions, the results of the configurations, and the unread fields.
        found: String,
        /// A remedy.
        hint: String,
    },
    /// A corpus cannot be built.
    #[error("cannot build the corpus")]
    CorpusBuild(#[from] hopeval_corpus::BuildError),
    /// The passages of these files do not make a corpus.
    #[error("cannot build a corpus of {files}")]
    CorpusOf {
        /// The files.
        files: String,
        /// Why.
        #[source]
        source: hopeval_corpus::BuildError,
    },
    /// A corpus cannot be opened.
    #[error("cannot open the corpus")]
    Corpus(#[from] hopeval_corpus::CorpusError),
    /// An index cannot be built or opened.
    #[error("[service.{name}]: index")]
    Index {
        /// The service.
        name: String,
        /// Why.
        #[source]
        source: hopeval_index::IndexError,
    },
    /// A service's model is not found.
    #[error("[service.{name}]: `model` = \"{model}\": {reason}; allowed: {allowed}")]
    NoModel {
        /// The service.
        name: String,
        /// The job's value.
        model: String,
        /// Why it is not a model.
        reason: String,
        /// The allowed values.
        allowed: String,
    },
    /// A file of vectors cannot be used.
    #[error("[service.{name}]: vectors")]
    Vectors {
        /// The service.
        name: String,
        /// The file, the row and the allowed values.
        #[source]
        source: hopeval_datasets::VectorError,
    },
    /// One of hopeval's own models cannot be unpacked.
    #[error("[service.{name}]")]
    Unpack {
        /// The service.
        name: String,
        /// Why.
        #[source]
        source: hopeval_models::ModelsError,
    },
    /// A service's model cannot be opened.
    #[error("[service.{name}]: cannot open the model {}", folder.display())]
    Model {
        /// The service.
        name: String,
        /// The model's folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: LmError,
    },
    /// The word rules of a service cannot be used.
    #[error("[service.{name}]: `word_rules`")]
    WordRules {
        /// The service.
        name: String,
        /// Why.
        #[source]
        source: WordRulesError,
    },
    /// A dense service's encoder cannot embed.
    #[error(
        "[service.{name}]: `encoder` = \"{encoder}\": the checkpoint {model} does not answer embed; \
         an encoder does (BERT, Contriever, E5)"
    )]
    Encoder {
        /// The service.
        name: String,
        /// The encoder's service.
        encoder: String,
        /// Its model.
        model: String,
    },
    /// A passage has no vector.
    #[error("[service.{name}]: passage `{passage}` cannot be embedded: {reason}")]
    Embedding {
        /// The service.
        name: String,
        /// The passage's id.
        passage: String,
        /// Why.
        reason: String,
    },
    /// A file or folder of the cache cannot be used.
    #[error("{}: {operation}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The failed operation.
        operation: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A thread of the run cannot start.
    #[error(
        "cannot start the thread `{name}`\n\
         hint: raise the limit of threads (`ulimit -u`, `pids.max` of the control group), or use fewer workers"
    )]
    Thread {
        /// The thread.
        name: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A world cannot be generated.
    #[error("[dataset.world]")]
    World(#[from] hopeval_world::WorldError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The commit log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The run's record.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A note on a run.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// A table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// This version cannot read the stored JSON.
    #[error("{what} of run {run} cannot be read")]
    Stored {
        /// The name of the object.
        what: &'static str,
        /// The run.
        run: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A stored JSON document is damaged, or another version wrote it.
    #[error("`{path}` is damaged, or of another version\nhint: {hint}")]
    Malformed {
        /// The document.
        path: String,
        /// The way to get it back.
        hint: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A file of a generated world in the cache is not the one that was written.
    #[error(
        "`{}` is damaged: its BLAKE3 digest is {found}, and {expected} was written\n\
         hint: remove the world's folder; the same world is generated again",
        path.display()
    )]
    DamagedWorld {
        /// The file.
        path: PathBuf,
        /// Its digest.
        found: String,
        /// The digest when it was written.
        expected: String,
    },
    /// The corpus or an index on this machine is not the run's.
    #[error("{what} differs from the run's: found {found}, the run has {expected}")]
    Differs {
        /// The name of the object.
        what: &'static str,
        /// On this machine.
        found: String,
        /// In the run's record.
        expected: String,
    },
    /// A service on this machine could give other answers than the run's.
    #[error(
        "[service.{name}] differs from the run's: fingerprint {found}, the run has {expected}\n\
         hint: the weights, the tokenizer, its word rules and the device's instruction set must be those that the run \
         began with; \
         `device = \"cpu-avx2\"` makes hosts with and without AVX-512 equal"
    )]
    ServiceDiffers {
        /// The service.
        name: String,
        /// On this machine.
        found: String,
        /// In the run's record.
        expected: String,
    },
    /// A method of this program could give other outcomes than those that the run has.
    #[error(
        "the method kind `{kind}` has version {found}, and run {run} was begun with version {expected}: its outcomes \
         would be of both\nhint: go on with the program that began it, or run the job anew: what was answered before \
         and is asked alike comes from the journal"
    )]
    MethodDiffers {
        /// The run.
        run: String,
        /// The method's kind.
        kind: &'static str,
        /// In this program.
        found: u32,
        /// In the run's record.
        expected: u32,
    },
    /// A device stopped working. Its memory cannot be trusted, and this process must end.
    #[error("[service.{service}] lost its device: {reason}")]
    DeviceLost {
        /// The service.
        service: String,
        /// The device's message.
        reason: String,
    },
    /// An endpoint cannot be opened: its key or its client is missing.
    #[error("[service.{service}]")]
    Endpoint {
        /// The service.
        service: String,
        /// Why.
        #[source]
        source: hopeval_endpoint::EndpointError,
    },
    /// The tokenizer of an endpoint's model cannot be opened.
    #[error("[service.{service}]: `tokenizer`")]
    EndpointTokenizer {
        /// The service.
        service: String,
        /// Why.
        #[source]
        source: hopeval_lm::tokenise::TokeniseError,
    },
    /// An endpoint is out of order, or refuses every call. What it left unanswered is asked again by a resumed run.
    #[error("[service.{service}]: {source}")]
    EndpointFault {
        /// The service.
        service: String,
        /// Why.
        #[source]
        source: hopeval_endpoint::EndpointFault,
    },
    /// The cap of the run's spending leaves no room for the next call.
    #[error(
        "[run.cap] `{key}` = {cap} is reached: {counted} are counted, {unanswered} unanswered, and the next call of \
         [service.{service}] may cost {next}"
    )]
    CapReached {
        /// The key.
        key: &'static str,
        /// Its value.
        cap: String,
        /// Spent, by the servers' counts.
        counted: String,
        /// Bounds of calls that were sent and have no answer.
        unanswered: String,
        /// The service of the next call.
        service: String,
        /// The most that it may cost.
        next: String,
        /// A higher value, for a hint.
        raised: String,
    },
    /// Another generation of the run has begun.
    #[error("run {run}: generation {number} is over; {latest} has begun")]
    Over {
        /// The run.
        run: String,
        /// The generation this process wanted to join.
        number: u64,
        /// The latest.
        latest: u64,
    },
    /// A dataset has too few questions to draw from.
    #[error(
        "{}: {wanted} questions are to be drawn{}, and there are {found}{}", path.display(),
        if *after > 0 { format!(" after {after}") } else { String::new() },
        if *rest && found == wanted { ": none would be left to evaluate" } else { "" }
    )]
    TooFew {
        /// The dataset's first file.
        path: PathBuf,
        /// Number of questions to draw.
        wanted: u64,
        /// Number of questions to be passed over.
        after: u64,
        /// Number of questions in the dataset.
        found: u64,
        /// Whether the other questions are evaluated.
        rest: bool,
    },
    /// A choice would be evaluated on its own sample.
    #[error(
        "{questions} questions that are to be evaluated are in the sample of {of}, the first of them `{first}`\n\
         hint: a choice is judged on questions that it was not made on: name other files in [tune], or none, so that \
         the sample is taken from the dataset and left out of what is evaluated"
    )]
    Overlap {
        /// The choice.
        of: String,
        /// Number of questions in both.
        questions: u64,
        /// The id of the first such question.
        first: String,
    },
    /// A parameter's choice is malformed or does not fit.
    #[error("configuration `{configuration}`: `{parameter}`: {reason}")]
    Choice {
        /// The configuration.
        configuration: String,
        /// The parameter.
        parameter: String,
        /// The reason.
        reason: String,
    },
    /// The selection was never made.
    #[error("there is no selection `{name}` in `{store}`\nhint: `hopeval tune` makes those of a job's [tune]")]
    NoSelection {
        /// Its name.
        name: String,
        /// The store's address.
        store: String,
    },
    /// Another selection has the name.
    #[error(
        "selection `{name}` was made of another search: {object}\n\
         hint: selections are never replaced, for runs name them; give this one another `name`"
    )]
    SelectionTaken {
        /// Its name.
        name: String,
        /// The stored object with the name.
        object: String,
    },
    /// No text of a model fills a template.
    #[error(
        "[service.{service}]: none of {draws} draws fills the blanks of a template; the last one wrote {example:?}\n\
         hint: a T5 that was trained to fill in spans writes sentinels (<extra_id_0> …); `fill = \"in_turn\"` \
         needs none"
    )]
    Unfilled {
        /// The service.
        service: String,
        /// Number of draws.
        draws: u32,
        /// The last drawn text.
        example: String,
    },
    /// A model refuses to generate.
    #[error("[service.{service}] generates no candidates: {reason}")]
    Ungenerated {
        /// The service.
        service: String,
        /// The model's message.
        reason: String,
    },
    /// A run that was finished by an earlier version keeps no passages, and its corpus cannot be opened here.
    #[error(
        "run {run} has no table `passages`, since an earlier version finished it, and its corpus cannot be opened\n\
         hint: `hopeval rescore {run} --write` stores the table, on a machine that has the corpus or its source files"
    )]
    NoPassages {
        /// The run.
        run: String,
        /// Why the corpus cannot be opened.
        #[source]
        source: Box<JobError>,
    },
    /// A line of a file of people's marks is wrong.
    #[error(
        "{}:{line}: {found}; allowed: {{\"question\": ID, \"configuration\": NAME, \"prediction\": TEXT, \
         \"mark\": true or false}}, one of `configuration` and `prediction` left out or neither",
        path.display()
    )]
    Mark {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The mistake.
        found: String,
    },
    /// The command does not fit the state of the run.
    #[error("run {run}: {reason}")]
    Unfit {
        /// The run.
        run: String,
        /// Why not.
        reason: String,
    },
    /// A name that the figures of a run to be made do not have.
    #[error("{0}")]
    Names(String),
}

/// `:LINE` behind a file's name, if the line is known.
struct Line(Option<u64>);

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

impl JobError {
    /// Whether another process has taken over the run, so this process is no longer needed.
    pub fn is_superseded(&self) -> bool {
        matches!(self, Self::Over { .. } | Self::Log(LogError::Superseded { .. } | LogError::Conflict { .. }))
    }

    /// The error of the stored document `name`, which cannot be read.
    pub(crate) fn malformed(store: &Store, name: &str, remedy: FileRemedy, source: serde_json::Error) -> Self {
        Self::Malformed { path: store.full_name(name), hint: remedy.hint(), source }
    }

    /// The error within the job's file `path`, if it is that of a parameter's choice, which names no file.
    pub(crate) fn of_choice_in(self, path: &Path) -> Self {
        match self {
            Self::Choice { .. } => Self::Within { path: path.into(), source: Box::new(self) },
            other => other,
        }
    }

    /// The underlying failure of the store, if any.
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Within { source, .. } => source.store_error(),
            Self::Store(error) => Some(error),
            Self::Log(error) => hopeval_results::store_error(error),
            Self::Journal(error) => hopeval_results::store_error(error),
            Self::Run(error) => hopeval_results::store_error(error),
            Self::Note(error) => hopeval_results::store_error(error),
            Self::Table(error) => hopeval_results::store_error(error),
            _ => None,
        }
    }

    /// The error of the whole process, if a failure of a service means that its device was lost.
    pub(crate) fn device_lost(service: &str, failure: &Failure) -> Option<Self> {
        let (service, reason) = (service.to_owned(), failure.message.clone());
        (failure.kind == FailureKind::DeviceLost).then_some(Self::DeviceLost { service, reason })
    }

    /// Whether an endpoint refuses every call until a person mends its key, its quota or its model's name. The run can
    /// be resumed then.
    pub fn needs_mending(&self) -> bool {
        match self {
            Self::EndpointFault { source, .. } => !source.may_pass(),
            Self::Endpoint { .. } => true,
            _ => false,
        }
    }

    /// A setting with which a resumed run goes on, if its cap is reached.
    pub fn raised_cap(&self) -> Option<String> {
        match self {
            Self::CapReached { key, raised, .. } => Some(format!("run.cap.{key}={raised}")),
            _ => None,
        }
    }

    /// Whether the disk or the store is full. The run can be resumed once there is space.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Index { source: hopeval_index::IndexError::Io { source, .. }, .. } | Self::Io { source, .. } => {
                use std::io::ErrorKind as Kind;
                matches!(source.kind(), Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge)
            }
            _ => self.store_error().is_some_and(StoreError::is_full),
        }
    }

    /// Whether the same command can succeed later without human help. A full disk, missing rights and data of another
    /// version need a person, so a scheduler must not try again by itself.
    pub fn is_transient(&self) -> bool {
        match self.store_error() {
            Some(error) => error.may_pass(),
            None => {
                self.is_superseded()
                    || matches!(self, Self::EndpointFault { source, .. } if source.may_pass())
                    || matches!(
                        self,
                        Self::Journal(JournalError::Unreadable { may_pass: true, .. }) | Self::DeviceLost { .. }
                    )
                    || matches!(self, Self::Model { source: LmError::Device(DeviceError::Lost { .. }), .. })
            }
        }
    }
}
