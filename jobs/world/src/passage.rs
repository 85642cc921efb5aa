//! Plans and writes passages: a lead, the facts, mentions of entities that link here, and filler sentences.
//!
//! The plan is cheap. It tells a question the facts stated in a passage, their sentences and their wordings. The text
//! is written from the plan.

use crate::entities::{Entities, Entity, EntityMention, FactObject};
use crate::random_stream::{RandomStream, StreamPurpose};
use crate::record::{Passage, PassageLink};
use crate::schema::{EntityClass, HELD_OUT_WORDING, RelationId, relations_into, relations_of};
use crate::settings::{Difficulty, WorldSplit};
use crate::wordlists::{
    ASIDES, BODY_FILLERS, DECADES, JUDGEMENTS, PEOPLE, PERSON_FILLERS, PLACE_FILLERS, TOPICS, WORK_FILLERS,
};

/// A sentence of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlannedSentence {
    /// Introduces the entity with its noun and the things that it is known for.
    Lead,
    /// States a fact in one of its three wordings.
    Fact { relation: RelationId, object: FactObject, wording: usize },
    /// Mentions a subject of a relation with this entity as its object.
    Back { relation: RelationId, subject: Entity, wording: usize },
    /// Mentions an unrelated entity. With `of`, a noun phrase names the entity's object of that relation instead.
    Aside { entity: Entity, of: Option<(RelationId, usize)> },
    /// States no fact used by questions.
    Filler,
}

/// The sentences of a passage, before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PassagePlan {
    pub(crate) sentences: Vec<PlannedSentence>,
    /// Every wording of this passage is held out: `train` never uses it.
    pub(crate) held_out: bool,
    random: RandomStream,
}

impl PassagePlan {
    /// The sentence, the object and the wording of a fact, if the passage states it.
    pub(crate) fn find_fact(&self, wanted: RelationId) -> Option<(usize, &FactObject, usize)> {
        self.sentences.iter().enumerate().find_map(|(n, sentence)| match sentence {
            PlannedSentence::Fact { relation, object, wording } if *relation == wanted => Some((n, object, *wording)),
            _ => None,
        })
    }

    /// Whether the passage mentions an entity that links to it.
    pub(crate) fn mentions(&self, wanted: Entity) -> bool {
        self.sentences.iter().any(|s| matches!(s, PlannedSentence::Back { subject, .. } if *subject == wanted))
    }

    /// The stated relations.
    pub(crate) fn stated_relations(&self) -> impl Iterator<Item = RelationId> {
        self.sentences.iter().filter_map(|sentence| match sentence {
            PlannedSentence::Fact { relation, .. } => Some(*relation),
            _ => None,
        })
    }
}

/// Words of a sentence, on average: a lead, a fact or mention, a filler.
const LEAD_WORDS: i64 = 16;
const FACT_WORDS: i64 = 9;
const FILLER_WORDS: i64 = 16;

/// e^x in thousandths for x in thousandths, by integers: 2^(x / ln 2), the fraction by a quadratic (within 0.3 %).
fn exp_permille(x: i64) -> i64 {
    let octaves = x * 1_000_000 / 693_147;
    let (whole, rest) = (octaves.div_euclid(1000), octaves.rem_euclid(1000));
    let fraction = 1000 + rest * (656 + rest * 344 / 1000) / 1000;
    if whole >= 0 { fraction << whole.min(20) } else { fraction >> (-whole).min(20) }
}

/// Plans the passage of an entity.
pub(crate) fn plan_passage(world: &Entities, difficulty: &Difficulty, entity: Entity) -> PassagePlan {
    let mut random = RandomStream::new(world.key, StreamPurpose::Passage, world.number(entity));
    let all = world.split == WorldSplit::Eval;
    let held_out = all && random.below(3) == 0;
    let target = i64::from(difficulty.median_words)
        * exp_permille(random.normal_permille() * i64::from(difficulty.spread) / 1000)
        / 1000;
    let (left, sentences) = (target - LEAD_WORDS, Vec::with_capacity(8));
    let mut planner = PassagePlanner { world, difficulty, entity, all, held_out, random, left, sentences };
    planner.plan_facts();
    planner.plan_back_links();
    planner.plan_asides();
    let PassagePlanner { mut random, mut sentences, .. } = planner;
    random.shuffle(&mut sentences);
    sentences.insert(0, PlannedSentence::Lead);
    PassagePlan { sentences, held_out, random }
}

/// A passage during planning, without its lead.
struct PassagePlanner<'a> {
    world: &'a Entities,
    difficulty: &'a Difficulty,
    entity: Entity,
    /// Relations of both splits are stated.
    all: bool,
    held_out: bool,
    random: RandomStream,
    /// Words still to be planned.
    left: i64,
    sentences: Vec<PlannedSentence>,
}

impl PassagePlanner<'_> {
    fn choose_wording(&mut self) -> usize {
        if self.held_out { HELD_OUT_WORDING } else { self.random.below(2) as usize }
    }

    /// Facts of the entity, while there is room.
    fn plan_facts(&mut self) {
        let mut relations: Vec<RelationId> = relations_of(self.entity.class, self.all).collect();
        self.random.shuffle(&mut relations);
        for (n, relation) in relations.into_iter().enumerate() {
            // A short passage states at least one fact.
            if n > 0 && self.left < FACT_WORDS / 2 {
                break;
            }
            if let Some(object) = self.world.object_of(relation, self.entity) {
                let wording = self.choose_wording();
                self.sentences.push(PlannedSentence::Fact { relation, object, wording });
                self.left -= FACT_WORDS;
            }
        }
    }

    /// Mentions of subjects of relations with the entity as object: at most two by each relation.
    fn plan_back_links(&mut self) {
        let role = (self.entity.class == EntityClass::Person).then(|| self.world.role(self.entity));
        let mut into: Vec<RelationId> = relations_into(self.entity.class, role, self.all).collect();
        self.random.shuffle(&mut into);
        for turn in 0..2 {
            for &relation in &into {
                if self.left >= FACT_WORDS / 2
                    && self.random.chance(self.difficulty.back_links)
                    && let Some(subject) = self.world.subject_of(relation, self.entity, turn)
                    && !self.mentions(subject)
                {
                    let wording = self.choose_wording();
                    self.sentences.push(PlannedSentence::Back { relation, subject, wording });
                    self.left -= FACT_WORDS;
                }
            }
        }
    }

    fn mentions(&self, wanted: Entity) -> bool {
        self.sentences.iter().any(|s| matches!(s, PlannedSentence::Back { subject, .. } if *subject == wanted))
    }

    /// Asides and fillers, until the passage is long enough.
    fn plan_asides(&mut self) {
        let mut spoken_of = None;
        while self.left > FILLER_WORDS / 2 {
            let sentence = match self.random.chance(self.difficulty.asides) {
                true => self.draw_aside(&mut spoken_of),
                false => PlannedSentence::Filler,
            };
            self.sentences.push(sentence);
            self.left -= FILLER_WORDS;
        }
    }

    /// Mentions an unrelated entity, perhaps the same as the last aside.
    fn draw_aside(&mut self, spoken_of: &mut Option<Entity>) -> PlannedSentence {
        let Self { world, difficulty, entity, .. } = *self;
        let other = match *spoken_of {
            Some(other) if self.random.chance(difficulty.dwelling) => other,
            _ => unrelated_entity(world, difficulty, &mut self.random, entity),
        };
        *spoken_of = Some(other);
        let of =
            self.random.chance(difficulty.oblique).then(|| phrase_relation(world, &mut self.random, other)).flatten();
        let of = of.map(|relation| (relation, self.choose_wording()));
        if other == entity { PlannedSentence::Filler } else { PlannedSentence::Aside { entity: other, of } }
    }
}

/// The entity for an aside in an entity's passage.
fn unrelated_entity(world: &Entities, difficulty: &Difficulty, random: &mut RandomStream, entity: Entity) -> Entity {
    let class = entity.class;
    let other = match random.chance(500) {
        true => Entity { class, index: random.below(world.class_size(class)) },
        false => world.entity_at(random.below(world.len())),
    };
    if random.chance(difficulty.fame) { world.well_known(other) } else { other }
}

/// One of the relations with a noun phrase for the objects of an entity's class.
fn phrase_relation(world: &Entities, random: &mut RandomStream, entity: Entity) -> Option<RelationId> {
    let all = world.split == WorldSplit::Eval;
    let relations: Vec<RelationId> =
        relations_of(entity.class, all).filter(|r| r.relation().phrase.is_some()).collect();
    (!relations.is_empty()).then(|| relations[random.below(relations.len() as u64) as usize])
}

/// Writes the passage of an entity according to `plan`.
pub(crate) fn write_passage(
    world: &Entities,
    difficulty: &Difficulty,
    id_prefix: &str,
    entity: Entity,
    plan: &PassagePlan,
) -> Passage {
    let names = SubjectNames::new(world, difficulty, entity);
    let text = TextBuilder {
        text: String::with_capacity(800),
        sentences: Vec::with_capacity(plan.sentences.len()),
        links: vec![],
    };
    let mut writer = PassageWriter { world, difficulty, entity, names, random: plan.random.clone(), text };
    for sentence in &plan.sentences {
        writer.text.begin_sentence();
        match sentence {
            PlannedSentence::Lead => writer.write_lead(),
            PlannedSentence::Fact { relation, object, wording } => {
                writer.write_fact(relation.relation().says[*wording], object)
            }
            PlannedSentence::Back { relation, subject, wording } => {
                let Some(wordings) = relation.relation().says_back else { continue };
                writer.write_back_link(wordings[*wording], *subject);
            }
            PlannedSentence::Aside { entity, of } => writer.write_aside(*entity, *of),
            PlannedSentence::Filler => writer.write_filler(),
        }
        writer.text.end_sentence();
    }
    let TextBuilder { text, sentences, links } = writer.text;
    Passage { id: format!("{id_prefix}{}", world.number(entity)), title: world.title(entity), text, sentences, links }
}

/// A passage during writing, sentence by sentence.
struct PassageWriter<'a> {
    world: &'a Entities,
    difficulty: &'a Difficulty,
    entity: Entity,
    names: SubjectNames,
    random: RandomStream,
    text: TextBuilder,
}

impl PassageWriter<'_> {
    fn write_lead(&mut self) {
        let Self { world, difficulty, names, random, text, .. } = self;
        let entity = self.entity;
        let known_for = world.known_for(entity);
        let noun = match entity.class {
            EntityClass::Person => world.role(entity).noun(),
            class => class.noun(),
        };
        let forms: &[&str] = match entity.class {
            EntityClass::Person => &[
                "{s} is {n} known for {t}",
                "{s} is {n} and public figure, best known for {t}",
                "{s} (often just {h}) is {n} who became known for {t}",
            ],
            _ => &[
                "{s} is {n} known for {t}",
                "{s} is {n} that is best known for {t}",
                "{s} is {n}, known above all for {t}",
            ],
        };
        let form = random.pick(forms);
        let long = match entity.class {
            EntityClass::Person if random.chance(difficulty.middle_names) => world.long_name(entity, random.below(32)),
            _ => None,
        };
        text.push_pattern(form, |slot, text| match slot {
            "s" => text.push(long.as_ref().unwrap_or(&names.full)),
            "h" => text.push(&names.short),
            "n" => {
                text.push(if noun.starts_with(['a', 'e', 'i', 'o']) { "an " } else { "a " });
                text.push(noun);
            }
            _ => text.push(&known_for.map(|(quality, craft)| format!("{quality} {craft}")).join(" and ")),
        });
    }

    fn write_fact(&mut self, pattern: &str, object: &FactObject) {
        let subject = self.names.subject_words(&mut self.random, pattern);
        self.text.push_pattern(pattern, |slot, text| match slot {
            "s" => text.push(subject),
            _ => push_object(self.world, object, text),
        });
    }

    fn write_back_link(&mut self, pattern: &str, subject: Entity) {
        let own = self.names.subject_words(&mut self.random, pattern);
        let short = self.random.chance(self.difficulty.initials);
        self.text.push_pattern(pattern, |slot, text| match slot {
            "s" => text.push(own),
            _ if short => push_in_short(self.world, subject, text),
            _ => push_entity(self.world, subject, text),
        });
    }

    fn write_aside(&mut self, entity: Entity, of: Option<(RelationId, usize)>) {
        let Self { world, difficulty, names, random, text, .. } = self;
        let pattern = random.pick(&ASIDES);
        let short = random.chance(difficulty.initials);
        let of = of.and_then(|(relation, wording)| Some(relation.relation().phrase?[wording]));
        text.push_pattern(pattern, |slot, text| match slot {
            "o" if let Some(phrase) = of => text.push_pattern(phrase, |_, text| push_entity(world, entity, text)),
            "o" if short => push_in_short(world, entity, text),
            "o" => push_entity(world, entity, text),
            "s" => text.push(names.subject_words(random, pattern)),
            slot => push_word(slot, random, text),
        });
    }

    fn write_filler(&mut self) {
        let Self { names, random, text, .. } = self;
        let patterns = match self.entity.class {
            EntityClass::Person => &PERSON_FILLERS,
            EntityClass::Film | EntityClass::Book | EntityClass::Album => &WORK_FILLERS,
            EntityClass::Country | EntityClass::City | EntityClass::River => &PLACE_FILLERS,
            EntityClass::University | EntityClass::Company | EntityClass::Award | EntityClass::Band => &BODY_FILLERS,
        };
        let pattern = patterns[random.below(patterns.len() as u64) as usize];
        text.push_pattern(pattern, |slot, text| match slot {
            "s" => text.push(names.subject_words(random, pattern)),
            slot => push_word(slot, random, text),
        });
    }
}

/// The words for a passage's own entity.
struct SubjectNames {
    full: String,
    /// The surname, or the class: `the film`.
    short: String,
    pronoun: &'static str,
    /// Sentences with the whole name, in thousandths.
    in_full: u64,
}

impl SubjectNames {
    fn new(world: &Entities, difficulty: &Difficulty, entity: Entity) -> Self {
        let in_full = u64::from(difficulty.full_names);
        if entity.class == EntityClass::Person {
            let name = world.person_name(entity);
            let pronoun = if name.is_woman { "she" } else { "he" };
            return Self { full: name.full, short: name.surname, pronoun, in_full };
        }
        let EntityMention { article, name } = world.mention(entity);
        Self { full: format!("{article}{name}"), short: format!("the {}", entity.class.noun()), pronoun: "it", in_full }
    }

    /// A name, or perhaps a pronoun if the pattern begins with the subject.
    fn subject_words(&self, random: &mut RandomStream, pattern: &str) -> &str {
        match random.below(1000) {
            n if n < self.in_full => &self.full,
            n if n % 3 > 0 && pattern.starts_with("{s}") => self.pronoun,
            _ => &self.short,
        }
    }
}

fn push_object(world: &Entities, object: &FactObject, text: &mut TextBuilder) {
    match object {
        FactObject::Entity(entity) => push_entity(world, *entity, text),
        FactObject::Value(value, _) => text.push(value),
    }
}

/// The name, as a link.
fn push_entity(world: &Entities, entity: Entity, text: &mut TextBuilder) {
    let EntityMention { article, name } = world.mention(entity);
    text.push(article);
    let start = text.text.len() as u32;
    text.push(&name);
    text.links.push(PassageLink { title: world.title(entity), start, end: text.text.len() as u32 });
}

/// The name, a person's with an initial for the given names, as a link.
fn push_in_short(world: &Entities, entity: Entity, text: &mut TextBuilder) {
    if entity.class != EntityClass::Person {
        return push_entity(world, entity, text);
    }
    let start = text.text.len() as u32;
    text.push(&world.person_name(entity).in_short());
    text.links.push(PassageLink { title: world.title(entity), start, end: text.text.len() as u32 });
}

/// Fills a slot of a filler sentence.
fn push_word(slot: &str, random: &mut RandomStream, text: &mut TextBuilder) {
    match slot {
        "p" => text.push(random.pick(&PEOPLE)),
        "j" => {
            let judgement = random.pick(&JUDGEMENTS);
            let a = text.text.ends_with(" a ") || text.text.ends_with(". A ") || text.text == "A ";
            if a && judgement.starts_with(['a', 'e', 'i', 'o', 'u']) {
                text.text.pop();
                text.push("n ");
            }
            text.push(judgement);
        }
        "d" => text.push(random.pick(&DECADES)),
        "n" => text.push(&(2 + random.below(60)).to_string()),
        _ => text.push(random.pick(&TOPICS)),
    }
}

/// A text under construction.
struct TextBuilder {
    text: String,
    sentences: Vec<u32>,
    links: Vec<PassageLink>,
}

impl TextBuilder {
    fn begin_sentence(&mut self) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
    }

    fn push(&mut self, words: &str) {
        self.text.push_str(words);
    }

    /// Pushes a pattern. `fill` writes the words of each slot.
    fn push_pattern(&mut self, pattern: &str, mut fill: impl FnMut(&str, &mut Self)) {
        let mut rest = pattern;
        while let Some(open) = rest.find('{') {
            self.push(&rest[..open]);
            let Some(close) = rest[open..].find('}') else { break };
            fill(&rest[open + 1..open + close], self);
            rest = &rest[open + close + 1..];
        }
        self.push(rest);
    }

    /// Closes the sentence: a capital and a full stop.
    fn end_sentence(&mut self) {
        self.text.push('.');
        let last = self.sentences.last().map_or(0, |&end| end as usize);
        let first = if last == 0 { 0 } else { last + 1 };
        // Every pattern begins in ASCII.
        if let Some(letter) = self.text.get_mut(first..first + 1) {
            letter.make_ascii_uppercase();
        }
        self.sentences.push(self.text.len() as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_close() {
        for x in (-2500..=2500).step_by(50) {
            let exact = (f64::from(x) / 1000.0).exp() * 1000.0;
            let error = (exp_permille(x.into()) as f64 - exact).abs() / exact;
            assert!(error < 0.02, "e^{x}: {error}");
        }
    }
}
