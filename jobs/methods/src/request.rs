//! What a machine may ask for: one struct per request kind, all of them plain data.
//!
//! A request names the *service* of the job that shall answer it and carries a canonical payload. Its key, which the
//! dataflow hashes, is (kind, fingerprint of the service, [`Request::canonical`], draw); whatever cannot change the
//! stored answer (the wish to read passages' texts, the temperatures wanted) stays out of the payload.

use crate::canonical;
use crate::prompt::{Content, Prompt};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A passage, by its position in the corpus of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PassageId(pub u32);

/// The name a job gives to one of its services (`[service.NAME]`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServiceName(pub Arc<str>);

impl From<&str> for ServiceName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl ServiceName {
    /// The service that answers [`Kind::Passages`] and [`Kind::Links`] unless a job names another.
    pub fn corpus() -> Self {
        Self::from("corpus")
    }
}

impl std::fmt::Display for ServiceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One thing asked of one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The service that shall answer.
    pub service: ServiceName,
    /// Numbers independent samples of one payload (self-consistency, voting, a re-ask after a parse failure); 0 otherwise.
    pub draw: u32,
    /// The payload.
    pub ask: Ask,
}

/// The payload of a request, by kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Ask {
    /// The best passages for a query.
    Retrieve(Retrieve),
    /// Passages by id or title.
    Passages(Passages),
    /// The passages that a passage links to.
    Links(Links),
    /// Log-likelihood of a target given a prompt.
    Score(Score),
    /// Token keep/drop labels and a tag for a (question, passage) pair.
    Label(Label),
    /// Token keep/drop labels of a question with the information found, which make the next query.
    Filter(Filter),
    /// Relevance of items to a query, by a cross-encoder or the like.
    Rerank(Rerank),
    /// Whether a premise entails a hypothesis.
    Entail(Entail),
    /// An answer span in a context.
    Read(Read),
    /// A vector of a text.
    Embed(Embed),
    /// Free text.
    Generate(Generate),
}

/// The kind of a request: what a service can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is documented at `Ask`")]
pub enum Kind {
    Retrieve,
    Passages,
    Links,
    Score,
    Label,
    Filter,
    Rerank,
    Entail,
    Read,
    Embed,
    Generate,
}

impl Kind {
    /// Every kind, in the order of the tables.
    pub const ALL: [Kind; 11] = [
        Kind::Retrieve,
        Kind::Passages,
        Kind::Links,
        Kind::Score,
        Kind::Label,
        Kind::Filter,
        Kind::Rerank,
        Kind::Entail,
        Kind::Read,
        Kind::Embed,
        Kind::Generate,
    ];

    /// The name in tables, keys and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Retrieve => "retrieve",
            Kind::Passages => "passages",
            Kind::Links => "links",
            Kind::Score => "score",
            Kind::Label => "label",
            Kind::Filter => "filter",
            Kind::Rerank => "rerank",
            Kind::Entail => "entail",
            Kind::Read => "read",
            Kind::Embed => "embed",
            Kind::Generate => "generate",
        }
    }
}

/// Asks a retriever for the best `k` passages, best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retrieve {
    /// The query's text.
    pub query: String,
    /// How many passages at most.
    pub k: u32,
    /// Restricts the answer to some passages.
    pub within: Option<Within>,
    /// Whether the response shall bring the passages' texts for the machine to read. Not part of the key.
    pub read: bool,
}

/// A restriction of retrieval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Within {
    /// The passages allowed.
    pub passages: PassageSet,
    /// Where document frequencies and lengths come from.
    pub statistics: Statistics,
}

/// A set of passages, by id or by title.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PassageSet {
    /// By id, in any order.
    Ids(Vec<PassageId>),
    /// All passages with one of these exact titles.
    Titles(Vec<String>),
}

/// Where a restricted retrieval takes its statistics from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistics {
    /// The whole corpus.
    Corpus,
    /// The allowed passages alone, as if they were the corpus (PromptRank ranks links by a TF-IDF fitted on just them).
    Restriction,
}

/// Asks the corpus for passages; unknown titles yield nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passages {
    /// Which.
    pub passages: PassageSet,
    /// Whether the response shall bring their texts. Not part of the key.
    pub read: bool,
}

/// Asks the corpus for the links of a passage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// Whose links.
    pub passage: PassageId,
    /// Outgoing or incoming.
    pub direction: Direction,
    /// Whether the response shall bring the linked passages' texts. Not part of the key.
    pub read: bool,
}

/// The direction of a hyperlink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the passage to others, in order of first occurrence.
    Outgoing,
    /// From others to the passage, in corpus order.
    Incoming,
}

/// Asks for the log-likelihood of `target` given `prompt` (PromptRank, section 2.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// What is conditioned on. For encoder-decoder models the encoder's input.
    pub prompt: Prompt,
    /// What is scored, as a prompt of its own (usually the question).
    pub target: Prompt,
    /// Temperatures wanted. Not part of the key: a stored answer that lacks one is a miss, see [`crate::Response::satisfies`].
    pub temperatures: Vec<f64>,
}

/// Asks the labeler about one passage (EfficientRAG, section 3.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Label {
    /// The current query.
    pub query: String,
    /// The chunk.
    pub chunk: Content,
}

/// Asks the filter for the next query (EfficientRAG, section 3.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Filter {
    /// The query that is to be rewritten.
    pub query: String,
    /// Information found by the labeler, in retrieval order.
    pub information: Vec<String>,
}

/// Asks for the relevance of each item to the query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rerank {
    /// The query.
    pub query: String,
    /// Passages, sentences or texts.
    pub items: Vec<Content>,
}

/// Asks whether `premise` entails `hypothesis`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entail {
    /// The premise.
    pub premise: Prompt,
    /// The hypothesis.
    pub hypothesis: String,
}

/// Asks an extractive reader for answer spans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Read {
    /// The question.
    pub question: String,
    /// The context, usually the passages of a path.
    pub context: Prompt,
    /// Longest answer, in tokens.
    pub max_answer_tokens: u32,
    /// How many spans, best first.
    pub spans: u32,
}

/// Asks for the vector of a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Embed {
    /// What is embedded.
    pub text: Content,
    /// Queries and passages may be prefixed or normalised differently.
    pub role: EmbedRole,
}

/// What an embedded text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum EmbedRole {
    Query,
    Passage,
}

/// Asks a language model to write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generate {
    /// The prompt; parts with roles make chat messages.
    pub prompt: Prompt,
    /// Most tokens to write.
    pub max_tokens: u32,
    /// Strings that end the text; they are not part of it.
    pub stop: Vec<String>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// What the text must be.
    pub format: TextFormat,
    /// Whether token log-probabilities are wanted.
    pub logprobs: bool,
}

/// How the tokens of a generation are chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Sampling {
    /// The likeliest token each time.
    Greedy,
    /// Drawn; the request's `draw` numbers independent samples.
    Sample {
        /// Divides the logits.
        temperature: f64,
        /// Nucleus, 1 for all.
        top_p: f64,
        /// Likeliest tokens kept, 0 for all.
        top_k: u32,
    },
}

/// What a generated text must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextFormat {
    /// Anything.
    Text,
    /// A JSON object, where the endpoint can promise it.
    Json,
    /// Anything, with special tokens spelled out: the sentinels between the spans that a T5 fills in. A model of one's own
    /// writes them; an endpoint cannot promise it.
    WithSpecial,
}

/// What should decide where a request is answered, so that shared work meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Nothing but the key.
    Key,
    /// The first passage of the prompt (passage-major scoring).
    Passage(PassageId),
}

impl Ask {
    /// The kind of this payload.
    pub fn kind(&self) -> Kind {
        match self {
            Ask::Retrieve(_) => Kind::Retrieve,
            Ask::Passages(_) => Kind::Passages,
            Ask::Links(_) => Kind::Links,
            Ask::Score(_) => Kind::Score,
            Ask::Label(_) => Kind::Label,
            Ask::Filter(_) => Kind::Filter,
            Ask::Rerank(_) => Kind::Rerank,
            Ask::Entail(_) => Kind::Entail,
            Ask::Read(_) => Kind::Read,
            Ask::Embed(_) => Kind::Embed,
            Ask::Generate(_) => Kind::Generate,
        }
    }
}

/// Each payload is an [`Ask`].
macro_rules! ask_from {
    ($($payload:ident),*) => {
        $(
            impl From<$payload> for Ask {
                fn from(payload: $payload) -> Self {
                    Ask::$payload(payload)
                }
            }
        )*
    };
}

ask_from!(Retrieve, Passages, Links, Score, Label, Filter, Rerank, Entail, Read, Embed, Generate);

impl Retrieve {
    /// Asks for the best `k` passages of the whole corpus, without their texts.
    pub fn new(query: impl Into<String>, k: u32) -> Self {
        Self { query: query.into(), k, within: None, read: false }
    }

    /// Restricts it to `passages`; give them sorted and each once, so that equal sets make equal keys.
    pub fn within(self, passages: Vec<PassageId>, statistics: Statistics) -> Self {
        Self { within: Some(Within { passages: PassageSet::Ids(passages), statistics }), ..self }
    }
}

impl Request {
    /// The first draw of a payload.
    pub fn new(service: &ServiceName, ask: impl Into<Ask>) -> Self {
        Self { service: service.clone(), draw: 0, ask: ask.into() }
    }

    /// Appends the canonical payload to `out`: JSON, less what is not part of the key. `canonical.rs` has the rules.
    pub fn canonical(&self, out: &mut Vec<u8>) {
        let Self { service: _, draw: _, ask } = self;
        canonical::write(ask, out);
    }

    /// Whether the machine wants to read the passages that the response names.
    pub fn wants_text(&self) -> bool {
        match &self.ask {
            Ask::Retrieve(r) => r.read,
            Ask::Passages(p) => p.read,
            Ask::Links(l) => l.read,
            _ => false,
        }
    }

    /// Where the request should be answered.
    pub fn affinity(&self) -> Affinity {
        match &self.ask {
            Ask::Score(score) => score.prompt.first_passage().map_or(Affinity::Key, Affinity::Passage),
            _ => Affinity::Key,
        }
    }
}
