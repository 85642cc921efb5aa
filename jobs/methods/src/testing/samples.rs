//! Samples of requests: every kind, every variant and every option of the protocol at least once, each with a name.
//!
//! Golden files hold the canonical payloads and the keys of these requests. A new variant or field gets a sample here,
//! at the end of its list. Samples are never changed, because their lines in golden files must not change.

mod responses;

pub use responses::every_response;

use crate::fragment::Fragment;
use crate::prompt::{ChatRole, Content, LengthLimit, OverflowRule, PassageForm, Prompt, PromptPart, ShotPacking};
use crate::request::{
    Direction, EmbedPayload, EmbedRole, EntailPayload, FilterPayload, GeneratePayload, LabelPayload, LinksPayload,
    PassageId, PassageSet, PassagesPayload, ReadPayload, Request, RequestPayload, RerankPayload, RetrievalRestriction,
    RetrievePayload, Sampling, SamplingPenalties, ScorePayload, ServiceName, SpanText, Statistics, TextFormat,
};

/// Every character with an escape in JSON, or with different treatment by writers of JSON.
const TEXT: &str = "\"q\" \\ / \u{0}\u{1}\u{7}\u{8}\t\n\u{b}\u{c}\r\u{1f}\u{7f}\u{80} \u{e9}\u{df} \
                    \u{2028}\u{2029} \u{feff} \u{1f600} <&>'";

/// Numbers with long, short and exponential forms, and some that JSON lacks.
const NUMBERS: [f64; 12] = [0.0, -0.0, 1.0, 1.4, 0.1 + 0.2, 1e15, 1e16, 1e21, 1e-7, 5e-324, f64::MAX, f64::INFINITY];

/// Samples of requests, each with a unique name without spaces. All ask the service `any`.
pub fn every_request() -> Vec<(String, Request)> {
    let groups: [SampleGroup; 11] = [
        ("retrieve", retrievals()),
        ("passages", lookups()),
        ("links", links()),
        ("score", scores()),
        ("label", labels()),
        ("filter", filters()),
        ("rerank", rerankings()),
        ("entail", entailments()),
        ("read", readings()),
        ("embed", embeddings()),
        ("generate", generations()),
    ];
    let service = ServiceName::from("any");
    let mut requests = Vec::new();
    for (kind, asks) in groups {
        let first = asks.first().map(|(_, ask)| ask.clone());
        requests.extend(asks.into_iter().map(|(name, ask)| (format!("{kind}/{name}"), Request::new(&service, ask))));
        for draw in [1, u32::MAX] {
            let again = first.clone().map(|ask| Request { draw, ..Request::new(&service, ask) });
            requests.extend(again.map(|request| (format!("{kind}/draw-{draw}"), request)));
        }
    }
    requests
}

type SampleGroup = (&'static str, Vec<(String, RequestPayload)>);

fn named_samples<N: Into<String>, A: Into<RequestPayload>>(
    asks: impl IntoIterator<Item = (N, A)>,
) -> Vec<(String, RequestPayload)> {
    asks.into_iter().map(|(name, ask)| (name.into(), ask.into())).collect()
}

fn passage_ids(ids: &[u32]) -> PassageSet {
    PassageSet::Ids(ids.iter().copied().map(PassageId).collect())
}

fn passage_titles(titles: &[&str]) -> PassageSet {
    PassageSet::Titles(titles.iter().map(|&title| title.to_owned()).collect())
}

fn folded_titles() -> PassageSet {
    PassageSet::FoldedTitles(vec!["new_york".to_owned(), TEXT.to_owned()])
}

fn fragment() -> Content {
    Content::Fragment(Fragment::new("Question: who? Answer: she.").digest())
}

fn retrievals() -> Vec<(String, RequestPayload)> {
    let plain = RetrievePayload::new("who made it?", 5);
    let within = |passages, statistics| RetrievePayload {
        within: Some(RetrievalRestriction { passages, statistics }),
        ..plain.clone()
    };
    named_samples([
        ("plain", plain.clone()),
        ("reading", RetrievePayload { read: true, ..plain.clone() }),
        ("empty", RetrievePayload::new("", 0)),
        ("escapes", RetrievePayload::new(TEXT, u32::MAX)),
        ("ids-corpus", within(passage_ids(&[3, 0, u32::MAX]), Statistics::Corpus)),
        ("ids-restriction", within(passage_ids(&[]), Statistics::Restriction)),
        ("titles-corpus", within(passage_titles(&["A", TEXT]), Statistics::Corpus)),
        ("titles-restriction", within(passage_titles(&[]), Statistics::Restriction)),
        ("folded-titles", within(folded_titles(), Statistics::Corpus)),
    ])
}

fn lookups() -> Vec<(String, RequestPayload)> {
    named_samples([
        ("ids", PassagesPayload { passages: passage_ids(&[7, 7, 2]), read: false }),
        ("ids-reading", PassagesPayload { passages: passage_ids(&[7, 7, 2]), read: true }),
        ("titles", PassagesPayload { passages: passage_titles(&["A", TEXT, ""]), read: false }),
        ("none", PassagesPayload { passages: passage_ids(&[]), read: true }),
        ("folded-titles", PassagesPayload { passages: folded_titles(), read: false }),
    ])
}

fn links() -> Vec<(String, RequestPayload)> {
    named_samples([
        ("outgoing", LinksPayload { passage: PassageId(0), direction: Direction::Outgoing, read: false }),
        ("incoming", LinksPayload { passage: PassageId(u32::MAX), direction: Direction::Incoming, read: true }),
    ])
}

/// Every content, form, role and limit, by name.
fn parts() -> Vec<(String, PromptPart)> {
    let text = |text: &str| text.to_owned();
    let passage = |form| Content::Passage { passage: PassageId(12), form };
    let contents = [
        ("text", Content::Text(text(TEXT))),
        ("text-empty", Content::Text(String::new())),
        ("passage-text", passage(PassageForm::Text)),
        ("passage-title-and-text", passage(PassageForm::TitleAndText { between: text("\n") })),
        ("passage-title-twice", passage(PassageForm::TitleTwice { between: text(": ") })),
        ("passage-labelled", passage(PassageForm::Labelled { before: text("Title: "), between: text("") })),
        ("sentence", Content::Sentence { passage: PassageId(4), sentence: 0 }),
    ];
    let limits = [("whole", None), ("tokens", Some(LengthLimit::Tokens(230))), ("words", Some(LengthLimit::Words(0)))];
    let roles = [("system", ChatRole::System), ("user", ChatRole::User), ("assistant", ChatRole::Assistant)];
    let mut parts: Vec<(String, PromptPart)> = contents
        .into_iter()
        .map(|(name, content)| (name.to_owned(), PromptPart { role: ChatRole::User, content, truncate: None }))
        .collect();
    parts.extend(
        limits.map(|(name, truncate)| (format!("truncate-{name}"), PromptPart { truncate, ..PromptPart::text("t") })),
    );
    parts.extend(roles.map(|(name, role)| (format!("role-{name}"), PromptPart { role, ..PromptPart::text("t") })));
    parts
}

/// A prompt with every part, a budget and every overflow rule.
fn whole_prompt() -> Prompt {
    Prompt {
        parts: parts().into_iter().map(|(_, part)| part).collect(),
        budget: Some(600),
        overflow: vec![
            OverflowRule::Drop { part: 2 },
            OverflowRule::Cut { part: 0, to: LengthLimit::Tokens(10) },
            OverflowRule::Cut { part: 1, to: LengthLimit::Words(u32::MAX) },
        ],
        ..Prompt::default()
    }
}

fn empty_prompt() -> Prompt {
    Prompt::default()
}

fn scores() -> Vec<(String, RequestPayload)> {
    let score = |prompt, target| ScorePayload { prompt, target, temperatures: vec![1.0] };
    let plain = score(Prompt::text("Document: it."), Prompt::text("who made it?"));
    let mut samples = named_samples([
        ("plain", plain.clone()),
        ("temperatures", ScorePayload { temperatures: vec![1.4, 2.0], ..plain.clone() }),
        ("whole", score(whole_prompt(), whole_prompt())),
        ("empty", ScorePayload { temperatures: Vec::new(), ..score(empty_prompt(), empty_prompt()) }),
        ("budget-0", score(Prompt { budget: Some(0), ..empty_prompt() }, empty_prompt())),
    ]);
    let of_part = |part| score(Prompt { parts: vec![part], ..empty_prompt() }, Prompt::text("t"));
    samples.extend(named_samples(parts().into_iter().map(|(name, part)| (format!("part-{name}"), of_part(part)))));
    let group = OverflowRule::DropParts { first: 0, count: 2 };
    let spaced = Some(LengthLimit::SpacedWords(350));
    let packing = ShotPacking { shots: 1, context_tokens: 8000, answer_tokens: 300, spares_longest: true };
    let marked = PassageForm::MarkedSentences { mark: "[x]".to_owned(), titled: true };
    samples.extend(named_samples([
        ("part-fragment", of_part(PromptPart { content: fragment(), ..PromptPart::text("") })),
        ("part-passage-marked-sentences", of_part(PromptPart::passage(PassageId(12), marked, None))),
        ("part-truncate-spaced-words", of_part(PromptPart { truncate: spaced, ..PromptPart::text("t") })),
        ("drop-parts", score(Prompt { overflow: vec![group], ..empty_prompt() }, Prompt::text("t"))),
        ("count-parts", score(Prompt { count_parts: true, ..Prompt::text("t") }, Prompt::text("t"))),
        ("packing", score(Prompt { packing: Some(packing), ..Prompt::text("t") }, Prompt::text("t"))),
    ]));
    samples
}

fn contents() -> Vec<(String, Content)> {
    parts().into_iter().take(7).map(|(name, part)| (name, part.content)).collect()
}

fn labels() -> Vec<(String, RequestPayload)> {
    let label = |chunk| LabelPayload { query: "who?".to_owned(), chunk };
    let mut samples = named_samples(contents().into_iter().map(|(name, chunk)| (name, label(chunk))));
    samples.extend(named_samples([(
        "escapes",
        LabelPayload { query: TEXT.to_owned(), ..label(Content::Text(String::new())) },
    )]));
    samples.extend(named_samples([("fragment", label(fragment()))]));
    samples
}

fn filters() -> Vec<(String, RequestPayload)> {
    let filter = |query: &str, information: &[&str]| FilterPayload {
        query: query.to_owned(),
        information: information.iter().map(|&text| text.to_owned()).collect(),
    };
    named_samples([
        ("plain", filter("who?", &["born in"])),
        ("none", filter("", &[])),
        ("two", filter(TEXT, &[TEXT, ""])),
    ])
}

fn rerankings() -> Vec<(String, RequestPayload)> {
    let rerank = |query: &str, items| RerankPayload { query: query.to_owned(), items };
    let all = contents().into_iter().map(|(_, content)| content).collect();
    named_samples([("every-content", rerank("who?", all)), ("none", rerank(TEXT, Vec::new()))])
}

fn entailments() -> Vec<(String, RequestPayload)> {
    let entail = |premise, hypothesis: &str| EntailPayload { premise, hypothesis: hypothesis.to_owned() };
    named_samples([
        ("plain", entail(Prompt::text("a"), "b")),
        ("whole", entail(whole_prompt(), TEXT)),
        ("empty", entail(empty_prompt(), "")),
    ])
}

fn readings() -> Vec<(String, RequestPayload)> {
    let read = |question: &str, context| ReadPayload {
        question: question.to_owned(),
        context,
        max_answer_tokens: 30,
        spans: 1,
        ..ReadPayload::default()
    };
    let markers = vec!["[SEP]".to_owned(), TEXT.to_owned()];
    named_samples([
        ("plain", read("who?", Prompt::text("a"))),
        ("whole", ReadPayload { max_answer_tokens: u32::MAX, spans: 5, ..read(TEXT, whole_prompt()) }),
        ("empty", ReadPayload { max_answer_tokens: 0, spans: 0, ..read("", empty_prompt()) }),
        ("markers", ReadPayload { markers, ..read("who?", Prompt::text("a")) }),
        ("words", ReadPayload { span_text: SpanText::Words, ..read("who?", Prompt::text("a")) }),
        ("final-text", ReadPayload { span_text: SpanText::FinalText, ..read("who?", Prompt::text("a")) }),
    ])
}

fn embeddings() -> Vec<(String, RequestPayload)> {
    let embed = |text, role| EmbedPayload { text, role };
    let mut samples = named_samples(contents().into_iter().map(|(name, text)| (name, embed(text, EmbedRole::Query))));
    samples.extend(named_samples([("role-passage", embed(Content::Text("t".to_owned()), EmbedRole::Passage))]));
    samples
}

fn generations() -> Vec<(String, RequestPayload)> {
    let plain = GeneratePayload {
        prompt: Prompt::text("say it"),
        max_tokens: 16,
        stop: Vec::new(),
        sampling: Sampling::Greedy,
        format: TextFormat::Text,
        logprobs: false,
    };
    let sample = |temperature, top_p, top_k| GeneratePayload {
        sampling: Sampling::sample(temperature, top_p, top_k),
        ..plain.clone()
    };
    let mut samples = named_samples([
        ("plain", plain.clone()),
        ("whole", GeneratePayload { prompt: whole_prompt(), max_tokens: u32::MAX, ..plain.clone() }),
        ("stops", GeneratePayload { stop: vec!["\n".to_owned(), TEXT.to_owned(), String::new()], ..plain.clone() }),
        ("json", GeneratePayload { format: TextFormat::Json, ..plain.clone() }),
        ("with-special", GeneratePayload { format: TextFormat::WithSpecial, ..plain.clone() }),
        ("logprobs", GeneratePayload { logprobs: true, ..plain.clone() }),
        ("sample", sample(0.7, 0.95, 40)),
        ("sample-not-a-number", sample(f64::NAN, 1.0, 0)),
    ]);
    let numbers = NUMBERS.into_iter().enumerate();
    samples
        .extend(named_samples(numbers.map(|(n, number)| (format!("number-{n}"), sample(number, -number, u32::MAX)))));
    let penalised = |repetition, presence, frequency| {
        let penalties = SamplingPenalties { repetition, presence, frequency };
        let sampling = Sampling::Sample { temperature: 0.8, top_p: 0.8, top_k: 0, penalties };
        GeneratePayload { sampling, ..plain.clone() }
    };
    let schema = TextFormat::Schema(r#"{"type":"object"}"#.to_owned());
    samples.extend(named_samples([
        ("server-sampling", GeneratePayload { sampling: Sampling::Server, ..plain.clone() }),
        ("no-penalties", penalised(1.0, 0.0, -0.0)),
        ("repetition-penalty", penalised(1.1, 0.0, 0.0)),
        ("presence-penalty", penalised(1.0, 1.0, 0.0)),
        ("frequency-penalty", penalised(1.0, 0.0, -0.5)),
        ("all-penalties", penalised(1.1, 1.0, 0.5)),
        ("schema", GeneratePayload { format: schema, ..plain.clone() }),
    ]));
    samples
}
