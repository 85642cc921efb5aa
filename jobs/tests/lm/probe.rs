//! A method with one request to every kind of service; its answer contains all of theirs.

use hopeval_methods::request::{
    EmbedPayload, EmbedRole, EntailPayload, FilterPayload, GeneratePayload, LabelPayload, PassageId, ReadPayload,
    RequestPayload, RerankPayload, RetrievePayload, Sampling, ScorePayload, ServiceName, Statistics, TextFormat,
};
use hopeval_methods::{
    Content, ContextMode, LengthLimit, Machine, MachineStep, Method, Outcome, PassageForm, Prompt, PromptPart,
    Question, Request, RequestKind, Response, ServiceAbility, ServiceUse,
};

/// Each kind goes to the service with its name, except labels.
pub(crate) struct Probe {
    pub(crate) labeler: &'static str,
    /// Further abilities of the generating service.
    pub(crate) needs: Vec<ServiceAbility>,
}

impl Default for Probe {
    fn default() -> Self {
        Self { labeler: "label", needs: Vec::new() }
    }
}

const KINDS: [RequestKind; 9] = [
    RequestKind::Retrieve,
    RequestKind::Score,
    RequestKind::Label,
    RequestKind::Filter,
    RequestKind::Rerank,
    RequestKind::Entail,
    RequestKind::Read,
    RequestKind::Embed,
    RequestKind::Generate,
];

impl Method for Probe {
    fn kind(&self) -> &'static str {
        "probe"
    }

    fn version(&self) -> u32 {
        1
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Open
    }

    fn gives_answers(&self) -> bool {
        true
    }

    fn most_ranked(&self) -> Option<u32> {
        None
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let service =
            |kind: RequestKind| ServiceName::from(if kind == RequestKind::Label { self.labeler } else { kind.name() });
        let needs = |kind| if kind == RequestKind::Generate { self.needs.clone() } else { Vec::new() };
        KINDS.map(|kind| ServiceUse { needs: needs(kind), ..ServiceUse::new(kind.name(), &service(kind), kind) }).into()
    }

    fn score_temperatures(&self) -> Vec<f64> {
        vec![1.0, 1.4]
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(Probing { question: question.text.clone(), asked: 0 })
    }
}

struct Probing {
    question: String,
    asked: u32,
}

fn request(ask: impl Into<RequestPayload>) -> Request {
    let ask = ask.into();
    Request::new(&ServiceName::from(ask.kind().name()), ask)
}

impl Machine for Probing {
    fn step(&mut self, responses: Vec<Response>) -> MachineStep {
        self.asked += 1;
        match self.asked {
            1 => MachineStep::Ask(vec![request(RetrievePayload::new(&self.question, 3))]),
            2 => {
                let hits = responses.into_iter().next().unwrap().hits().unwrap();
                MachineStep::Ask(self.everything(&hits.iter().map(|hit| hit.passage).collect::<Vec<_>>()))
            }
            _ => {
                let said: Vec<_> = responses.into_iter().map(|r| (r.result, r.work, r.prompt)).collect();
                MachineStep::Done(Outcome { answer: Some(format!("{said:?}")), ..Outcome::default() })
            }
        }
    }
}

impl Probing {
    fn everything(&self, passages: &[PassageId]) -> Vec<Request> {
        let question = || self.question.clone();
        let form = || PassageForm::TitleAndText { between: ": ".to_owned() };
        let shown = |passage: PassageId| PromptPart::passage(passage, form(), Some(LengthLimit::Tokens(24)));
        let whole = |passage: PassageId| Content::Passage { passage, form: form() };
        let prompt = |parts: Vec<PromptPart>| Prompt { parts, ..Prompt::default() };
        let restricted = RetrievePayload::new(question(), 2).within(passages.to_vec(), Statistics::Corpus);
        let dense = [RetrievePayload::new(question(), 5), restricted];
        let services = ["dense", "half"].map(ServiceName::from);
        let mut requests: Vec<Request> =
            services.iter().flat_map(|service| dense.iter().map(|ask| Request::new(service, ask.clone()))).collect();
        for &passage in passages {
            let parts = vec![PromptPart::text("Document: "), shown(passage), PromptPart::text(" Question:")];
            let score = |t: f64| ScorePayload {
                prompt: prompt(parts.clone()),
                target: Prompt::text(question()),
                temperatures: vec![t],
            };
            // One key, two temperatures.
            requests.extend([request(score(1.4)), request(score(1.0))]);
            requests.push(request(LabelPayload { query: question(), chunk: whole(passage) }));
            requests.push(request(EmbedPayload { text: whole(passage), role: EmbedRole::Passage }));
        }
        let first = passages[0];
        requests.push(request(FilterPayload {
            query: question(),
            information: vec!["the castle, and".into(), " ".into()],
        }));
        requests
            .push(request(RerankPayload { query: question(), items: passages.iter().map(|&p| whole(p)).collect() }));
        let premise = prompt(vec![shown(first)]);
        requests.push(request(EntailPayload { premise: premise.clone(), hypothesis: question() }));
        let context = prompt(vec![PromptPart::text("yes no "), shown(first)]);
        requests.push(request(ReadPayload {
            question: question(),
            context,
            max_answer_tokens: 5,
            spans: 2,
            ..ReadPayload::default()
        }));
        requests.push(request(EmbedPayload { text: Content::Text(question()), role: EmbedRole::Query }));
        let generate = GeneratePayload {
            prompt: premise,
            max_tokens: 6,
            stop: vec!["\n".into()],
            sampling: Sampling::sample(0.8, 0.9, 20),
            format: TextFormat::Text,
            logprobs: true,
        };
        requests.extend((0..2).map(|draw| Request { draw, ..request(generate.clone()) }));
        requests
    }
}
