//! A question in the making: its facts and their wording.

use std::collections::BTreeMap;

use crate::entities::{Entities, Entity, FactObject};
use crate::passage::{PassagePlan, plan_passage};
use crate::random_stream::RandomStream;
use crate::schema::{HELD_OUT_WORDING, RelationId, Wordings};
use crate::settings::{Difficulty, WorldSplit};

/// A fact stated by a passage.
#[derive(Debug, Clone)]
pub(crate) struct StatedFact {
    pub(crate) subject: Entity,
    pub(crate) relation: RelationId,
    pub(crate) object: FactObject,
    pub(crate) sentence: u32,
    pub(crate) wording: usize,
}

/// The content of a question, before it is written.
#[derive(Debug, Clone)]
pub(crate) struct QuestionDraft {
    pub(crate) kind: &'static str,
    /// The kind of comparison, for comparisons.
    pub(crate) comparison: Option<&'static str>,
    pub(crate) text: String,
    pub(crate) answer: DraftAnswer,
    /// In path order; the subjects are the gold passages.
    pub(crate) facts: Vec<StatedFact>,
    /// For each fact, the fact whose answer is the subject of its sub-question.
    pub(crate) follows: Vec<Option<usize>>,
}

/// The answer of a question.
#[derive(Debug, Clone)]
pub(crate) enum DraftAnswer {
    Object(FactObject),
    YesNo(bool),
}

/// The source of a question: a world, its difficulty and a random stream.
pub(crate) struct DraftContext<'a> {
    pub(crate) world: &'a Entities,
    pub(crate) difficulty: &'a Difficulty,
    pub(crate) random: RandomStream,
    /// In `eval`, half the questions use only relations of `train`, the other half at least one held-out relation.
    want_held_out_relation: bool,
    want_held_out_template: bool,
    /// The second passage of a chain must mention the first.
    pub(crate) want_reciprocal: bool,
    pub(crate) used_held_out_template: bool,
}

impl<'a> DraftContext<'a> {
    pub(crate) fn new(world: &'a Entities, difficulty: &'a Difficulty, mut random: RandomStream) -> Self {
        let eval = world.split == WorldSplit::Eval;
        let (relation, template) = (random.chance(500), random.chance(500));
        let want_reciprocal = random.chance(difficulty.reciprocal);
        Self {
            world,
            difficulty,
            random,
            want_held_out_relation: eval && relation,
            want_held_out_template: eval && template,
            want_reciprocal,
            used_held_out_template: false,
        }
    }

    /// Gives up requirements that this world or mix cannot meet.
    pub(crate) fn relax_requirements(&mut self) {
        self.want_held_out_relation = false;
        self.want_held_out_template = false;
        self.want_reciprocal = false;
    }

    pub(crate) fn restart(&mut self) {
        self.used_held_out_template = false;
    }

    /// Whether the draft meets the requirements on its relations and templates.
    pub(crate) fn meets_requirements(&self, draft: &QuestionDraft) -> bool {
        let held_out = draft.facts.iter().any(|f| f.relation.relation().held_out);
        held_out == self.want_held_out_relation && self.used_held_out_template == self.want_held_out_template
    }

    /// One of the wordings allowed for this question.
    pub(crate) fn choose_wording(&mut self, wordings: &Wordings) -> &'static str {
        let n = if self.want_held_out_template { self.random.below(3) } else { self.random.below(2) } as usize;
        self.used_held_out_template |= n == HELD_OUT_WORDING;
        wordings[n]
    }

    /// One of the wordings allowed for this question, often the wording in the fact's passage.
    pub(crate) fn wording_of(&mut self, fact: &StatedFact, wordings: &Wordings) -> &'static str {
        // A question that wants a held-out wording takes any wording until it has a held-out one. So it hardly prefers
        // passages of held-out paraphrases.
        let may_echo = match fact.wording {
            HELD_OUT_WORDING => self.want_held_out_template,
            _ => self.used_held_out_template || !self.want_held_out_template,
        };
        if self.random.chance(self.difficulty.echo) && may_echo {
            self.used_held_out_template |= fact.wording == HELD_OUT_WORDING;
            return wordings[fact.wording];
        }
        self.choose_wording(wordings)
    }

    pub(crate) fn plan_passage(&self, entity: Entity) -> PassagePlan {
        plan_passage(self.world, self.difficulty, entity)
    }

    /// A fact stated by the subject's passage.
    pub(crate) fn stated_fact(&self, subject: Entity, relation: RelationId) -> Option<StatedFact> {
        let plan = self.plan_passage(subject);
        let (sentence, object, wording) = plan.find_fact(relation)?;
        Some(StatedFact { subject, relation, object: object.clone(), sentence: sentence as u32, wording })
    }

    /// One of the relations stated by the subject's passage and accepted by `wanted`.
    pub(crate) fn any_fact(&mut self, subject: Entity, wanted: impl Fn(RelationId) -> bool) -> Option<StatedFact> {
        let plan = self.plan_passage(subject);
        let relations: Vec<RelationId> = plan
            .stated_relations()
            .filter(|r| (self.want_held_out_relation || !r.relation().held_out) && wanted(*r))
            .collect();
        if relations.is_empty() {
            return None;
        }
        let relation = relations[self.random.below(relations.len() as u64) as usize];
        let (sentence, object, wording) = plan.find_fact(relation)?;
        Some(StatedFact { subject, relation, object: object.clone(), sentence: sentence as u32, wording })
    }

    /// The name of an entity in the question.
    pub(crate) fn pinpoint(&mut self, entity: Entity) -> String {
        let with_noun = self.random.chance(200);
        self.world.pinpoint(entity, with_noun)
    }

    /// The noun phrase for a fact's object, relative to a phrase for its subject. Sometimes it includes something that
    /// the object is known for.
    pub(crate) fn object_phrase(&mut self, fact: &StatedFact, subject: &str, place: PhrasePosition) -> Option<String> {
        let mut phrase = self.wording_of(fact, fact.relation.relation().phrase.as_ref()?).replace("{x}", subject);
        if let FactObject::Entity(object) = fact.object
            && self.random.chance(self.difficulty.overlap)
        {
            let EntityDescription { qualities, crafts } = self.describe_entity(object);
            if let (Some(qualities), Some(rest)) = (qualities, phrase.strip_prefix("the ")) {
                phrase = format!("the {qualities} {rest}");
            }
            phrase.push_str(&match (crafts, place) {
                (Some(crafts), PhrasePosition::Last) => format!(", known for {crafts},"),
                (Some(crafts), PhrasePosition::Inner) => format!(" (known for {crafts})"),
                (None, _) => String::new(),
            });
        }
        Some(phrase)
    }

    /// Some of the things that an entity is known for, seldom as in its own passage.
    fn describe_entity(&mut self, entity: Entity) -> EntityDescription {
        let [(quality, craft), (other_quality, other_craft)] = self.world.known_for(entity);
        let (qualities, crafts) = match self.random.below(8) {
            0 => (None, Some(format!("{quality} {craft}"))),
            1 => (None, Some(format!("{craft} and {other_craft}"))),
            2 => (Some(other_quality.to_owned()), Some(craft.to_owned())),
            3 => (Some(quality.to_owned()), Some(other_craft.to_owned())),
            _ => (Some(format!("{quality} and {other_quality}")), None),
        };
        EntityDescription { qualities, crafts }
    }
}

/// Things that an entity is known for, as worded in a question: its qualities before its noun, its crafts in a clause.
struct EntityDescription {
    qualities: Option<String>,
    crafts: Option<String>,
}

/// The position of a noun phrase in its question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PhrasePosition {
    /// It is the last phrase, and a clause may follow.
    Last,
    /// Within another phrase, or beside one. Only brackets keep a clause in its place here.
    Inner,
}

/// Removes double punctuation left by inserted phrases.
pub(crate) fn tidy_punctuation(text: &str) -> String {
    text.replace(",?", "?").replace(",,", ",").replace(", ,", ",")
}

impl QuestionDraft {
    /// The gold passages in path order.
    pub(crate) fn gold_path(&self) -> Vec<Entity> {
        let mut gold = Vec::with_capacity(4);
        for fact in &self.facts {
            if !gold.contains(&fact.subject) {
                gold.push(fact.subject);
            }
        }
        gold
    }

    /// The strata, with `templates` as given by `held_out_template`.
    pub(crate) fn strata(&self, held_out_template: bool) -> BTreeMap<String, String> {
        let seen = |held_out: bool| if held_out { "held_out" } else { "seen" };
        let relations = self.facts.iter().any(|f| f.relation.relation().held_out);
        let paraphrases = self.facts.iter().any(|f| f.wording == HELD_OUT_WORDING);
        let mut strata = BTreeMap::from([
            ("relations".to_owned(), seen(relations).to_owned()),
            ("templates".to_owned(), seen(held_out_template).to_owned()),
            ("paraphrases".to_owned(), seen(paraphrases).to_owned()),
        ]);
        if let Some(comparison) = self.comparison {
            strata.insert("comparison".to_owned(), comparison.to_owned());
        }
        strata
    }
}
