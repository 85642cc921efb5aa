//! Samples of requests: every kind, every variant and every option of the protocol at least once, each with a name.
//!
//! Golden files hold the canonical payloads and the keys of these requests. A new variant or field gets a sample here,
//! at the end of its list. Samples are never changed, because their lines in golden files must not change.

mod responses;

pub use responses::every_response;

use crate::prompt::{Content, Limit, Overflow, Part, PassageForm, Prompt, Role};
use crate::request::{
    Ask, Direction, Embed, EmbedRole, Entail, Filter, Generate, Label, Links, PassageId, PassageSet, Passages, Read,
    Request, Rerank, Retrieve, Sampling, Score, ServiceName, Statistics, TextFormat, Within,
};

/// Every character with an escape in JSON, or with different treatment by writers of JSON.
const TEXT: &str = "\"q\" \\ / \u{0}\u{1}\u{7}\u{8}\t\n\u{b}\u{c}\r\u{1f}\u{7f}\u{80} \u{e9}\u{df} \
                    \u{2028}\u{2029} \u{feff} \u{1f600} <&>'";

/// Numbers with long, short and exponential forms, and some that JSON lacks.
const NUMBERS: [f64; 12] = [0.0, -0.0, 1.0, 1.4, 0.1 + 0.2, 1e15, 1e16, 1e21, 1e-7, 5e-324, f64::MAX, f64::INFINITY];

/// Samples of requests, each with a unique name without spaces. All ask the service `any`.
pub fn every_request() -> Vec<(String, Request)> {
    let groups: [Group; 11] = [
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

type Group = (&'static str, Vec<(String, Ask)>);

fn named<N: Into<String>, A: Into<Ask>>(asks: impl IntoIterator<Item = (N, A)>) -> Vec<(String, Ask)> {
    asks.into_iter().map(|(name, ask)| (name.into(), ask.into())).collect()
}

fn ids(ids: &[u32]) -> PassageSet {
    PassageSet::Ids(ids.iter().copied().map(PassageId).collect())
}

fn titles(titles: &[&str]) -> PassageSet {
    PassageSet::Titles(titles.iter().map(|&title| title.to_owned()).collect())
}

fn retrievals() -> Vec<(String, Ask)> {
    let plain = Retrieve::new("who made it?", 5);
    let within = |passages, statistics| Retrieve { within: Some(Within { passages, statistics }), ..plain.clone() };
    named([
        ("plain", plain.clone()),
        ("reading", Retrieve { read: true, ..plain.clone() }),
        ("empty", Retrieve::new("", 0)),
        ("escapes", Retrieve::new(TEXT, u32::MAX)),
        ("ids-corpus", within(ids(&[3, 0, u32::MAX]), Statistics::Corpus)),
        ("ids-restriction", within(ids(&[]), Statistics::Restriction)),
        ("titles-corpus", within(titles(&["A", TEXT]), Statistics::Corpus)),
        ("titles-restriction", within(titles(&[]), Statistics::Restriction)),
    ])
}

fn lookups() -> Vec<(String, Ask)> {
    named([
        ("ids", Passages { passages: ids(&[7, 7, 2]), read: false }),
        ("ids-reading", Passages { passages: ids(&[7, 7, 2]), read: true }),
        ("titles", Passages { passages: titles(&["A", TEXT, ""]), read: false }),
        ("none", Passages { passages: ids(&[]), read: true }),
    ])
}

fn links() -> Vec<(String, Ask)> {
    named([
        ("outgoing", Links { passage: PassageId(0), direction: Direction::Outgoing, read: false }),
        ("incoming", Links { passage: PassageId(u32::MAX), direction: Direction::Incoming, read: true }),
    ])
}

/// Every content, form, role and limit, by name.
fn parts() -> Vec<(String, Part)> {
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
    let limits = [("whole", None), ("tokens", Some(Limit::Tokens(230))), ("words", Some(Limit::Words(0)))];
    let roles = [("system", Role::System), ("user", Role::User), ("assistant", Role::Assistant)];
    let mut parts: Vec<(String, Part)> = contents
        .into_iter()
        .map(|(name, content)| (name.to_owned(), Part { role: Role::User, content, truncate: None }))
        .collect();
    parts.extend(limits.map(|(name, truncate)| (format!("truncate-{name}"), Part { truncate, ..Part::text("t") })));
    parts.extend(roles.map(|(name, role)| (format!("role-{name}"), Part { role, ..Part::text("t") })));
    parts
}

/// A prompt with every part, a budget and every overflow rule.
fn whole_prompt() -> Prompt {
    Prompt {
        parts: parts().into_iter().map(|(_, part)| part).collect(),
        budget: Some(600),
        overflow: vec![
            Overflow::Drop { part: 2 },
            Overflow::Cut { part: 0, to: Limit::Tokens(10) },
            Overflow::Cut { part: 1, to: Limit::Words(u32::MAX) },
        ],
    }
}

fn empty_prompt() -> Prompt {
    Prompt { parts: Vec::new(), budget: None, overflow: Vec::new() }
}

fn scores() -> Vec<(String, Ask)> {
    let score = |prompt, target| Score { prompt, target, temperatures: vec![1.0] };
    let plain = score(Prompt::text("Document: it."), Prompt::text("who made it?"));
    let mut samples = named([
        ("plain", plain.clone()),
        ("temperatures", Score { temperatures: vec![1.4, 2.0], ..plain.clone() }),
        ("whole", score(whole_prompt(), whole_prompt())),
        ("empty", Score { temperatures: Vec::new(), ..score(empty_prompt(), empty_prompt()) }),
        ("budget-0", score(Prompt { budget: Some(0), ..empty_prompt() }, empty_prompt())),
    ]);
    let of_part = |part| score(Prompt { parts: vec![part], ..empty_prompt() }, Prompt::text("t"));
    samples.extend(named(parts().into_iter().map(|(name, part)| (format!("part-{name}"), of_part(part)))));
    samples
}

fn contents() -> Vec<(String, Content)> {
    parts().into_iter().take(7).map(|(name, part)| (name, part.content)).collect()
}

fn labels() -> Vec<(String, Ask)> {
    let label = |chunk| Label { query: "who?".to_owned(), chunk };
    let mut samples = named(contents().into_iter().map(|(name, chunk)| (name, label(chunk))));
    samples.extend(named([("escapes", Label { query: TEXT.to_owned(), ..label(Content::Text(String::new())) })]));
    samples
}

fn filters() -> Vec<(String, Ask)> {
    let filter = |query: &str, information: &[&str]| Filter {
        query: query.to_owned(),
        information: information.iter().map(|&text| text.to_owned()).collect(),
    };
    named([("plain", filter("who?", &["born in"])), ("none", filter("", &[])), ("two", filter(TEXT, &[TEXT, ""]))])
}

fn rerankings() -> Vec<(String, Ask)> {
    let rerank = |query: &str, items| Rerank { query: query.to_owned(), items };
    let all = contents().into_iter().map(|(_, content)| content).collect();
    named([("every-content", rerank("who?", all)), ("none", rerank(TEXT, Vec::new()))])
}

fn entailments() -> Vec<(String, Ask)> {
    let entail = |premise, hypothesis: &str| Entail { premise, hypothesis: hypothesis.to_owned() };
    named([
        ("plain", entail(Prompt::text("a"), "b")),
        ("whole", entail(whole_prompt(), TEXT)),
        ("empty", entail(empty_prompt(), "")),
    ])
}

fn readings() -> Vec<(String, Ask)> {
    let read =
        |question: &str, context| Read { question: question.to_owned(), context, max_answer_tokens: 30, spans: 1 };
    named([
        ("plain", read("who?", Prompt::text("a"))),
        ("whole", Read { max_answer_tokens: u32::MAX, spans: 5, ..read(TEXT, whole_prompt()) }),
        ("empty", Read { max_answer_tokens: 0, spans: 0, ..read("", empty_prompt()) }),
    ])
}

fn embeddings() -> Vec<(String, Ask)> {
    let embed = |text, role| Embed { text, role };
    let mut samples = named(contents().into_iter().map(|(name, text)| (name, embed(text, EmbedRole::Query))));
    samples.extend(named([("role-passage", embed(Content::Text("t".to_owned()), EmbedRole::Passage))]));
    samples
}

fn generations() -> Vec<(String, Ask)> {
    let plain = Generate {
        prompt: Prompt::text("say it"),
        max_tokens: 16,
        stop: Vec::new(),
        sampling: Sampling::Greedy,
        format: TextFormat::Text,
        logprobs: false,
    };
    let sample = |temperature, top_p, top_k| Generate {
        sampling: Sampling::Sample { temperature, top_p, top_k },
        ..plain.clone()
    };
    let mut samples = named([
        ("plain", plain.clone()),
        ("whole", Generate { prompt: whole_prompt(), max_tokens: u32::MAX, ..plain.clone() }),
        ("stops", Generate { stop: vec!["\n".to_owned(), TEXT.to_owned(), String::new()], ..plain.clone() }),
        ("json", Generate { format: TextFormat::Json, ..plain.clone() }),
        ("with-special", Generate { format: TextFormat::WithSpecial, ..plain.clone() }),
        ("logprobs", Generate { logprobs: true, ..plain.clone() }),
        ("sample", sample(0.7, 0.95, 40)),
        ("sample-not-a-number", sample(f64::NAN, 1.0, 0)),
    ]);
    let numbers = NUMBERS.into_iter().enumerate();
    samples.extend(named(numbers.map(|(n, number)| (format!("number-{n}"), sample(number, -number, u32::MAX)))));
    samples
}
