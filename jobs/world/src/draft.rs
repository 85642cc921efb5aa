//! A question in the making: the facts that it rests on and how it words them.

use std::collections::BTreeMap;

use crate::draw::Draw;
use crate::entities::{Entities, Entity, Object};
use crate::passage::{Plan, plan};
use crate::schema::{HELD_OUT_WORDING, RelationId, Wordings};
use crate::settings::{Difficulty, Split};

/// A fact as a passage states it.
#[derive(Debug, Clone)]
pub(crate) struct Fact {
    pub(crate) subject: Entity,
    pub(crate) relation: RelationId,
    pub(crate) object: Object,
    pub(crate) sentence: u32,
    pub(crate) wording: usize,
}

/// Everything that a question says, before it is written down.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) kind: &'static str,
    /// What is compared, for comparisons.
    pub(crate) comparison: Option<&'static str>,
    pub(crate) text: String,
    pub(crate) answer: Answer,
    /// In path order; the subjects are the gold passages.
    pub(crate) facts: Vec<Fact>,
    /// For each fact, the fact whose answer its sub-question takes for its subject.
    pub(crate) follows: Vec<Option<usize>>,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Object(Object),
    YesNo(bool),
}

/// What a question is drawn from.
pub(crate) struct Drawing<'a> {
    pub(crate) world: &'a Entities,
    pub(crate) difficulty: &'a Difficulty,
    pub(crate) draw: Draw,
    /// In `eval`, half the questions rest on relations that `train` has too, the other half on at least one that it lacks.
    want_held_out_relation: bool,
    want_held_out_template: bool,
    /// The second passage of a chain is to mention the first.
    pub(crate) want_reciprocal: bool,
    pub(crate) used_held_out_template: bool,
}

impl<'a> Drawing<'a> {
    pub(crate) fn new(world: &'a Entities, difficulty: &'a Difficulty, mut draw: Draw) -> Self {
        let eval = world.split == Split::Eval;
        let (relation, template) = (draw.chance(500), draw.chance(500));
        let want_reciprocal = draw.chance(difficulty.reciprocal);
        Self {
            world,
            difficulty,
            draw,
            want_held_out_relation: eval && relation,
            want_held_out_template: eval && template,
            want_reciprocal,
            used_held_out_template: false,
        }
    }

    /// Gives up on wanting what this world or mix cannot give.
    pub(crate) fn relax(&mut self) {
        self.want_held_out_relation = false;
        self.want_held_out_template = false;
        self.want_reciprocal = false;
    }

    pub(crate) fn restart(&mut self) {
        self.used_held_out_template = false;
    }

    /// Whether the draft keeps to what was wanted of its relations and templates.
    pub(crate) fn suits(&self, draft: &Draft) -> bool {
        let held_out = draft.facts.iter().any(|f| f.relation.relation().held_out);
        held_out == self.want_held_out_relation && self.used_held_out_template == self.want_held_out_template
    }

    /// One of the wordings that this question may use.
    pub(crate) fn wording(&mut self, wordings: &Wordings) -> &'static str {
        let n = if self.want_held_out_template { self.draw.below(3) } else { self.draw.below(2) } as usize;
        self.used_held_out_template |= n == HELD_OUT_WORDING;
        wordings[n]
    }

    /// One of the wordings that this question may use, often the one that the fact's passage uses.
    pub(crate) fn wording_of(&mut self, fact: &Fact, wordings: &Wordings) -> &'static str {
        // A question that wants a held-out wording takes any until it has one, so that it hardly prefers passages of held-out
        // paraphrases.
        let may_echo = match fact.wording {
            HELD_OUT_WORDING => self.want_held_out_template,
            _ => self.used_held_out_template || !self.want_held_out_template,
        };
        if self.draw.chance(self.difficulty.echo) && may_echo {
            self.used_held_out_template |= fact.wording == HELD_OUT_WORDING;
            return wordings[fact.wording];
        }
        self.wording(wordings)
    }

    pub(crate) fn plan(&self, entity: Entity) -> Plan {
        plan(self.world, self.difficulty, entity)
    }

    /// A fact that the subject's passage states.
    pub(crate) fn fact(&self, subject: Entity, relation: RelationId) -> Option<Fact> {
        let plan = self.plan(subject);
        let (sentence, object, wording) = plan.fact(relation)?;
        Some(Fact { subject, relation, object: object.clone(), sentence: sentence as u32, wording })
    }

    /// One of the relations that the subject's passage states and that `wanted` lets pass.
    pub(crate) fn any_fact(&mut self, subject: Entity, wanted: impl Fn(RelationId) -> bool) -> Option<Fact> {
        let plan = self.plan(subject);
        let relations: Vec<RelationId> = plan
            .relations()
            .filter(|r| (self.want_held_out_relation || !r.relation().held_out) && wanted(*r))
            .collect();
        if relations.is_empty() {
            return None;
        }
        let relation = relations[self.draw.below(relations.len() as u64) as usize];
        let (sentence, object, wording) = plan.fact(relation)?;
        Some(Fact { subject, relation, object: object.clone(), sentence: sentence as u32, wording })
    }

    /// How the question names an entity.
    pub(crate) fn pinpoint(&mut self, entity: Entity) -> String {
        let with_noun = self.draw.chance(200);
        self.world.pinpoint(entity, with_noun)
    }

    /// The noun phrase for a fact's object, seen from a phrase for its subject; sometimes with what the object is known for.
    pub(crate) fn phrase(&mut self, fact: &Fact, subject: &str, place: Place) -> Option<String> {
        let mut phrase = self.wording_of(fact, fact.relation.relation().phrase.as_ref()?).replace("{x}", subject);
        if let Object::Entity(object) = fact.object
            && self.draw.chance(self.difficulty.overlap)
        {
            let Description { qualities, crafts } = self.description(object);
            if let (Some(qualities), Some(rest)) = (qualities, phrase.strip_prefix("the ")) {
                phrase = format!("the {qualities} {rest}");
            }
            phrase.push_str(&match (crafts, place) {
                (Some(crafts), Place::Last) => format!(", known for {crafts},"),
                (Some(crafts), Place::Inner) => format!(" (known for {crafts})"),
                (None, _) => String::new(),
            });
        }
        Some(phrase)
    }

    /// Some of what an entity is known for, seldom as its own passage has it.
    fn description(&mut self, entity: Entity) -> Description {
        let [(quality, craft), (other_quality, other_craft)] = self.world.known_for(entity);
        let (qualities, crafts) = match self.draw.below(8) {
            0 => (None, Some(format!("{quality} {craft}"))),
            1 => (None, Some(format!("{craft} and {other_craft}"))),
            2 => (Some(other_quality.to_owned()), Some(craft.to_owned())),
            3 => (Some(quality.to_owned()), Some(other_craft.to_owned())),
            _ => (Some(format!("{quality} and {other_quality}")), None),
        };
        Description { qualities, crafts }
    }
}

/// What an entity is known for, as a question says it: of itself, before its noun, and of its crafts, in a clause.
struct Description {
    qualities: Option<String>,
    crafts: Option<String>,
}

/// Where a noun phrase stands in its question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is what is asked about, and a clause may follow.
    Last,
    /// Within another phrase, or beside one, where only brackets keep a clause in its place.
    Inner,
}

/// Puts right what inserting phrases leaves behind.
pub(crate) fn tidy(text: &str) -> String {
    text.replace(",?", "?").replace(",,", ",").replace(", ,", ",")
}

impl Draft {
    /// The gold passages in path order.
    pub(crate) fn gold(&self) -> Vec<Entity> {
        let mut gold = Vec::with_capacity(4);
        for fact in &self.facts {
            if !gold.contains(&fact.subject) {
                gold.push(fact.subject);
            }
        }
        gold
    }

    /// The strata, with `templates` as told.
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
