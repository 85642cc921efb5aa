//! Writes a question: text, answers, gold path, candidates, evidences, sub-questions and chain of thought.

use crate::draft::{DraftAnswer, DraftContext, QuestionDraft};
use crate::entities::{Entities, Entity, FactObject};
use crate::kinds::{draw_bridge_comparison, draw_chain, draw_comparison};
use crate::passage::{PlannedSentence, plan_passage, write_passage};
use crate::random_stream::{RandomStream, StreamPurpose};
use crate::record::{Candidate, GoldReference, Question, SubQuestion};
use crate::settings::WorldSettings;

/// Draws before a question gives up on held-out relations or templates, and again before it fails.
const PATIENCE: usize = 2_000;

/// Question `index`, or `None` if every draw failed (a world too small for its mix).
pub(crate) fn draw_question(
    world: &Entities,
    settings: &WorldSettings,
    ids: &IdPrefixes,
    index: u64,
) -> Option<Question> {
    let mut random = RandomStream::new(world.key, StreamPurpose::Question, index);
    let mix = &settings.mix;
    let mut left = random.below(mix.total());
    let weights = [mix.two_hop, mix.three_hop, mix.four_hop, mix.comparison, mix.bridge_comparison].map(u64::from);
    let mut kind = 0;
    while left >= weights[kind] {
        left -= weights[kind];
        kind += 1;
    }
    let mut context = DraftContext::new(world, &settings.difficulty, random);
    for attempt in 0..2 * PATIENCE {
        if attempt == PATIENCE {
            context.relax_requirements();
        }
        context.restart();
        let draft = match kind {
            0..3 => draw_chain(&mut context, kind + 2),
            3 => draw_comparison(&mut context),
            _ => draw_bridge_comparison(&mut context),
        };
        if let Some(draft) = draft.filter(|draft| context.meets_requirements(draft)) {
            return Some(write_down(world, settings, ids, index, &draft, context.used_held_out_template));
        }
    }
    None
}

/// The prefixes of ids.
#[derive(Debug, Clone)]
pub(crate) struct IdPrefixes {
    pub(crate) question: String,
    pub(crate) passage: String,
}

impl IdPrefixes {
    pub(crate) fn new(settings: &WorldSettings) -> Self {
        let (split, seed) = (settings.split, settings.seed);
        Self { question: format!("{split}{seed}-q"), passage: format!("{split}{seed}-p") }
    }

    fn passage_of(&self, world: &Entities, entity: Entity) -> String {
        format!("{}{}", self.passage, world.number(entity))
    }
}

fn write_down(
    world: &Entities,
    settings: &WorldSettings,
    ids: &IdPrefixes,
    index: u64,
    draft: &QuestionDraft,
    held_out_template: bool,
) -> Question {
    let gold = draft.gold_path();
    let candidates = draw_candidates(world, settings, &gold, index);
    let reference = |e: Entity| GoldReference { id: ids.passage_of(world, e), title: world.title(e) };
    let answers = answer_spellings(world, &draft.answer);
    Question {
        id: format!("{}{index}", ids.question),
        text: draft.text.clone(),
        gold: gold.iter().map(|&e| reference(e)).collect(),
        supporting_facts: draft.facts.iter().map(|f| (world.title(f.subject), f.sentence)).collect(),
        evidences: draft
            .facts
            .iter()
            .map(|f| [world.title(f.subject), f.relation.relation().name.to_owned(), object_title(world, &f.object)])
            .collect(),
        decomposition: sub_questions(world, ids, draft, &candidates),
        rationale: write_rationale(world, draft, &answers[0]),
        answers,
        kind: draft.kind.to_owned(),
        hops: gold.len() as u32,
        strata: draft.strata(held_out_template),
        candidates: candidates
            .iter()
            .map(|&e| match settings.candidate_texts {
                true => {
                    let plan = plan_passage(world, &settings.difficulty, e);
                    Candidate::Whole(write_passage(world, &settings.difficulty, &ids.passage, e, &plan))
                }
                false => Candidate::Reference(reference(e)),
            })
            .collect(),
    }
}

/// One sub-question per fact. It names its subject, or refers to the earlier sub-question with that answer.
fn sub_questions(world: &Entities, ids: &IdPrefixes, draft: &QuestionDraft, candidates: &[Entity]) -> Vec<SubQuestion> {
    let support = |entity: Entity| candidates.iter().position(|&c| c == entity).map_or(0, |p| p as u32);
    let facts = draft.facts.iter().zip(&draft.follows);
    facts
        .map(|(fact, follows)| {
            let subject = follows.map_or_else(|| world.pinpoint(fact.subject, false), |n| format!("#{}", n + 1));
            SubQuestion {
                question: fact.relation.relation().asks[0].replace("{x}", &subject),
                answer: object_name(world, &fact.object),
                support: support(fact.subject),
                evidence: vec![ids.passage_of(world, fact.subject)],
            }
        })
        .collect()
}

/// The name of an object in sentences.
fn object_name(world: &Entities, object: &FactObject) -> String {
    match object {
        FactObject::Entity(entity) => world.mention(*entity).name,
        FactObject::Value(value, _) => value.clone(),
    }
}

/// The name of an object in evidences.
fn object_title(world: &Entities, object: &FactObject) -> String {
    match object {
        FactObject::Entity(entity) => world.title(*entity),
        FactObject::Value(value, _) => value.clone(),
    }
}

/// The answer as in passages, then the bare name and the title if they differ.
fn answer_spellings(world: &Entities, answer: &DraftAnswer) -> Vec<String> {
    match answer {
        DraftAnswer::YesNo(yes) => vec![if *yes { "yes" } else { "no" }.to_owned()],
        DraftAnswer::Object(FactObject::Value(value, _)) => vec![value.clone()],
        DraftAnswer::Object(FactObject::Entity(entity)) => {
            let mut answers = vec![world.mention(*entity).name];
            for alias in [world.name(*entity), world.title(*entity)] {
                if !answers.contains(&alias) {
                    answers.push(alias);
                }
            }
            answers
        }
    }
}

/// Each fact in its plainest wording, then the answer.
fn write_rationale(world: &Entities, draft: &QuestionDraft, answer: &str) -> String {
    let mut out = String::new();
    let full = |entity: Entity| {
        let mention = world.mention(entity);
        format!("{}{}", mention.article, mention.name)
    };
    for fact in &draft.facts {
        let object = match &fact.object {
            FactObject::Entity(entity) => full(*entity),
            FactObject::Value(value, _) => value.clone(),
        };
        let start = out.len();
        out.push_str(&fact.relation.relation().says[0].replace("{s}", &full(fact.subject)).replace("{o}", &object));
        if let Some(letter) = out.get_mut(start..start + 1) {
            letter.make_ascii_uppercase();
        }
        out.push_str(". ");
    }
    out.push_str("So the answer is: ");
    out.push_str(answer);
    out.push('.');
    out
}

/// The gold passages among similar distractors: namesakes, linked entities, others with the same object, others of the
/// class.
fn draw_candidates(world: &Entities, settings: &WorldSettings, gold: &[Entity], index: u64) -> Vec<Entity> {
    let wanted = (settings.candidates as usize).max(gold.len());
    let mut random = RandomStream::new(world.key, StreamPurpose::Candidates, index);
    let mut near: Vec<Entity> = Vec::with_capacity(32);
    for &entity in gold {
        near.extend(world.namesakes(entity));
        for sentence in &plan_passage(world, &settings.difficulty, entity).sentences {
            match sentence {
                PlannedSentence::Fact { relation, object: FactObject::Entity(object), .. } => {
                    near.push(*object);
                    near.extend(world.subject_of(*relation, *object, random.next_bits() >> 1));
                }
                PlannedSentence::Back { subject, .. } => near.push(*subject),
                _ => {}
            }
        }
    }
    random.shuffle(&mut near);
    let mut candidates = gold.to_vec();
    let mut distractors = near.into_iter();
    while candidates.len() < wanted {
        let next = distractors.next().unwrap_or_else(|| {
            let class = gold[random.below(gold.len() as u64) as usize].class;
            // A small class may run out.
            match random.chance(800) {
                true => Entity { class, index: random.below(world.class_size(class)) },
                false => world.entity_at(random.below(world.len())),
            }
        });
        if !candidates.contains(&next) {
            candidates.push(next);
        }
    }
    random.shuffle(&mut candidates);
    candidates
}
