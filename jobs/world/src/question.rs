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
    let candidates = draw_candidates(world, settings, draft, index);
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

/// The gold passages among similar distractors: rivals, namesakes, linked entities, others with the same object, others
/// of the class.
fn draw_candidates(world: &Entities, settings: &WorldSettings, draft: &QuestionDraft, index: u64) -> Vec<Entity> {
    let gold = draft.gold_path();
    let wanted = (settings.candidates as usize).max(gold.len());
    let mut random = RandomStream::new(world.key, StreamPurpose::Candidates, index);
    let mut near: Vec<Entity> = Vec::with_capacity(32);
    for &entity in &gold {
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
    let mut candidates = gold.clone();
    let free = wanted - gold.len();
    draw_rivals(world, settings, draft, free.min(settings.rivals as usize), &mut candidates, &mut random);
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

/// Draws per rival. Not every passage of a class states each of its relations.
const RIVAL_DRAWS: usize = 40;

/// Adds so many passages that state what the question's facts state, of other subjects. The last fact of a chain has
/// two turns: a reader that finds one capital alone need not know whose it is.
fn draw_rivals(
    world: &Entities,
    settings: &WorldSettings,
    draft: &QuestionDraft,
    count: usize,
    candidates: &mut Vec<Entity>,
    random: &mut RandomStream,
) {
    let last = draft.facts.last().filter(|_| draft.comparison.is_none());
    let turns = last.into_iter().chain(draft.facts.iter().rev()).cycle();
    for fact in turns.take(count) {
        let (class, relation) = (fact.subject.class, fact.relation);
        let rival =
            (0..RIVAL_DRAWS).map(|_| Entity { class, index: random.below(world.class_size(class)) }).find(|rival| {
                !candidates.contains(rival)
                    && plan_passage(world, &settings.difficulty, *rival).find_fact(relation).is_some()
            });
        candidates.extend(rival);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::WorldSplit;
    use std::collections::BTreeMap;

    /// The mean number of distractors that state the last fact's relation, by hops of chains, and the questions.
    fn rivals(rivals: u32) -> (BTreeMap<u32, f64>, Vec<Question>) {
        let settings = WorldSettings { rivals, ..WorldSettings::new(2_000, 5_000, 7, WorldSplit::Eval) };
        let (world, ids) = (Entities::new(&settings), IdPrefixes::new(&settings));
        let questions: Vec<Question> =
            (0..settings.questions).map(|index| draw_question(&world, &settings, &ids, index).unwrap()).collect();
        let mut found: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for question in questions.iter().filter(|question| question.kind == "bridge") {
            let asked = &question.evidences.last().unwrap()[1];
            let (sum, count) = found.entry(question.hops).or_default();
            *count += 1;
            for candidate in &question.candidates {
                let number = candidate.id().strip_prefix(&ids.passage).unwrap().parse().unwrap();
                let plan = plan_passage(&world, &settings.difficulty, world.entity_at(number));
                let states_it = plan.stated_relations().any(|stated| stated.relation().name == asked);
                let is_gold = question.gold.iter().any(|gold| gold.id == candidate.id());
                *sum += u32::from(states_it && !is_gold);
            }
        }
        (found.into_iter().map(|(hops, (sum, count))| (hops, f64::from(sum) / f64::from(count))).collect(), questions)
    }

    #[test]
    fn rivals_state_the_last_fact_of_a_chain_and_change_nothing_else() {
        let ((without, plain), (with, asked)) = (rivals(0), rivals(6));
        for hops in 2..=4 {
            assert!(with[&hops] >= without[&hops] + 1.0, "{hops} hops: {without:?} {with:?}");
            assert!(with[&hops] >= 3.0, "{hops} hops: {with:?}");
        }
        for (plain, asked) in plain.into_iter().zip(asked) {
            let candidates = asked.candidates.iter().map(Candidate::id).collect::<std::collections::BTreeSet<_>>();
            assert_eq!(candidates.len(), 10);
            assert!(asked.gold.iter().all(|gold| candidates.contains(gold.id.as_str())));
            let decomposition = plain.decomposition.iter().zip(&asked.decomposition);
            assert!(decomposition.clone().all(|(one, other)| one.question == other.question));
            assert_eq!((plain.text, plain.answers, plain.gold), (asked.text, asked.answers, asked.gold));
        }
    }
}
