//! Requests of machines: one struct per request kind, all of them plain data.
//!
//! A request names the *service* of the job to answer it and carries a canonical payload. The dataflow hashes its key:
//! (kind, fingerprint of the service, [`Request::append_canonical`], draw). Fields without effect on the stored answer
//! (whether to read passages' texts, the temperatures wanted, the step of the method) stay out of the payload.

use crate::canonical;
use crate::prompt::{Content, Prompt};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// A passage, by its position in the corpus of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PassageId(pub u32);

/// The name of a service in a job (`[service.NAME]`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServiceName(pub Arc<str>);

impl From<&str> for ServiceName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl ServiceName {
    /// The default service for [`RequestKind::Passages`] and [`RequestKind::Links`]; a job may name another.
    pub fn corpus() -> Self {
        Self::from("corpus")
    }
}

impl std::fmt::Display for ServiceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The step of a method that a request belongs to, in the words of its paper: `leaf`, `reader`, `judge`. Accounts are
/// kept by step; the empty name stands for a method with one step.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepName(pub Cow<'static, str>);

impl StepName {
    /// Whether the request belongs to no named step.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&'static str> for StepName {
    fn from(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }
}

impl std::fmt::Display for StepName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One request to one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The service to answer it.
    pub service: ServiceName,
    /// Numbers independent samples of one payload (self-consistency, voting, a new sample after a parse failure); 0
    /// otherwise. A service may draw the waiting samples of one payload by one call.
    pub draw: u32,
    /// The step of the method. Not part of the key: two steps with one payload share its answer.
    #[serde(default)]
    pub step: StepName,
    /// The payload.
    pub ask: RequestPayload,
}

/// The payload of a request, by kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RequestPayload {
    /// The best passages for a query.
    Retrieve(RetrievePayload),
    /// Passages by id or title.
    Passages(PassagesPayload),
    /// The passages linked from or to a passage.
    Links(LinksPayload),
    /// Log-likelihood of a target given a prompt.
    Score(ScorePayload),
    /// Token keep/drop labels and a tag for a (question, passage) pair.
    Label(LabelPayload),
    /// Token keep/drop labels of a question with the information found; the kept tokens are the next query.
    Filter(FilterPayload),
    /// Relevance of items to a query, by a cross-encoder or a similar model.
    Rerank(RerankPayload),
    /// Whether a premise entails a hypothesis.
    Entail(EntailPayload),
    /// An answer span in a context.
    Read(ReadPayload),
    /// A vector of a text.
    Embed(EmbedPayload),
    /// Free text.
    Generate(GeneratePayload),
}

/// The kind of a request. Services list the kinds they answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is documented at `Ask`")]
pub enum RequestKind {
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

impl RequestKind {
    /// Every kind, in the order of the tables.
    pub const ALL: [RequestKind; 11] = [
        RequestKind::Retrieve,
        RequestKind::Passages,
        RequestKind::Links,
        RequestKind::Score,
        RequestKind::Label,
        RequestKind::Filter,
        RequestKind::Rerank,
        RequestKind::Entail,
        RequestKind::Read,
        RequestKind::Embed,
        RequestKind::Generate,
    ];

    /// The name in tables, keys and metrics.
    pub fn name(self) -> &'static str {
        match self {
            RequestKind::Retrieve => "retrieve",
            RequestKind::Passages => "passages",
            RequestKind::Links => "links",
            RequestKind::Score => "score",
            RequestKind::Label => "label",
            RequestKind::Filter => "filter",
            RequestKind::Rerank => "rerank",
            RequestKind::Entail => "entail",
            RequestKind::Read => "read",
            RequestKind::Embed => "embed",
            RequestKind::Generate => "generate",
        }
    }
}

/// Asks a retriever for the best `k` passages, best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetrievePayload {
    /// The query's text.
    pub query: String,
    /// The most passages to return.
    pub k: u32,
    /// Restricts the answer to some passages.
    pub within: Option<RetrievalRestriction>,
    /// Whether the response brings the passages' texts for the machine to read. Not part of the key.
    pub read: bool,
}

/// A restriction of retrieval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetrievalRestriction {
    /// The passages allowed.
    pub passages: PassageSet,
    /// The source of document frequencies and lengths.
    pub statistics: Statistics,
}

/// A set of passages, by id or by title.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PassageSet {
    /// By id, in any order.
    Ids(Vec<PassageId>),
    /// All passages with one of these exact titles.
    Titles(Vec<String>),
    /// All passages with one of these titles, whatever their case, underscores and runs of spaces, as models write
    /// them.
    FoldedTitles(Vec<String>),
}

/// The source of a restricted retrieval's statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistics {
    /// The whole corpus.
    Corpus,
    /// The allowed passages alone, as if they were the corpus (PromptRank ranks links by a TF-IDF fitted on them
    /// alone).
    Restriction,
}

/// Asks the corpus for passages; unknown titles yield nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PassagesPayload {
    /// The passages.
    pub passages: PassageSet,
    /// Whether the response brings their texts. Not part of the key.
    pub read: bool,
}

/// Asks the corpus for the links of a passage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinksPayload {
    /// The passage with the links.
    pub passage: PassageId,
    /// Outgoing or incoming.
    pub direction: Direction,
    /// Whether the response brings the linked passages' texts. Not part of the key.
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
pub struct ScorePayload {
    /// The condition. For encoder-decoder models it is the encoder's input.
    pub prompt: Prompt,
    /// The scored text, as a prompt of its own (usually the question).
    pub target: Prompt,
    /// Temperatures wanted. Not part of the key: a stored answer without one of them is a miss, see
    /// [`crate::Response::satisfies`].
    pub temperatures: Vec<f64>,
}

/// Asks the labeler about one passage (EfficientRAG, section 3.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabelPayload {
    /// The current query.
    pub query: String,
    /// The chunk.
    pub chunk: Content,
}

/// Asks the filter for the next query (EfficientRAG, section 3.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilterPayload {
    /// The query to be rewritten.
    pub query: String,
    /// Information found by the labeler, in retrieval order.
    pub information: Vec<String>,
}

/// Asks for the relevance of each item to the query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RerankPayload {
    /// The query.
    pub query: String,
    /// Passages, sentences or texts.
    pub items: Vec<Content>,
}

/// Asks whether `premise` entails `hypothesis`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntailPayload {
    /// The premise.
    pub premise: Prompt,
    /// The hypothesis.
    pub hypothesis: String,
}

/// Asks an extractive reader for answer spans.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadPayload {
    /// The question.
    pub question: String,
    /// The context, usually the passages of a path.
    pub context: Prompt,
    /// Longest answer, in tokens.
    pub max_answer_tokens: u32,
    /// The number of spans, best first.
    pub spans: u32,
    /// Words of the context, between white space, that are tokens of the model's vocabulary as they are spelled, such
    /// as `[unused1]`. A model without such a token refuses the request.
    #[serde(default)]
    pub markers: Vec<String>,
    /// The text of a span of tokens.
    #[serde(default)]
    pub span_text: SpanText,
}

/// The text of a span of a reader's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanText {
    /// The characters of the tokens: it may begin or end inside a word.
    #[default]
    Tokens,
    /// The words of the tokens, as the tokenizer parts a text into words: `align_to_words` of transformers' pipeline.
    Words,
    /// As the scripts of BERT and MDR (`get_final_text`): the tokens' characters where they are found again in the
    /// original words, else those words between white space whole.
    FinalText,
}

/// Asks for the vector of a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EmbedPayload {
    /// The embedded text.
    pub text: Content,
    /// Queries and passages may be prefixed or normalised differently.
    pub role: EmbedRole,
}

/// The role of an embedded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum EmbedRole {
    Query,
    Passage,
}

/// Asks a language model to write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeneratePayload {
    /// The prompt; parts with roles make chat messages.
    pub prompt: Prompt,
    /// Most tokens to write.
    pub max_tokens: u32,
    /// Strings at which the text ends, without them.
    pub stop: Vec<String>,
    /// The choice of tokens.
    pub sampling: Sampling,
    /// The form required of the text.
    pub format: TextFormat,
    /// Whether token log-probabilities are wanted.
    pub logprobs: bool,
}

/// The choice of a generation's tokens.
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
        /// Penalties of repeated tokens.
        #[serde(default)]
        penalties: SamplingPenalties,
    },
    /// As the server does by itself: nothing about sampling is sent. The request's `draw` numbers samples all the same.
    /// For models that refuse sampling parameters, and for papers that named none. A native model has no such default
    /// and refuses it.
    Server,
}

/// Penalties of tokens that the text has already, in the form of vLLM and transformers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplingPenalties {
    /// Divides positive logits, and multiplies negative ones, of tokens in the prompt or in the text so far; 1 for none
    /// (Keskar et al. 2019, section 4.1).
    pub repetition: f64,
    /// Subtracted from the logits of tokens in the text so far; 0 for none.
    pub presence: f64,
    /// Subtracted from the logits of tokens in the text so far, once for each occurrence; 0 for none.
    pub frequency: f64,
}

impl Default for SamplingPenalties {
    fn default() -> Self {
        Self { repetition: 1.0, presence: 0.0, frequency: 0.0 }
    }
}

impl SamplingPenalties {
    /// Whether there are none.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Sampling {
    /// Drawn without penalties.
    pub fn sample(temperature: f64, top_p: f64, top_k: u32) -> Self {
        Self::Sample { temperature, top_p, top_k, penalties: SamplingPenalties::default() }
    }
}

/// The form required of a generated text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextFormat {
    /// Anything.
    Text,
    /// A JSON object, if the endpoint can promise it.
    Json,
    /// Anything, with special tokens spelled out: the sentinels between the spans filled in by a T5. The engine's own
    /// models write them; an endpoint cannot promise it.
    WithSpecial,
    /// A JSON value of this JSON Schema, which is itself JSON as text. Its spelling is part of the key.
    Schema(String),
}

impl TextFormat {
    /// A JSON object if `promised`, else anything.
    pub(crate) fn json_if(promised: bool) -> Self {
        if promised { Self::Json } else { Self::Text }
    }
}

/// The best place to answer a request. Requests that share work meet there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Nothing but the key.
    Key,
    /// The first passage of the prompt (passage-major scoring).
    Passage(PassageId),
}

impl RequestPayload {
    /// The kind of this payload.
    pub fn kind(&self) -> RequestKind {
        match self {
            RequestPayload::Retrieve(_) => RequestKind::Retrieve,
            RequestPayload::Passages(_) => RequestKind::Passages,
            RequestPayload::Links(_) => RequestKind::Links,
            RequestPayload::Score(_) => RequestKind::Score,
            RequestPayload::Label(_) => RequestKind::Label,
            RequestPayload::Filter(_) => RequestKind::Filter,
            RequestPayload::Rerank(_) => RequestKind::Rerank,
            RequestPayload::Entail(_) => RequestKind::Entail,
            RequestPayload::Read(_) => RequestKind::Read,
            RequestPayload::Embed(_) => RequestKind::Embed,
            RequestPayload::Generate(_) => RequestKind::Generate,
        }
    }
}

/// Turns each payload into its variant.
macro_rules! payload_from {
    ($Ask:ident: $($variant:ident => $payload:ident,)*) => {
        $(
            impl From<$payload> for $Ask {
                fn from(payload: $payload) -> Self {
                    $Ask::$variant(payload)
                }
            }
        )*
    };
}

payload_from! {
    RequestPayload:
    Retrieve => RetrievePayload,
    Passages => PassagesPayload,
    Links => LinksPayload,
    Score => ScorePayload,
    Label => LabelPayload,
    Filter => FilterPayload,
    Rerank => RerankPayload,
    Entail => EntailPayload,
    Read => ReadPayload,
    Embed => EmbedPayload,
    Generate => GeneratePayload,
}

impl RetrievePayload {
    /// Asks for the best `k` passages of the whole corpus, without their texts.
    pub fn new(query: impl Into<String>, k: u32) -> Self {
        Self { query: query.into(), k, within: None, read: false }
    }

    /// Restricts it to `passages`. Give them sorted and each once: then equal sets make equal keys.
    pub fn within(self, passages: Vec<PassageId>, statistics: Statistics) -> Self {
        Self { within: Some(RetrievalRestriction { passages: PassageSet::Ids(passages), statistics }), ..self }
    }
}

impl Request {
    /// The first draw of a payload.
    pub fn new(service: &ServiceName, ask: impl Into<RequestPayload>) -> Self {
        Self { service: service.clone(), draw: 0, step: StepName::default(), ask: ask.into() }
    }

    /// The same request, as a part of `step`.
    pub fn at_step(self, step: impl Into<StepName>) -> Self {
        Self { step: step.into(), ..self }
    }

    /// Appends the canonical payload to `out`: JSON of the fields in the key. `canonical.rs` has the rules.
    pub fn append_canonical(&self, out: &mut Vec<u8>) {
        let Self { service: _, draw: _, step: _, ask } = self;
        canonical::write_payload(ask, out);
    }

    /// Whether the machine wants to read the passages of the response.
    pub fn wants_text(&self) -> bool {
        match &self.ask {
            RequestPayload::Retrieve(r) => r.read,
            RequestPayload::Passages(p) => p.read,
            RequestPayload::Links(l) => l.read,
            _ => false,
        }
    }

    /// Drops the prompt of a generation, a score or an entailment, once it is sent: the rest is enough to read the
    /// answer, and thousands of open requests would keep their prompts.
    pub fn drop_prompt(&mut self) {
        self.prompts().into_iter().flatten().for_each(|prompt| *prompt = Prompt::default());
    }

    /// A copy as [`Request::drop_prompt`] leaves the request. The prompt, mostly the largest part, is never copied.
    pub fn clone_without_prompt(&mut self) -> Self {
        let held = self.prompts().map(|prompt| prompt.map(std::mem::take));
        let rest = self.clone();
        for (prompt, held) in self.prompts().into_iter().zip(held) {
            if let (Some(prompt), Some(held)) = (prompt, held) {
                *prompt = held;
            }
        }
        rest
    }

    /// The prompts that are not needed for reading the answer.
    fn prompts(&mut self) -> [Option<&mut Prompt>; 2] {
        match &mut self.ask {
            RequestPayload::Generate(asked) => [Some(&mut asked.prompt), None],
            RequestPayload::Score(asked) => [Some(&mut asked.prompt), Some(&mut asked.target)],
            RequestPayload::Entail(asked) => [Some(&mut asked.premise), None],
            _ => [None, None],
        }
    }

    /// The best place to answer the request.
    pub fn affinity(&self) -> Affinity {
        match &self.ask {
            RequestPayload::Score(score) => score.prompt.first_passage().map_or(Affinity::Key, Affinity::Passage),
            _ => Affinity::Key,
        }
    }
}
