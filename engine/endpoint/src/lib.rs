//! The client of language-model servers behind OpenAI-compatible HTTP, and of retrievers behind HTTP.
//!
//! ```text
//!   EndpointCall --wire--> body, once --flow--> permit --begin_attempt--> exchange --classify--> cause
//!                                        ^                                                         |
//!                                        +----- pause, limit, outage: the same body again <--------+--> CallEnd
//! ```
//!
//! | module | content |
//! | --- | --- |
//! | [`settings`], [`dialect`], [`key`] | an endpoint's table; facts about servers; a key that cannot be printed |
//! | [`call`], [`text`], [`answer`] | calls, their texts, and their ends |
//! | [`host`] | the run's side: whether an attempt may begin, and faults of the endpoint |
//! | [`client`] | [`Endpoint`]: takes calls, owns the runtime |
//! | `attempt` | the life of one call: attempts, pauses, its deadline |
//! | [`verdict`], `classify` | causes of an attempt's end, and their consequences, as one table; a reply's cause |
//! | [`needs`] | abilities that a call needs and a dialect lacks |
//! | `exchange`, `transport` | one HTTP request and its bytes; the HTTP clients |
//! | `wire` | bodies and answers: chat, completions, scores, embeddings, reranking, retrieval |
//! | `flow` | admission: concurrency, rates, replicas, outages, failing calls, all without I/O |
//! | `patience` | the end of the patience: an endpoint that is down, or calls that fail alone |
//! | [`offline`] | calls as lines of batch files; lines of results as ends of calls |
//! | `pause`, [`usage`] | pauses between attempts; counters |
//! | `bound`, [`spending`] | the most that an attempt may cost; its bill, and the permission for it |
//! | [`probe`] | a report of a server's abilities, and of the fields that it ignores |
//!
//! Forbidden here: methods, questions, dataflow, storage, models of our own. Nothing is printed.

mod attempt;
mod bound;
mod classify;
mod exchange;
mod flow;
mod patience;
mod pause;
mod transport;
mod wire;

pub mod answer;
pub mod call;
pub mod client;
pub mod dialect;
pub mod error;
pub mod host;
pub mod key;
pub mod needs;
pub mod offline;
pub mod probe;
pub mod settings;
pub mod spending;
pub mod text;
pub mod usage;
pub mod verdict;

pub use answer::{
    CallAnswer, CallEnd, CallFailure, CallVerdict, FailureKind, FinishReason, FoundPassage, GeneratedChoice, TokenUsage,
};
pub use call::{
    AnswerFormat, ChatMessage, ChatRole, EmbedCall, EndpointCall, GenerateCall, PromptInput, RerankCall, RetrieveCall,
    SamplingFields, ScoreCall,
};
pub use client::Endpoint;
pub use dialect::EndpointDialect;
pub use error::EndpointError;
pub use host::{AttemptGuard, EndpointFault, EndpointHost};
pub use key::ApiKey;
pub use offline::{OfflineCall, OfflineEndpoint, ResultVerdict};
pub use probe::{ProbeCheck, ProbeFinding, ProbeReport};
pub use settings::{AnswerKind, ApiStyle, EndpointSettings, EntailForm, PriceSettings};
pub use spending::{AttemptBill, PermitReceiver, SpendingPermit, SpendingRequest, SpentAmounts};
pub use text::{PromptText, SharedText};
pub use usage::EndpointUsage;
pub use verdict::AttemptCause;
